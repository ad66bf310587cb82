#include <adjoint/nn/freeze.h>

#include <adjoint/core/autograd/kept_forms.h>
#include <adjoint/core/base/check.h>
#include <adjoint/core/tensor/tensor_impl.h>
#include <adjoint/nn/module.h>

#include <unordered_set>
#include <utility>

namespace adjoint::nn {
namespace {

Storage& storage_of(const Tensor& parameter) { return *parameter.impl()->storage; }

}  // namespace

Frozen::Frozen(Frozen&& other) noexcept : parameters_(std::exchange(other.parameters_, {})) {}

Frozen& Frozen::operator=(Frozen&& other) noexcept {
  if (this == &other) return *this;
  unfreeze();
  parameters_ = std::exchange(other.parameters_, {});
  return *this;
}

Frozen::~Frozen() { unfreeze(); }

void Frozen::unfreeze() {
  for (Parameter& parameter : parameters_) {
    parameter.forms.reset();
    Storage& storage = storage_of(parameter.tensor);
    if (storage.shared_forms().use_count() == 1) storage.set_forms(nullptr);  // no other Frozen holds it
  }
  parameters_.clear();
}

std::size_t Frozen::kept_bytes() const {
  std::size_t bytes = 0;
  for (const Parameter& parameter : parameters_) bytes += parameter.forms->nbytes();
  return bytes;
}

Frozen freeze(const Module& module) {
  for (const auto& [path, below] : module.named_modules()) {
    ADJOINT_CHECK(!below.training(), "freeze: the module must be in eval mode; got {} in training mode; call eval()",
                  path.empty() ? below.type() : "'" + path + "'");
  }
  return freeze(module.parameters());
}

Frozen freeze(const std::vector<Tensor>& tensors) {
  Frozen frozen;
  std::unordered_set<const Storage*> seen;  // a storage with several views is frozen once
  for (const Tensor& tensor : tensors) {
    if (!seen.insert(&storage_of(tensor)).second) continue;
    const auto& there = storage_of(tensor).shared_forms();
    frozen.parameters_.push_back({tensor, there ? there : std::make_shared<adjoint::detail::KeptForms>()});
  }
  for (const Frozen::Parameter& parameter : frozen.parameters_) {
    if (storage_of(parameter.tensor).forms() == nullptr) storage_of(parameter.tensor).set_forms(parameter.forms);
  }
  return frozen;
}

}  // namespace adjoint::nn
