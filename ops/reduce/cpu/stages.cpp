#include <adjoint/ops/reduce/cpu/stages.h>

#include <cstddef>
#include <cstring>

namespace adjoint::cpu {
namespace {

// One stage; the first reads elements, later ones an earlier stage's sums, and the last writes results.
struct Stage {
  ReduceStage extents;
  bool first, last;
};

void run_stage(const StageLoops& loops, const std::byte* in, std::byte* out, const Stage& stage) {
  const ReduceStage& extents = stage.extents;
  const std::int64_t abreast = rows_abreast(extents.extent, extents.inner);
  const std::int64_t column_blocks = (extents.inner + kMaxLanes - 1) / kMaxLanes;
  const std::int64_t items = extents.outer * extents.chunks * column_blocks;
  const std::int64_t item_elements = std::min(extents.extent, extents.chunk_rows) * std::min(extents.inner, kMaxLanes);
  const std::int64_t in_bytes = stage.first ? loops.element_bytes : loops.sum_bytes;
  const std::int64_t out_bytes = stage.last ? loops.result_bytes : loops.sum_bytes;
  parallel_ranges(items, std::max<std::int64_t>(1, kTaskElements / item_elements),
                  [&](std::int64_t begin, std::int64_t end) {
                    alignas(std::max_align_t) std::byte sums[kMaxLanes * kMaxSumBytes];
                    for (std::int64_t item = begin; item < end; ++item) {
                      const std::int64_t column = item % column_blocks * kMaxLanes;
                      const std::int64_t part = item / column_blocks % extents.chunks;
                      const std::int64_t outer = item / column_blocks / extents.chunks;
                      const std::int64_t row = part * extents.chunk_rows;
                      const Chunk chunk{std::min(extents.chunk_rows, extents.extent - row),
                                        std::min(kMaxLanes, extents.inner - column), extents.inner, abreast};
                      const std::byte* const from =
                          in + ((outer * extents.extent + row) * extents.inner + column) * in_bytes;
                      stage.first ? loops.sum(loops.sum_context, from, chunk, sums)
                                  : loops.sum_again(loops.rule, from, chunk, sums);
                      std::byte* const to =
                          out + ((outer * extents.chunks + part) * extents.inner + column) * out_bytes;
                      if (stage.last) {
                        loops.finish(loops.rule, sums, to, chunk.columns);
                      } else {
                        std::memcpy(to, sums, static_cast<std::size_t>(chunk.columns * loops.sum_bytes));
                      }
                    }
                  });
}

}  // namespace

void run_stages(const StageLoops& loops, const Tensor& in, Tensor& out, const ReduceAttr& attr) {
  const auto* const elements = static_cast<const std::byte*>(in.raw_data());
  auto* const results = static_cast<std::byte*>(out.raw_mutable_data());
  ReduceStages stages(attr.from, attr.axes);
  ReduceStage extents;
  // Axes of one element need no addition, but the dtype may change.
  if (!stages.next(extents, chunk_rows)) {
    return run_stage(loops, elements, results, {{.outer = 1, .extent = 1, .inner = in.numel()}, true, true});
  }
  Tensor unfinished;
  for (bool more = true; more;) {
    Stage stage{extents, !unfinished.defined(), false};
    more = stages.next(extents, chunk_rows);
    stage.last = !more;
    Tensor next = more ? make_tensor({Shape{stage.extents.results() * loops.sum_bytes}, kUInt8}, kCPU) : Tensor{};
    run_stage(loops, stage.first ? elements : static_cast<const std::byte*>(unfinished.raw_data()),
              more ? static_cast<std::byte*>(next.raw_mutable_data()) : results, stage);
    unfinished = next;
  }
}

}  // namespace adjoint::cpu
