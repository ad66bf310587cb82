// Padding.
#include <adjoint/ops/pad/pad.h>
#include <adjoint/tests/support/operator_cases.h>

namespace adjoint::testing {

using In = const std::vector<Tensor>&;
using Out = std::vector<Tensor>;

OperatorFamily pad_operators() {
  constexpr auto kAny = Takes::kEverything;
  return {.name = "pad",
          .cases =
              {
                  {.name = "pad",
                   .call = [](In in) -> Out {
                     return {pad(in[0], {1, 2}, 1.5)};
                   }},
                  {.name = "pad/constant_everywhere",
                   .call = [](In in) -> Out {
                     return {pad(in[0], {1, 0, 0, 2, 1, 1, 2, 0, 0, 1})};
                   },
                   .takes = kAny},
                  {.name = "pad/apart",
                   .call = [](In in) -> Out {
                     return {pad(in[0], {1, 1, 0, 0, 2, 0, 0, 0, 1, 2})};
                   },
                   .takes = kAny},
                  {.name = "pad/cuts",
                   .call = [](In in) -> Out {
                     return {pad(in[0], {-1, 2, 1, -1})};
                   },
                   .takes = kAny},
                  {.name = "pad/reflect",
                   .call = [](In in) -> Out {
                     return {pad(in[0], {2, 1}, PadMode::kReflect)};
                   },
                   .takes = kAny},
                  {.name = "pad/reflect_2d",
                   .call = [](In in) -> Out {
                     return {pad(in[0], {2, 1, 0, 2}, PadMode::kReflect)};
                   },
                   .takes = kAny},
                  {.name = "pad/replicate",
                   .call = [](In in) -> Out {
                     return {pad(in[0], {3, 1}, PadMode::kReplicate)};
                   },
                   .takes = kAny},
                  {.name = "pad/replicate_2d",
                   .call = [](In in) -> Out {
                     return {pad(in[0], {2, 1, 3, 1}, PadMode::kReplicate)};
                   },
                   .takes = kAny},
                  {.name = "pad/replicate_3d",
                   .call = [](In in) -> Out {
                     return {pad(in[0], {1, 1, 0, 2, 1, 0}, PadMode::kReplicate)};
                   },
                   .takes = kAny},
                  {.name = "pad/circular",
                   .call = [](In in) -> Out {
                     return {pad(in[0], {3, 2}, PadMode::kCircular)};
                   },
                   .takes = kAny},
                  {.name = "pad/circular_2d",
                   .call = [](In in) -> Out {
                     return {pad(in[0], {2, 3, 1, 2}, PadMode::kCircular)};
                   },
                   .takes = kAny},
                  {.name = "pad/reflect_3d",
                   .call = [](In in) -> Out {
                     return {pad(in[0], {2, 1, 0, 2, 1, 1}, PadMode::kReflect)};
                   },
                   .takes = kAny},
                  {.name = "pad/circular_3d",
                   .call = [](In in) -> Out {
                     return {pad(in[0], {2, 3, 1, 2, 0, 1}, PadMode::kCircular)};
                   },
                   .takes = kAny},
                  {.name = "pad_adjoint",
                   .call = [](In in) -> Out {
                     return {pad_adjoint(in[0], {2, 2, 3}, {2, 1}, PadMode::kReflect)};
                   }},
                  {.name = "pad_adjoint/cuts",
                   .call = [](In in) -> Out {
                     return {pad_adjoint(in[0], {2, 3}, {-1, 2})};
                   }},
                  {.name = "pad_adjoint/empty",
                   .call = [](In in) -> Out {
                     return {pad_adjoint(in[0], {0, 2, 3}, {2, 1})};
                   }},
              },
          .bad_calls = {
              {"pad",
               [] {
                 pad(Tensor::ones({2, 3}), {3, 0}, PadMode::kReflect);
               },
               {"reflect: padding must be less than the extent; got (3, 0) for axis 1 of x (2, 3)"}},
              {"pad",
               [] {
                 pad(Tensor::ones({2, 3}), {-1, 2}, PadMode::kReflect);
               },
               {"got (-1, 2) for axis 1"}},
              {"pad",
               [] {
                 pad(Tensor::ones({2, 3}), {0, 0, 0, 3}, PadMode::kCircular);
               },
               {"circular: padding must be the extent at most; got (0, 3) for axis 0"}},
              {"pad",
               [] {
                 pad(Tensor::ones({2, 0}), {1, 0}, PadMode::kReplicate);
               },
               {"replicate: the extent must be positive; got (1, 0) for axis 1 of x (2, 0)"}},
              {"pad",
               [] {
                 pad(Tensor::ones({2, 3}), {1, 0}, PadMode::kReplicate, 2.0);
               },
               {"kConstant; got 2"}},
              {"pad",
               [] {
                 pad(Tensor::ones({3}), {1, 0}, static_cast<PadMode>(9));
               },
               {"PadMode", "9"}},
              {"pad_adjoint",
               [] {
                 pad_adjoint(Tensor::ones({2, 4}), {2, 3}, {1, 1});
               },
               {"padded must be (2, 5)", "(2, 4)"}},
              {"pad_adjoint",
               [] {
                 pad_adjoint(Tensor::ones({5}, {.dtype = kInt32}), {3}, {1, 1});
               },
               {"floating point"}},
          }};
}

}  // namespace adjoint::testing
