// Parameter: the handle on a slot of a module's registry that holds a parameter or a buffer.
//
// It reads as the tensor in its slot; any handle may replace it. Assigning a tensor to it registers that tensor in
// place of the other: after `conv.weight = t`, conv(x) computes with t and conv.parameters() lists it. Copies are
// handles on the same slot.
#pragma once

#include <adjoint/core/tensor/tensor.h>

#include <concepts>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace adjoint {

/// A base through which Tensor's operators are found for types that convert to a Tensor.
struct ConvertsToTensor {};

namespace nn {
namespace detail {
struct TensorSlot;
}

class ADJOINT_API Parameter : ConvertsToTensor {
 public:
  /// A Parameter without a slot reads as an undefined Tensor. Module's register_parameter and register_buffer return
  /// handles on slots.
  Parameter() = default;
  Parameter(const Parameter& other);
  Parameter(Parameter&&) noexcept = default;
  ~Parameter() = default;

  /// Puts `value` into the slot. Throws Error, with everything unchanged, for values that registration would refuse; an
  /// undefined Tensor empties a slot that was registered as optional. A parameter's value then requires a gradient.
  template <std::convertible_to<Tensor> T>
  requires(!std::same_as<T, Parameter>) Parameter& operator=(const T& value) {
    assign(value);
    return *this;
  }
  /// As above, tying the two; does not change if its tensor requires a gradient. When whole modules are assigned, their
  /// members become handles on the other module's slots instead.
  Parameter& operator=(const Parameter& other);
  Parameter& operator=(Parameter&& other);

  /// The tensor in the slot. Each read, also by shape() and similar members, computes and records a reparametrised one
  /// (Module::reparametrize) again; writing to it throws Error.
  Tensor tensor() const;
  operator Tensor() const { return tensor(); }  // NOLINT(google-explicit-constructor)

  /// Any of Tensor's members that change nothing, also those without a line below: conv.weight->softmax(0).
  class Reading {
   public:
    explicit Reading(Tensor tensor) : tensor_(std::move(tensor)) {}
    const Tensor* operator->() const { return &tensor_; }

   private:
    Tensor tensor_;
  };
  Reading operator->() const { return Reading(tensor()); }

  // ---- Tensor's members, of the tensor in the slot.

  bool defined() const { return tensor().defined(); }
  Shape shape() const { return tensor().shape(); }
  Shape sizes() const { return tensor().shape(); }
  Strides strides() const { return tensor().strides(); }
  std::int64_t storage_offset() const { return tensor().storage_offset(); }
  DType dtype() const { return tensor().dtype(); }
  Device device() const { return tensor().device(); }
  std::int64_t dim() const { return tensor().dim(); }
  std::int64_t size(std::int64_t axis) const { return tensor().size(axis); }
  std::int64_t numel() const { return tensor().numel(); }
  bool is_contiguous() const { return tensor().is_contiguous(); }
  TensorOptions options() const { return tensor().options(); }
  TensorImpl* impl() const { return tensor().impl(); }

  template <class T>
  const T* data() const {
    return tensor().template data<T>();
  }
  template <class T>
  T* mutable_data() {
    return own("Parameter::mutable_data").template mutable_data<T>();
  }
  const void* raw_data() const { return tensor().raw_data(); }
  void* raw_mutable_data() { return own("Parameter::raw_mutable_data").raw_mutable_data(); }
  template <class T>
  T item() const {
    return tensor().template item<T>();
  }
  Scalar item() const { return tensor().item(); }
  template <class T>
  std::vector<T> to_vector() const {
    return tensor().template to_vector<T>();
  }

  Tensor to(Device device) const { return tensor().to(device); }
  Tensor to(DType dtype) const { return tensor().to(dtype); }
  Tensor to(Device device, DType dtype) const { return tensor().to(device, dtype); }
  Tensor cpu() const { return tensor().cpu(); }
  Tensor cuda(int index = 0) const { return tensor().cuda(index); }
  Tensor clone() const { return tensor().clone(); }
  Tensor contiguous() const { return tensor().contiguous(); }
  Tensor detach() const { return tensor().detach(); }

  bool requires_grad() const { return tensor().requires_grad(); }
  Tensor grad() const { return tensor().grad(); }
  void set_grad(const Tensor& gradient) { tensor().set_grad(gradient); }
  std::uint64_t register_hook(GradientHook hook) const { return tensor().register_hook(std::move(hook)); }
  void remove_hook(std::uint64_t id) const { tensor().remove_hook(id); }

  Tensor reshape(const Shape& shape) const { return tensor().reshape(shape); }
  Tensor flatten(std::int64_t first_axis = 0, std::int64_t last_axis = -1) const {
    return tensor().flatten(first_axis, last_axis);
  }
  Tensor permute(const Dims& axes) const { return tensor().permute(axes); }
  Tensor transpose(std::int64_t a, std::int64_t b) const { return tensor().transpose(a, b); }
  Tensor narrow(std::int64_t axis, std::int64_t start, std::int64_t length) const {
    return tensor().narrow(axis, start, length);
  }
  Tensor select(std::int64_t axis, std::int64_t index) const { return tensor().select(axis, index); }
  Tensor operator[](std::int64_t index) const { return tensor()[index]; }
  Tensor squeeze() const { return tensor().squeeze(); }
  Tensor squeeze(std::int64_t axis) const { return tensor().squeeze(axis); }
  Tensor unsqueeze(std::int64_t axis) const { return tensor().unsqueeze(axis); }
  Tensor expand(const Shape& shape) const { return tensor().expand(shape); }

