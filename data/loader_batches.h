// The makers of an epoch's batches by number, called by the loader's threads. Internal.
#pragma once

#include <adjoint/data/loader.h>

#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace adjoint::data {

/// The outcome for one batch's number.
struct Made {
  std::optional<Example> batch = {};       // empty if all of its examples were unreadable, or none were left
  std::vector<std::string> left_out = {};  // the unreadable examples and the reasons
  bool over = false;                       // its part has no more examples under any later number
  std::exception_ptr error = {};
};

/// One batch under construction.
class BatchWork {
 public:
  BatchWork() = default;
  BatchWork(const BatchWork&) = delete;
  BatchWork& operator=(const BatchWork&) = delete;
  virtual ~BatchWork();

  /// At least one. Each piece is made once, by any thread, possibly in parallel with others.
  virtual std::int64_t pieces() const = 0;
  virtual void make(std::int64_t piece) = 0;
  /// Called after all batches are made.
  virtual Made finish() = 0;
};

/// Number n belongs to part n % parts(). The number alone determines its outcome.
class BatchMaker {
 public:
  BatchMaker() = default;
  BatchMaker(const BatchMaker&) = delete;
  BatchMaker& operator=(const BatchMaker&) = delete;
  virtual ~BatchMaker();

  /// An upper bound of the numbers; not tight if the end is unknown in advance.
  virtual std::int64_t count() const = 0;
  virtual std::int64_t parts() const { return 1; }
  /// Called for each number once, in order, like the first pieces.
  virtual std::unique_ptr<BatchWork> begin(std::int64_t number) = 0;
};

/// The batches of a dataset's examples, in the order of the loader's sampler.
std::unique_ptr<BatchMaker> dataset_batches(const Dataset& dataset, const DataLoaderOptions& options,
                                            std::int64_t epoch);

/// The batches of a source, from batch `first` on.
std::unique_ptr<BatchMaker> source_batches(const Source& source, const DataLoaderOptions& options, std::int64_t epoch,
                                           std::int64_t first);

}  // namespace adjoint::data
