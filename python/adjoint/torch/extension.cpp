// The trio as kernels of PyTorch's dispatcher, with their gradients, and the fastest way to them from Python.
// registration.py defines the operators; extension.py compiles and loads this file. The file is C++14, and uses only
// functions that PyTorch has had since 1.13.
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/autograd/python_variable.h>

#include <ATen/autocast_mode.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/leaky_relu.h>
#include <ATen/ops/leaky_relu_backward.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/sigmoid_backward.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/tanh.h>
#include <ATen/ops/tanh_backward.h>
#include <ATen/ops/threshold_backward.h>
#include <c10/core/SymInt.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/util/SmallVector.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/grad_mode.h>
#include <torch/csrc/autograd/saved_variable.h>
#include <torch/library.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "extension_memory.h"
#include "extension_problem.h"

#include "c_api.h"

namespace {

using namespace adjoint_torch;
using at::IntArrayRef;
using at::Tensor;
using c10::SymInt;
using c10::SymIntArrayRef;
using torch::autograd::variable_list;
// This is std::optional in newer versions of PyTorch.
using OptionalTensor = decltype(std::declval<const c10::IValue&>().toOptional<Tensor>());
// This is std::shared_ptr, or c10::intrusive_ptr in newer versions of PyTorch.
using NodePointer = std::decay_t<decltype(std::declval<const Tensor&>().grad_fn())>;
using Extents = c10::SmallVector<SymInt, 2>;

std::atomic<int> precision{ADJOINT_PRECISION_FLOAT32};

// ---- Kernels

/// True if conv_weight may write its result in channels_last. Its caller must accept a contiguous result too: copies
/// may replace a kernel, and a compiler may return one.
thread_local bool filter_to_last = false;

/// Sets filter_to_last while it lives.
class FilterFormat {
 public:
  explicit FilterFormat(bool to_last) : before_(std::exchange(filter_to_last, to_last)) {}
  ~FilterFormat() { filter_to_last = before_; }
  FilterFormat(const FilterFormat&) = delete;
  FilterFormat& operator=(const FilterFormat&) = delete;

