// Optimizer: what all optimisers share: the parameters in groups, the learning rates, and state that can be saved.
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
// An optimiser of one's own says what happens to one parameter:
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

#include <adjoint/core/named_tensors.h>
#include <adjoint/core/tensor.h>

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

/// What the base knows of a group.
struct Group {
  std::vector<Tensor> params;
  double lr = 0.0;
  std::vector<std::string> state_names = {};  // at most 3
  bool master_weights = true;
  bool frozen = false;
};

class ScheduleHold;

/// Which schedule sets an optimiser's learning rates; it goes on with one that is assigned to the optimiser.
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
  /// The gradients of the optimiser's parameters are clipped to this norm on their way into the update, by the factor
  /// of clip_grad_norm_, and stay as they are.
  std::optional<double> max_norm = {};
};

/// One parameter's update, on its own device and outside every tape.
struct ParameterUpdate {
  Tensor& parameter;        // to be changed in place; the master weight where there is one
  const Tensor& gradient;   // contiguous, of the parameter's shape and dtype
  std::span<Tensor> state;  // a tensor for each of the optimiser's state names, to be changed in place
  std::int64_t step;        // this update's number, from 1
  double lr;                // of the parameter's group
  std::size_t group;        // the parameter's group
};

/// One that was moved from is empty: its members throw Error until an optimiser is assigned to it.
class ADJOINT_API Optimizer {
 public:
  virtual ~Optimizer();
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;
  Optimizer(Optimizer&&) noexcept = default;
  Optimizer& operator=(Optimizer&&) noexcept = default;

  /// Updates every parameter that has a gradient and whose group is not frozen, in place; not recorded, whatever tape
  /// is alive. Computed in float32 for parameters of half precision, from their master weights: float32 copies, so that
  /// updates too small for the parameter's dtype add up (Micikevicius et al.: "Mixed precision training", 2018). The
  /// parameter is the master rounded; an element that the program wrote since becomes the master's. Without master
  /// weights the parameter is rounded once a step. A parameter's state is made on its first update, float32 where the
  /// parameter is narrower and else of its dtype, and follows it when it is moved or converted. Where memory runs out
  /// nothing has changed.
  ///
  /// With a max_norm the gradients are read once for their norm and once for the update (an optimiser that overrides
  /// update() has them clipped by clip_grad_norm_), and the norm from before is returned: float64, a scalar on their
  /// device, for which nothing waits; else an undefined tensor. Throws Error for a max_norm that is negative or NaN,
  /// and where there is one for gradients on several devices.
  Tensor step(const StepOptions& options = {});
  /// Forgets the parameters' gradients, those of frozen groups too; where they stand in flat buffers, sets these to 0.
  void zero_grad();

  /// From now on the gradients of a group are views of one buffer, which backward passes add to and zero_grad() sets to
  /// 0: their addresses stay, and sums over devices are one call. Gradients that there are go in; a parameter without
  /// one has zeros, and step() updates it with these. To be called again after add_param_group() and where parameters
  /// were moved or converted. Throws Error, and changes nothing, where a group's parameters differ in dtype or device.
  void flatten_gradients();
  /// A group's buffer (elements), each gradient at a multiple of 256 bytes and zeros between. A gradient that was put
  /// beside it, by set_grad() or a recorded backward pass, is copied in. Throws Error for a group that is none, without
  /// flatten_gradients(), and where a parameter was moved, converted or added since.
  Tensor flat_gradients(std::size_t group = 0);

  /// Of all groups, in their order.
  const std::vector<Tensor>& parameters() const;
  std::size_t num_groups() const { return groups_.size(); }

  // ---- Of one group, counted from 0. Throw Error for a group that is none.

  double lr(std::size_t group = 0) const;
  void set_lr(double lr, std::size_t group);
  /// A frozen group's parameters are not updated; whether they get gradients is their own affair (requires_grad_).
  bool frozen(std::size_t group) const;
  void set_frozen(bool frozen, std::size_t group);
  /// The share of old gradients in the average of them (momentum, or betas[0]), which OneCycleLR cycles; nothing where
  /// the optimiser keeps no such average.
  virtual std::optional<double> momentum(std::size_t group = 0) const;
  /// Throws Error where momentum() is nothing, and unless it is above 0 and below 1.
  virtual void set_momentum(double momentum, std::size_t group);

  // ---- Of all groups. Throw Error, and change nothing, unless a rate is finite and not negative.

  void set_lr(double lr);
  /// A rate for each group.
  void set_lrs(const std::vector<double>& lrs);

  /// What the next steps depend on, beside the parameters and the options: "lr" (float64; of several groups
  /// "group.0.lr", ...) and, for each parameter i that was updated, "i.step" (int64), the optimiser's own tensors, such
  /// as "i.exp_avg", and "i.master" where there is a master weight. The tensors share elements with it.
  NamedTensors state_dict() const;
  /// Copies the state in, onto the parameters' devices. State of a narrower floating-point dtype, such as float16 for a
  /// float16 parameter, is converted. A master weight that is missing is made of the parameter. Throws Error, and
  /// changes nothing, for names, shapes or dtypes that do not fit.
  void load_state_dict(const NamedTensors& state);

