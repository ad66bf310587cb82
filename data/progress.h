// The progress of a loop: a bar that redraws itself on a terminal, or occasional lines elsewhere.
#pragma once

#include <adjoint/core/base/export.h>
#include <adjoint/core/base/owned.h>

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

/// Values that a bar shows beside its count, in this order: {{"loss", 0.125}, {"psnr", 31.2}}.
using Metrics = std::vector<std::pair<std::string, double>>;

struct ProgressOptions {
  /// Shown before the count. In this and other names UTF-8 occupies a terminal's columns, and newlines and similar
  /// characters become spaces.
  std::string description = {};
  /// The unit of the count, for the rate: "12.5 images/s".
  std::string unit = "it";
  /// Steps that are already done, as in a resumed run; they count towards neither the rate nor the remaining time.
  std::int64_t initial = 0;
  /// The bar's output; null means standard error.
  std::FILE* out = nullptr;
  /// True if `out` is a terminal; detected if empty.
  std::optional<bool> terminal = {};
  /// The terminal's columns; 0: queried at each drawing.
  int columns = 0;
  /// The least seconds between two drawings; negative: 0.1 on a terminal and 10 elsewhere.
  double interval = -1.0;
  /// Seconds since any fixed moment; empty: a monotonic clock.
  std::function<double()> clock = {};
};

/// A loop's progress:
///
///     Progress progress(steps, {.description = "train", .unit = "images"});
///     for (...) progress.update(16, {{"loss", loss}});
///
/// The rate is the mean since the start. A bar made while another one lives on the same file is nested: on a terminal
/// it uses the line below and is erased with the object, while the outermost bar's last state stays. Elsewhere each
/// state is a separate line, including the outermost bar's last one. Each bar is used by one thread at a time;
/// different threads may use different bars. Failed writes are ignored.
class ADJOINT_API Progress {
 public:
  /// `total` is the number of steps, 0 if unknown. Throws Error for a negative total and for an initial count outside
  /// [0, total].
  explicit Progress(std::int64_t total, ProgressOptions options = {});
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// Counts `steps` more; `metrics`, if any, replace those shown before. Throws Error for steps < 0.
  void update(std::int64_t steps = 1, Metrics metrics = {});
  /// Steps done, including those before the start. It may exceed the total.
  std::int64_t count() const;
  /// Writes `text` as a separate, permanent line above the bars.
  void print(std::string_view text);

 private:
  class Bar;
  struct Screen;
  std::shared_ptr<Screen> screen_;
  Owned<Bar> bar_;
};

}  // namespace adjoint::data
