// The slots of a module's registry, and which of them members leave while modules are assigned. Internal.
//
// `a = b`, of modules of any type, assigns the base Module and then member by member. By then a is another handle on
// b's state, and its members must become handles on b's slots; the same assignment of a member by itself registers a
// value. Nothing but the base's assignment, right before on the same thread, tells them apart: it lists the slots that
// its members are to leave, each to be left once.
#pragma once

#include <adjoint/nn/module.h>

#include <any>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace adjoint::nn::detail {

struct Slot {
  std::string name;
  std::string owner_type;
  std::weak_ptr<const void> owner;  // the module's state
};

struct TensorSlot;

/// How a parameter is computed from others of its module.
struct Computed {
  Reparametrization how;
  std::vector<std::shared_ptr<TensorSlot>> parts;
  std::weak_ptr<const bool> training;

  Tensor read() const;
};

struct TensorSlot : Slot {
  bool trained = true;  // a parameter, not a buffer
  bool optional = false;
  Tensor tensor = {};                             // undefined while it is computed
  std::shared_ptr<const Computed> computed = {};  // null: it is `tensor`
  std::string alias = {};                         // another path, from the module on, under which it loads

  Tensor read() const { return computed == nullptr ? tensor : computed->read(); }

  /// Throws Error, naming `op`, for a value that must not stand here.
  void check(const char* op, const Tensor& value) const;
  /// check(), and puts it here; a parameter then requires a gradient, unless it comes from another parameter's slot.
  void put(const char* op, Tensor value, bool from_parameter = false);
};

struct ChildSlot : Slot {
  std::optional<Module> module;  // none: the slot is empty
  std::any own;                  // the same handle, under its own type
  std::mutex handles;            // guards the list
  ChildLink* first = nullptr;
};

/// Makes room for `count` slots to leave, so that leave() does not throw.
void reserve_departures(std::size_t count);
/// Members on `slot` are to become handles on slots of `to`.
void depart(const Slot& slot, const void* to);
/// Whether a member on `slot` is now to leave for a slot of `to`'s owner, or for none.
bool departs(const Slot& slot, const Slot* to);
/// No assignment of modules is under way on this thread.
void settle();

/// While it lives, members on this thread leave whatever slots they are on.
class AllDepart {
 public:
  AllDepart();
  ~AllDepart();
  AllDepart(const AllDepart&) = delete;
  AllDepart& operator=(const AllDepart&) = delete;

  static bool on();

 private:
  bool before_;
};

}  // namespace adjoint::nn::detail
