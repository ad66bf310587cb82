// Where a sweep wants the gradients of leaves to lie: while the rules of a call run, apply() makes the first result of
// a place's shape and dtype there, which is the gradient in most rules, so that nobody has to copy it. Internal.
#pragma once

#include <adjoint/core/export.h>
#include <adjoint/core/tensor.h>
#include <adjoint/core/tensor_impl.h>

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace adjoint {

/// A sink that says where it wants gradients.
class PlacingSink : public GradientSink {
 public:
  /// A contiguous tensor with a storage of its own, or undefined. take() gets the leaf's gradient there where it could
  /// be made there. What this throws, backward() throws.
  virtual Tensor place(const Tensor& leaf) = 0;
};

}  // namespace adjoint

namespace adjoint::detail {

/// A sweep's; none of its own hides those of the sweep around it, from what a program wrote or a tape records.
class ADJOINT_API GradientPlaces {
 public:
  GradientPlaces() : outer_(std::exchange(current_, nullptr)) {}
  ~GradientPlaces() { current_ = outer_; }
  GradientPlaces(const GradientPlaces&) = delete;
  GradientPlaces& operator=(const GradientPlaces&) = delete;

  /// The gradient of operand `operand`, whose id is `id`, is wanted in `place`, which is contiguous.
  void add(std::size_t operand, std::int64_t id, Tensor place) { places_.push_back({operand, id, std::move(place)}); }
  bool has(std::int64_t id) const;
  void clear() { places_.clear(); }

  /// While it lives, make_tensor() looks at the places.
  class Use {
   public:
    explicit Use(GradientPlaces& places) {
      if (!places.places_.empty()) current_ = &places;
    }
    ~Use() { current_ = nullptr; }
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;
  };
  /// This thread's; null where no place is wanted.
  static GradientPlaces* current() { return current_; }
  /// The place that fits, which nobody else gets; undefined where none does.
  Tensor take(const TensorSpec& spec, Device device);

  /// After the rules: whatever took a place that is another operand's leaves it.
  void settle(std::vector<Tensor>& operand_grads) const;

 private:
  struct Place {
    std::size_t operand;
    std::int64_t id;
    Tensor place;
    bool taken = false;
  };

  static constinit thread_local GradientPlaces* current_;
  GradientPlaces* outer_;
  std::vector<Place> places_;
};

}  // namespace adjoint::detail
