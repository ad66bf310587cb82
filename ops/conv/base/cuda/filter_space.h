// Memory for a filter in a kernel's reading order.
#pragma once

#include <adjoint/core/cuda/runtime.h>
#include <adjoint/ops/conv/base/cuda/problem.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

namespace adjoint::cuda {

/// Memory for the duration of a scope or, if the call's filter is frozen, kept for later calls on the same stream,
/// whose order puts the packing first. During a capture nothing is kept or found, because a graph may outlive it.
class FilterSpace {
 public:
  /// `order` names the contents, in addition to the problem; `part` distinguishes the parts of one plan.
  FilterSpace(const ConvProblem& problem, const char* order, std::int64_t part, std::size_t nbytes);
  ~FilterSpace();
  FilterSpace(const FilterSpace&) = delete;
  FilterSpace& operator=(const FilterSpace&) = delete;

  void* data() const { return data_; }
  /// Returns true if the filter is already in place. Otherwise the caller enqueues its packing, then calls fill().
  bool is_filled() const { return filled_; }
  void fill();
  /// Returns true if the contents stay in place while the filter is frozen.
  bool is_kept() const { return kept_; }

 private:
  struct Place;

  std::unique_ptr<Place> place_;  // null unless the filter is frozen
  std::optional<Workspace> workspace_;
  void* data_ = nullptr;
  bool filled_ = false, kept_ = false;
};

}  // namespace adjoint::cuda
