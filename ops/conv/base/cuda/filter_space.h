// Memory for a filter in the order in which a kernel reads it.
#pragma once

#include <adjoint/core/cuda/runtime.h>
#include <adjoint/ops/conv/base/cuda/problem.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

namespace adjoint::cuda {

/// For the length of a scope, or, where the call's filter is frozen, kept for later calls on the same stream, whose
/// order makes the packing come first. While the stream captures, nothing is kept or found: a graph may outlive it.
class FilterSpace {
 public:
  /// `order` names what the memory is to hold, beside the problem; `part` tells one plan's of those from another's.
  FilterSpace(const ConvProblem& problem, const char* order, std::int64_t part, std::size_t nbytes);
  ~FilterSpace();
  FilterSpace(const FilterSpace&) = delete;
  FilterSpace& operator=(const FilterSpace&) = delete;

  void* data() const { return data_; }
  /// Whether the filter is there already. Else the caller enqueues what packs it, then calls fill().
  bool is_filled() const { return filled_; }
  void fill();
  /// Whether what is there stays, where it is, as long as the filter is frozen.
  bool is_kept() const { return kept_; }

 private:
  struct Place;

  std::unique_ptr<Place> place_;  // null unless the filter is frozen
  std::optional<Workspace> workspace_;
  void* data_ = nullptr;
  bool filled_ = false, kept_ = false;
};

}  // namespace adjoint::cuda
