// Turns a reduction over any axes of a contiguous tensor into a sequence of simple stages, for host code of both
// devices.
//
// Neighbouring axes that are all kept or all reduced merge. A stage then reduces the innermost reduced group: it maps
// (outer, extent, inner) to (outer, chunks, inner), where each of the chunks covers chunk_rows of `extent`. If there
// are several chunks the next stage reduces them. Shapes alone determine everything here.
#pragma once

#include <adjoint/core/tensor/shape.h>

#include <cstdint>

namespace adjoint {

struct ReduceAttr {
  Shape from;          // the operand's
  std::uint32_t axes;  // bit i: axis i is reduced
  bool keepdim;
  double divisor;  // of the finished sums: 1, or a mean's number of elements
};

struct ReduceStage {
  std::int64_t outer = 1;
  std::int64_t extent = 1;
  std::int64_t inner = 1;
  std::int64_t chunk_rows = 1;
  std::int64_t chunks = 1;
  bool last = true;

  std::int64_t results() const { return outer * chunks * inner; }
};

class ReduceStages {
 public:
  ReduceStages(const Shape& shape, std::uint32_t axes) {
    for (std::size_t i = 0; i < shape.size(); ++i) {
      if (shape[i] != 1) append(shape[i], (axes >> i & 1U) != 0);
    }
  }

  /// The next stage; `chunk_rows(extent, inner)` returns the number of rows of a chunk. Returns false if all reductions
  /// are done.
  template <class ChunkRows>
  bool next(ReduceStage& stage, ChunkRows&& chunk_rows) {
    int at = size_ - 1;
    while (at >= 0 && !groups_[at].reduced) --at;
    if (at < 0) return false;
    stage = {};
    stage.extent = groups_[at].extent;
    for (int i = 0; i < at; ++i) stage.outer *= groups_[i].extent;
    for (int i = at + 1; i < size_; ++i) stage.inner *= groups_[i].extent;
    stage.chunk_rows = chunk_rows(stage.extent, stage.inner);
    stage.chunks = (stage.extent + stage.chunk_rows - 1) / stage.chunk_rows;
    replace(at, stage.chunks);
    for (int i = 0; i < size_; ++i) stage.last &= !groups_[i].reduced;
    return true;
  }

 private:
  struct Group {
    std::int64_t extent;
    bool reduced;
  };

  void append(std::int64_t extent, bool reduced) {
    if (size_ > 0 && groups_[size_ - 1].reduced == reduced) {
      groups_[size_ - 1].extent *= extent;
    } else {
      groups_[size_++] = {extent, reduced};
    }
  }

  // Group `at` has been reduced to `chunks` rows; a group of one row disappears.
  void replace(int at, std::int64_t chunks) {
    Group rest[kMaxRank];
    const int count = size_ - at - 1;
    for (int i = 0; i < count; ++i) rest[i] = groups_[at + 1 + i];
    size_ = at;
    if (chunks != 1) append(chunks, true);
    for (int i = 0; i < count; ++i) append(rest[i].extent, rest[i].reduced);
  }

  Group groups_[kMaxRank];
  int size_ = 0;
};

}  // namespace adjoint