 private:
  bool before_;
};

bool is_activated(const Steps& steps) { return steps.activation.kind != 0; }

/// Returns the result if a kernel can read the operands in channels_last, or an undefined tensor if the library would
/// copy them.
Tensor run_in_channels_last(Role yields, const Problem& problem, const Tensor& first, const Tensor& second,
                            const Tensor& bias, const Steps& steps) {
  const adjoint_context context = context_of(kNames[yields], first, precision.load(std::memory_order_relaxed));
  const bool to_last = yields != kFilter || filter_to_last;
  const at::MemoryFormat format = to_last ? last_format(first.dim()) : at::MemoryFormat::Contiguous;
  Tensor out = at::empty(problem.shape, first.options().memory_format(format));
  if (yields == kFilter) {
    const int status = adjoint_conv_weight_channels_last(&context, &problem.geometry, is_channels_last(out),
                                                         first.data_ptr(), second.data_ptr(), out.data_ptr());
    TORCH_CHECK(status >= 0, adjoint_last_error());
    return status == 0 ? out : Tensor();
  }
  const bool filter_is_last = !second.is_neg() && is_channels_last(second);
  const Tensor b = filter_is_last ? second : plain(second), c = bias.defined() ? plain(bias) : bias;
  const auto function = yields == kImage ? &adjoint_conv_transpose_channels_last : &adjoint_conv_channels_last;
  const int status =
      function(&context, &problem.geometry, steps.frozen, is_activated(steps) ? &steps.activation : nullptr,
               filter_is_last, first.data_ptr(), b.data_ptr(), c.defined() ? c.data_ptr() : nullptr, out.data_ptr());
  TORCH_CHECK(status >= 0, adjoint_last_error());
  return status == 0 ? out : Tensor();
}

Tensor run(Role yields, const Tensor& first, const Tensor& second, const Tensor& bias, const Steps& steps,
           IntArrayRef size) {
  const Problem problem(yields, first, second, bias, steps, size);
  const bool channels_last = yields != kFilter && (asks_for_channels_last(first) || asks_for_channels_last(second));
  const bool is_read_as_it_lies = yields == kFilter ? may_be_read(first, precision) && may_be_read(second, precision) &&
                                                          (is_channels_last(first) || is_channels_last(second))
                                                    : channels_last && may_be_read_as_it_lies(first, precision);
  if (is_read_as_it_lies) {
    Tensor result = run_in_channels_last(yields, problem, first, second, bias, steps);
    if (result.defined()) return result;
  }
  const Tensor a = plain(first), b = plain(second);
  const Tensor c = bias.defined() ? plain(bias) : bias;
  const bool lies_both_ways =
      channels_last && (problem.shape[1] == 1 || c10::multiply_integers(IntArrayRef(problem.shape).slice(2)) == 1);
  const at::MemoryFormat format = lies_both_ways ? last_format(a.dim()) : at::MemoryFormat::Contiguous;
  Tensor out = at::empty(problem.shape, a.options().memory_format(format));
  const adjoint_context context = context_of(kNames[yields], a, precision.load(std::memory_order_relaxed));
  const void* const added = c.defined() ? c.data_ptr() : nullptr;
  int status = 0;
  if (yields == kFilter) {
    status = adjoint_conv_weight(&context, &problem.geometry, a.data_ptr(), b.data_ptr(), out.data_ptr());
  } else {
    const adjoint_activation* const activation = is_activated(steps) ? &steps.activation : nullptr;
    if (steps.frozen != nullptr) {
      const auto function = yields == kImage ? &adjoint_conv_transpose_frozen : &adjoint_conv_frozen;
      status = function(&context, &problem.geometry, steps.frozen, activation, a.data_ptr(), b.data_ptr(), added,
                        out.data_ptr());
    } else {
      const auto function = yields == kImage ? &adjoint_conv_transpose_activated : &adjoint_conv_activated;
      status = function(&context, &problem.geometry, activation, a.data_ptr(), b.data_ptr(), added, out.data_ptr());
    }
  }
  TORCH_CHECK(status == 0, adjoint_last_error());
  return channels_last ? channels_last_of(out) : out;
}

/// The dispatcher's three signatures, which all call one function. `Size`: SymIntArrayRef, or IntArrayRef.
template <class Size, Tensor (*kCall)(Role, const Tensor&, const Tensor&, const Tensor&, const Steps&, Size)>
struct Operators {
  static Tensor conv(const Tensor& image, const Tensor& filter, const OptionalTensor& bias, IntArrayRef stride,
                     IntArrayRef padding, IntArrayRef dilation, int64_t groups, int64_t activation, double parameter) {
    const Steps steps{stride, padding, dilation, groups, activation_of(activation, parameter), nullptr};
    return kCall(kFeature, image, filter, defined_or_none(bias), steps, {});
  }
  static Tensor conv_transpose(const Tensor& feature, const Tensor& filter, const OptionalTensor& bias,
                               IntArrayRef stride, IntArrayRef padding, IntArrayRef dilation, int64_t groups,
                               Size output_padding, int64_t activation, double parameter) {
    const Steps steps{stride, padding, dilation, groups, activation_of(activation, parameter), nullptr};
    return kCall(kImage, feature, filter, defined_or_none(bias), steps, output_padding);
  }
  static Tensor conv_weight(const Tensor& image, const Tensor& feature, IntArrayRef stride, IntArrayRef padding,
                            IntArrayRef dilation, int64_t groups, Size kernel_size) {
    return kCall(kFilter, image, feature, Tensor(), {stride, padding, dilation, groups, {}, nullptr}, kernel_size);
  }
  static Tensor defined_or_none(const OptionalTensor& bias) { return bias.has_value() ? *bias : Tensor(); }
  static adjoint_activation activation_of(int64_t kind, double parameter) {
    TORCH_CHECK_VALUE(kind >= 0 && kind <= ADJOINT_SILU, "activation must be 0 or a constant of c_api.h; got ",
                      to_string(kind));
    return {static_cast<int>(kind), parameter};
  }

