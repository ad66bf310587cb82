// How far a loop has come: a bar that redraws itself on a terminal, a line now and then elsewhere.
#pragma once

#include <adjoint/core/export.h>

#include <cstdint>
#include <cstdio>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace adjoint::data {

/// What a bar shows beside its count, in this order: {{"loss", 0.125}, {"psnr", 31.2}}.
using Metrics = std::vector<std::pair<std::string, double>>;

struct ProgressOptions {
  /// Stands before the count.
  std::string description = {};
  /// What is counted, for the rate: "12.5 images/s".
  std::string unit = "it";
  /// Steps that are done already, as in a run that goes on; they count towards neither the rate nor the time left.
  std::int64_t initial = 0;
  /// Where the bar is written; standard error where it is null.
  std::FILE* out = nullptr;
  /// Whether `out` is a terminal; found out where nothing is said.
  std::optional<bool> terminal = {};
  /// Of a terminal; asked for at each drawing where it is 0.
  int columns = 0;
  /// Seconds between two drawings at least: 0.1 on a terminal and 10 elsewhere where it is negative.
  double interval = -1.0;
  /// Seconds from any moment on; a monotonic clock where it is empty.
  std::function<double()> clock = {};
};

/// A loop's progress:
///
///     Progress progress(steps, {.description = "train", .unit = "images"});
///     for (...) progress.update(16, {{"loss", loss}});
///
/// The rate is the mean since the start. A bar made while another one lives on the same file is nested: on a terminal
/// it has the line below, and is wiped away with the object, while the outermost bar's last state stays. Elsewhere each
/// state is a line of its own, the outermost bar's last one included. Each bar is used by one thread at a time;
/// different bars by different threads. What cannot be written is lost without an error.
class ADJOINT_API Progress {
 public:
  /// `total` is the number of steps, 0 where it is unknown. Throws Error for a negative total and for an initial count
  /// outside [0, total].
  explicit Progress(std::int64_t total, ProgressOptions options = {});
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// Counts `steps` more; `metrics` replace those shown before, where there are any. Throws Error for steps < 0.
  void update(std::int64_t steps = 1, Metrics metrics = {});
  /// Steps done, with those before the start. More than the total is shown as it is.
  std::int64_t count() const;
  /// Writes `text` as a line of its own that stays, above the bars.
  void print(std::string_view text);

 private:
  class Bar;
  struct Screen;
  std::shared_ptr<Screen> screen_;
  std::unique_ptr<Bar> bar_;
};

}  // namespace adjoint::data
