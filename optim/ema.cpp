#include <adjoint/optim/ema.h>

#include <adjoint/core/autograd/tape.h>
#include <adjoint/core/base/check.h>
#include <adjoint/core/base/parallel.h>
#include <adjoint/core/graph/step_capture.h>
#include <adjoint/core/memory/memory.h>
#include <adjoint/core/tensor/tensor_impl.h>
#include <adjoint/optim/batch.h>
#include <adjoint/optim/kernels.h>
#include <adjoint/optim/saved_state.h>

#include <algorithm>
#include <functional>
#include <iterator>
#include <map>
#include <tuple>
#include <utility>

namespace adjoint::optim {
namespace {

NamedTensors numbered(const std::vector<Tensor>& parameters) {
  NamedTensors named;
  for (const Tensor& parameter : parameters) named.emplace_back(std::to_string(named.size()), parameter);
  return named;
}

/// Passes of the rule Average over tensors of any dtypes and devices. Running it allocates nothing.
class Plan {
 public:
  /// An Item's parameter, gradient and master, of a weight's dtype, device and size.
  void add(const Tensor& weight, void* parameter, const void* gradient, void* master) {
    if (weight.numel() == 0) return;
    const Device device = weight.device();
    if (device.is_cpu()) adjoint::detail::prepare_threads();
    Batch& batch =
        batches_.try_emplace({weight.dtype(), device.type, device.index}, Batch{device, weight.dtype(), 0, 1, {}})
            .first->second;
    batch.items.push_back({.tensor = nullptr,
                           .gradient_tensor = nullptr,
                           .master_tensor = nullptr,
                           .state_tensors = nullptr,
                           .parameter = parameter,
                           .gradient = gradient,
                           .master = master,
                           .state = {},
                           .numel = weight.numel()});
  }
  /// In a captured step the batches read their decay from the device. A copy without tensors writes it in replays.
  Plan capture(adjoint::detail::StepCapture& capture) {
    Plan replayed;
    for (auto& [key, batch] : batches_) {
      batch.rule = capture.place(kRuleBytes);
      replayed.batches_.emplace(key, Batch{batch.device, batch.dtype, 0, 1, {}, batch.rule});
    }
    return replayed;
  }
  void run(double decay) const {
    for (const auto& [key, batch] : batches_) optim::update<Average>(batch, {decay});
  }

 private:
  std::map<std::tuple<DType, DeviceType, int>, Batch> batches_;
};

}  // namespace

EMA::EMA(const std::vector<Tensor>& parameters, const EMAOptions& options) : EMA(numbered(parameters), {}, options) {}

EMA::EMA(NamedTensors parameters, const NamedTensors& buffers, const EMAOptions& options) : options_(options) {
  ADJOINT_CHECK(options.decay >= 0.0 && options.decay < 1.0, "EMA: decay must be in [0, 1); got {}", options.decay);
  if (options.use_buffers) {
    std::copy_if(buffers.begin(), buffers.end(), std::back_inserter(parameters), [](const auto& buffer) {
      return !buffer.second.defined() || is_floating_point(buffer.second.dtype());
    });
  }
  ADJOINT_CHECK(!parameters.empty(), "EMA: there must be a parameter; got an empty list");
  const PauseTape pause;
  const MemoryScope scope(MemoryCategory::kOptimizer);
  for (const auto& [name, weight] : parameters) {
    check_weight("EMA", weight, "'" + name + "'");
    const DType dtype = state_dtype(weight.dtype());
    entries_.push_back({"module." + name, weight, weight.detach().to(dtype).clone()});
  }
}

void EMA::check_not_applied(const char* op) const {
  ADJOINT_CHECK(!applied_,
                "{}: the weights must be the network's own; got the averages, which a guard of apply() keeps", op);
}

void EMA::update() {
  check_not_applied("EMA::update");
  adjoint::detail::StepCapture* const capture = adjoint::detail::StepCapture::current();
  ADJOINT_CHECK(capture == nullptr || n_averaged_ > 0,
                "EMA::update: a captured step (GraphedStep) must not be the first to update; got 0 updates; let more "
                "calls run uncaptured (warmup)");
  const PauseTape pause;
  const MemoryScope scope(MemoryCategory::kOptimizer);
  // Does everything that can fail before anything changes.
  std::vector<Tensor> averages;
  Plan plan;
  for (const Entry& entry : entries_) {
    averages.push_back(entry.average.to(state_dtype(entry.weight.dtype())).to(entry.weight.device()));
    plan.add(entry.weight, nullptr, entry.weight.raw_data(), writable_address(averages.back()));
  }
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    entries_[i].average = std::move(averages[i]);
    entries_[i].average.raw_mutable_data();  // counts the write
  }
  std::function<void()> replay;
  if (capture != nullptr) {
    capture->valid_while([this, loads = loads_] {
      check_not_applied("EMA::update");  // before any part of the replay counts
      return loads == loads_;
    });
    replay = [this, replayed = plan.capture(*capture)] {
      replayed.run(decay());
      ++n_averaged_;
    };
  }
  plan.run(decay());
  ++n_averaged_;
  if (capture != nullptr) capture->on_replay(std::move(replay), [this] { --n_averaged_; });
}

