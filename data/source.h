// Source: examples that come one behind the other, from files that are read through, a socket or a generator, and that
// nobody can number.
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
// A source has parts, each an own sequence. Batch n is the next one of part n % parts(), so that as many workers as
// there are parts read at a time, and the order depends on the source alone, not on the number of workers.
#pragma once

#include <adjoint/core/export.h>
#include <adjoint/core/random.h>
#include <adjoint/data/example.h>

#include <cstdint>
#include <memory>
#include <optional>

namespace adjoint::data {

class ADJOINT_API Source {
 public:
  /// Goes through a part once. Used by one thread at a time, but not always by the same.
  class ADJOINT_API Reader {
   public:
    Reader() = default;
    Reader(const Reader&) = delete;
    Reader& operator=(const Reader&) = delete;
    virtual ~Reader();

    /// The next example; none at the end, and ever after. Randomness comes from `generator` or the thread's default
    /// generator, which the loader seeds anew for every example from its seed, the epoch, the part and the example's
    /// place in it. Where it throws, the next call is about the example behind.
    virtual std::optional<Example> next(Generator& generator) = 0;
    /// Passes `count` examples over, of which there may be fewer: how a training goes on where it was. Else they are
    /// read, and what is thrown meanwhile passes with them; to be overridden where there is a quicker way.
    virtual void skip(std::int64_t count);
  };

  Source() = default;
  Source(const Source&) = delete;
  Source& operator=(const Source&) = delete;
  virtual ~Source();

  /// At least 1, and always the same.
  virtual std::int64_t parts() const { return 1; }
  /// The examples of part `part` in [0, parts()) in an epoch, from the first on: the same ones for the same arguments,
  /// or a training does not go on where it was. Called from several threads at once.
  virtual std::unique_ptr<Reader> open(std::int64_t part, std::int64_t epoch) const = 0;
};

}  // namespace adjoint::data
