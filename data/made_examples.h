// A batch under construction: the rules of the loader's options for each example, and for all of them. Internal.
#pragma once

#include <adjoint/core/tape.h>
#include <adjoint/data/loader_batches.h>

#include <functional>
#include <string>
#include <vector>

namespace adjoint::data {

class MadeExamples {
 public:
  explicit MadeExamples(const DataLoaderOptions& options) : options_(options) {}

  /// Adds what `get` returns, changed by options.transform, which draws from `generator`; meanwhile the thread's
  /// default generator is another, which `generator` decides. Where either throws and options.on_error says so, the
  /// example is left out, as `name`, and false is returned. Throws Error for an example without a tensor.
  bool add(const std::string& name, Generator& generator, const std::function<Example()>& get);
  std::int64_t size() const { return static_cast<std::int64_t>(examples_.size()); }
  /// The examples as a batch; none of none.
  Made batch() &&;

 private:
  const DataLoaderOptions& options_;
  const PauseTape pause_;  // with no workers, the asking thread may be recording
  std::vector<Example> examples_;
  Made made_;
};

}  // namespace adjoint::data
