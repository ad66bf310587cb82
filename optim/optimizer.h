// Optimizer: the base of all optimisers, with the parameters in groups, the learning rates, and state to be saved.
//
//   optim::Adam adam(net.parameters(), {.lr = 1e-3});  // or (net.parameters(), 1e-3)
//   ...
//   tape.backward(loss);
//   adam.step();
//   adam.zero_grad();
//
// Groups have options of their own (groups.h selects parameters by name or by their module's type):
//
//   optim::Adam adam({{.params = encoder.parameters(), .frozen = true},
//                     {.params = head.parameters(), .options = optim::AdamOptions{.lr = 1e-2}}}, {.lr = 1e-3});
//
// An optimiser of your own defines the update of one parameter:
//
//   class SignSGD : public optim::Optimizer {
//    public:
//     SignSGD(std::vector<Tensor> parameters, double lr)
//         : Optimizer("SignSGD", std::move(parameters), lr, {"momentum"}) {}
//
//    protected:
//     void update(const optim::ParameterUpdate& u) override {
//       u.state[0].mul_(0.9).add_(u.gradient);
//       u.parameter.add_(sign(u.state[0]), -u.lr);
//     }
//   };
//
// One whose groups have options derives from OptimizerOf<Options>.
#pragma once

#include <adjoint/core/tensor/named_tensors.h>
#include <adjoint/core/tensor/tensor.h>

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace adjoint::detail {
class StepCapture;
}

namespace adjoint::optim {

struct Batch;
struct GateTensors;
class GradScaler;
class SavedState;

namespace detail {

/// The base class's view of a group.
struct Group {
  std::vector<Tensor> params;
  double lr = 0.0;
  std::vector<std::string> state_names = {};  // at most 3
  bool master_weights = true;
  bool frozen = false;
};

/// Throws Error, naming the optimiser, for a named option below 0.
ADJOINT_API void check_not_negative(const char* optimizer,
                                    std::initializer_list<std::pair<const char*, double>> options);
/// Throws Error, naming the optimiser, for betas outside [0, 1).
ADJOINT_API void check_betas(const char* optimizer, const std::array<double, 2>& betas);

class ScheduleHold;

/// Names the schedule that sets an optimiser's learning rates; it continues with an optimiser that is assigned to this
/// one.
class ScheduleName {
 public:
  ScheduleName() = default;
  ScheduleName(ScheduleName&&) noexcept = default;
  ScheduleName& operator=(ScheduleName&& other) noexcept {
    if (name_.expired()) name_ = std::move(other.name_);
    return *this;
  }
  ~ScheduleName() = default;

 private:
  friend class ScheduleHold;
  std::weak_ptr<const std::string> name_;
};

}  // namespace detail

struct StepOptions {
  /// Clips the gradients of the optimiser's parameters to this norm as the update reads them, by the factor of
  /// clip_grad_norm_; the gradients stay unchanged.
  std::optional<double> max_norm = {};
};

/// One parameter's update, on its own device and outside every tape.
struct ParameterUpdate {
  Tensor& parameter;        // to be changed in place; the master weight if there is one
  const Tensor& gradient;   // contiguous, of the parameter's shape and dtype
  std::span<Tensor> state;  // one tensor for each of the optimiser's state names, to be changed in place
  std::int64_t step;        // this update's number, from 1
  double lr;                // of the parameter's group
  std::size_t group;        // the parameter's group
};

class Optimizer;

/// One of an optimiser's groups. It is valid while the optimiser stays in place:
///
///   for (auto group : adam.param_groups()) group.set_lr(group.lr() / 10);
class ADJOINT_API GroupHandle {
 public:
  std::vector<Tensor> params() const;
  double lr() const;
  void set_lr(double lr);
  bool frozen() const;
  void set_frozen(bool frozen);

 private:
  friend class Optimizer;
  GroupHandle(Optimizer& optimizer, std::size_t group) : optimizer_(&optimizer), group_(group) {}

  Optimizer* optimizer_;
  std::size_t group_;
};

/// An optimiser that was moved from is empty: its members throw Error until an optimiser is assigned to it.
class ADJOINT_API Optimizer {
 public:
  virtual ~Optimizer();
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;
  Optimizer(Optimizer&&) noexcept = default;
  Optimizer& operator=(Optimizer&&) noexcept = default;

  /// Updates every parameter that has a gradient and whose group is not frozen, in place; not recorded, even if a tape
  /// is live. Parameters of half precision are updated in float32, from their master weights: float32 copies, in which
  /// updates too small for the parameter's dtype add up (Micikevicius et al.: "Mixed precision training", 2018). The
  /// parameter is the rounded master; an element that the program wrote since then replaces the master's. Without
  /// master weights the parameter is rounded once per step. A parameter's state is created at its first update, in
  /// float32 if the parameter is narrower, else in its dtype, and follows the parameter when it is moved or converted.
  /// If memory runs out nothing has changed.
  ///
  /// With a max_norm the gradients are read once for their norm and once for the update (for an optimiser that
  /// overrides update(), clip_grad_norm_ clips them). The result is the original norm, a float64 scalar on their device
  /// that the host does not wait for; without a max_norm it is undefined. Throws Error for a max_norm that is negative
  /// or NaN, and for a max_norm with gradients on several devices.
  Tensor step(const StepOptions& options = {});
  /// Drops the parameters' gradients, also those of frozen groups; sets flat buffers to 0.
  void zero_grad();

