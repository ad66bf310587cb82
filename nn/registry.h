// The slots of a module's registry, and which of them members leave while modules are assigned. Internal.
//
// `a = b`, for modules of any type, assigns the base Module and then member by member. By then a is another handle on
// b's state, so its members must become handles on b's slots. The same assignment of a single member registers a value
// instead. Only the base's assignment, immediately before on the same thread, distinguishes the two: it lists the slots
// that its members are to leave, each once.
#pragma once

#include <adjoint/core/autograd/untrained.h>
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

/// The computation of a parameter from others of its module.
struct Computed {
  Reparametrization how;
  std::vector<std::shared_ptr<TensorSlot>> parts;
  std::weak_ptr<const bool> training;

  Tensor read() const;
};

struct TensorSlot : Slot, ParameterPlace, std::enable_shared_from_this<TensorSlot> {
  bool trained = true;  // a parameter, not a buffer
  bool optional = false;
  Tensor tensor = {};                             // undefined while it is computed
  std::shared_ptr<const Computed> computed = {};  // null: the value is `tensor`
  std::string alias = {};                         // another path, from the module on, under which it loads

  Tensor read() const { return computed == nullptr ? tensor : computed->read(); }
  std::string name_of(const TensorImpl& parameter) const override;

  /// Throws Error, naming `op`, for a value that is not allowed here.
  void check(const char* op, const Tensor& value) const;
  /// Checks it and puts it here; a parameter then requires a gradient, unless it comes from another parameter's slot.
  void put(const char* op, Tensor value, bool from_parameter = false);
};

struct ChildSlot : Slot {
  std::optional<Module> module;  // empty if the slot is
  std::any own;                  // the same handle, under its own type
  std::mutex handles;            // guards the list
  ChildLink* first = nullptr;
};

/// Makes room for `count` slots to leave, so that depart() does not throw.
void reserve_departures(std::size_t count);
/// Members on `slot` are to become handles on slots of `to`.
void depart(const Slot& slot, const void* to);
/// Returns true if a member on `slot` must now leave it, for a slot of `to`'s owner if there is one.
bool departs(const Slot& slot, const Slot* to);
/// Ends the assignment of modules on this thread.
void settle();

/// While it lives, members on this thread leave any slot they are on.
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
