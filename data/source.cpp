// Batches of a source. Everything random is a function of (seed, epoch, part, place in it).
#include <adjoint/data/source.h>

#include <adjoint/core/autograd/tape.h>
#include <adjoint/core/base/check.h>
#include <adjoint/data/loader_batches.h>
#include <adjoint/data/made_examples.h>
#include <adjoint/data/seeds.h>

#include <algorithm>
#include <condition_variable>
#include <exception>
#include <memory>
#include <mutex>
#include <new>
#include <utility>
#include <vector>

namespace adjoint::data {
namespace {

// One example, or the exception in its place, and the position at which its random numbers continue.
struct Read {
  Example example;
  std::exception_ptr error;
  Generator generator;
  std::int64_t place;
};

class SourceBatches final : public BatchMaker {
 public:
  SourceBatches(const Source& source, const DataLoaderOptions& options, std::int64_t epoch, std::int64_t first)
      : source_(source), options_(options), epoch_(epoch), parts_(static_cast<std::size_t>(source.parts())) {
    const std::int64_t count = parts();
    for (std::int64_t part = 0; part < count; ++part) {
      parts_[static_cast<std::size_t>(part)].turn = first / count + (first % count > part ? 1 : 0);
    }
  }

  std::int64_t count() const override { return kMaxNumber; }
  std::int64_t parts() const override { return static_cast<std::int64_t>(parts_.size()); }

  std::unique_ptr<BatchWork> begin(std::int64_t number) override { return std::make_unique<Work>(*this, number); }

 private:
  // One thread after the other reads a part, so a batch is one piece.
  class Work final : public BatchWork {
   public:
    Work(SourceBatches& of, std::int64_t number) : of_(of), number_(number) {}

    std::int64_t pieces() const override { return 1; }
    void make(std::int64_t) override { made_ = of_.make(number_); }
    Made finish() override { return std::move(made_); }

   private:
    SourceBatches& of_;
    const std::int64_t number_;
    Made made_;
  };

  Made make(std::int64_t number) {
    const std::int64_t part = number % parts();
    std::vector<Read> reads = read(part, number / parts());
    const auto count = static_cast<std::int64_t>(reads.size());
    const bool ends = count < options_.batch_size;
    if (reads.empty() || (options_.drop_last && ends && !reads.back().error)) return {.over = true};
    MadeExamples examples(options_, count);
    for (std::int64_t i = 0; i < count; ++i) {
      Read& one = reads[static_cast<std::size_t>(i)];
      examples.put(i, fmt::format("example {} of part {}", one.place, part), one.generator, [&]() -> Example {
        if (one.error) std::rethrow_exception(one.error);
        return std::move(one.example);
      });
    }
    return std::move(examples).batch();
  }

  struct Part {
    std::mutex mutex;
    std::condition_variable next;
    std::int64_t turn = 0;  // the part's batch that is read next
    std::unique_ptr<Source::Reader> reader;
    bool over = false;
  };

  // The examples of batch `turn` of a part, read one batch after the other; fewer at the end.
  std::vector<Read> read(std::int64_t number, std::int64_t turn) {
    Part& part = parts_[static_cast<std::size_t>(number)];
    std::unique_lock lock(part.mutex);
    part.next.wait(lock, [&] { return part.turn == turn; });
    struct Pass {
      ~Pass() {
        ++part.turn;
        part.next.notify_all();
      }
      Part& part;
    } const pass{part};
    const PauseTape pause;
    const std::int64_t first = turn * options_.batch_size;
    if (part.reader == nullptr) {
      part.reader = source_.open(number, epoch_);
      ADJOINT_CHECK(part.reader != nullptr, "Source::open: there must be a reader; got none for part {}", number);
      if (first > 0) part.reader->skip(first);
    }
    std::vector<Read> reads;
    while (!part.over && static_cast<std::int64_t>(reads.size()) < options_.batch_size) {
      const std::int64_t place = first + static_cast<std::int64_t>(reads.size());
      Read one{{}, {}, generator_for(options_.seed, epoch_ + 1, place).fork(static_cast<std::uint64_t>(number)), place};
      try {
        const GeneratorGuard guard(one.generator.fork(1));
        std::optional<Example> example = part.reader->next(one.generator);
        part.over = !example;
        if (example) one.example = *std::move(example);
      } catch (...) {
        one.error = std::current_exception();
      }
      if (part.over) break;
      reads.push_back(std::move(one));
      if (reads.back().error && options_.on_error == OnError::kError) break;  // it ends the epoch
    }
    return reads;
  }

  const Source& source_;
  const DataLoaderOptions& options_;
  const std::int64_t epoch_;
  std::vector<Part> parts_;
};

}  // namespace

Source::~Source() = default;
Source::Reader::~Reader() = default;

void Source::Reader::skip(std::int64_t count) {
  Generator generator(0);
  const GeneratorGuard guard(generator);
  for (std::int64_t i = 0; i < count; ++i) {
    try {
      if (!next(generator)) return;
    } catch (const std::bad_alloc&) {
      throw;
    } catch (const OutOfMemoryError&) {
      throw;
    } catch (const std::exception&) {  // reported in an earlier turn
    }
  }
}

std::unique_ptr<BatchMaker> source_batches(const Source& source, const DataLoaderOptions& options, std::int64_t epoch,
                                           std::int64_t first) {
  return std::make_unique<SourceBatches>(source, options, epoch, first);
}

}  // namespace adjoint::data
