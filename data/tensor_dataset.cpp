#include <adjoint/data/tensor_dataset.h>

#include <adjoint/core/autograd/tape.h>
#include <adjoint/core/base/check.h>
#include <adjoint/data/example_parts.h>

namespace adjoint::data {

TensorDataset::TensorDataset(const Example& tensors) : tensors_(tensors) {
  const PauseTape pause;
  check_field_names("TensorDataset", tensors_);
  const std::string* first = nullptr;
  for_each_tensor(tensors_, [&](const std::string& name, Tensor& tensor) {
    if (!tensor.defined()) return;
    ADJOINT_CHECK(tensor.dim() > 0, "TensorDataset: '{}' must have a first axis, of examples; got a scalar", name);
    if (first == nullptr) {
      first = &name;
      size_ = tensor.size(0);
    }
    ADJOINT_CHECK(tensor.size(0) == size_,
                  "TensorDataset: tensors must have as many rows; got {} in '{}' and {} in '{}'", size_, *first,
                  tensor.size(0), name);
    tensor = tensor.detach().to(kCPU);
  });
  ADJOINT_CHECK(first != nullptr, "TensorDataset: at least one tensor must be defined; got none");
}

Example TensorDataset::get(std::int64_t index, Generator&) const {
  ADJOINT_CHECK(index >= 0 && index < size_, "TensorDataset: index must be from 0 to {}; got {}", size_ - 1, index);
  Example row = tensors_;
  for_each_tensor(row, [&](const std::string&, Tensor& tensor) {
    if (tensor.defined()) tensor = tensor.select(0, index);
  });
  return row;
}

}  // namespace adjoint::data
