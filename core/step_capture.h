// What the library tells a captured step (graphed_step.h) while it is captured: what the host must do in each replay,
// which memory the graph uses, and what it cannot do. Internal.
//
// Kernels that read a number of the host's which changes from step to step, such as a learning rate, read it from the
// device's memory:
//
//   if (detail::StepCapture* capture = detail::StepCapture::current()) {
//     const double* lr = capture->value<double>(lr_now, [this] { return lr_in_this_replay(); });
//     launch(kernel, ..., lr);
//   }
#pragma once

#include <adjoint/core/block_arena.h>
#include <adjoint/core/device.h>
#include <adjoint/core/tensor_impl.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <type_traits>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

namespace adjoint::detail {

/// Numbers of the host's that a graph reads: written to the device before a replay where they changed since the last.
struct StepValues {
  static constexpr std::size_t kBytes = 3072;  // they travel as a kernel's parameter, which may have 4 KiB
  std::array<std::byte, kBytes> host = {}, written = {};
  std::size_t used = 0;
  bool is_written = false;
  std::shared_ptr<Storage> device;
};

/// A graph's part in a leaf: its gradient is what it was when the step was captured, and becomes what it became.
struct StepGradient {
  Tensor leaf;
  bool reads = false;    // the gradient from before the step
  Tensor before, after;  // of them the former only where it was read, the latter only where it was set
  bool sets = false;
};

/// A tensor and where its elements were.
struct StepTensor {
  explicit StepTensor(const Tensor& now)
      : tensor(now), storage(now.impl()->storage.get()), data(storage->data()), dtype(now.dtype()) {}
  bool stands() const {
    const TensorImpl& now = *tensor.impl();
    return now.storage.get() == storage && storage->data() == data && now.dtype == dtype;
  }

  Tensor tensor;
  const Storage* storage;
  const void* data;
  DType dtype;
};

/// What a captured step leaves, beside its graph.
struct StepRecord {
  std::vector<std::function<void()>> actions;
  std::vector<std::function<bool()>> conditions;
  std::vector<std::shared_ptr<const void>> kept;
  std::vector<std::unique_ptr<StepValues>> values;
  std::vector<StepGradient> gradients;
  /// Tensors of the program's that kernels read or write, where they stood.
  std::vector<StepTensor> tensors;
  /// Likewise of those whose handles are gone.
  std::vector<std::shared_ptr<Storage>> storages;
  std::vector<Storage*> written;  // of these two

  /// False from when what the graph was captured with is no longer so.
  bool is_valid() const;
  /// False where a gradient that the step reads has gone: none can be it again.
  bool may_fit() const;
  /// Whether the gradients that the step reads are those that it read.
  bool fits_gradients() const;
  /// What a replay does to tensors that a program sees: their versions move on, and leaves have their gradients.
  void touch();
};

class ADJOINT_API StepCapture {
 public:
  /// Begins on this thread, which must have none. Blocks come from the arena, whose segments may come to `limit` bytes;
  /// where they do, make_room() gives some back, or returns false.
  StepCapture(Device device, std::shared_ptr<BlockArena> arena, std::size_t limit, std::function<bool()> make_room);
  ~StepCapture();
  StepCapture(const StepCapture&) = delete;
  StepCapture& operator=(const StepCapture&) = delete;

  /// This thread's; null where nothing is captured.
  static StepCapture* current() { return current_; }

  // ---- For what runs in a step.

  /// The host does it in each replay, before the graph runs: actions follow each other as they came. Not now: where the
  /// host has done it already, `undo` takes that back if the step fails to be captured, the last one first.
  void on_replay(std::function<void()> action, std::function<void()> undo = {}) {
    record_.actions.push_back(std::move(action));
    if (undo) undo_.push_back(std::move(undo));
  }
  /// The graph is not replayed, but captured anew, where it is false.
  void valid_while(std::function<bool()> condition) { record_.conditions.push_back(std::move(condition)); }
  /// Lives as long as the graph.
  void keep(std::shared_ptr<const void> what) { record_.kept.push_back(std::move(what)); }
  /// Where the device finds `now`, and in each replay what next() gives then, in the order of the actions.
  template <class T>
  const T* value(const T& now, std::function<T()> next) {
    static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= StepValues::kBytes && alignof(T) <= kValueAlignment);
    const auto [host, device] = place(sizeof(T));
    std::memcpy(host, &now, sizeof(T));
    on_replay([at = host, next = std::move(next)] {
      const T value = next();
      std::memcpy(at, &value, sizeof(T));
    });
    return static_cast<const T*>(device);
  }
  /// Room for at most StepValues::kBytes bytes: on the host, for actions to write to, and on the device.
  struct Place {
    std::byte* host = nullptr;
    const void* device = nullptr;
  };
  Place place(std::size_t nbytes);

  // Throw Error where this thread captures a step.

  /// `call` waits for the device, to read `got`.
  static void refuse_waiting(const char* call, const Tensor& got);
  /// `call` waits for the device, or runs beside the stream.
  static void refuse_waiting(const char* call);
  /// A copy between two devices.
  static void refuse_copy(const Tensor& from, const Tensor& to);

  // ---- For tensors and their memory.

  Device device() const { return device_; }
  /// `nbytes` > 0 bytes that the graph may use. Throws OutOfMemoryError.
  void* allocate(std::size_t nbytes);
  const std::shared_ptr<BlockArena>& arena() const { return arena_; }
  /// A kernel reads the elements, or writes them. Throws Error for a tensor on another device.
  void use(const Tensor& tensor, bool writes);
  /// The leaf's gradient is asked for, or about to be set.
  void read_gradient(const Tensor& leaf);
  void set_gradient(const Tensor& leaf);

  /// Ends it: what a replay needs. `outputs` are what the step gives; other tensors that it made must be gone, but for
  /// gradients. Throws Error where they are not.
  StepRecord finish(const std::vector<Tensor>& outputs);
  /// Of a step that failed: what the host did is undone, and leaves have the gradients from before, as far as it read
  /// them.
  void abandon() noexcept;
  /// The arena's, of what was captured.
  std::shared_ptr<BlockArena::Use> blocks() const { return blocks_; }

 private:
  static constexpr std::size_t kValueAlignment = 16;

  StepGradient& gradient_of(const Tensor& leaf);

  static constinit thread_local StepCapture* current_;

  Device device_;
  std::shared_ptr<BlockArena> arena_;
  std::size_t limit_;
  std::function<bool()> make_room_;
  std::shared_ptr<BlockArena::Use> blocks_;
  StepRecord record_;
  std::vector<std::function<void()>> undo_;
  std::unordered_map<const TensorImpl*, Tensor> used_;
  std::unordered_set<Storage*> written_;
  std::unordered_map<const TensorImpl*, std::size_t> gradients_;  // their places in the record
};

}  // namespace adjoint::detail