  static void register_in(torch::Library& library) {
    library.impl("conv", &conv);
    library.impl("conv_transpose", &conv_transpose);
    library.impl("conv_weight", &conv_weight);
  }
};

// ---- The operators through the dispatcher, so every observer of a call learns of it.

Tensor call(Role yields, const Tensor& first, const Tensor& second, const Tensor& bias, const Steps& steps,
            SymIntArrayRef size) {
  using Conv = Tensor(const Tensor&, const Tensor&, const OptionalTensor&, IntArrayRef, IntArrayRef, IntArrayRef,
                      int64_t, int64_t, double);
  using Transpose = Tensor(const Tensor&, const Tensor&, const OptionalTensor&, IntArrayRef, IntArrayRef, IntArrayRef,
                           int64_t, SymIntArrayRef, int64_t, double);
  using Weight = Tensor(const Tensor&, const Tensor&, IntArrayRef, IntArrayRef, IntArrayRef, int64_t, SymIntArrayRef);
  auto& dispatcher = c10::Dispatcher::singleton();
  static const auto transpose = dispatcher.findSchemaOrThrow(kNames[kImage], "").typed<Transpose>();
  static const auto plain_conv = dispatcher.findSchemaOrThrow(kNames[kFeature], "").typed<Conv>();
  static const auto weight = dispatcher.findSchemaOrThrow(kNames[kFilter], "").typed<Weight>();
  if (yields == kFilter) {
    return weight.call(first, second, steps.stride, steps.padding, steps.dilation, steps.groups, size);
  }
  const OptionalTensor added = bias.defined() ? OptionalTensor(bias) : OptionalTensor();
  if (yields == kFeature) {
    return plain_conv.call(first, second, added, steps.stride, steps.padding, steps.dilation, steps.groups,
                           steps.activation.kind, steps.activation.parameter);
  }
  return transpose.call(first, second, added, steps.stride, steps.padding, steps.dilation, steps.groups, size,
                        steps.activation.kind, steps.activation.parameter);
}

/// Returns an operator's operands, in its order.
std::array<Role, 2> takes(Role yields) {
  if (yields == kImage) return {kFeature, kFilter};
  if (yields == kFeature) return {kImage, kFilter};
  return {kImage, kFeature};
}

/// Computes the activation by PyTorch, in a separate pass.
Tensor activated(const adjoint_activation& activation, const Tensor& x) {
  switch (activation.kind) {
    case ADJOINT_RELU: return at::relu(x);
    case ADJOINT_LEAKY_RELU: return at::leaky_relu(x, activation.parameter);
    case ADJOINT_TANH: return at::tanh(x);
    case ADJOINT_SIGMOID: return at::sigmoid(x);
    default: return at::silu(x);
  }
}

/// Returns true if the gradient follows from the result. With a negative slope the result's sign does not determine the
/// sign of x.
bool is_invertible(const adjoint_activation& activation) {
  return activation.kind != ADJOINT_SILU && !(activation.kind == ADJOINT_LEAKY_RELU && !(activation.parameter >= 0));
}

/// Returns the gradient in an invertible activation's input, given the result and its gradient.
Tensor before(const adjoint_activation& activation, const Tensor& grad, const Tensor& result) {
  switch (activation.kind) {
    case ADJOINT_RELU: return at::threshold_backward(grad, result, 0);
    case ADJOINT_LEAKY_RELU: return at::leaky_relu_backward(grad, result, activation.parameter, true);
    case ADJOINT_TANH: return at::tanh_backward(grad, result);
    default: return at::sigmoid_backward(grad, result);
  }
}

template <class Base>
void own(std::shared_ptr<Base>& pointer, Base* node) {
  pointer = std::shared_ptr<Base>(node, [](Base* base) { deleteNode(base); });  // older PyTorch has this function
}

template <class Pointer, class Base>
void own(Pointer& pointer, Base* node) {
  pointer = Pointer::unsafe_steal_from_new(node);
}

template <class Base>
void share(std::shared_ptr<Base>& pointer, Base* node) {
  pointer = node->shared_from_this();
}

template <class Pointer, class Base>
void share(Pointer& pointer, Base* node) {
  pointer = Pointer::reclaim_copy(node);
}

Extents spatial(const Tensor& tensor) {
  const SymIntArrayRef sizes = tensor.sym_sizes();
  return Extents(sizes.begin() + 2, sizes.end());
}

/// The node of one of the operators. One trilinear form has three partial derivatives, which are the three operators.
/// The operator that yields an operand computes the gradient in it, from the other operand and the result's gradient.
struct Backward : public torch::autograd::Node {
  Backward(Role operation, const Steps& steps)
      : yields(operation),
        stride(steps.stride.begin(), steps.stride.end()),
        padding(steps.padding.begin(), steps.padding.end()),
        dilation(steps.dilation.begin(), steps.dilation.end()),
        groups(steps.groups),
        activation(steps.activation) {}

