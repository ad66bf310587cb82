// A batch under construction: the rules of the loader's options for each example, and for all of them. Internal.
#pragma once

#include <adjoint/data/loader_batches.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace adjoint::data {

class MadeExamples {
 public:
  MadeExamples(const DataLoaderOptions& options, std::int64_t count)
      : options_(options), slots_(static_cast<std::size_t>(count)) {}

  /// Puts what `get` returns at `place`, changed by options.transform, which draws from `generator`; meanwhile the
  /// thread's default generator is another, which `generator` decides. Where either throws and options.on_error says
  /// so, the example is left out, as `name`. Throws Error for an example without a tensor. Threads may put examples at
  /// different places at once.
  void put(std::int64_t place, const std::string& name, Generator& generator, const std::function<Example()>& get);
  std::int64_t size() const { return static_cast<std::int64_t>(slots_.size()); }
  /// The examples as a batch; none of none.
  Made batch() &&;

 private:
  struct Slot {
    std::optional<Example> example;
    std::string left_out;
  };
  const DataLoaderOptions& options_;
  std::vector<Slot> slots_;
};

}  // namespace adjoint::data
