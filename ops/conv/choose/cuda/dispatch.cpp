#include <adjoint/ops/conv/choose/cuda/dispatch.h>

#include <adjoint/core/check.h>
#include <adjoint/core/copy.h>
#include <adjoint/core/tensor_impl.h>
#include <adjoint/ops/conv/base/cuda/kept_plans.h>
#include <adjoint/ops/conv/channelwise/cuda/channelwise.h>
#include <adjoint/ops/conv/choose/cuda/pays.h>
#include <adjoint/ops/conv/choose/cuda/rearranged.h>
#include <adjoint/ops/conv/correlation/cuda/blocks/blocked.h>
#include <adjoint/ops/conv/correlation/cuda/correlation.h>
#include <adjoint/ops/conv/correlation/cuda/mma/mma.h>
#include <adjoint/ops/conv/correlation/cuda/sliced.h>
#include <adjoint/ops/conv/few_results/cuda/few_results.h>
#include <adjoint/ops/conv/kernels.h>
#include <adjoint/ops/conv/line/col2im/cuda/col2im.h>
#include <adjoint/ops/conv/line/narrow/cuda/narrow.h>
#include <adjoint/ops/conv/line/packed/cuda/packed.h>
#include <adjoint/ops/conv/plain/cuda/plain.h>
#include <adjoint/ops/conv/product/cuda/product.h>
#include <adjoint/ops/conv/product/cuda/tapwise.h>
#include <adjoint/ops/conv/weight/cuda/blocks/blocked.h>
#include <adjoint/ops/conv/weight/cuda/weight.h>
#include <adjoint/ops/elementwise/activate.h>

#include <array>
#include <cstddef>
#include <string_view>

namespace adjoint::cuda {
namespace {

struct Choice {
  const ConvKernel* kernel;
  bool (*pays)(const ConvProblem& problem) = nullptr;  // null for always
};

// Two stand here twice: `few_results` where it pays, and, named `*_else`, for what only `plain` would take; `plain`
// where it pays, and for all that is left.
constexpr Choice kConv[] = {{&few_results_conv, few_results_pay},
                            {&product_conv, product_pays},
                            {&plain_conv, plain_pays},
                            {&rearranged_conv, rearranged_pays},
                            {&channelwise_conv, channelwise_pays},
                            {&col2im_conv, col2im_pays},
                            {&packed_conv, packed_pays},
                            {&narrow_conv, narrow_pays},
                            {&sliced_conv, sliced_pays},
                            {&blocked_conv, blocked_pays},
                            {&correlation_conv},
                            {&mma_conv},
                            {&few_results_conv_else},
                            {&plain_conv}};
constexpr Choice kConvTranspose[] = {{&few_results_conv_transpose, few_results_pay},
                                     {&product_conv_transpose, product_pays},
                                     {&plain_conv_transpose, plain_pays},
                                     {&channelwise_conv_transpose, channelwise_pays},
                                     {&rearranged_conv_transpose, rearranged_pays},
                                     {&col2im_conv_transpose, col2im_pays},
                                     {&packed_conv_transpose, packed_pays},
                                     {&narrow_conv_transpose, narrow_pays},
                                     {&sliced_conv_transpose, sliced_pays},
                                     {&blocked_conv_transpose, blocked_pays},
                                     {&correlation_conv_transpose},
                                     {&mma_conv_transpose},
                                     {&few_results_conv_transpose_else},
                                     {&plain_conv_transpose}};
constexpr Choice kConvWeight[] = {{&few_results_conv_weight, few_weight_pays},
                                  {&product_conv_weight, product_pays},
                                  {&blocked_conv_weight, blocked_weight_pays},
                                  {&tapwise_conv_weight, tapwise_pays},
                                  {&rearranged_conv_weight, rearranged_pays},
                                  {&channelwise_conv_weight, channelwise_weight_pays},
                                  {&boxes_conv_weight, boxes_pay},
                                  {&wgmma_conv_weight},
                                  {&tensor_core_conv_weight},
                                  {&few_results_conv_weight_else},
                                  {&plain_conv_weight}};

/// Each kernel of a list once, in the order of where it stands last.
template <std::size_t kCount>
struct Kernels {
  std::array<const ConvKernel*, kCount> kernels{};
  std::size_t count = 0;