// The decay of the next update: 0 in the first, which copies.
double EMA::decay() const {
  const auto n = static_cast<double>(n_averaged_);
  if (n_averaged_ == 0) return 0.0;
  return options_.warmup ? std::min(options_.decay, (1.0 + n) / (10.0 + n)) : options_.decay;
}

// The values that a guard restores.
struct EMA::Applied {
  std::vector<Tensor> stored;    // one per entry of entries_
  std::vector<void*> addresses;  // of the weights, in the plan's order
  Plan back;
};

EMA::Guard EMA::apply() & {
  check_not_applied("EMA::apply");
  ADJOINT_CHECK(n_averaged_ > 0, "EMA::apply: there must be an update before; got 0");
  const PauseTape pause;
  const MemoryScope scope(MemoryCategory::kOptimizer);
  const auto applied = std::make_shared<Applied>();
  std::vector<Tensor> averages;
  Plan plan;
  for (const Entry& entry : entries_) {
    const Tensor& weight = entry.weight;
    check_writable("EMA::apply", weight);
    averages.push_back(entry.average.to(weight.dtype()).to(weight.device()));
    applied->stored.push_back(weight.detach().clone());
    applied->addresses.push_back(writable_address(weight));
    plan.add(weight, writable_address(weight), averages.back().raw_data(), nullptr);
    applied->back.add(weight, writable_address(weight), applied->stored.back().raw_data(), nullptr);
  }
  for (Entry& entry : entries_) entry.weight.raw_mutable_data();  // counts the write
  plan.run(0.0);
  applied_ = applied;
  return Guard(*this);
}

EMA::Guard::~Guard() {
  const PauseTape pause;
  const std::shared_ptr<Applied> applied = std::move(ema_.applied_);
  bool moved = false;
  for (std::size_t i = 0; i < ema_.entries_.size(); ++i) {
    moved = moved || ema_.entries_[i].weight.raw_data() != applied->addresses[i];
  }
  for (std::size_t i = 0; i < ema_.entries_.size(); ++i) {
    Tensor& weight = ema_.entries_[i].weight;
    if (moved) {
      weight.copy_(applied->stored[i].to(weight.device()));
    } else {
      weight.raw_mutable_data();  // counts the write
    }
  }
  if (!moved) applied->back.run(0.0);
}

NamedTensors EMA::state_dict() const {
  check_not_applied("EMA::state_dict");
  NamedTensors state{{"n_averaged", Tensor::from_vector<std::int64_t>({n_averaged_}, {}, {.dtype = kInt64})}};
  for (const Entry& entry : entries_) state.emplace_back(entry.name, entry.average);
  return state;
}

void EMA::load_state_dict(const NamedTensors& state) {
  check_not_applied("EMA::load_state_dict");
  const PauseTape pause;
  const MemoryScope scope(MemoryCategory::kOptimizer);
  SavedState saved("EMA", state);
  const std::int64_t n_averaged = saved.take_count("n_averaged", 0);
  std::vector<Tensor> averages;
  for (const Entry& entry : entries_) averages.push_back(saved.take_like(entry.name, entry.weight));
  saved.check_taken(fmt::format("{} averages", entries_.size()));
  for (std::size_t i = 0; i < entries_.size(); ++i) entries_[i].average = std::move(averages[i]);
  n_averaged_ = n_averaged;
  ++loads_;
}

}  // namespace adjoint::optim
