// The desired places of leaves' gradients in a sweep. While the rules of a call run, apply() creates the first result
// of a place's shape and dtype in it, which is the gradient in most rules, so no copy is needed. Internal.
#pragma once

#include <adjoint/core/base/context.h>
#include <adjoint/core/base/export.h>
#include <adjoint/core/tensor/tensor.h>
#include <adjoint/core/tensor/tensor_impl.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace adjoint {

/// A sink that names places for gradients.
class PlacingSink : public GradientSink {
 public:
  /// A contiguous tensor with its own storage, or undefined. take() gets the leaf's gradient there if it could be made
  /// there. Exceptions propagate out of backward().
  virtual Tensor place(const Tensor& leaf) = 0;
  /// A sweep of backward() begins, over the tape with this serial number, whose result depends on `leaves`. Every
  /// watching sink is asked, in the order of watch_sweeps(). Returns true if the sink takes part in the sweep: finish()
  /// and commit() then follow, even if it gets no gradient. Exceptions propagate out of backward().
  virtual bool begin(std::uint64_t tape, const std::vector<Tensor>& leaves) = 0;
  /// Other sinks also take part in the sweep that begins.
  virtual void share() = 0;
};

}  // namespace adjoint

namespace adjoint::detail {

/// While it lives, the sink's functions are called in every sweep of backward().
ADJOINT_API void watch_sweeps(std::weak_ptr<PlacingSink> sink);
/// The watching sinks, in the order of their registration.
std::vector<std::shared_ptr<PlacingSink>> sinks_that_watch();

/// A sweep's places. An empty instance hides the surrounding sweep's places from code that a program wrote or a tape
/// records.
class ADJOINT_API GradientPlaces {
 public:
  GradientPlaces() : outer_(std::exchange(context().gradient_places, nullptr)) {}
  ~GradientPlaces() { context().gradient_places = outer_; }
  GradientPlaces(const GradientPlaces&) = delete;
  GradientPlaces& operator=(const GradientPlaces&) = delete;

  /// The gradient of operand `operand`, whose id is `id`, should be made in `place`, which is contiguous.
  void add(std::size_t operand, std::int64_t id, Tensor place) { places_.push_back({operand, id, std::move(place)}); }
  bool has(std::int64_t id) const;
  void clear() { places_.clear(); }

  /// While it lives, operators make results in the places.
  class Use {
   public:
    explicit Use(GradientPlaces& places) {
      if (!places.places_.empty()) context().gradient_places = &places;
    }
    ~Use() { context().gradient_places = nullptr; }
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;
  };
  /// A place that fits, which is given only once; undefined if there is none.
  Tensor take(const TensorSpec& spec, Device device);

  /// After the rules: moves gradients out of places that belong to another operand.
  void settle(std::vector<Tensor>& operand_grads) const;

 private:
  struct Place {
    std::size_t operand;
    std::int64_t id;
    Tensor place;
    bool taken = false;
  };

  GradientPlaces* outer_;
  std::vector<Place> places_;
};

}  // namespace adjoint::detail
