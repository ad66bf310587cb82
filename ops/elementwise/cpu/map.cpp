#include <adjoint/ops/elementwise/cpu/map.h>

#include <adjoint/core/base/parallel.h>
#include <adjoint/core/tensor/convert_spans.h>
#include <adjoint/core/tensor/strided.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>

namespace adjoint::cpu {
namespace {

constexpr std::int64_t kBlock = 512;  // elements gathered at a time: four buffers of float64 are 16 KB

// Reads the elements of a tensor of any strides in row-major order, from a given element on.
class Gatherer {
 public:
  Gatherer(const StridedPlan<2>& plan, const std::byte* data, std::int64_t element_bytes, std::int64_t begin)
      : plan_(plan), data_(data), element_bytes_(element_bytes) {
    std::int64_t rest = begin;
    for (int axis = 0; axis < plan.rank; ++axis) {
      index_[static_cast<std::size_t>(axis)] = rest % plan.sizes[axis];
      rest /= plan.sizes[axis];
      offset_ += index_[static_cast<std::size_t>(axis)] * plan.strides[1][axis];
    }
  }

  void read(std::byte* out, std::int64_t count) {
    while (count > 0) {
      const std::int64_t run = std::min(count, plan_.sizes[0] - index_[0]);
      copy_run(out, run);
      out += run * element_bytes_;
      count -= run;
      advance(run);
    }
  }

 private:
  template <class Word>
  void copy_words(std::byte* out, std::int64_t count) const {
    const Word* from = reinterpret_cast<const Word*>(data_) + offset_;
    Word* to = reinterpret_cast<Word*>(out);
    const std::int64_t stride = plan_.strides[1][0];
    if (stride == 1) {
      std::memcpy(to, from, static_cast<std::size_t>(count) * sizeof(Word));
    } else if (stride == 0) {
      std::fill(to, to + count, *from);
    } else {
      for (std::int64_t i = 0; i < count; ++i) to[i] = from[i * stride];
    }
  }

  void copy_run(std::byte* out, std::int64_t count) const {
    switch (element_bytes_) {
      case 1: return copy_words<std::uint8_t>(out, count);
      case 2: return copy_words<std::uint16_t>(out, count);
      case 4: return copy_words<std::uint32_t>(out, count);
      default: return copy_words<std::uint64_t>(out, count);
    }
  }

  void advance(std::int64_t count) {
    index_[0] += count;
    offset_ += count * plan_.strides[1][0];
    for (int axis = 0; axis + 1 < plan_.rank && index_[static_cast<std::size_t>(axis)] == plan_.sizes[axis]; ++axis) {
      index_[static_cast<std::size_t>(axis)] = 0;
      ++index_[static_cast<std::size_t>(axis) + 1];
      offset_ += plan_.strides[1][axis + 1] - plan_.sizes[axis] * plan_.strides[1][axis];
    }
  }

  const StridedPlan<2>& plan_;
  const std::byte* data_;
  std::int64_t element_bytes_;
  std::array<std::int64_t, kMaxRank> index_{};
  std::int64_t offset_ = 0;
};

struct Operand {
  const std::byte* data;
  std::int64_t element_bytes;
  bool contiguous;
  StridedPlan<2> plan;  // of the others: {row-major order, the operand}
};

void run_gathered(std::span<const Operand> operands, std::byte* out, std::int64_t out_bytes, std::int64_t begin,
                  std::int64_t end, const SpanLoop& loop) {
  alignas(64) std::byte buffers[kMaxArity][static_cast<std::size_t>(kBlock) * sizeof(double)];
  const auto gatherer = [&](std::size_t i) {
    const Operand& operand = operands[std::min(i, operands.size() - 1)];
    return Gatherer(operand.plan, operand.data, operand.element_bytes, operand.contiguous ? 0 : begin);
  };
  std::array<Gatherer, kMaxArity> gatherers{gatherer(0), gatherer(1), gatherer(2), gatherer(3)};
  for (std::int64_t at = begin; at < end; at += kBlock) {
    const std::int64_t count = std::min(kBlock, end - at);
    const void* in[kMaxArity] = {};
    for (std::size_t i = 0; i < operands.size(); ++i) {
      if (operands[i].contiguous) {
        in[i] = operands[i].data + at * operands[i].element_bytes;
      } else {
        gatherers[i].read(buffers[i], count);
        in[i] = buffers[i];
      }
    }
    loop.run(in, out + at * out_bytes, count, loop.functor);
  }
}

// A loop over float32 behind conversions from and to a 16-bit format, as a SpanLoop's functor.
struct WidenedLoop {
  SpanLoop loop;
  DType dtype;
  std::size_t operands;
  bool predicate;

  static void run(const void* const* in, void* out, std::int64_t n, const void* functor) {
    static_cast<const WidenedLoop*>(functor)->run_blocks(in, out, n);
  }

 private:
  void run_blocks(const void* const* in, void* out, std::int64_t n) const {
    float wide[kMaxArity][kConvertBlock], results[kConvertBlock];
    const void* const operand[kMaxArity] = {wide[0], wide[1], wide[2], wide[3]};
    for (std::int64_t i = 0; i < n; i += kConvertBlock) {
      const std::int64_t count = std::min(kConvertBlock, n - i);
      for (std::size_t k = 0; k < operands; ++k) {
        widen_span(dtype, static_cast<const std::uint16_t*>(in[k]) + i, wide[k], count);
      }
      if (predicate) {
        loop.run(operand, static_cast<bool*>(out) + i, count, loop.functor);
      } else {
        loop.run(operand, results, count, loop.functor);
        narrow_span(results, dtype, static_cast<std::uint16_t*>(out) + i, count);
      }
    }
  }
};

void run_all_spans(std::span<const Tensor> in, Tensor& out, const SpanLoop& loop) {
  auto* result = static_cast<std::byte*>(out.raw_mutable_data());
  const std::int64_t result_bytes = element_size(out.dtype());
  const bool contiguous = std::all_of(in.begin(), in.end(), [](const Tensor& t) { return t.is_contiguous(); });
  if (contiguous) {
    parallel_ranges(out.numel(), kStridedGrain, [&](std::int64_t begin, std::int64_t end) {
      const void* at[kMaxArity] = {};
      for (std::size_t i = 0; i < in.size(); ++i) {
        at[i] = static_cast<const std::byte*>(in[i].raw_data()) + begin * element_size(in[i].dtype());
      }
      loop.run(at, result + begin * result_bytes, end - begin, loop.functor);
    });
    return;
  }
  std::array<Operand, kMaxArity> operands;
  for (std::size_t i = 0; i < in.size(); ++i) {
    operands[i] = {static_cast<const std::byte*>(in[i].raw_data()),
                   element_size(in[i].dtype()),
                   in[i].is_contiguous(),
                   {}};
    if (!operands[i].contiguous) operands[i].plan = make_strided_plan<2>(out.shape(), {out.strides(), in[i].strides()});
  }
  parallel_ranges(out.numel(), kStridedGrain, [&](std::int64_t begin, std::int64_t end) {
    run_gathered({operands.data(), in.size()}, result, result_bytes, begin, end, loop);
  });
}

}  // namespace

void run_spans(std::span<const Tensor> in, Tensor& out, const SpanLoop& loop, bool widens) {
  if (!widens) return run_all_spans(in, out, loop);
  const WidenedLoop widened{loop, in[0].dtype(), in.size(), out.dtype() == kBool};
  run_all_spans(in, out, {WidenedLoop::run, &widened});
}

}  // namespace adjoint::cpu
