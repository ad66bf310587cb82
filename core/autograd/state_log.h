// Records the older elements that a piece of a program writes to, with their previous contents: checkpoint() runs its
// function a second time from there. Internal to core.
#pragma once

#include <adjoint/core/base/context.h>
#include <adjoint/core/base/export.h>
#include <adjoint/core/tensor/storage.h>
#include <adjoint/core/tensor/tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

namespace adjoint::detail {

/// The contents of a storage, and its version then.
struct State {
  std::shared_ptr<Storage> storage;
  Tensor bytes;
  std::uint32_t version;
};
using States = std::vector<State>;

/// While it lives, keeps the state of every older storage before a tensor of this thread first writes to it. Logs nest,
/// and all of them keep states.
class ADJOINT_API StateLog {
 public:
  StateLog();
  ~StateLog();
  StateLog(const StateLog&) = delete;
  StateLog& operator=(const StateLog&) = delete;

  /// The innermost log of this thread; null if it has no log.
  static StateLog* current() { return context().state_log; }
  /// The number of the process's latest log.
  static std::uint64_t last();

  void before_write(const std::shared_ptr<Storage>& storage);
  const States& states() const { return states_; }
  /// Restores everything to the log's beginning.
  void undo();

 private:
  std::uint64_t number_;
  StateLog* outer_;
  States states_;
};

/// All bytes of a storage, as uint8.
ADJOINT_API Tensor bytes_of(const std::shared_ptr<Storage>& storage);
/// Runs f() with the contents in `earlier`; afterwards restores everything, even if f throws.
void from_states(const States& earlier, const std::function<void()>& f);

}  // namespace adjoint::detail