  /// Makes the gradients of a group views of one buffer, which backward passes add to and zero_grad() sets to 0. Their
  /// addresses stay, and sums over devices are one call. Existing gradients are copied in. A parameter without a
  /// gradient has zeros, and step() updates it with them. Call it again after add_param_group() and after parameters
  /// were moved or converted. Throws Error, and changes nothing, if a group's parameters differ in dtype or device.
  void flatten_gradients();
  /// A group's buffer (elements), with each gradient at a multiple of 256 bytes and zeros between. A gradient outside
  /// the buffer, from set_grad() or a recorded backward pass, is copied in. Throws Error if there is no such group,
  /// without flatten_gradients(), and if a parameter was moved, converted or added since.
  Tensor flat_gradients(std::size_t group = 0);

  /// The parameters of all groups, in order.
  const std::vector<Tensor>& parameters() const;
  std::size_t num_groups() const { return groups_.size(); }
  std::vector<GroupHandle> param_groups();

  // ---- One group's settings; groups are counted from 0. All throw Error for a group that does not exist.

  double lr(std::size_t group = 0) const;
  void set_lr(double lr, std::size_t group);
  /// A frozen group's parameters are not updated; requires_grad_ determines if they get gradients.
  bool frozen(std::size_t group) const;
  void set_frozen(bool frozen, std::size_t group);
  /// The share of old gradients in their average (momentum, or betas[0]), which OneCycleLR cycles; empty if the
  /// optimiser keeps no such average.
  virtual std::optional<double> momentum(std::size_t group = 0) const;
  /// Throws Error if momentum() is empty, and unless it is above 0 and below 1.
  virtual void set_momentum(double momentum, std::size_t group);

  // ---- Of all groups. Throw Error, and change nothing, unless a rate is finite and not negative.

  void set_lr(double lr);
  /// Sets one rate per group.
  void set_lrs(const std::vector<double>& lrs);

  /// The state on which the next steps depend, besides the parameters and the options: "lr" (float64; for several
  /// groups "group.0.lr", ...), for each updated parameter i "i.step" (int64), the optimiser's own tensors, such as
  /// "i.exp_avg", and "i.master" if there is a master weight; and "params" (int64), the number of parameters in each
  /// group. The tensors share elements with the optimiser.
  virtual NamedTensors state_dict() const;
  /// Copies the state in, onto the parameters' devices. State of a narrower floating-point dtype, such as float16 for a
  /// float16 parameter, is converted. A missing master weight is made from the parameter. Throws Error, and changes
  /// nothing, for names, shapes or dtypes that do not fit, and, if the state has them, for other numbers of parameters.
  /// Without .strict, parameters missing from the state start anew, missing groups keep their rates, and superfluous
  /// entries are skipped.
  virtual void load_state_dict(const NamedTensors& state, const LoadStateOptions& options = {});

 protected:
  /// One group. `name` is for errors; `state_names` (at most 3) are the tensors of a parameter's shape that the
  /// optimiser keeps for it, initially zeros. Throws Error unless the parameters are distinct, contiguous
  /// floating-point leaves.
  Optimizer(std::string name, std::vector<Tensor> parameters, double lr, std::vector<std::string> state_names);
  /// Throws Error as above, and if no group has a parameter.
  Optimizer(std::string name, std::vector<detail::Group> groups);
  /// Throws Error as above; nothing has changed then.
  void add_group(detail::Group group);

  /// Derived classes override this. step() calls it once for each parameter that has a gradient, in any order.
  /// Exceptions propagate out of step(), and parameters that were updated before stay updated. Throws Error if it is
  /// not overridden.
  virtual void update(const ParameterUpdate& update);
  /// For the library's own optimisers: updates many parameters at once.
  virtual void update_batch(const Batch& batch);
  /// Returns true if update_batch() is overridden and respects the batch's gate.
  virtual bool is_fused() const { return false; }

  /// Throws Error if there is no such group.
  void check_group(std::size_t group) const;
  /// Throws Error, naming `op`, if the optimiser was moved from.
  void check_not_moved_from(const char* op) const;

 private:
  friend class detail::ScheduleHold;
  friend class GradScaler;
  friend class GroupHandle;

  struct Slot {
    std::size_t group = 0;
    std::int64_t step = 0;
    std::vector<Tensor> state;  // one per state name of the group; empty before the first update
    Tensor master;              // undefined if there is none
    Tensor gated;               // the elements of a Gated; undefined before the first update with a gate

    std::int64_t updates() const;  // not counting skipped ones; may wait for the device
  };
  struct Change;