  variable_list apply(variable_list&& grads) override {
    std::lock_guard<std::mutex> lock(mutex_);
    variable_list gradients(num_outputs());
    if (!grads[0].defined()) return gradients;
    const std::array<Role, 2> roles = takes(yields);
    const Tensor tensors[2] = {saved[0].unpack(), saved[1].unpack()};
    Tensor grad = grads[0];
    if (activation.kind != 0) {
      NodePointer self;
      share(self, static_cast<torch::autograd::Node*>(this));
      grad = before(activation, grad, saved[2].unpack(self));
    }
    const bool is_wrapped = grad.unsafeGetTensorImpl()->key_set().has(c10::DispatchKey::Python);
    const bool channels_last = !is_wrapped && asks_for_channels_last(grad);
    const bool is_read_as_it_lies = channels_last && may_be_read_as_it_lies(grad, precision);
    if (!is_wrapped && !is_read_as_it_lies) grad = laid(grad, false);  // one copy for all
    const Steps steps{stride, padding, dilation, groups, {}, nullptr};
    const auto known = [&](Role role) { return role == yields ? grad : roles[0] == role ? tensors[0] : tensors[1]; };
    for (std::size_t i = 0; i < 2; ++i) {
      if (!task_should_compute_output(i)) continue;
      const std::array<Role, 2> operands = takes(roles[i]);
      const Extents rest = output_padding(known(kImage), known(kFeature), known(kFilter));
      const Extents size = roles[i] == kFilter ? spatial(tensors[i]) : roles[i] == kImage ? rest : Extents();
      const bool asks = roles[i] == kFilter ? !is_wrapped && asks_for_channels_last(tensors[i]) : channels_last;
      {
        const FilterFormat format(asks);
        gradients[i] = call(roles[i], known(operands[0]), known(operands[1]), Tensor(), steps, size);
      }
      if (roles[i] == kFeature) gradients[i] = cut(gradients[i], tensors[i], rest);
      if (asks) gradients[i] = laid(gradients[i], true);
    }
    if (num_outputs() > 2 && task_should_compute_output(2)) {
      constexpr int64_t kAxes[] = {0, 2, 3, 4};  // all but the channels'
      gradients[2] = grad.sum(IntArrayRef(kAxes, static_cast<std::size_t>(grad.dim()) - 1));
    }
    return gradients;
  }

  /// Cuts off the positions that the feature does not have: an image that is longer than the minimum by a stride or
  /// more has more positions than the feature that it came from.
  Tensor cut(const Tensor& gradient, const Tensor& feature, const Extents& rest) const {
    Tensor result = gradient;
    for (std::size_t axis = 0; axis < rest.size(); ++axis) {
      if (rest[axis] < SymInt(stride[axis])) continue;
      const int64_t at = static_cast<int64_t>(axis) + 2;
      result = result.slice_symint(at, SymInt(0), feature.sym_sizes()[at], SymInt(1));
    }
    if (result.is_same(gradient)) return result;
    return result.contiguous(asks_for_channels_last(gradient) ? last_format(gradient.dim())
                                                              : at::MemoryFormat::Contiguous);
  }

  /// Returns the image's extents beyond the least that give the feature its extents.
  Extents output_padding(const Tensor& image, const Tensor& feature, const Tensor& filter) const {
    const Extents pixels = spatial(image), features = spatial(feature), taps = spatial(filter);
    Extents rest;
    for (std::size_t axis = 0; axis < pixels.size(); ++axis) {
      rest.push_back(pixels[axis] - ((features[axis] - SymInt(1)) * SymInt(stride[axis]) - SymInt(2 * padding[axis]) +
                                     SymInt(dilation[axis]) * (taps[axis] - SymInt(1)) + SymInt(1)));
    }
    return rest;
  }

  void release_variables() override {
    std::lock_guard<std::mutex> lock(mutex_);
    for (auto& variable : saved) variable.reset_data();
  }

  std::string name() const override {
    return yields == kImage ? "ConvTransposeBackward" : yields == kFeature ? "ConvBackward" : "ConvWeightBackward";
  }

