#include <adjoint/data/made_examples.h>

#include <adjoint/core/check.h>
#include <adjoint/core/pinned.h>
#include <adjoint/core/random.h>
#include <adjoint/data/example_parts.h>

#include <exception>
#include <new>
#include <utility>

namespace adjoint::data {

bool MadeExamples::add(const std::string& name, Generator& generator, const std::function<Example()>& get) {
  const GeneratorGuard guard(generator.fork(0));  // for what get() draws by Tensor::randn and its like
  Example example;
  try {
    example = get();
    if (options_.transform) example = options_.transform(example, generator);
  } catch (const std::exception& error) {
    const bool no_memory = dynamic_cast<const std::bad_alloc*>(&error) != nullptr ||
                           dynamic_cast<const OutOfMemoryError*>(&error) != nullptr;
    if (options_.on_error == OnError::kError || no_memory) throw;
    made_.left_out.push_back(fmt::format("DataLoader: {} is left out: {}", name, error.what()));
    return false;
  }
  ADJOINT_CHECK(example.input.defined() || !example.fields.empty(),
                "DataLoader: an example's input must be defined; got none from {}", name);
  check_field_names("DataLoader", example);
  examples_.push_back(std::move(example));
  return true;
}

Made MadeExamples::batch() && {
  if (examples_.empty()) return std::move(made_);
  const bool pinned = options_.device.is_cuda();
  if (options_.collate) {
    Example batch = options_.collate(examples_);
    if (pinned) {
      for_each_tensor(batch, [](const std::string&, Tensor& tensor) {
        if (tensor.defined() && tensor.device().is_cpu()) tensor = pin_memory(tensor);
      });
    }
    made_.batch = std::move(batch);
  } else {
    made_.batch = stack_examples(examples_, pinned);
  }
  return std::move(made_);
}

}  // namespace adjoint::data
