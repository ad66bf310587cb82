#include <adjoint/data/made_examples.h>

#include <adjoint/core/autograd/tape.h>
#include <adjoint/core/base/check.h>
#include <adjoint/core/memory/pinned.h>
#include <adjoint/core/tensor/random.h>
#include <adjoint/data/example_parts.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <exception>
#include <new>
#include <utility>

namespace adjoint::data {

void MadeExamples::put(std::int64_t place, const std::string& name, Generator& generator,
                       const std::function<Example()>& get) {
  Slot& slot = slots_[static_cast<std::size_t>(place)];
  // Without workers, the calling thread may be recording.
  const PauseTape pause;
  const GeneratorGuard guard(generator.fork(0));  // for numbers that get() draws by Tensor::randn and similar functions
  Example example;
  try {
    example = get();
    if (options_.transform) example = options_.transform(example, generator);
  } catch (const std::exception& error) {
    const bool no_memory = dynamic_cast<const std::bad_alloc*>(&error) != nullptr ||
                           dynamic_cast<const OutOfMemoryError*>(&error) != nullptr;
    if (options_.on_error == OnError::kError || no_memory) throw;
    slot.left_out = fmt::format("DataLoader: {} is left out: {}", name, error.what());
    return;
  }
  ADJOINT_CHECK(example.input.defined() || !example.fields.empty(),
                "DataLoader: an example's input must be defined; got none from {}", name);
  check_field_names("DataLoader", example);
  if (!options_.collate) put_in_place(place, example);
  slot.example = std::move(example);
}

// A tensor that fits no place is not moved; the check follows when all examples are made.
void MadeExamples::put_in_place(std::int64_t at, Example& example) {
  constexpr std::int64_t kLeastBytes = std::int64_t{1} << 14;  // for less, a copy costs no more than finding its place
  const OpScope scope("DataLoader");
  for_each_tensor(example, [&](const std::string& name, Tensor& tensor) {
    if (!tensor.defined() || tensor.dim() == kMaxRank) return;
    const std::int64_t bytes = tensor.numel() * element_size(tensor.dtype());
    if (bytes < kLeastBytes) return;
    Tensor place;
    std::byte* data = nullptr;
    {
      const std::lock_guard lock(mutex_);
      auto found = std::find_if(places_.begin(), places_.end(), [&](const auto& entry) { return entry.first == name; });
      if (found == places_.end())
        found = places_.emplace(found, name, empty_batch(tensor, size(), options_.device.is_cuda()));
      place = found->second.select(0, at);
      data = static_cast<std::byte*>(place.raw_mutable_data());
    }
    if (place.shape() != tensor.shape() || place.dtype() != tensor.dtype()) return;
    const Tensor packed = tensor.detach().to(kCPU).contiguous();
    std::memcpy(data, packed.raw_data(), static_cast<std::size_t>(bytes));
    tensor = place;
  });
}

Made MadeExamples::batch() && {
  const PauseTape pause;
  Made made;
  std::vector<Example> examples;
  for (Slot& slot : slots_) {
    if (slot.example) examples.push_back(*std::move(slot.example));
    if (!slot.left_out.empty()) made.left_out.push_back(std::move(slot.left_out));
  }
  if (examples.empty()) return made;
  const bool pinned = options_.device.is_cuda();
  if (options_.collate) {
    Example batch = options_.collate(examples);
    if (pinned) {
      for_each_tensor(batch, [](const std::string&, Tensor& tensor) {
        if (tensor.defined() && tensor.device().is_cpu()) tensor = pin_memory(tensor);
      });
    }
    made.batch = std::move(batch);
  } else {
    made.batch = stack_examples(examples, pinned, places_);
  }
  return made;
}

}  // namespace adjoint::data
