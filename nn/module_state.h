// The state that a module is a handle on. Internal to nn.
#pragma once

#include <adjoint/core/base/check.h>
#include <adjoint/nn/module.h>
#include <adjoint/nn/registry.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
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
  std::vector<std::weak_ptr<const ChildSlot>> places;  // slots that it was put into; it may have been replaced there
  std::vector<std::pair<std::uint64_t, ForwardPreHook>> pre_hooks;
  std::vector<std::pair<std::uint64_t, ForwardHook>> hooks;
  std::uint64_t next_hook = 1;
  std::atomic<bool> unproven = false;                // it has hooks, none of which ran yet
  std::atomic<bool> proven = false;                  // they ran, or the warning was printed
  std::atomic<const State*> called_below = nullptr;  // while unproven: the part of it that was called first

  State() = default;
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State();

  // ---- Hooks that an operator() skips (module_call.cpp).

  // It has a hook now.
  void await_hooks();
  // Its hooks run.
  void prove();
  // A call of it ran none of its hooks.
  void tell_of_hooks();
  // It is called: the modules around it should have run their hooks by now.
  void called() const;

  // "decoder.2.up", from the outermost module that holds this one; empty for a module without a parent. If there are
  // several places, the first counts. With `typed` the outermost module's type comes first: "Generator.decoder.2.up".
  std::string path(bool typed = false) const;
  // The first of this module's places, and the module that has it; nulls if it has no place.
  std::pair<std::shared_ptr<const ChildSlot>, std::shared_ptr<const State>> first_place() const;

  // The slots of all modules below, the first slot of each, deeper ones before their parents.
  std::vector<std::shared_ptr<ChildSlot>> below() const {
    std::vector<std::shared_ptr<ChildSlot>> all;
    std::unordered_set<const State*> seen;
    list_below(all, seen);
    return all;
  }
  void list_below(std::vector<std::shared_ptr<ChildSlot>>& all, std::unordered_set<const State*>& seen) const;

  // f(slot) for every slot.
  template <class F>
  void for_each_slot(const F& f) const {
    for (const auto& slot : parameters) f(*slot);
    for (const auto& slot : buffers) f(*slot);
    for (const auto& slot : children) f(*slot);
  }

  void check_name(const char* op, const std::string& name) const {
    ADJOINT_CHECK(!name.empty() && name.find('.') == std::string::npos,
                  "{}: a name must not be empty or hold a dot; got '{}' in {}", op, name, type);
    ADJOINT_CHECK(!has(name), "{}: a name must be free; got '{}', which {} already has", op, name, type);
  }

  // Returns true if a slot has the name. Slots are appended to the lists, so only new names are read.
  bool has(const std::string& name) const {
    const std::array<std::size_t, 3> now{parameters.size(), buffers.size(), children.size()};
    if (now[0] < read_[0] || now[1] < read_[1] || now[2] < read_[2]) {
      names_.clear();
      read_ = {};
    }
    const auto read = [this](const auto& slots, std::size_t from) {
      for (std::size_t i = from; i < slots.size(); ++i) names_.insert(slots[i]->name);
    };
    read(parameters, read_[0]);
    read(buffers, read_[1]);
    read(children, read_[2]);
    read_ = now;
    return names_.contains(name);
  }

  // Returns true if it is `other` or a descendant of it.
  bool stands_in(const State& other) const;

 private:
  mutable std::unordered_set<std::string> names_;
  mutable std::array<std::size_t, 3> read_{};  // the number of parameters, buffers and children in names_
};

namespace detail {

/// "decoder.weight"; the name alone if the path is empty.
inline std::string join(const std::string& path, const std::string& name) {
  return path.empty() ? name : path + "." + name;
}

/// Reserves room for one more at the end, so that adding it does not throw; grows as push_back does, in amortised
/// constant time.
template <class T>
void reserve_one(std::vector<T>& list) {
  if (list.size() == list.capacity()) list.reserve(std::max<std::size_t>(4, 2 * list.capacity()));
}

/// Puts the module into a slot, or empties it if `module` is null; `own`, the same under its own type, receives the old
/// contents.
void place(const std::shared_ptr<ChildSlot>& slot, const Module* module, std::any& own);

/// A slot with these names and a value, as the last of `slots`. Throws Error, naming `op`, for a value that does not
/// fit.
std::shared_ptr<TensorSlot> make_slot(const char* op, const std::string& name, const std::string& owner_type,
                                      const std::shared_ptr<const void>& owner, bool trained,
                                      const RegisterOptions& options, Tensor value, TensorSlots& slots);

}  // namespace detail
}  // namespace adjoint::nn
