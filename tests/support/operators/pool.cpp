// Pooling.
#include <adjoint/ops/pool/pool.h>
#include <adjoint/tests/support/operator_cases.h>

namespace adjoint::testing {
namespace {

using In = const std::vector<Tensor>&;
using Out = std::vector<Tensor>;

Out both(const std::pair<Tensor, Tensor>& results) { return {results.first, results.second}; }
Tensor ones(const Shape& shape) { return Tensor::ones(shape); }
Tensor whole(const Shape& shape, double value) { return Tensor::full(shape, value, {.dtype = kInt64}); }

}  // namespace

OperatorFamily pool_operators() {
  return {
      .name = "pool",
      .cases =
          {
              {.name = "max_pool1d", .call = [](In in) -> Out { return {max_pool1d(in[0], 3)}; }},
              {.name = "max_pool1d/overlapping",
               .call = [](In in) -> Out { return {max_pool1d(in[0], 3, {.stride = 2, .padding = 1})}; }},
              {.name = "max_pool1d/dilated",
               .call = [](In in) -> Out {
                 return {max_pool1d(in[0], 3, {.stride = 1, .padding = 1, .dilation = 2, .ceil_mode = true})};
               }},
              {.name = "max_pool2d", .call = [](In in) -> Out { return {max_pool2d(in[0], 2)}; }},
              {.name = "max_pool2d/overlapping",
               .call = [](In in) -> Out { return {max_pool2d(in[0], 3, {.stride = 2, .padding = 1})}; }},
              {.name = "max_pool2d/rectangular",
               .call = [](In in) -> Out {
                 return {max_pool2d(in[0], {3, 2}, {.stride = {1, 2}, .padding = {1, 0}, .dilation = {1, 2}})};
               }},
              {.name = "max_pool2d/ceil",
               .call = [](In in) -> Out {
                 return {max_pool2d(in[0], 3, {.stride = 2, .padding = 1, .ceil_mode = true})};
               }},
              {.name = "max_pool1d_with_indices",
               .call = [](In in) -> Out { return both(max_pool1d_with_indices(in[0], 2, {.stride = 1})); }},
              {.name = "max_pool2d_with_indices",
               .call = [](In in) -> Out {
                 return both(max_pool2d_with_indices(in[0], 3, {.stride = 2, .padding = 1}));
               }},
              {.name = "avg_pool1d",
               .call = [](In in) -> Out { return {avg_pool1d(in[0], 3, {.stride = 2, .padding = 1})}; }},
              {.name = "avg_pool1d/ceil",
               .call = [](In in) -> Out {
                 return {
                     avg_pool1d(in[0], 4, {.stride = 3, .padding = 2, .ceil_mode = true, .count_include_pad = false})};
               }},
              {.name = "avg_pool2d", .call = [](In in) -> Out { return {avg_pool2d(in[0], 2, 2)}; }},
              {.name = "avg_pool2d/overlapping",
               .call = [](In in) -> Out { return {avg_pool2d(in[0], 3, {.stride = 2, .padding = 1})}; }},
              {.name = "avg_pool2d/ceil",
               .call = [](In in) -> Out {
                 return {avg_pool2d(in[0], 3, {.stride = 2, .padding = 1, .ceil_mode = true})};
               }},
              {.name = "avg_pool2d/uncounted",
               .call = [](In in) -> Out {
                 return {avg_pool2d(in[0], {3, 2},
                                    {.stride = {2, 1}, .padding = 1, .ceil_mode = true, .count_include_pad = false})};
               }},
              {.name = "avg_pool2d/divisor",
               .call = [](In in) -> Out { return {avg_pool2d(in[0], 2, {.stride = 1, .divisor_override = 3})}; }},
              {.name = "adaptive_avg_pool1d", .call = [](In in) -> Out { return {adaptive_avg_pool1d(in[0], 3)}; }},
              {.name = "adaptive_avg_pool2d",
               .call = [](In in) -> Out {
                 return {adaptive_avg_pool2d(in[0], {3, 0})};
               }},
              {.name = "adaptive_avg_pool2d/global",
               .call = [](In in) -> Out { return {adaptive_avg_pool2d(in[0], 1)}; }},
              {.name = "adaptive_avg_pool2d/wider",
               .call = [](In in) -> Out {
                 return {adaptive_avg_pool2d(in[0], {5, 7})};
               }},
              {.name = "adaptive_max_pool1d", .call = [](In in) -> Out { return {adaptive_max_pool1d(in[0], 3)}; }},
              {.name = "adaptive_max_pool2d",
               .call = [](In in) -> Out {
                 return {adaptive_max_pool2d(in[0], {2, 3})};
               }},
              {.name = "adaptive_max_pool1d_with_indices",
               .call = [](In in) -> Out { return both(adaptive_max_pool1d_with_indices(in[0], 3)); }},
              {.name = "adaptive_max_pool2d_with_indices",
               .call = [](In in) -> Out { return both(adaptive_max_pool2d_with_indices(in[0], 3)); }},
              {.name = "max_unpool1d", .call = [](In in) -> Out { return {max_unpool1d(in[0], in[1], 2)}; }},
              {.name = "max_unpool1d/size",
               .call = [](In in) -> Out { return {max_unpool1d(in[0], in[1], 2, {.output_size = 7})}; }},
              {.name = "max_unpool2d", .call = [](In in) -> Out { return {max_unpool2d(in[0], in[1], 2)}; }},
              {.name = "max_unpool2d/overlapping",
               .call = [](In in) -> Out {
                 return {max_unpool2d(in[0], in[1], 3, {.stride = 2, .padding = 1, .output_size = 4})};
               }},
              {.name = "max_pool3d", .call = [](In in) -> Out { return {max_pool3d(in[0], 2)}; }},
              {.name = "max_pool3d/overlapping", .call = [](In in) -> Out { return {max_pool3d(in[0], 3, 2, 1)}; }},
              {.name = "max_pool3d/box",
               .call = [](In in) -> Out {
                 return {
                     max_pool3d(in[0], {3, 1, 2},
                                {.stride = {1, 2, 2}, .padding = {1, 0, 1}, .dilation = {1, 1, 2}, .ceil_mode = true})};
               }},
              {.name = "max_pool3d_with_indices",
               .call = [](In in) -> Out {
                 return both(max_pool3d_with_indices(in[0], 3, {.stride = 2, .padding = 1}));
               }},
              {.name = "avg_pool3d", .call = [](In in) -> Out { return {avg_pool3d(in[0], 2, 2)}; }},
              {.name = "avg_pool3d/ceil",
               .call = [](In in) -> Out {
                 return {avg_pool3d(in[0], 3, {.stride = 2, .padding = 1, .ceil_mode = true})};
               }},
              {.name = "avg_pool3d/uncounted",
               .call = [](In in) -> Out {
                 return {avg_pool3d(
                     in[0], {3, 2, 1},
                     {.stride = {2, 1, 1}, .padding = {1, 1, 0}, .ceil_mode = true, .count_include_pad = false})};
               }},
              {.name = "avg_pool3d/divisor",
               .call = [](In in) -> Out { return {avg_pool3d(in[0], 2, {.stride = 1, .divisor_override = 3})}; }},
              {.name = "adaptive_avg_pool3d",
               .call = [](In in) -> Out {
                 return {adaptive_avg_pool3d(in[0], {3, 0, 2})};
               }},
              {.name = "adaptive_avg_pool3d/global",
               .call = [](In in) -> Out { return {adaptive_avg_pool3d(in[0], 1)}; }},
              {.name = "adaptive_max_pool3d",
               .call = [](In in) -> Out {
                 return {adaptive_max_pool3d(in[0], {2, 3, 1})};
               }},
              {.name = "adaptive_max_pool3d_with_indices",
               .call = [](In in) -> Out { return both(adaptive_max_pool3d_with_indices(in[0], 2)); }},
              {.name = "max_unpool3d", .call = [](In in) -> Out { return {max_unpool3d(in[0], in[1], 2)}; }},
              {.name = "max_unpool3d/overlapping",
               .call = [](In in) -> Out {
                 return {max_unpool3d(in[0], in[1], 3, {.stride = 2, .padding = 1, .output_size = {2, 4, 4}})};
               }},
          },
      .bad_calls = {
          {"max_pool1d", [] { max_pool1d(ones({3}), 2); }, {"(N, C, L) or (C, L); got (3,)"}},
          {"max_pool1d",
           [] {
             max_pool1d(ones({1, 0}), 2);
           },
           {"from 1 to 2^30 - 1; got input (1, 0)"}},
          {"max_pool2d",
           [] {
             max_pool2d(ones({1, 2, 3}), 4);
           },
           {"a window must fit; got input (1, 2, 3), kernel_size (4, 4)"}},
          {"max_pool2d",
           [] {
             max_pool2d(ones({1, 2, 3}), 2, {.padding = 2});
           },
           {"half of a window", "got (2, 2)"}},
          {"max_pool2d",
           [] {
             max_pool2d(ones({1, 2, 3}), 0);
           },
           {"kernel_size must be from 1", "got (0, 0)"}},
          {"max_pool2d",
           [] {
             max_pool2d(ones({1, 2, 3}), 2, {.dilation = 0});
           },
           {"dilation must be from 1"}},
          {"max_pool2d",
           [] {
             max_pool2d(ones({1, 2, 3}), 1 << 20, {.dilation = 1 << 20});
           },
           {"a window's extent must be below 2^30"}},
          {"max_pool2d",
           [] {
             max_pool2d(Tensor::ones({1, 2, 3}, {.dtype = kInt64}), 2);
           },
           {"floating point"}},
          {"max_pool1d_with_indices",
           [] {
             max_pool1d_with_indices(ones({2, 3}), 4);
           },
           {"must fit"}},
          {"max_pool2d_with_indices", [] { max_pool2d_with_indices(Tensor{}, 4); }, {"input"}},
          {"avg_pool1d",
           [] {
             avg_pool1d(ones({2, 3}), 2, {.stride = -1});
           },
           {"stride must be from 0", "got -1"}},
          {"avg_pool2d",
           [] {
             avg_pool2d(ones({2, 3}), 2);
           },
           {"(N, C, H, W) or (C, H, W); got (2, 3)"}},
          {"adaptive_avg_pool1d",
           [] {
             adaptive_avg_pool1d(ones({2, 3}), -1);
           },
           {"output_size must be from 0", "got -1"}},
          {"adaptive_avg_pool2d",
           [] {
             adaptive_avg_pool2d(ones({2, 0, 3}), 1);
           },
           {"(2, 0, 3)"}},
          {"adaptive_max_pool1d", [] { adaptive_max_pool1d(ones({2}), 1); }, {"got (2,)"}},
          {"adaptive_max_pool2d",
           [] {
             adaptive_max_pool2d(ones({2, 3, 3}), {1, -2});
           },
           {"got (1, -2)"}},
          {"adaptive_max_pool1d_with_indices", [] { adaptive_max_pool1d_with_indices(ones({2}), 1); }, {"got (2,)"}},
          {"adaptive_max_pool2d_with_indices", [] { adaptive_max_pool2d_with_indices(ones({2}), 1); }, {"got (2,)"}},
          {"max_unpool1d",
           [] {
             max_unpool1d(ones({1, 2}), ones({1, 2}), 2);
           },
           {"int64", "float32"}},
          {"max_unpool1d",
           [] {
             max_unpool1d(ones({1, 2}), whole({1, 2}, 4), 2);
           },
           {"indices must be in [0, 4), or -1; got 4"}},
          {"max_unpool1d",
           [] {
             max_unpool1d(ones({1, 2}), whole({1, 2}, 0), 2, {.output_size = 6});
           },
           {"less than a stride from 4; got 6"}},
          {"max_unpool2d",
           [] {
             max_unpool2d(ones({1, 1, 2}), whole({1, 2, 1}, 0), 2);
           },
           {"of input's shape", "(1, 2, 1)"}},
          {"max_pool3d",
           [] {
             max_pool3d(ones({1, 2, 2, 3}), {1, 4, 2});
           },
           {"a window must fit; got input (1, 2, 2, 3), kernel_size (1, 4, 2)"}},
          {"max_pool3d",
           [] {
             max_pool3d(ones({1, 2, 3}), 2);
           },
           {"(N, C, D, H, W) or (C, D, H, W); got (1, 2, 3)"}},
          {"max_pool3d",
           [] {
             max_pool3d(ones({1, 2, 2, 3}), {1 << 29, 1 << 29, 16}, {.padding = 1 << 28});
           },
           {"a window must have fewer than 2^62 elements"}},
          {"max_pool3d_with_indices",
           [] {
             max_pool3d_with_indices(ones({1, 2, 2, 3}), 2, {.padding = {0, 2, 0}});
           },
           {"half of a window", "got (0, 2, 0)"}},
          {"avg_pool3d",
           [] {
             avg_pool3d(ones({1, 2, 2, 3}), 2, {.stride = {1, -1, 1}});
           },
           {"stride must be from 0", "got (1, -1, 1)"}},
          {"adaptive_avg_pool3d",
           [] {
             adaptive_avg_pool3d(ones({2, 0, 3, 3}), 1);
           },
           {"(2, 0, 3, 3)"}},
          {"adaptive_max_pool3d",
           [] {
             adaptive_max_pool3d(ones({2, 3, 3, 3}), {-2, 1, 1});
           },
           {"got (-2, 1, 1)"}},
          {"adaptive_max_pool3d_with_indices", [] { adaptive_max_pool3d_with_indices(ones({2}), 1); }, {"got (2,)"}},
          {"max_unpool3d",
           [] {
             max_unpool3d(ones({1, 1, 1, 2}), whole({1, 1, 1, 2}, 16), 2);
           },
           {"indices must be in [0, 16), or -1; got 16"}},
          {"max_unpool3d",
           [] {
             max_unpool3d(ones({1, 1, 1, 2}), whole({1, 1, 1, 2}, 0), 2, {.output_size = {4, 2, 4}});
           },
           {"less than a stride from 2; got 4"}},
      }};
}

}  // namespace adjoint::testing
