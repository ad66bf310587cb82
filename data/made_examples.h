// A batch under construction: applies the loader's options to each example, and to all of them. Internal.
#pragma once

#include <adjoint/data/loader_batches.h>

#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace adjoint::data {

/// Each thread copies large tensors into the batch as soon as they are made, while caches hold them.
class MadeExamples {
 public:
  MadeExamples(const DataLoaderOptions& options, std::int64_t count)
      : options_(options), slots_(static_cast<std::size_t>(count)) {}

  /// Puts the result of `get` at `place`, changed by options.transform, which draws from `generator`; meanwhile the
  /// thread's default generator is another, which `generator` determines. If either throws and options.on_error allows
  /// it, the example is left out, under the name `name`. Throws Error for an example without a tensor. Threads may put
  /// examples at different places concurrently.
  void put(std::int64_t place, const std::string& name, Generator& generator, const std::function<Example()>& get);
  std::int64_t size() const { return static_cast<std::int64_t>(slots_.size()); }
  /// The examples as a batch; empty if there are none.
  Made batch() &&;

 private:
  struct Slot {
    std::optional<Example> example;
    std::string left_out;
  };
  void put_in_place(std::int64_t at, Example& example);

  const DataLoaderOptions& options_;
  std::vector<Slot> slots_;
  std::mutex mutex_;     // guards places_
  NamedTensors places_;  // the batch's tensors, from the first example that came
};

}  // namespace adjoint::data
