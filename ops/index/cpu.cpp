// Picking by index on the CPU.
#include <adjoint/core/base/parallel.h>
#include <adjoint/core/tensor/convert.h>
#include <adjoint/core/tensor/copy.h>
#include <adjoint/core/tensor/strided.h>
#include <adjoint/core/tensor/tensor_impl.h>
#include <adjoint/ops/index/kernels.h>

#include <algorithm>
#include <cstddef>

namespace adjoint::cpu {
namespace {

constexpr std::int64_t kBlock = 64;  // elements of `inner` that one task adds to

// Elements of the index before those of place (o, j).
std::int64_t row_of(const IndexLayout& at, std::int64_t o, std::int64_t j) {
  return (o / at.repeat * at.count + j) * (at.each ? at.inner : 1);
}

std::int64_t grain(std::int64_t elements_of_one) {
  return std::max<std::int64_t>(1, kStridedGrain / std::max<std::int64_t>(1, elements_of_one));
}

// move(place of a run in x, or kNowhere; place in the result; length of the run).
template <class Move>
void for_each_run(const IndexLayout& at, const std::int64_t* index, const Move& move) {
  parallel_ranges(at.outer * at.count, grain(at.inner), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      const std::int64_t o = row / at.count;
      const std::int64_t* const names = index + row_of(at, o, row % at.count);
      const auto place = [&](std::int64_t k, std::int64_t i) {
        return k == kNowhere ? kNowhere : (o * at.extent + k) * at.inner + i;
      };
      if (at.each) {
        for (std::int64_t i = 0; i < at.inner; ++i) move(place(names[i], i), row * at.inner + i, 1);
      } else {
        move(place(names[0], 0), row * at.inner, at.inner);
      }
    }
  });
}

template <class T>
void add_up(const IndexLayout& at, const T* picked, const std::int64_t* index, compute_t<T>* out) {
  using A = compute_t<T>;
  const std::int64_t blocks = (at.inner + kBlock - 1) / kBlock;
  parallel_ranges(at.outer * blocks, grain(at.count * std::min(at.inner, kBlock)),
                  [&](std::int64_t begin, std::int64_t end) {
                    for (std::int64_t task = begin; task < end; ++task) {
                      const std::int64_t o = task / blocks, first = task % blocks * kBlock;
                      const std::int64_t last = std::min(at.inner, first + kBlock);
                      for (std::int64_t j = 0; j < at.count; ++j) {
                        const std::int64_t* const names = index + row_of(at, o, j);
                        const T* const from = picked + (o * at.count + j) * at.inner;
                        for (std::int64_t i = first; i < last; ++i) {
                          const std::int64_t k = names[at.each ? i : 0];
                          if (k == kNowhere) continue;
                          A& sum = out[(o * at.extent + k) * at.inner + i];
                          sum = static_cast<A>(sum + static_cast<A>(from[i]));
                        }
                      }
                    }
                  });
}

}  // namespace

void take(std::span<const Tensor> in, Tensor& out, const IndexAttr& attr) {
  visit_bits(out.dtype(), [&]<class Bits>() {
    const auto* const from = static_cast<const Bits*>(in[0].raw_data());
    auto* const to = static_cast<Bits*>(out.raw_mutable_data());
    for_each_run(attr.layout, in[1].data<std::int64_t>(),
                 [=](std::int64_t whole, std::int64_t picked, std::int64_t length) {
                   if (whole == kNowhere) {
                     std::fill_n(to + picked, length, Bits{0});
                   } else if (length == 1) {
                     to[picked] = from[whole];
                   } else {
                     std::copy_n(from + whole, length, to + picked);
                   }
                 });
  });
}

void put(Tensor& x, const Tensor& picked, const Tensor& index, const IndexAttr& attr) {
  visit_bits(x.dtype(), [&]<class Bits>() {
    const auto* const from = static_cast<const Bits*>(picked.raw_data());
    auto* const to = static_cast<Bits*>(x.raw_mutable_data());
    for_each_run(attr.layout, index.data<std::int64_t>(),
                 [=](std::int64_t whole, std::int64_t place, std::int64_t length) {
                   if (whole != kNowhere) std::copy_n(from + place, length, to + whole);
                 });
  });
}