  bool keeps_master(std::size_t i) const;
  std::vector<Tensor> fitting_state(std::size_t i) const;
  Tensor fitting_master(std::size_t i) const;
  Tensor fitting_gated(std::size_t i, bool has_gate) const;
  std::vector<Change> prepare(bool has_gate);
  void apply(const std::vector<GateTensors>& gates);
  Slot load_slot(std::size_t i, SavedState& saved) const;
  std::vector<std::int64_t> group_sizes() const;
  struct Captured;
  void capture(adjoint::detail::StepCapture& capture, std::vector<Captured> batches);
  std::string lr_name(std::size_t group) const;
  bool has_flat_gradient(std::size_t i) const;

  std::string name_;
  std::vector<detail::Group> groups_;  // parameters_ holds their params
  std::vector<Tensor> parameters_;
  std::vector<Slot> slots_;         // one per parameter
  std::vector<Tensor> flat_;        // one per group whose gradients are flat; later groups have none
  std::vector<Tensor> flat_views_;  // one per such parameter; undefined for those without elements
  std::uint64_t loads_ = 0;         // number of loads of state: captured steps know the old state's addresses
  detail::ScheduleName schedule_;
  std::shared_ptr<const void> self_;  // by which parameters know that they are updated
};

/// Parameters with their own options.
template <class Options>
struct ParamGroup {
  std::vector<Tensor> params;
  /// Every option of the group; empty: the optimiser's options.
  std::optional<Options> options = {};
  bool frozen = false;
};

/// An optimiser whose groups have Options: an aggregate with `double lr`, `bool master_weights`, a name for errors in
/// `static constexpr const char* kName`, `check()`, which throws Error for invalid options, and `state_names()`;
/// an optional `check(parameter)` throws Error for parameters that do not fit.
template <class Options>
class ADJOINT_API OptimizerOf : public Optimizer {
 public:
  using Group = ParamGroup<Options>;

  /// All throw Error for options and parameters that do not fit, and for a parameter that occurs twice.
  explicit OptimizerOf(std::vector<Tensor> parameters, const Options& options = {})
      : OptimizerOf(std::vector<Group>{Group{std::move(parameters)}}, options) {}
  explicit OptimizerOf(std::vector<Group> groups, const Options& options = {})
      : Optimizer(Options::kName, resolved(groups, options)), defaults_(options) {
    for (const Group& group : groups) options_.push_back(group.options.value_or(options));
  }
  OptimizerOf(std::initializer_list<Group> groups, const Options& options = {})
      : OptimizerOf(std::vector<Group>(groups), options) {}

  // With only a learning rate, as in PyTorch; templates, so that {} still means options.
  template <std::convertible_to<double> Rate>
  OptimizerOf(std::vector<Tensor> parameters, const Rate& lr) : OptimizerOf(std::move(parameters), with_lr(lr)) {}
  template <std::convertible_to<double> Rate>
  OptimizerOf(std::vector<Group> groups, const Rate& lr) : OptimizerOf(std::move(groups), with_lr(lr)) {}
  template <std::convertible_to<double> Rate>
  OptimizerOf(std::initializer_list<Group> groups, const Rate& lr) : OptimizerOf(groups, with_lr(lr)) {}

  /// The new group's state begins with its first step. Throws Error as the constructors do; nothing has changed then.
  void add_param_group(const Group& group) {
    check_not_moved_from("add_param_group");
    options_.reserve(options_.size() + 1);
    const Options own = group.options.value_or(defaults_);
    add_group(resolved(group, own));
    options_.push_back(own);
  }
  /// The current options. Throws Error if there is no such group.
  Options options(std::size_t group = 0) const {
    check_group(group);
    Options now = options_[group];
    now.lr = lr(group);
    return now;
  }

  std::optional<double> momentum(std::size_t group = 0) const override {
    const Options now = options(group);
    if constexpr (requires { now.betas; }) {
      return now.betas[0];
    } else if constexpr (requires { now.momentum; }) {
      if (now.momentum != 0.0) return now.momentum;  // with 0, no average is kept
    }
    return {};
  }
  void set_momentum(double momentum, std::size_t group) override {
    Optimizer::set_momentum(momentum, group);
    if constexpr (requires(Options o) { o.betas; }) {
      options_[group].betas[0] = momentum;
    } else if constexpr (requires(Options o) { o.momentum; }) {
      options_[group].momentum = momentum;
    }
  }

 private:
  static Options with_lr(double lr) {
    Options options;
    options.lr = lr;
    return options;
  }
  static detail::Group resolved(const Group& group, const Options& options) {
    options.check();
    if constexpr (requires(Tensor t) { options.check(t); }) {
      for (const Tensor& parameter : group.params) options.check(parameter);
    }
    return {group.params, options.lr, options.state_names(), options.master_weights, group.frozen};
  }
  static std::vector<detail::Group> resolved(const std::vector<Group>& groups, const Options& options) {
    std::vector<detail::Group> all;
    for (const Group& group : groups) all.push_back(resolved(group, group.options.value_or(options)));
    return all;
  }

  Options defaults_;
  std::vector<Options> options_;  // one per group
};

}  // namespace adjoint::optim
