// The records of a Log (log.h), for programs with a LogWriter of their own.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

namespace adjoint::data {

/// A picture as a PNG file.
struct LogImage {
  std::int64_t height = 0, width = 0, channels = 0;
  std::vector<std::uint8_t> png;
};

/// Sound as a WAV file with 16 bits per sample.
struct LogAudio {
  double sample_rate = 0.0;  // Hz
  std::int64_t channels = 0, frames = 0;
  std::vector<std::uint8_t> wav;
};

/// The number of values in (previous limit, bucket_limits[i]]; the sums are over the values themselves.
struct LogHistogram {
  double min = 0.0, max = 0.0, count = 0.0, sum = 0.0, sum_squares = 0.0;
  std::vector<double> bucket_limits, buckets;
};

struct LogText {
  std::string text;  // Markdown in TensorBoard
};

/// One value of one series.
struct LogRecord {
  double wall_time = 0.0;  // seconds since 1970
  std::int64_t step = 0;
  std::string tag;
  std::variant<double, LogImage, LogAudio, LogHistogram, LogText> value;
};

}  // namespace adjoint::data
