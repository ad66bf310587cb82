// The library's reports to a captured step (graphed_step.h): the host's actions in each replay, the memory that the
// graph uses, and unsupported operations. Internal.
//
// Kernels that read a host number which changes from step to step, such as a learning rate, read it from the device's
// memory:
//
//   if (detail::StepCapture* capture = detail::StepCapture::current()) {
//     const double* lr = capture->value<double>(lr_now, [this] { return lr_in_this_replay(); });
//     launch(kernel, ..., lr);
//   }
#pragma once

#include <adjoint/core/base/context.h>
#include <adjoint/core/base/device.h>
#include <adjoint/core/memory/block_arena.h>
#include <adjoint/core/tensor/tensor_impl.h>

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

/// Host numbers that a graph reads: written to the device before a replay if they changed since the last.
struct StepValues {
  static constexpr std::size_t kBytes = 3072;  // they travel as a kernel's argument, of at most 4 KiB
  std::array<std::byte, kBytes> host = {}, written = {};
  std::size_t used = 0;
  bool is_written = false;
  std::shared_ptr<Storage> device;
};

/// A graph's effect on a leaf: its gradient before and after the step, as captured.
struct StepGradient {
  Tensor leaf;
  bool reads = false;    // reads the gradient from before the step
  Tensor before, after;  // the former only if it was read, the latter only if it was set
  bool sets = false;
};

/// A tensor and the address of its elements.
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

/// The result of a capture, besides its graph.
struct StepRecord {
  std::vector<std::function<void()>> actions;
  std::vector<std::function<bool()>> conditions;
  std::vector<std::shared_ptr<const void>> kept;
  std::vector<std::unique_ptr<StepValues>> values;
  std::vector<StepGradient> gradients;
  /// The program's tensors that kernels read or write, at their addresses.
  std::vector<StepTensor> tensors;
  /// The same for tensors whose handles are gone.
  std::vector<std::shared_ptr<Storage>> storages;
  std::vector<Storage*> written;  // among these two

  /// Returns false once the conditions of the capture no longer hold.
  bool is_valid() const;
  /// Returns false if a gradient that the step reads is gone, because no other tensor can replace it.
  bool may_fit() const;
  /// Returns true if the gradients are the ones that the step read at capture.
  bool fits_gradients() const;
  /// A replay's effect on tensors that a program sees: their versions advance, and leaves get their gradients.
  void touch();
};

class ADJOINT_API StepCapture {
 public:
  /// Begins a capture on this thread, which must not have one. Blocks come from the arena, whose segments may grow to
  /// `limit` bytes; at the limit make_room() releases some, or returns false.
  StepCapture(Device device, std::shared_ptr<BlockArena> arena, std::size_t limit, std::function<bool()> make_room);
  ~StepCapture();
  StepCapture(const StepCapture&) = delete;
  StepCapture& operator=(const StepCapture&) = delete;

  /// This thread's capture; null if there is none.
  static StepCapture* current() { return context().capture; }

  // ---- For operators that run in a step.

  /// The host runs it in each replay, before the graph; actions run in the order of registration. It does not run now:
  /// if the host has already acted, `undo` reverts that if the capture fails, the last one first.
  void on_replay(std::function<void()> action, std::function<void()> undo = {}) {
    record_.actions.push_back(std::move(action));
    if (undo) undo_.push_back(std::move(undo));
  }
  /// When it returns false, the step is captured again and the graph not replayed.
  void valid_while(std::function<bool()> condition) { record_.conditions.push_back(std::move(condition)); }
  /// Keeps the object alive while the graph lives.
  void keep(std::shared_ptr<const void> what) { record_.kept.push_back(std::move(what)); }
  /// The device address that holds `now`, and in each replay the result of next(), in the order of the actions.
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

  // Throw Error if this thread captures a step.

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
  /// The leaf's gradient is read, or about to be set.
  void read_gradient(const Tensor& leaf);
  void set_gradient(const Tensor& leaf);

  /// Ends it and returns the data for replays. `outputs` are the step's outputs; other tensors that it made must be
  /// gone, except gradients. Throws Error if they are not.
  StepRecord finish(const std::vector<Tensor>& outputs);
  /// After a failed step: undoes the host's actions, and restores the leaves' gradients, as far as it read them.
  void abandon() noexcept;
  /// The captured step's blocks in the arena.
  std::shared_ptr<BlockArena::Use> blocks() const { return blocks_; }

 private:
  static constexpr std::size_t kValueAlignment = 16;

  StepGradient& gradient_of(const Tensor& leaf);

  Device device_;
  std::shared_ptr<BlockArena> arena_;
  std::size_t limit_;
  std::function<bool()> make_room_;
  std::shared_ptr<BlockArena::Use> blocks_;
  StepRecord record_;
  std::vector<std::function<void()>> undo_;
  std::unordered_map<const TensorImpl*, Tensor> used_;
  std::unordered_set<Storage*> written_;
  std::unordered_map<const TensorImpl*, std::size_t> gradients_;  // their indices in the record
};

}  // namespace adjoint::detail
