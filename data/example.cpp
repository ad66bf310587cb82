// Examples by name, and batches of them.
#include <adjoint/data/example.h>

#include <adjoint/core/autograd/op_scope.h>
#include <adjoint/core/autograd/tape.h>
#include <adjoint/core/base/check.h>
#include <adjoint/core/memory/pinned.h>
#include <adjoint/core/tensor/copy.h>
#include <adjoint/data/example_parts.h>

#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <set>
#include <utility>

namespace adjoint::data {
namespace {

const Tensor* find(const Example& example, std::string_view name) {
  if (name == "input") return &example.input;
  if (name == "target") return &example.target;
  for (const auto& [own, tensor] : example.fields) {
    if (own == name) return &tensor;
  }
  return nullptr;
}

std::vector<std::string> names_of(const Example& example) {
  std::vector<std::string> names;
  for_each_tensor(example, [&](const std::string& name, const Tensor& tensor) {
    if (tensor.defined()) names.push_back(name);
  });
  return names;
}

/// "inputs", "targets", "fields 'weight'".
std::string several(const std::string& name) {
  return name == "input" || name == "target" ? name + "s" : fmt::format("fields '{}'", name);
}

Tensor stacked(const std::string& name, const std::vector<const Tensor*>& parts, bool pinned, const Tensor& place) {
  const Tensor& first = *parts.front();
  for (const Tensor* part : parts) {
    ADJOINT_CHECK(part->defined() == first.defined(),
                  "DataLoader: {} of a batch must be all defined or all undefined; got both", several(name));
  }
  if (!first.defined()) return {};
  std::vector<Tensor> packed;
  for (const Tensor* part : parts) {
    ADJOINT_CHECK(
        part->shape() == first.shape() && part->dtype() == first.dtype(),
        "DataLoader: {} of a batch must agree in shape and dtype; got {} {} and {} {}; crop them to one size, pad them "
        "(pad_examples), or use batch_size 1",
        several(name), first.dtype(), first.shape(), part->dtype(), part->shape());
    packed.push_back(part->detach().to(kCPU).contiguous());
  }
  ADJOINT_CHECK(first.shape().size() < kMaxRank, "DataLoader: {} must have at most {} axes; got {}", several(name),
                kMaxRank - 1, first.shape());
  const auto bytes = static_cast<std::size_t>(first.numel() * element_size(first.dtype()));
  const auto count = static_cast<std::int64_t>(packed.size());
  if (place.defined() && place.size(0) == count) {
    const auto* at = static_cast<const std::byte*>(place.raw_data());
    const auto in_place = [&](const Tensor& part) { return part.raw_data() == std::exchange(at, at + bytes); };
    if (std::all_of(packed.begin(), packed.end(), in_place)) return place;
  }
  Tensor batch = empty_batch(first, count, pinned);
  auto* out = static_cast<std::byte*>(batch.raw_mutable_data());
  for (std::size_t i = 0; i < packed.size() && bytes > 0; ++i)
    std::memcpy(out + i * bytes, packed[i].raw_data(), bytes);
  return batch;
}

/// The example's tensor with that name, which may then be changed through `example`.
Tensor& tensor_of(Example& example, const std::string& name) {
  const Tensor* const found = find(example, name);
  ADJOINT_CHECK(found != nullptr && found->defined(), "pad_examples: every example must have '{}'; got {}", name,
                fmt::join(names_of(example), ", "));
  return const_cast<Tensor&>(*found);
}

/// Pads the examples' tensors with that name to one extent, and returns their original extents.
Tensor pad(std::vector<Example>& examples, const std::string& name, const PadOptions& options) {
  const OpScope scope("pad_examples");
  std::vector<std::int64_t> lengths;
  for (Example& example : examples) {
    const Tensor& tensor = tensor_of(example, name);
    lengths.push_back(tensor.shape()[resolve_axis("pad_examples", options.axis, tensor.shape().size())]);
  }
  const std::int64_t longest = *std::max_element(lengths.begin(), lengths.end());
  for (std::size_t i = 0; i < examples.size(); ++i) {
    Tensor& tensor = tensor_of(examples[i], name);
    if (lengths[i] == longest) continue;
    Shape shape = tensor.shape();
    const std::size_t axis = resolve_axis("pad_examples", options.axis, shape.size());
    shape[axis] = longest;
    Tensor padded = Tensor::full(shape, options.value, {.dtype = tensor.dtype()});
    Tensor begin = padded.narrow(static_cast<std::int64_t>(axis), 0, lengths[i]);
    copy_into(tensor.detach().to(kCPU), begin);
    tensor = padded;
  }
  return Tensor::from_vector(lengths, {static_cast<std::int64_t>(lengths.size())}, {.dtype = kInt64});
}

}  // namespace

const Tensor& Example::operator[](std::string_view name) const {
  const Tensor* const found = find(*this, name);
  ADJOINT_CHECK(found != nullptr && found->defined(), "Example: there must be a tensor of that name; got '{}' among {}",
                name, fmt::join(names_of(*this), ", "));
  return *found;
}

void check_field_names(const char* op, const Example& example) {
  std::set<std::string_view> names{"", "input", "target"};
  for (const auto& [name, tensor] : example.fields) {
    ADJOINT_CHECK(names.insert(name).second,
                  "{}: fields' names must be distinct, not empty, and neither input nor target; got '{}'", op, name);
  }
}

Tensor empty_batch(const Tensor& part, std::int64_t count, bool pinned) {
  Shape shape = part.shape();
  shape.insert(0, count);
  return pinned ? empty_pinned(shape, part.dtype()) : Tensor::empty(shape, {.dtype = part.dtype()});
}

Example stack_examples(const std::vector<Example>& examples, bool pinned, const NamedTensors& places) {
  const PauseTape pause;
  const OpScope scope("DataLoader");
  ADJOINT_CHECK(!examples.empty(), "DataLoader: a batch must have at least one example; got none");
  Example batch = examples.front();
  std::vector<const Tensor*> parts(examples.size());
  for_each_tensor(batch, [&](const std::string& name, Tensor& tensor) {
    for (std::size_t i = 0; i < examples.size(); ++i) {
      parts[i] = find(examples[i], name);
      ADJOINT_CHECK(parts[i] != nullptr && examples[i].fields.size() == batch.fields.size(),
                    "DataLoader: examples of a batch must have the same fields; got {} and {}",
                    fmt::join(names_of(examples.front()), ", "), fmt::join(names_of(examples[i]), ", "));
    }
    const auto place =
        std::find_if(places.begin(), places.end(), [&](const auto& entry) { return entry.first == name; });
    tensor = stacked(name, parts, pinned, place != places.end() ? place->second : Tensor());
  });
  return batch;
}

Example stack_examples(const std::vector<Example>& examples) {
  const OpScope scope("stack_examples");
  return stack_examples(examples, false);
}

Collate pad_examples(const PadOptions& options) {
  ADJOINT_CHECK(!options.names.empty(), "pad_examples: names must list the fields to pad; got none");
  return [options](const std::vector<Example>& examples) {
    const PauseTape pause;
    const OpScope scope("pad_examples");
    ADJOINT_CHECK(!examples.empty(), "pad_examples: a batch must have at least one example; got none");
    std::vector<Example> padded = examples;
    NamedTensors lengths;
    for (const std::string& name : options.names) lengths.emplace_back(name + "_lengths", pad(padded, name, options));
    Example batch = stack_examples(padded);
    batch.fields.insert(batch.fields.end(), lengths.begin(), lengths.end());
    check_field_names("pad_examples", batch);
    return batch;
  };
}

}  // namespace adjoint::data
