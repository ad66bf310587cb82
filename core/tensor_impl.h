// What a Tensor handle points to. Internal to core, ops and the tape.
#pragma once

#include <adjoint/core/storage.h>
#include <adjoint/core/tensor.h>

#include <map>
#include <memory>
#include <mutex>
#include <optional>

namespace adjoint {

/// Takes the gradients of some leaves over from backward(), to make of them what .grad() becomes: sums over processes,
/// for one. Sweeps of backward() alone; those of gradient() do not ask.
class GradientSink {
 public:
  virtual ~GradientSink() = default;
  /// The leaf's whole gradient in this sweep is known. True: finish() and commit() set the leaf's .grad(). False: it is
  /// added to .grad() at the end, as others are.
  virtual bool take(const Tensor& leaf, const Tensor& gradient) = 0;
  /// Every gradient of the sweep is known. What it throws, backward() throws, and no .grad() has changed.
  virtual void finish() = 0;
  /// Sets .grad() of what was taken, without failing.
  virtual void commit() noexcept = 0;
  /// The sweep has thrown.
  virtual void abandon() noexcept = 0;
};

/// A leaf's accumulated gradient and its hooks. Made by requires_grad_(), so that threads that share a leaf find it
/// there; results carry one empty pointer.
struct LeafState {
  Tensor grad;
  std::map<std::uint64_t, GradientHook> hooks;
  std::weak_ptr<GradientSink> sink;
};

struct TensorImpl {
  std::shared_ptr<Storage> storage;
  Shape shape;
  Strides strides;
  std::int64_t offset = 0;  // elements
  std::int64_t numel = 0;
  DType dtype = kFloat32;
  bool contiguous = true;
  bool requires_grad = false;   // leaves only
  bool views_recorded = false;  // made from a recorded tensor where nothing recorded; in-place writes would corrupt it
  bool outside_view = false;    // made from a leaf or a recorded tensor where no tape was: it would get no gradient
  std::uint64_t tape_serial = 0;  // the tape that recorded this tensor; 0: none
  std::int64_t node_id = -1;      // its place on that tape
  std::unique_ptr<LeafState> leaf;

  bool recorded() const { return tape_serial != 0; }
};

/// Shape and dtype of a result, before it exists.
struct TensorSpec {
  Shape shape;
  DType dtype = kFloat32;
  std::optional<Device> device = {};  // an operator's result: the operands' where empty
};

/// An uninitialised contiguous tensor.
ADJOINT_API Tensor make_tensor(const TensorSpec& spec, Device device);
/// True where several elements are one in memory, as after expand().
ADJOINT_API bool overlaps_itself(const Tensor& tensor);
/// Throws Error, naming `op` and the remedy, where writing into `tensor` would make a recorded gradient or one that a
/// sweep still reads wrong, or where it overlaps itself.
ADJOINT_API void check_writable(const char* op, const Tensor& tensor);
/// Throws Error, naming `op`, for a dtype that is not floating point.
ADJOINT_API void check_floating(const char* op, DType dtype);
/// Throws Error, naming `op` and the operand, for an undefined tensor.
ADJOINT_API void check_defined(const char* op, const char* operand, const Tensor& tensor);

}  // namespace adjoint
