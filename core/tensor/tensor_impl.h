// You are at stop 1 of 7 of the README's reading path, the tensor: this is the object behind the handle. tensor.cpp
// comes next.
//
// The object that a Tensor handle points to. Internal to core, ops and the tape.
#pragma once

#include <adjoint/core/autograd/untrained.h>
#include <adjoint/core/tensor/storage.h>
#include <adjoint/core/tensor/tensor.h>

#include <map>
#include <memory>
#include <mutex>
#include <optional>

namespace adjoint {

/// Takes the gradients of some leaves from backward(), to compute their .grad() from them, for example as sums over
/// processes. Only for sweeps of backward(); those of gradient() do not use it.
class GradientSink {
 public:
  virtual ~GradientSink() = default;
  /// The leaf's whole gradient in this sweep is known. Returns true if finish() and commit() will set the leaf's
  /// .grad(); false if it is to be added to .grad() at the end, like others.
  virtual bool take(const Tensor& leaf, const Tensor& gradient) = 0;
  /// Every gradient of the sweep is known. Exceptions propagate out of backward(), and no .grad() has changed.
  virtual void finish() = 0;
  /// Sets .grad() from the taken gradients; cannot fail.
  virtual void commit() noexcept = 0;
  /// The sweep has thrown.
  virtual void abandon() noexcept = 0;
};

/// A leaf's accumulated gradient and its hooks. Created by requires_grad_(), so that threads that share a leaf find it;
/// results carry one empty pointer.
struct LeafState {
  Tensor grad;
  std::map<std::uint64_t, GradientHook> hooks;
  std::weak_ptr<GradientSink> sink;
  detail::TrainingMarks marks;
};

struct TensorImpl {
  std::shared_ptr<Storage> storage;
  Shape shape;
  Strides strides;
  std::int64_t offset = 0;  // elements
  std::int64_t numel = 0;
  DType dtype = kFloat32;
  bool contiguous = true;
  bool channels_last = false;   // memory_format() is kChannelsLast
  bool requires_grad = false;   // leaves only
  bool views_recorded = false;  // made from a recorded tensor while nothing recorded; in-place writes would corrupt it
  bool outside_view = false;    // made from a leaf or a recorded tensor without a tape: it would get no gradient
  std::uint64_t tape_serial = 0;  // of the tape that recorded this tensor; 0: none
  std::int64_t node_id = -1;      // its place on that tape
  std::unique_ptr<LeafState> leaf;

  bool recorded() const { return tape_serial != 0; }
};

/// Shape and dtype of a result, before it exists.
struct TensorSpec {
  Shape shape;
  DType dtype = kFloat32;
  std::optional<Device> device = {};        // of an operator's result: the operands' if empty
  std::optional<MemoryFormat> format = {};  // the same
};

/// An uninitialised tensor in spec.format, contiguous by default.
ADJOINT_API Tensor make_tensor(const TensorSpec& spec, Device device);
/// The tensor with its axes in the order of memory, (N, ..., C) for channels_last. A view that no tape records.
ADJOINT_API Tensor in_memory_order(const Tensor& tensor, MemoryFormat format);
/// The format of the first tensor whose strides are in one order only; kContiguous if there is none. Masks (bool)
/// decide only if no other tensor does.
ADJOINT_API MemoryFormat leading_format(std::span<const Tensor> tensors);
/// Returns true if the elements fill memory without gaps, in memory_format().
ADJOINT_API bool is_packed(const Tensor& tensor);
/// Returns true if several elements share memory, as after expand().
ADJOINT_API bool overlaps_itself(const Tensor& tensor);
/// Throws Error, naming `op` and the remedy, if writing into `tensor` would invalidate a recorded gradient or one that
/// a sweep still reads, if it overlaps itself, and if a tape records and a gradient should flow to one of `sources`,
/// from which the elements are computed: the write is not recorded.
ADJOINT_API void check_writable(const char* op, const Tensor& tensor, std::span<const Tensor> sources = {});
/// Throws Error, naming `op`, for a dtype that is not floating point.
ADJOINT_API void check_floating(const char* op, DType dtype);
/// Throws Error, naming `op` and the operand, for an undefined tensor.
ADJOINT_API void check_defined(const char* op, const char* operand, const Tensor& tensor);

}  // namespace adjoint