 protected:
  /// One group. `name` is for errors; `state_names` (at most 3) are the tensors of a parameter's shape that the
  /// optimiser keeps for it, zeros at first. Throws Error unless the parameters are distinct, contiguous floating-point
  /// leaves.
  Optimizer(std::string name, std::vector<Tensor> parameters, double lr, std::vector<std::string> state_names);
  /// Throws Error, as above, and where no group has a parameter.
  Optimizer(std::string name, std::vector<detail::Group> groups);
  /// Throws Error, as above; nothing has changed then.
  void add_group(detail::Group group);

  /// What a derived class overrides. step() calls it once for each parameter that has a gradient, in any order. What it
  /// throws leaves step(), and parameters that were updated before stay so. Throws Error where it is not overridden.
  virtual void update(const ParameterUpdate& update);
  /// For the library's own: many parameters at once.
  virtual void update_batch(const Batch& batch);
  /// Whether update_batch() is overridden and heeds the batch's gate.
  virtual bool is_fused() const { return false; }

  /// Throws Error unless there is such a group.
  void check_group(std::size_t group) const;
  /// Throws Error, naming `op`, where the optimiser was moved from.
  void check_not_moved_from(const char* op) const;

 private:
  friend class detail::ScheduleHold;
  friend class GradScaler;

  struct Slot {
    std::size_t group = 0;
    std::int64_t step = 0;
    std::vector<Tensor> state;  // (the group's state_names); empty before the first update
    Tensor master;              // undefined where there is none
    Tensor gated;               // the elements of a Gated; undefined before the first update with a gate

    std::int64_t updates() const;  // that were done; waits for the device where only that knows
  };
  struct Change;

  bool keeps_master(std::size_t i) const;
  std::vector<Tensor> fitting_state(std::size_t i) const;
  Tensor fitting_master(std::size_t i) const;
  Tensor fitting_gated(std::size_t i, bool has_gate) const;
  std::vector<Change> prepare(bool has_gate);
  void apply(const std::vector<GateTensors>& gates);
  Slot load_slot(std::size_t i, SavedState& saved) const;
  struct Captured;
  void capture(adjoint::detail::StepCapture& capture, std::vector<Captured> batches);
  std::string lr_name(std::size_t group) const;
  bool has_flat_gradient(std::size_t i) const;

  std::string name_;
  std::vector<detail::Group> groups_;  // their params stand in parameters_
  std::vector<Tensor> parameters_;
  std::vector<Slot> slots_;         // (parameters_)
  std::vector<Tensor> flat_;        // (groups_), where gradients are flat; later groups have none
  std::vector<Tensor> flat_views_;  // (parameters_), likewise; undefined for those without elements
  std::uint64_t loads_ = 0;         // of state: captured steps know the old one's addresses
  detail::ScheduleName schedule_;
};

/// Parameters with options of their own.
template <class Options>
struct ParamGroup {
  std::vector<Tensor> params;
  /// Every option of the group; nothing: those that the optimiser was given.
  std::optional<Options> options = {};
  bool frozen = false;
};

/// An optimiser whose groups have Options: an aggregate with `double lr`, `bool master_weights`, a name for errors in
/// `static constexpr const char* kName`, `check()`, which throws Error for options that are none, and `state_names()`.
template <class Options>
class ADJOINT_API OptimizerOf : public Optimizer {
 public:
  using Group = ParamGroup<Options>;

  /// All throw Error for options and parameters that do not fit, and for a parameter that stands in two places.
  explicit OptimizerOf(std::vector<Tensor> parameters, const Options& options = {})
      : OptimizerOf(std::vector<Group>{Group{std::move(parameters)}}, options) {}
  explicit OptimizerOf(std::vector<Group> groups, const Options& options = {})
      : Optimizer(Options::kName, resolved(groups, options)), defaults_(options) {
    for (const Group& group : groups) options_.push_back(group.options.value_or(options));
  }
  OptimizerOf(std::initializer_list<Group> groups, const Options& options = {})
      : OptimizerOf(std::vector<Group>(groups), options) {}

  // A learning rate alone, as in PyTorch; templates, so that {} stays options.
  template <std::convertible_to<double> Rate>
  OptimizerOf(std::vector<Tensor> parameters, const Rate& lr) : OptimizerOf(std::move(parameters), with_lr(lr)) {}
  template <std::convertible_to<double> Rate>
  OptimizerOf(std::vector<Group> groups, const Rate& lr) : OptimizerOf(std::move(groups), with_lr(lr)) {}
  template <std::convertible_to<double> Rate>
  OptimizerOf(std::initializer_list<Group> groups, const Rate& lr) : OptimizerOf(groups, with_lr(lr)) {}

  /// Its state begins with its first step. Throws Error as the constructors do; nothing has changed then.
  void add_param_group(const Group& group) {
    check_not_moved_from("add_param_group");
    options_.reserve(options_.size() + 1);
    const Options own = group.options.value_or(defaults_);
    add_group(resolved(group, own));
    options_.push_back(own);
  }
  /// As they are now. Throws Error for a group that is none.
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
      if (now.momentum != 0.0) return now.momentum;  // 0: no average is kept
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
    return {group.params, options.lr, options.state_names(), options.master_weights, group.frozen};
  }
  static std::vector<detail::Group> resolved(const std::vector<Group>& groups, const Options& options) {
    std::vector<detail::Group> all;
    for (const Group& group : groups) all.push_back(resolved(group, group.options.value_or(options)));
    return all;
  }

  Options defaults_;
  std::vector<Options> options_;  // (groups)
};

}  // namespace adjoint::optim
