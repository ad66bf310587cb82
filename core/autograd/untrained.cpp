#include <adjoint/core/autograd/untrained.h>

#include <adjoint/core/base/check.h>
#include <adjoint/core/base/forked.h>
#include <adjoint/core/base/warning.h>
#include <adjoint/core/tensor/tensor_impl.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <mutex>
#include <new>
#include <utility>

namespace adjoint::detail {
namespace {

constexpr std::uint64_t kStepsApart = 2;
constexpr std::size_t kMostNamed = 4;

std::mutex marks_guard;  // of every leaf's marks
const HeldAtFork marks_at_fork(marks_guard);
std::atomic<std::uint64_t> optimizer_steps{0};

TrainingMarks& marks_of(const Tensor& leaf) {
  std::unique_ptr<LeafState>& state = leaf.impl()->leaf;
  if (state == nullptr) state = std::make_unique<LeafState>();
  return state->marks;
}

bool is_trained(const TrainingMarks& marks) {
  return std::any_of(marks.optimizers.begin(), marks.optimizers.end(),
                     [](const auto& optimizer) { return !optimizer.expired(); });
}

// Returns true if it is time to warn about a leaf that nothing trains.
bool is_due(const TensorImpl& leaf, TrainingMarks& marks) {
  const Storage* const storage = leaf.storage.get();
  const std::uint64_t steps = optimizer_steps.load(std::memory_order_relaxed);
  if (marks.storage != storage) {
    marks.storage = storage;
    marks.steps = steps;
    marks.version = storage->version();
    return false;
  }
  if (marks.version == storage->version() && steps < marks.steps + kStepsApart) return false;
  marks.settled = true;
  return marks.version == storage->version();
}

}  // namespace

void mark_parameter(const Tensor& leaf, std::weak_ptr<const ParameterPlace> place) {
  const std::lock_guard lock(marks_guard);
  marks_of(leaf).place = std::move(place);
}

void mark_trained(const Tensor& leaf, const std::shared_ptr<const void>& optimizer) {
  const std::lock_guard lock(marks_guard);
  auto& optimizers = marks_of(leaf).optimizers;
  std::erase_if(optimizers, [](const auto& other) { return other.expired(); });
  optimizers.push_back(optimizer);
}

void count_optimizer_step() { optimizer_steps.fetch_add(1, std::memory_order_relaxed); }

namespace {

// Returns the warning about the leaves for which it is time, or an empty string.
std::string message_about(const std::vector<const TensorImpl*>& leaves) {
  std::vector<std::pair<const TensorImpl*, std::shared_ptr<const ParameterPlace>>> due;
  {
    const std::lock_guard lock(marks_guard);
    const auto trained = [](const TensorImpl* leaf) { return is_trained(leaf->leaf->marks); };
    if (std::none_of(leaves.begin(), leaves.end(), trained)) return {};
    for (const TensorImpl* const leaf : leaves) {
      TrainingMarks& marks = leaf->leaf->marks;
      if (marks.settled || is_trained(marks)) continue;
      auto place = marks.place.lock();
      if (place != nullptr && is_due(*leaf, marks)) due.emplace_back(leaf, std::move(place));
    }
  }
  std::string names;
  std::size_t count = 0;
  for (const auto& [leaf, place] : due) {
    const std::string name = place->name_of(*leaf);
    if (!name.empty() && ++count <= kMostNamed)
      names += fmt::format("{}'{}' {}", count == 1 ? "" : ", ", name, leaf->shape);
  }
  if (count == 0) return {};
  if (count > kMostNamed) names += fmt::format(" and {} more", count - kMostNamed);
  return fmt::format(
      "backward: a parameter that gets a gradient should be in an optimiser; got {} in no optimiser; register its "
      "module (register_module) and make the optimiser after that, or switch the gradient off by requires_grad_(false)",
      names);
}

}  // namespace

// The sweep has changed gradients by now: want of memory must not look as if it had not.
void check_trained(const std::vector<const TensorImpl*>& leaves) {
  std::string message;
  try {
    message = message_about(leaves);
  } catch (const std::bad_alloc&) {
    return;
  }
  if (!message.empty()) warn(message);
}

}  // namespace adjoint::detail