  Tensor sum() const { return tensor().sum(); }
  Tensor sum(const Dims& axes, bool keepdim = false) const { return tensor().sum(axes, keepdim); }
  Tensor mean() const { return tensor().mean(); }
  Tensor mean(const Dims& axes, bool keepdim = false) const { return tensor().mean(axes, keepdim); }
  Tensor max() const { return tensor().max(); }
  Tensor min() const { return tensor().min(); }
  Tensor norm(double p = 2.0, const Dims& axes = {}, bool keepdim = false) const {
    return tensor().norm(p, axes, keepdim);
  }
  Tensor var(const Dims& axes = {}, std::int64_t correction = 1, bool keepdim = false) const {
    return tensor().var(axes, correction, keepdim);
  }
  Tensor std(const Dims& axes = {}, std::int64_t correction = 1, bool keepdim = false) const {
    return tensor().std(axes, correction, keepdim);
  }

  Tensor index(const std::vector<Index>& indices) const { return tensor().index(indices); }
  Tensor matmul(const Tensor& other) const { return tensor().matmul(other); }
  Tensor abs() const { return tensor().abs(); }
  Tensor exp() const { return tensor().exp(); }
  Tensor log() const { return tensor().log(); }
  Tensor sqrt() const { return tensor().sqrt(); }
  Tensor square() const { return tensor().square(); }
  Tensor pow(const Scalar& exponent) const { return tensor().pow(exponent); }
  Tensor clamp(const Scalar& low, const Scalar& high) const { return tensor().clamp(low, high); }

  // ---- In place. Throw Error if other tensors compute the parameter.

  Parameter& requires_grad_(bool value = true) {
    return in_place([&](Tensor& t) { t.requires_grad_(value); });
  }
  Parameter& fill_(double value) {
    return in_place([&](Tensor& t) { t.fill_(value); });
  }
  Parameter& zero_() { return fill_(0.0); }
  Parameter& copy_(const Tensor& source) {
    return in_place([&](Tensor& t) { t.copy_(source); });
  }
  Parameter& add_(const Tensor& other, double scale = 1.0) {
    return in_place([&](Tensor& t) { t.add_(other, scale); });
  }
  Parameter& sub_(const Tensor& other, double scale = 1.0) {
    return in_place([&](Tensor& t) { t.sub_(other, scale); });
  }
  Parameter& mul_(const Tensor& factor) {
    return in_place([&](Tensor& t) { t.mul_(factor); });
  }
  Parameter& div_(const Tensor& divisor) {
    return in_place([&](Tensor& t) { t.div_(divisor); });
  }
  Parameter& add_(double term) {
    return in_place([&](Tensor& t) { t.add_(term); });
  }
  Parameter& sub_(double term) {
    return in_place([&](Tensor& t) { t.sub_(term); });
  }
  Parameter& mul_(double factor) {
    return in_place([&](Tensor& t) { t.mul_(factor); });
  }
  Parameter& div_(double divisor) {
    return in_place([&](Tensor& t) { t.div_(divisor); });
  }
  Parameter& operator+=(const Tensor& other) { return add_(other); }
  Parameter& operator-=(const Tensor& other) { return sub_(other); }
  Parameter& operator*=(const Tensor& other) { return mul_(other); }
  Parameter& operator/=(const Tensor& other) { return div_(other); }
  Parameter& operator+=(double other) { return add_(other); }
  Parameter& operator-=(double other) { return sub_(other); }
  Parameter& operator*=(double other) { return mul_(other); }
  Parameter& operator/=(double other) { return div_(other); }
  Parameter& clamp_(const Scalar& low, const Scalar& high) {
    return in_place([&](Tensor& t) { t.clamp_(low, high); });
  }
  Parameter& lerp_(const Tensor& end, double weight) {
    return in_place([&](Tensor& t) { t.lerp_(end, weight); });
  }
  Parameter& addcmul_(const Tensor& a, const Tensor& b, double scale = 1.0) {
    return in_place([&](Tensor& t) { t.addcmul_(a, b, scale); });
  }
  Parameter& uniform_(double low = 0.0, double high = 1.0) {
    return in_place([&](Tensor& t) { t.uniform_(low, high); });
  }
  Parameter& normal_(double mean = 0.0, double standard_deviation = 1.0) {
    return in_place([&](Tensor& t) { t.normal_(mean, standard_deviation); });
  }

 private:
  friend class Module;
  explicit Parameter(std::shared_ptr<detail::TensorSlot> slot) : slot_(std::move(slot)) {}

  void assign(const Tensor& value);
  /// The tensor in the slot. Throws Error, naming `op`, if it is computed from others.
  Tensor own(const char* op) const;
  template <class F>
  Parameter& in_place(const F& f) {
    Tensor handle = own("Parameter");
    f(handle);
    return *this;
  }

  std::shared_ptr<detail::TensorSlot> slot_;
};

/// The same handle, on a slot for state that is not trained.
using Buffer = Parameter;

}  // namespace nn
}  // namespace adjoint
