// Log: the record of a run, step by step, passed to any number of writers. It includes a CSV file of the scalars; the
// component Adjoint::log adds TensorBoard's event files (data/events/event_file.h).
#pragma once

#include <adjoint/core/base/export.h>
#include <adjoint/core/base/owned.h>
#include <adjoint/core/tensor/tensor.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

namespace adjoint::data {

struct LogRecord;  // log_record.h

/// The destination of records. A Log calls it from one thread at a time.
class ADJOINT_API LogWriter {
 public:
  LogWriter() = default;
  LogWriter(const LogWriter&) = delete;
  LogWriter& operator=(const LogWriter&) = delete;
  virtual ~LogWriter();
  /// Passes the record to the system before it returns, so that a killed process loses no record.
  virtual void write(const LogRecord& record) = 0;
};

/// A writer of rows wall_time,step,tag,value for scalars, with a header; it skips all other records. An existing file
/// is continued, after removing a row that a crash truncated. If a series continues at an earlier step than its last,
/// as after resuming from a checkpoint, its rows from this step on are removed from the file when the first new one is
/// written. Numbers are written so that reading gives the same float64. Throws Error, naming the path, if the file
/// cannot be written, or holds another header. Only one writer at a time may have a file open.
ADJOINT_API std::unique_ptr<LogWriter> csv_writer(const std::filesystem::path& path);

/// The record of a run:
///
///     Log log("runs/first");
///     log.add_writer(event_writer("runs/first"));  // for TensorBoard, by Adjoint::log
///     log.add_scalar("loss/train", loss, step);
///
/// Used from any thread. The tag names a series; slashes group series. Each call throws Error for a tag that is empty,
/// is not UTF-8 or holds control characters, for a step below 0, and if a writer fails (a full disk).
class ADJOINT_API Log {
 public:
  /// Without a writer: records are dropped until one is added.
  Log();
  /// Creates the folder and writes scalars to scalars.csv in it; see csv_writer.
  explicit Log(const std::filesystem::path& folder);
  ~Log();

  void add_writer(std::unique_ptr<LogWriter> writer);

  void add_scalar(const std::string& tag, double value, std::int64_t step);
  /// A picture (C, H, W) of 1 to 4 channels, uint8 or floating point in [0, 1] (clamped), on any device; see
  /// data/image.h.
  void add_image(const std::string& tag, const Tensor& image, std::int64_t step);
  /// (frames) or (channels, frames), floating point in [-1, 1] (clamped; NaN is silence), on any device; `sample_rate`
  /// is a whole number of Hz. Throws Error for a rate outside 1 to 2^32 - 1 and for more bytes than WAV can hold.
  void add_audio(const std::string& tag, const Tensor& audio, std::int64_t step, std::int64_t sample_rate = 44100);
  /// Counts the values of a tensor of any shape and dtype. Values that are not finite are left out, so that a diverging
  /// run still shows its course.
  void add_histogram(const std::string& tag, const Tensor& values, std::int64_t step);
  /// Throws Error for text that is not UTF-8, which TensorBoard could not show.
  void add_text(const std::string& tag, const std::string& text, std::int64_t step);

 private:
  void write(LogRecord record);

  struct Writers;  // with their lock
  Owned<Writers> writers_;
};

}  // namespace adjoint::data
