// What a module is a handle on. Internal to nn.
#pragma once

#include <adjoint/core/check.h>
#include <adjoint/nn/module.h>
#include <adjoint/nn/registry.h>

#include <cstdint>
#include <memory>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

namespace adjoint::nn {

using detail::ChildSlot;
using detail::TensorSlot;
using TensorSlots = std::vector<std::shared_ptr<TensorSlot>>;

struct Module::State {
  std::string type;
  std::string description;
  bool training = true;
  TensorSlots parameters;
  TensorSlots buffers;
  std::vector<std::shared_ptr<ChildSlot>> children;
  std::vector<std::weak_ptr<const ChildSlot>> places;  // where it has been put; it may be gone from there
  std::vector<std::pair<std::uint64_t, ForwardPreHook>> pre_hooks;
  std::vector<std::pair<std::uint64_t, ForwardHook>> hooks;
  std::uint64_t next_hook = 1;

  // "decoder.2.up", from the outermost module that holds this one; empty for one that stands nowhere. Of several places
  // the first counts. With `typed` the outermost module's type comes first: "Generator.decoder.2.up".
  std::string path(bool typed = false) const;

  // The slots of all modules below, of each the first, deeper ones before those that they are in.
  std::vector<std::shared_ptr<ChildSlot>> below() const {
    std::vector<std::shared_ptr<ChildSlot>> all;
    std::unordered_set<const State*> seen;
    list_below(all, seen);
    return all;
  }
  void list_below(std::vector<std::shared_ptr<ChildSlot>>& all, std::unordered_set<const State*>& seen) const;

  // f(slot) of every slot.
  template <class F>
  void for_each_slot(const F& f) const {
    for (const auto& slot : parameters) f(*slot);
    for (const auto& slot : buffers) f(*slot);
    for (const auto& slot : children) f(*slot);
  }

  void check_name(const char* op, const std::string& name) const {
    ADJOINT_CHECK(!name.empty() && name.find('.') == std::string::npos,
                  "{}: a name must not be empty or hold a dot; got '{}' in {}", op, name, type);
    for_each_slot([&](const detail::Slot& slot) {
      ADJOINT_CHECK(slot.name != name, "{}: a name must be free; got '{}', which {} already has", op, name, type);
    });
  }
};

namespace detail {

/// Puts the module into a slot, or none where `module` is null; `own`, the same under its own type, becomes what stood
/// there.
void place(const std::shared_ptr<ChildSlot>& slot, const Module* module, std::any& own);

/// A slot of these names with a value in it, as the last of `slots`. Throws Error, naming `op`, for a value that does
/// not fit.
std::shared_ptr<TensorSlot> make_slot(const char* op, const std::string& name, const std::string& owner_type,
                                      const std::shared_ptr<const void>& owner, bool trained,
                                      const RegisterOptions& options, Tensor value, TensorSlots& slots);

}  // namespace detail
}  // namespace adjoint::nn