  constexpr explicit Kernels(const Choice (&choices)[kCount]) {
    for (std::size_t i = 0; i < kCount; ++i) {
      bool again = false;
      for (std::size_t j = i + 1; j < kCount; ++j) again = again || choices[j].kernel == choices[i].kernel;
      if (!again) kernels[count++] = choices[i].kernel;
    }
  }
  constexpr std::span<const ConvKernel* const> all() const { return {kernels.data(), count}; }
};

std::span<const Choice> choices_of(ConvRole role) {
  switch (role) {
    case ConvRole::kFeature: return kConv;
    case ConvRole::kImage: return kConvTranspose;
    case ConvRole::kFilter: break;
  }
  return kConvWeight;
}

/// The list is walked: each kernel is asked for its plan.
const ConvKernel& first_that_pays(const ConvProblem& problem, const ConvKernel* except) {
  for (const auto& [kernel, pays] : choices_of(problem.role)) {
    if (kernel == except) continue;
    if (kernel->takes(problem) && (pays == nullptr || pays(problem))) return *kernel;
  }
  return *conv_kernels(problem.role).back();
}

thread_local const char* forced = nullptr;

const char* role_name(ConvRole role) {
  switch (role) {
    case ConvRole::kFeature: return "conv";
    case ConvRole::kImage: return "conv_transpose";
    case ConvRole::kFilter: break;
  }
  return "conv_weight";
}

bool is_a_name(std::string_view name) {
  for (const ConvRole role : {ConvRole::kFeature, ConvRole::kImage, ConvRole::kFilter}) {
    for (const ConvKernel* kernel : conv_kernels(role)) {
      if (name == kernel->name) return true;
    }
  }
  return false;
}

// outs: the result, and where sum and bias go as they are, if anywhere.
void run(ConvRole role, std::span<const Tensor> in, std::span<Tensor> outs, const ConvAttr& attr) {
  Tensor& out = outs[0];
  Tensor* const linear = outs.size() > 1 && outs[1].defined() ? &outs[1] : nullptr;
  const bool has_bias = in.size() > 2 && in[2].defined();
  // A kernel that is forced was chosen for the geometry as it is.
  const ConvGeometry geometry =
      forced != nullptr ? attr.geometry : simplified(attr.geometry, role == ConvRole::kImage && has_bias);
  const ConvProblem problem{.role = role,
                            .geometry = geometry,
                            .dtype = out.dtype(),
                            .precision = float32_precision(),
                            .device = out.device().index,
                            .first = in[0].raw_data(),
                            .second = in[1].raw_data(),
                            .bias = has_bias ? in[2].raw_data() : nullptr,
                            .out = out.raw_mutable_data(),
                            .activation = attr.activation,
                            .linear = linear == nullptr ? nullptr : linear->raw_mutable_data(),
                            .forms = role == ConvRole::kFilter ? nullptr : in[1].impl()->storage->forms()};
  const ConvKernel& kernel = select_conv_kernel(problem);
  kernel.run(problem);
  if (kernel.activates) return;
  if (linear != nullptr) copy_into(out, *linear);
  activate_in_place(out, attr.activation);
}

}  // namespace

std::span<const ConvKernel* const> conv_kernels(ConvRole role) {
  static constexpr Kernels conv(kConv);
  static constexpr Kernels conv_transpose(kConvTranspose);
  static constexpr Kernels conv_weight(kConvWeight);
  switch (role) {
    case ConvRole::kFeature: return conv.all();
    case ConvRole::kImage: return conv_transpose.all();
    case ConvRole::kFilter: break;
  }
  return conv_weight.all();
}

const ConvKernel& best_conv_kernel(const ConvProblem& problem, const ConvKernel* except) {
  // What few kernels take is not kept: the key of a plan does not know float64.
  if (except != nullptr || problem.dtype == kFloat64) return first_that_pays(problem, except);
  struct Best {
    const ConvKernel* kernel;
  };
  return *keep_plan<Best>(problem, [&](Best& best) {
            best.kernel = &first_that_pays(problem, nullptr);
            return true;
          })->kernel;
}

const ConvKernel& select_conv_kernel(const ConvProblem& problem) {
  if (forced == nullptr) return best_conv_kernel(problem);
  for (const ConvKernel* kernel : conv_kernels(problem.role)) {
    if (std::string_view(forced) == kernel->name && kernel->takes(problem)) return *kernel;
  }
  fail("{}: a forced kernel must take the problem; got kernel '{}'; let the library choose", role_name(problem.role),
       forced);
}

ForceConvKernel::ForceConvKernel(const char* name) : before_(forced) {
  ADJOINT_CHECK(is_a_name(name), "ForceConvKernel: name must be a kernel's; got '{}'; see conv_kernels()", name);
  forced = name;
}

ForceConvKernel::~ForceConvKernel() { forced = before_; }

void conv(std::span<const Tensor> in, std::span<Tensor> out, const ConvAttr& attr) {
  run(ConvRole::kFeature, in, out, attr);
}

void conv_transpose(std::span<const Tensor> in, std::span<Tensor> out, const ConvAttr& attr) {
  run(ConvRole::kImage, in, out, attr);
}

void conv_weight(std::span<const Tensor> in, Tensor& out, const ConvGeometry& geometry) {
  run(ConvRole::kFilter, in, {&out, 1}, {geometry});
}

}  // namespace adjoint::cuda
