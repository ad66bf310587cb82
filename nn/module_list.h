// ModuleList: modules by index, registered under "0", "1", ...
//
//   nn::ModuleList<ResidualBlock> blocks;
//   for (int i = 0; i < 8; ++i) blocks.append(ResidualBlock(64));
//   for (const ResidualBlock& block : blocks) x = block(x);
#pragma once

#include <adjoint/nn/clone.h>
#include <adjoint/nn/module.h>

#include <cstddef>
#include <initializer_list>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace adjoint::nn {

namespace detail {
[[noreturn]] ADJOINT_API void no_such_module(std::size_t index, std::size_t size);
}  // namespace detail

/// M is a module, or Layer for modules of several types that map one tensor to one. Elements are handles, Child<M>.
template <class M>
class ModuleList : public Module {
  using Handle = detail::RegisteredHandle<M>;

 public:
  ModuleList() : Module("ModuleList") {}
  explicit ModuleList(std::initializer_list<M> modules) : ModuleList() {
    for (const M& module : modules) append(module);
  }

  void append(M module) {
    check_not_moved_from("ModuleList::append");
    if (list_->size() == list_->capacity()) list_->reserve(list_->empty() ? 4 : 2 * list_->size());
    list_->push_back(add_child("ModuleList::append", std::to_string(list_->size()), std::move(module)));
  }

  void push_back(M module) { append(std::move(module)); }

  std::size_t size() const { return list("ModuleList::size").size(); }
  /// Throws Error outside [0, size()).
  const Handle& operator[](std::size_t i) const {
    if (i >= size()) detail::no_such_module(i, size());
    return (*list_)[i];
  }
  auto begin() const { return list("ModuleList::begin").cbegin(); }
  auto end() const { return list("ModuleList::end").cend(); }
  /// Assigning to an element registers the new module in its place: list[0] = ResidualBlock(64). Not available for
  /// final classes.
  Handle& operator[](std::size_t i) requires(!std::is_final_v<M>) {
    return const_cast<Handle&>(std::as_const(*this)[i]);
  }
  auto begin() requires(!std::is_final_v<M>) {
    list("ModuleList::begin");
    return list_->begin();
  }
  auto end() requires(!std::is_final_v<M>) {
    list("ModuleList::end");
    return list_->end();
  }

 private:
  const std::vector<Handle>& list(const char* op) const {
    check_not_moved_from(op);
    return *list_;
  }

  Shared<std::vector<Handle>> list_;
};

}  // namespace adjoint::nn