void accumulate(std::span<const Tensor> in, Tensor& out, const IndexAttr& attr) {
  visit(out.dtype(), [&]<class T>() {
    using A = compute_t<T>;
    Tensor sums = std::is_same_v<A, T> ? out : make_tensor({out.shape(), dtype_of<A>}, out.device());
    if (in[2].defined()) {
      copy_into(in[2], sums);
    } else {
      sums.zero_();
    }
    add_up<T>(attr.layout, in[0].data<T>(), in[1].data<std::int64_t>(), sums.mutable_data<A>());
    if (!std::is_same_v<A, T>) copy_into(sums, out);
  });
}

void last_of_equals(std::span<const Tensor> in, Tensor& out, const IndexAttr& attr) {
  const IndexLayout& at = attr.layout;
  const std::int64_t width = at.each ? at.inner : 1;
  const auto* const index = in[0].data<std::int64_t>();
  auto* const unique = out.mutable_data<std::int64_t>();
  const std::int64_t columns = at.outer / at.repeat * width;
  parallel_ranges(columns, grain(at.count), [&](std::int64_t begin, std::int64_t end) {
    Tensor memory = make_tensor({Shape{at.extent}, kInt64}, out.device());
    auto* const last = memory.mutable_data<std::int64_t>();
    for (std::int64_t column = begin; column < end; ++column) {
      const std::int64_t first = column / width * at.count * width + column % width;
      const auto for_each_name = [&](const auto& use) {
        for (std::int64_t j = 0; j < at.count; ++j) {
          const std::int64_t name = index[first + j * width];
          if (name != kNowhere)
            use(j, last[name]);
          else
            unique[first + j * width] = kNowhere;
        }
      };
      for_each_name([](std::int64_t j, std::int64_t& place) { place = j; });
      for_each_name([&](std::int64_t j, std::int64_t place) {
        unique[first + j * width] = place == j ? index[first + j * width] : kNowhere;
      });
    }
  });
}

void combine(std::span<const Tensor> in, Tensor& out, const CombineAttr& attr) {
  const bool first = !in[1].defined();
  const Strides running_strides = first ? Strides::filled(out.shape().size(), 0) : in[1].strides();
  const StridedPlan<3> plan = make_strided_plan<3>(out.shape(), {out.strides(), in[0].strides(), running_strides});
  const auto* const index = in[0].data<std::int64_t>();
  const auto* const running = first ? nullptr : in[1].data<std::int64_t>();
  auto* const result = out.mutable_data<std::int64_t>();
  for_each_row(plan, [&](const std::array<std::int64_t, 3>& at, std::int64_t length) {
    for (std::int64_t i = 0; i < length; ++i) {
      const std::int64_t k = index[at[1] + i * plan.strides[1][0]];
      const std::int64_t before = first ? 0 : running[at[2] + i * plan.strides[2][0]];
      result[at[0] + i * plan.strides[0][0]] = before * attr.extent + (k < 0 ? k + attr.extent : k);
    }
  });
}

void count_flags(const Tensor& flags, Tensor& counts) {
  const bool* const set = flags.data<bool>();
  auto* const result = counts.mutable_data<std::int64_t>();
  const std::int64_t numel = flags.numel();
  parallel_ranges(counts.numel(), kStridedGrain / kNonzeroChunk, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t c = begin; c < end; ++c) {
      result[c] = std::count(set + c * kNonzeroChunk, set + std::min(numel, (c + 1) * kNonzeroChunk), true);
    }
  });
}

void write_places(const Tensor& flags, const Tensor& offsets, const Shape& shape, Tensor& places) {
  const bool* const set = flags.data<bool>();
  const auto* const before = offsets.data<std::int64_t>();
  auto* const result = places.mutable_data<std::int64_t>();
  const std::int64_t numel = flags.numel();
  const std::size_t rank = shape.size();
  parallel_ranges(offsets.numel(), kStridedGrain / kNonzeroChunk, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t c = begin; c < end; ++c) {
      std::int64_t* to = result + before[c] * static_cast<std::int64_t>(rank);
      for (std::int64_t e = c * kNonzeroChunk; e < std::min(numel, (c + 1) * kNonzeroChunk); ++e) {
        if (!set[e]) continue;
        std::int64_t rest = e;
        for (std::size_t axis = rank; axis-- > 0; rest /= shape[axis]) to[axis] = rest % shape[axis];
        to += rank;
      }
    }
  });
}

}  // namespace adjoint::cpu
