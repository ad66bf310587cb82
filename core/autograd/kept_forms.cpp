#include <adjoint/core/autograd/kept_forms.h>

#include <utility>

namespace adjoint::detail {

std::shared_ptr<const void> KeptForms::find(const FormKey& key) const {
  const std::lock_guard lock(mutex_);
  const auto found = forms_.find(key.bytes());
  return found == forms_.end() ? nullptr : found->second;
}

bool KeptForms::has_room() const { return count() < kMost; }

std::shared_ptr<const void> KeptForms::keep(const FormKey& key, std::shared_ptr<const void> form, std::size_t nbytes) {
  const std::lock_guard lock(mutex_);
  if (const auto there = forms_.find(key.bytes()); there != forms_.end()) return there->second;
  if (forms_.size() >= kMost) return nullptr;
  const auto kept = forms_.emplace(key.bytes(), std::move(form)).first;
  nbytes_ += nbytes;
  return kept->second;
}

std::size_t KeptForms::count() const {
  const std::lock_guard lock(mutex_);
  return forms_.size();
}

std::size_t KeptForms::nbytes() const {
  const std::lock_guard lock(mutex_);
  return nbytes_;
}

}  // namespace adjoint::detail
