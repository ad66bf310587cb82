// How a run is going: one line that redraws itself on a terminal, a line now and then elsewhere.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace super_resolution {

struct Status {
  std::int64_t step = 0, steps = 0;
  double loss = 0.0;
  double psnr = 0.0, bicubic_psnr = 0.0;  // dB, of the last test
  double images_per_second = 0.0;
};

class Progress {
 public:
  /// Whether standard output is a terminal decides.
  Progress();
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// Shows `status`, unless the last one is too fresh; `important` ones are shown anyway, and stay.
  void show(const Status& status, bool important = false);

 private:
  void clear();

  bool terminal_;
  bool drawn_ = false;
  std::chrono::steady_clock::time_point started_, shown_;
  std::int64_t first_step_ = -1;
};

}  // namespace super_resolution
