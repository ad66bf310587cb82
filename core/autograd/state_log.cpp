#include <adjoint/core/autograd/state_log.h>

#include <adjoint/core/memory/memory.h>
#include <adjoint/core/tensor/copy.h>
#include <adjoint/core/tensor/tensor_impl.h>

#include <algorithm>
#include <atomic>
#include <utility>

namespace adjoint::detail {
namespace {

std::atomic<std::uint64_t> last_number{0};

}  // namespace

Tensor bytes_of(const std::shared_ptr<Storage>& storage) {
  auto impl = std::make_shared<TensorImpl>();
  impl->storage = storage;
  impl->numel = static_cast<std::int64_t>(storage->nbytes());
  impl->shape = {impl->numel};
  impl->strides = {1};
  impl->dtype = kUInt8;
  return Tensor(std::move(impl));
}

namespace {

State state_of(const std::shared_ptr<Storage>& storage) {
  const MemoryScope scope(MemoryCategory::kSaved);
  const Tensor now = bytes_of(storage);
  Tensor bytes = make_tensor({now.shape(), kUInt8}, storage->device());
  copy_into(now, bytes);
  return {storage, bytes, storage->version()};
}

// Restores the version too, so that tensors saved from the elements are valid again. A function that runs twice from
// one state therefore counts the same versions twice, and the tensors saved by the second run are valid while the state
// is the one after the first.
void restore(const States& states) {
  for (const State& state : states) {
    Tensor target = bytes_of(state.storage);
    copy_into(state.bytes, target);
    state.storage->set_version(state.version);
  }
}

}  // namespace

StateLog::StateLog() : number_(last_number.fetch_add(1) + 1), outer_(std::exchange(context().state_log, this)) {}
StateLog::~StateLog() { context().state_log = outer_; }

std::uint64_t StateLog::last() { return last_number.load(std::memory_order_relaxed); }

void StateLog::before_write(const std::shared_ptr<Storage>& storage) {
  for (StateLog* log = this; log != nullptr; log = log->outer_) {
    const auto is_it = [&](const State& state) { return state.storage == storage; };
    if (storage->made_after() >= log->number_ || std::any_of(log->states_.begin(), log->states_.end(), is_it)) continue;
    log->states_.push_back(state_of(storage));
  }
}

void StateLog::undo() { restore(states_); }

void from_states(const States& earlier, const std::function<void()>& f) {
  States now;
  for (const State& state : earlier) now.push_back(state_of(state.storage));
  try {
    restore(earlier);
    f();
  } catch (...) {
    restore(now);
    throw;
  }
  restore(now);
}

}  // namespace adjoint::detail
