// What makes an epoch's batches by number; the loader's threads call it. Internal.
#pragma once

#include <adjoint/data/loader.h>

#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace adjoint::data {

/// What became of one batch's number.
struct Made {
  std::optional<Example> batch = {};       // none where none of its examples could be read, or there are none left
  std::vector<std::string> left_out = {};  // which of them could not, and why
  bool over = false;                       // there are none left, nor will be under any later number of its part
  std::exception_ptr error = {};
};

/// One batch under construction.
class BatchWork {
 public:
  BatchWork() = default;
  BatchWork(const BatchWork&) = delete;
  BatchWork& operator=(const BatchWork&) = delete;
  virtual ~BatchWork();

  /// At least one. Each is made once, by whichever thread, others at the same time.
  virtual std::int64_t pieces() const = 0;
  virtual void make(std::int64_t piece) = 0;
  /// When all of them are made.
  virtual Made finish() = 0;
};

/// Number n belongs to part n % parts(). What becomes of a number depends on it alone.
class BatchMaker {
 public:
  BatchMaker() = default;
  BatchMaker(const BatchMaker&) = delete;
  BatchMaker& operator=(const BatchMaker&) = delete;
  virtual ~BatchMaker();

  /// Numbers are below this; a bound alone where the end is found as it comes.
  virtual std::int64_t count() const = 0;
  virtual std::int64_t parts() const { return 1; }
  /// Called for each number once, in order, as are the first pieces.
  virtual std::unique_ptr<BatchWork> begin(std::int64_t number) = 0;
};

/// The batches of a dataset's examples, in the order of the loader's sampler.
std::unique_ptr<BatchMaker> dataset_batches(const Dataset& dataset, const DataLoaderOptions& options,
                                            std::int64_t epoch);

/// Those of a source, from batch `first` on.
std::unique_ptr<BatchMaker> source_batches(const Source& source, const DataLoaderOptions& options, std::int64_t epoch,
                                           std::int64_t first);

}  // namespace adjoint::data