  Role yields;
  Numbers stride, padding, dilation;
  int64_t groups;
  adjoint_activation activation;
  torch::autograd::SavedVariable saved[3];  // the operands, and with an activation the result
};

bool has_tangent(const Tensor& tensor) { return tensor.defined() && tensor._fw_grad(0).defined(); }

/// Returns the result's tangent. The operator is linear in each operand.
Tensor tangent(Role yields, const Tensor& first, const Tensor& second, const Tensor& bias, const Tensor& out,
               const Steps& steps, SymIntArrayRef size) {
  Tensor sum;
  const auto add = [&](const Tensor& term) { sum = sum.defined() ? sum + term : term; };
  const auto primal = [](const Tensor& tensor) { return has_tangent(tensor) ? tensor._fw_primal(0) : tensor; };
  if (has_tangent(first)) add(call(yields, first._fw_grad(0), primal(second), Tensor(), steps, size));
  if (has_tangent(second)) add(call(yields, primal(first), second._fw_grad(0), Tensor(), steps, size));
  if (has_tangent(bias)) {
    Tensor term = bias._fw_grad(0).unsqueeze(-1);
    while (term.dim() < out.dim() - 1) term = term.unsqueeze(-1);
    add(term.expand_as(out).clone());
  }
  return sum;
}

Tensor recorded(Role yields, const Tensor& first, const Tensor& second, const Tensor& bias, const Steps& steps,
                SymIntArrayRef size) {
  const bool records = torch::autograd::compute_requires_grad(first, second, bias);
  const bool has_forward = has_tangent(first) || has_tangent(second) || has_tangent(bias);
  if (is_activated(steps) && (has_forward || (records && !is_invertible(steps.activation)))) {
    const Steps alone{steps.stride, steps.padding, steps.dilation, steps.groups, {}, nullptr};
    return activated(steps.activation, call(yields, first, second, bias, alone, size));
  }
  NodePointer node;
  Backward* backward = nullptr;
  if (records) {
    backward = new Backward(yields, steps);
    own(node, static_cast<torch::autograd::Node*>(backward));
    node->set_next_edges(bias.defined() ? torch::autograd::collect_next_edges(first, second, bias)
                                        : torch::autograd::collect_next_edges(first, second));
    backward->saved[0] = torch::autograd::SavedVariable(first, false);
    backward->saved[1] = torch::autograd::SavedVariable(second, false);
  }
  Tensor out;
  {
    at::AutoDispatchBelowADInplaceOrView below;
    out = call(yields, first, second, bias, steps, size);
  }
  if (records) {
    torch::autograd::set_history(out, node);
    if (is_activated(steps)) backward->saved[2] = torch::autograd::SavedVariable(out, true);
  }
  if (has_forward) out._set_fw_grad(tangent(yields, first, second, bias, out, steps, size), 0, false);
  return out;
}

/// Calls the operator on operands in autocast's dtype. PyTorch keeps casts of parameters until autocast ends.
template <c10::DeviceType kDevice>
Tensor lowered(Role yields, const Tensor& first, const Tensor& second, const Tensor& bias, const Steps& steps,
               SymIntArrayRef size) {
  const c10::impl::ExcludeDispatchKeyGuard below(at::autocast::get_autocast_dispatch_key_from_device_type(kDevice));
  const at::ScalarType dtype = at::autocast::get_lower_precision_fp_from_device_type(kDevice);
  const auto lower = [&](const Tensor& t) { return t.defined() ? at::autocast::cached_cast(dtype, t, kDevice) : t; };
  return call(yields, lower(first), lower(second), lower(bias), steps, size);
}

// ---- From Python

/// Reads one value for each axis from an integer, or from a sequence of one or `rank` integers. Returns false for any
/// other object.
bool read_axes(PyObject* object, std::size_t rank, Numbers& values) {
  const bool is_sequence = PyTuple_Check(object) || PyList_Check(object);
  const Py_ssize_t count = is_sequence ? PySequence_Fast_GET_SIZE(object) : 1;
  if (count != 1 && count != static_cast<Py_ssize_t>(rank)) return false;
  values.resize(rank);
  for (std::size_t axis = 0; axis < rank; ++axis) {
    PyObject* const value =
        is_sequence ? PySequence_Fast_GET_ITEM(object, count == 1 ? 0 : static_cast<Py_ssize_t>(axis)) : object;
    if (!PyLong_CheckExact(value)) return false;
    int overflow = 0;
    values[axis] = PyLong_AsLongLongAndOverflow(value, &overflow);
    if (overflow != 0) return false;
  }
  return true;
}

/// convolution(rank, transposed, input, weight, bias, stride, padding, output_padding, groups, dilation[, activation's
/// constant, its parameter[, frozen filter's address]]). Only an unrecorded call may give a frozen filter. Returns the
/// result, or None if arguments do not fit; functional.py then finds the reason.
PyObject* convolution(PyObject*, PyObject* const* arguments, Py_ssize_t count) {
  HANDLE_TH_ERRORS
  TORCH_CHECK_TYPE(count == 10 || count == 12 || count == 13, "convolution() takes 10, 12 or 13 arguments; got ",
                   to_string(count));
  if (!THPVariable_Check(arguments[2]) || !THPVariable_Check(arguments[3])) Py_RETURN_NONE;
  const bool has_bias = arguments[4] != Py_None;
  if (has_bias && !THPVariable_Check(arguments[4])) Py_RETURN_NONE;
  const std::size_t rank = static_cast<std::size_t>(PyLong_AsLong(arguments[0]));
  Numbers stride, padding, dilation, output_padding, groups;
  if (!PyLong_CheckExact(arguments[8]) || !read_axes(arguments[5], rank, stride) ||
      !read_axes(arguments[6], rank, padding) || !read_axes(arguments[7], rank, output_padding) ||
      !read_axes(arguments[8], 1, groups) || !read_axes(arguments[9], rank, dilation)) {
    Py_RETURN_NONE;
  }
  const bool transposed = arguments[1] == Py_True;
  const Tensor& input = THPVariable_Unpack(arguments[2]);
  const Tensor& weight = THPVariable_Unpack(arguments[3]);
  const Tensor bias = has_bias ? THPVariable_Unpack(arguments[4]) : Tensor();
  adjoint_activation activation{};
  adjoint_frozen_filter* frozen = nullptr;
  if (count >= 12) {
    activation = {static_cast<int>(PyLong_AsLong(arguments[10])), PyFloat_AsDouble(arguments[11])};
    if (count == 13) frozen = static_cast<adjoint_frozen_filter*>(PyLong_AsVoidPtr(arguments[12]));
    if (PyErr_Occurred() != nullptr) return nullptr;
  }
  const int64_t axes = static_cast<int64_t>(rank) + 2;
  if ((input.dim() != axes && input.dim() != axes - 1) || weight.dim() != axes) Py_RETURN_NONE;
  Tensor out;
  try {
    pybind11::gil_scoped_release without_gil;
    const Steps steps{stride, padding, dilation, groups[0], activation, frozen};
    const Extents size = transposed ? Extents(output_padding.begin(), output_padding.end()) : Extents();
    const Role yields = transposed ? kImage : kFeature;
    const auto result = [&](const Tensor& batch) {
      return frozen != nullptr ? run(yields, batch, weight, bias, steps, output_padding)
                               : call(yields, batch, weight, bias, steps, size);
    };
    out = input.dim() == axes ? result(input) : result(input.unsqueeze(0)).squeeze(0);
  } catch (const c10::ValueError&) {
    Py_RETURN_NONE;
  }
  return THPVariable_Wrap(std::move(out));
  END_HANDLE_TH_ERRORS
}

PyObject* set_precision(PyObject*, PyObject* value) {
  const long constant = PyLong_AsLong(value);
  if (constant == -1 && PyErr_Occurred() != nullptr) return nullptr;
  precision = static_cast<int>(constant);
  Py_RETURN_NONE;
}

PyMethodDef methods[] = {
    {"convolution", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(&convolution)), METH_FASTCALL, nullptr},
    {"set_precision", &set_precision, METH_O, nullptr},
    {nullptr, nullptr, 0, nullptr},
};
PyModuleDef module = {PyModuleDef_HEAD_INIT, "_extension", nullptr, -1, methods, nullptr, nullptr, nullptr, nullptr};

}  // namespace

TORCH_LIBRARY_IMPL(adjoint, CPU, library) { Operators<IntArrayRef, &run>::register_in(library); }
#if defined(ADJOINT_TORCH_CUDA)
TORCH_LIBRARY_IMPL(adjoint, CUDA, library) { Operators<IntArrayRef, &run>::register_in(library); }
#endif
TORCH_LIBRARY_IMPL(adjoint, AutocastCPU, library) {
  Operators<SymIntArrayRef, &lowered<c10::DeviceType::CPU>>::register_in(library);
}
TORCH_LIBRARY_IMPL(adjoint, AutocastCUDA, library) {
  Operators<SymIntArrayRef, &lowered<c10::DeviceType::CUDA>>::register_in(library);
}
TORCH_LIBRARY_IMPL(adjoint, Autograd, library) { Operators<SymIntArrayRef, &recorded>::register_in(library); }

PyMODINIT_FUNC PyInit__extension() { return PyModule_Create(&module); }
