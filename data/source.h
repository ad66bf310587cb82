// Source: a sequence of examples without numbers, from files that are read through, a socket or a generator.
//
//   class Lines final : public Source {
//    public:
//     std::int64_t parts() const override { return files_.size(); }
//     std::unique_ptr<Reader> open(std::int64_t part, std::int64_t epoch) const override {
//       return std::make_unique<LineReader>(files_[part]);
//     }
//   };
//   DataLoader loader(lines, {.batch_size = 16, .workers = 4});
//
// A source has parts, each a separate sequence. Batch n is the next one of part n % parts(), so at most as many workers
// as there are parts read at a time, and the order depends on the source alone, not on the number of workers.
#pragma once

#include <adjoint/core/base/export.h>
#include <adjoint/core/tensor/random.h>
#include <adjoint/data/example.h>

#include <cstdint>
#include <memory>
#include <optional>

namespace adjoint::data {

class ADJOINT_API Source {
 public:
  /// Reads a part once. One thread at a time uses it, but not always the same one.
  class ADJOINT_API Reader {
   public:
    Reader() = default;
    Reader(const Reader&) = delete;
    Reader& operator=(const Reader&) = delete;
    virtual ~Reader();

    /// The next example; empty at the end and in every later call. Randomness comes from `generator` or the thread's
    /// default generator, which the loader seeds for every example from its seed, the epoch, the part and the example's
    /// place in it. If it throws, the next call returns the example after that.
    virtual std::optional<Example> next(Generator& generator) = 0;
    /// Skips `count` examples, or fewer at the end, to resume a training. By default they are read, and their
    /// exceptions ignored; override it if there is a faster way.
    virtual void skip(std::int64_t count);
  };

  Source() = default;
  Source(const Source&) = delete;
  Source& operator=(const Source&) = delete;
  virtual ~Source();

  /// At least 1, and constant.
  virtual std::int64_t parts() const { return 1; }
  /// The examples of part `part` in [0, parts()) in an epoch, from the first on. The same arguments must give the same
  /// examples, or a training does not resume correctly. Several threads call it at once.
  virtual std::unique_ptr<Reader> open(std::int64_t part, std::int64_t epoch) const = 0;
};

}  // namespace adjoint::data
