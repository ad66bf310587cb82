// Random calls of core and of every operator: no crash, and every error names the function called.

#include <adjoint/core/autograd/gradcheck.h>
#include <adjoint/core/autograd/tape.h>
#include <adjoint/core/base/parallel.h>
#include <adjoint/core/base/precision.h>
#include <adjoint/core/base/stream.h>
#include <adjoint/core/tensor/random.h>
#include <adjoint/ops/conv/conv.h>
#include <adjoint/ops/conv/workspace.h>
#include <adjoint/ops/elementwise/elementwise.h>
#include <adjoint/ops/join/join.h>
#include <adjoint/ops/loss/loss.h>
#include <adjoint/ops/matmul/matmul.h>
#include <adjoint/ops/reduce/reduce.h>
#include <adjoint/ops/resample/resample.h>
#include <adjoint/ops/roll/roll.h>
#include <adjoint/ops/view/view.h>
#include <adjoint/tests/support/invalid_calls.h>
#include <adjoint/tests/support/loss_cases.h>

#include <gtest/gtest.h>

#include <array>

namespace adjoint::testing {
namespace {

using A = Arguments&;

constexpr int kCalls = 10000;
constexpr std::uint64_t kSeed = 27;

Size2 size2(A a) { return {a.integer(), a.integer()}; }
Size3 size3(A a) { return {a.integer(), a.integer(), a.integer()}; }
Extents extents(A a) { return {a.integer(), a.integer(), a.integer()}; }
Margins margins(A a) { return {a.integer(), a.integer(), a.integer()}; }
std::size_t place(A a) { return static_cast<std::size_t>(a.integer()); }

Activation activation(A a) {
  return a.chance(2) ? Activation{}
                     : Activation{a.enumerator<ActivationKind>(static_cast<unsigned>(ActivationKind::kEnd)),
                                  {a.scalar(), a.scalar()}};
}

TEST(InvalidCalls, OfShapesDevicesAndFactories) {
  static std::array<double, 64> memory{};
  const std::vector<Call> table{
      {"shape", [](A a) { return a.shape().numel(); }},
      {"shape", [](A a) { return contiguous_strides(a.shape()); }},
      {"shape", [](A a) { return a.dims()[place(a)]; }},
      {"shape", [](A a) { return a.dims().back(); }},
      {"shape", [](A a) { a.dims().erase(place(a)); }},
      {"shape", [](A a) { a.dims().insert(place(a), 1); }},
      {"shape", [](A a) { return Dims::filled(place(a) % 16, 1); }},
      {"broadcast", [](A a) { return broadcast_shapes("broadcast", a.shape(), a.shape()); }},
      {"axis", [](A a) { return resolve_axis("axis", a.integer(), place(a) % 9); }},
      {"Device", [](A a) { return Device(a.enumerator<DeviceType>(2), static_cast<int>(a.integer())); }},
      {"dtype", [](A a) { return element_size(a.enumerator<DType>(8)); }},
      {"empty", [](A a) { return Tensor::empty(a.shape(), a.options()); }},
      {"zeros", [](A a) { return Tensor::zeros(a.shape(), a.options()); }},
      {"ones", [](A a) { return Tensor::ones(a.shape(), a.options()); }},
      {"full", [](A a) { return Tensor::full(a.shape(), 1, a.options()); }},
      {"scalar", [](A a) { return Tensor::scalar(1, a.options()); }},
      {"rand", [](A a) { return Tensor::rand(a.shape(), a.options()); }},
      {"randn", [](A a) { return Tensor::randn(a.shape(), a.options()); }},
      {"eye", [](A a) { return Tensor::eye(a.integer(), a.options()); }},
      {"arange", [](A a) { return Tensor::arange(a.scalar(), a.scalar(), a.scalar()); }},
      {"from_vector",
       [](A a) {
         return Tensor::from_vector<float>({1, 2, 3}, a.shape(), a.options());
       }},
      {"from_blob",
       [](A a) { return Tensor::from_blob(a.chance(4) ? nullptr : memory.data(), a.shape(), a.options()); }},
  };
  expect_errors_that_name_the_call(table, kCalls, kSeed);
}

TEST(InvalidCalls, OfMembers) {
  const std::vector<Call> table{
      {"shape", [](A a) { return a.tensor().shape(); }},
      {"strides", [](A a) { return a.tensor().strides(); }},
      {"storage_offset", [](A a) { return a.tensor().storage_offset(); }},
      {"dtype", [](A a) { return a.tensor().dtype(); }},
      {"device", [](A a) { return a.tensor().device(); }},
      {"dim", [](A a) { return a.tensor().dim(); }},
      {"size", [](A a) { return a.tensor().size(a.integer()); }},
      {"numel", [](A a) { return a.tensor().numel(); }},
      {"is_contiguous", [](A a) { return a.tensor().is_contiguous(); }},
      {"options", [](A a) { return a.tensor().options(); }},
      {"data", [](A a) { return a.tensor().data<double>(); }},
      {"mutable_data", [](A a) { return a.fresh().mutable_data<float>(); }},
      {"raw_data", [](A a) { return a.tensor().raw_data(); }},
      {"raw_mutable_data", [](A a) { return a.fresh().raw_mutable_data(); }},
      {"item", [](A a) { return a.tensor().item<float>(); }},
      {"to_vector", [](A a) { return a.tensor().to_vector<float>(); }},
      {"to", [](A a) { return a.tensor().to(a.device()); }},
      {"to", [](A a) { return a.tensor().to(a.enumerator<DType>(8)); }},
      {"clone", [](A a) { return a.tensor().clone(); }},
      {"contiguous", [](A a) { return a.tensor().contiguous(); }},
      {"detach", [](A a) { return a.tensor().detach(); }},
      {"requires_grad", [](A a) { return a.tensor().requires_grad(); }},
      {"requires_grad_", [](A a) { return a.fresh().requires_grad_(a.chance(2)); }},
      {"grad", [](A a) { return a.tensor().grad(); }},
      {"set_grad", [](A a) { a.fresh().set_grad(a.tensor()); }},
      {"register_hook", [](A a) { a.tensor().register_hook([](const Tensor& g) { return g; }); }},
      {"remove_hook", [](A a) { a.tensor().remove_hook(7); }},
      {"fill_", [](A a) { return a.fresh().fill_(1); }},
      {"zero_", [](A a) { return a.fresh().zero_(); }},
      {"copy_", [](A a) { return a.fresh().copy_(a.tensor()); }},
      {"add_", [](A a) { return a.fresh().add_(a.tensor(), a.scalar()); }},
      {"mul_", [](A a) { return a.fresh().mul_(a.scalar()); }},
      {"uniform_", [](A a) { return a.fresh().uniform_(0, 1); }},
      {"normal_", [](A a) { return a.fresh().normal_(0, 1); }},
  };
  expect_errors_that_name_the_call(table, kCalls, kSeed);
}

TEST(InvalidCalls, OfViewsReductionsAndMatrices) {
  const std::vector<Call> table{
      {"reshape", [](A a) { return a.tensor().reshape(a.shape()); }},
      {"flatten", [](A a) { return a.tensor().flatten(a.integer(), a.integer()); }},
      {"permute", [](A a) { return a.tensor().permute(a.dims()); }},
      {"transpose", [](A a) { return a.tensor().transpose(a.integer(), a.integer()); }},
      {"narrow", [](A a) { return a.tensor().narrow(a.integer(), a.integer(), a.integer()); }},
      {"select", [](A a) { return a.tensor().select(a.integer(), a.integer()); }},
      {"squeeze", [](A a) { return a.tensor().squeeze(); }},
      {"squeeze", [](A a) { return a.tensor().squeeze(a.integer()); }},
      {"unsqueeze", [](A a) { return a.tensor().unsqueeze(a.integer()); }},
      {"expand", [](A a) { return a.tensor().expand(a.shape()); }},
      {"sum_to", [](A a) { return sum_to(a.tensor(), a.shape()); }},
      {"embed", [](A a) { return embed(a.tensor(), a.integer(), a.integer(), a.integer()); }},
      {"sum", [](A a) { return a.tensor().sum(a.dims(), a.chance(2)); }},
      {"mean", [](A a) { return a.tensor().mean(a.dims(), a.chance(2)); }},
      {"amax", [](A a) { return amax(a.tensor(), a.dims(), a.chance(2)); }},
      {"var", [](A a) { return var(a.tensor(), a.dims(), a.integer(), a.chance(2)); }},
      {"argmax", [](A a) { return argmax(a.tensor(), a.integer(), a.chance(2)); }},
      {"matmul", [](A a) { return matmul(a.tensor(), a.tensor()); }},
      {"cat", [](A a) { return cat(a.tensors(), a.integer()); }},
      {"stack", [](A a) { return stack(a.tensors(), a.integer()); }},
      {"pad",
       [](A a) {
         const Dims amounts = a.dims();
         return pad(a.tensor(), std::vector<std::int64_t>(amounts.begin(), amounts.end()), 1);
       }},
      {"roll", [](A a) { return roll(a.tensor(), a.integer(), a.integer()); }},
      {"interpolate",
       [](A a) {
         InterpolateParams params{.mode = a.enumerator<Interpolation>(2),
                                  .align_corners = a.chance(2),
                                  .antialias = a.chance(4)};
         if (a.chance(2)) params.size = size2(a);
         if (a.chance(2)) params.scale_factor = {a.scalar(), a.scalar()};
         return interpolate(a.tensor(), params);
       }},
      {"pixel_shuffle", [](A a) { return pixel_shuffle(a.tensor(), a.integer()); }},
      {"pixel_unshuffle", [](A a) { return pixel_unshuffle(a.tensor(), a.integer()); }},
  };
  expect_errors_that_name_the_call(table, kCalls, kSeed);
}

TEST(InvalidCalls, OfLosses) {
  std::vector<Call> table;
  for (const LossCase& c : loss_cases()) {
    table.push_back({c.name, [&c](A a) { return c.call(a.tensor(), a.tensor(), a.enumerator<Reduction>(3)); }});
    if (c.with) table.push_back({c.name, [&c](A a) { return c.with(a.tensor(), a.tensor(), a.scalar()); }});
  }
  expect_errors_that_name_the_call(table, kCalls, kSeed);
}

TEST(InvalidCalls, OfElementwiseOperators) {
  std::vector<Call> table{
      {"logical_not", [](A a) { return logical_not(a.tensor()); }},
      {"isnan", [](A a) { return isnan(a.tensor()); }},
      {"isinf", [](A a) { return isinf(a.tensor()); }},
      {"isfinite", [](A a) { return isfinite(a.tensor()); }},
      {"add", [](A a) { return a.tensor() + a.tensor(); }},
      {"sub", [](A a) { return a.tensor() - a.tensor(); }},
      {"mul", [](A a) { return a.tensor() * a.tensor(); }},
      {"div", [](A a) { return a.tensor() / a.tensor(); }},
      {"add", [](A a) { return a.tensor() + a.scalar(); }},
      {"sub", [](A a) { return a.tensor() - a.scalar(); }},
      {"mul", [](A a) { return a.tensor() * a.scalar(); }},
      {"div", [](A a) { return a.tensor() / a.scalar(); }},
      {"add", [](A a) { return a.scalar() + a.tensor(); }},
      {"sub", [](A a) { return a.scalar() - a.tensor(); }},
      {"mul", [](A a) { return a.scalar() * a.tensor(); }},
      {"div", [](A a) { return a.scalar() / a.tensor(); }},
      {"neg", [](A a) { return -a.tensor(); }},
      {"eq", [](A a) { return a.tensor() == a.tensor(); }},
      {"ne", [](A a) { return a.tensor() != a.tensor(); }},
      {"lt", [](A a) { return a.tensor() < a.tensor(); }},
      {"le", [](A a) { return a.tensor() <= a.tensor(); }},
      {"gt", [](A a) { return a.tensor() > a.tensor(); }},
      {"ge", [](A a) { return a.tensor() >= a.tensor(); }},
      {"eq", [](A a) { return a.tensor() == a.scalar(); }},
      {"ne", [](A a) { return a.tensor() != a.scalar(); }},
      {"lt", [](A a) { return a.tensor() < a.scalar(); }},
      {"le", [](A a) { return a.tensor() <= a.scalar(); }},
      {"gt", [](A a) { return a.tensor() > a.scalar(); }},
      {"ge", [](A a) { return a.tensor() >= a.scalar(); }},
      {"where", [](A a) { return where(a.tensor(), a.tensor(), a.tensor()); }},
      {"pow", [](A a) { return pow(a.tensor(), a.scalar()); }},
      {"pow", [](A a) { return pow(a.tensor(), a.tensor()); }},
      {"minimum", [](A a) { return minimum(a.tensor(), a.tensor()); }},
      {"maximum", [](A a) { return maximum(a.tensor(), a.tensor()); }},
      {"clamp", [](A a) { return clamp(a.tensor(), a.scalar(), a.scalar()); }},
      {"clamp_min", [](A a) { return clamp_min(a.tensor(), a.scalar()); }},
      {"clamp_max", [](A a) { return clamp_max(a.tensor(), a.scalar()); }},
      {"atan2", [](A a) { return atan2(a.tensor(), a.tensor()); }},
      {"fmod", [](A a) { return fmod(a.tensor(), a.tensor()); }},
      {"fmod", [](A a) { return fmod(a.tensor(), a.scalar()); }},
      {"remainder", [](A a) { return remainder(a.tensor(), a.tensor()); }},
      {"remainder", [](A a) { return remainder(a.tensor(), a.scalar()); }},
      {"lerp", [](A a) { return lerp(a.tensor(), a.tensor(), a.tensor()); }},
      {"lerp", [](A a) { return lerp(a.tensor(), a.tensor(), a.scalar()); }},
      {"where", [](A a) { return where(a.tensor(), a.tensor(), a.scalar()); }},
      {"where", [](A a) { return where(a.tensor(), a.scalar(), a.tensor()); }},
      {"where", [](A a) { return where(a.tensor(), a.scalar(), a.scalar()); }},
      {"masked_fill", [](A a) { return masked_fill(a.tensor(), a.tensor(), a.scalar()); }},
      {"nan_to_num", [](A a) { return nan_to_num(a.tensor(), a.scalar(), a.scalar(), a.scalar()); }},
      {"logical_and", [](A a) { return logical_and(a.tensor(), a.tensor()); }},
      {"logical_or", [](A a) { return logical_or(a.tensor(), a.tensor()); }},
      {"logical_xor", [](A a) { return logical_xor(a.tensor(), a.tensor()); }},
      {"snake", [](A a) { return snake(a.tensor(), a.tensor()); }},
      {"glu", [](A a) { return glu(a.tensor(), a.integer()); }},
      {"prelu", [](A a) { return prelu(a.tensor(), a.tensor()); }},
      {"activate", [](A a) { return activate(a.tensor(), activation(a)); }},
  };
#define ADJOINT_CALL(Name, function, ...) table.push_back({#function, [](A a) { return function(a.tensor()); }});
#define ADJOINT_CALL1(Name, function, ...) \
  table.push_back({#function, [](A a) { return function(a.tensor(), a.scalar()); }});
#define ADJOINT_CALL2(Name, function, ...) \
  table.push_back({#function, [](A a) { return function(a.tensor(), a.scalar(), a.scalar()); }});
  ADJOINT_UNARY_MATH_FUNCTIONS(ADJOINT_CALL)
  ADJOINT_STEP_FUNCTIONS(ADJOINT_CALL)
  ADJOINT_ACTIVATIONS(ADJOINT_CALL, ADJOINT_CALL1, ADJOINT_CALL2)
#undef ADJOINT_CALL
#undef ADJOINT_CALL1
#undef ADJOINT_CALL2
  expect_errors_that_name_the_call(table, kCalls, kSeed);
}

TEST(InvalidCalls, OfConvolutions) {
  const std::vector<Call> table{
      {"conv1d",
       [](A a) {
         return conv1d(a.tensor(), a.tensor(), a.chance(2) ? a.tensor() : Tensor{},
                       {a.integer(), a.integer(), a.integer(), a.integer(), activation(a)});
       }},
      {"conv2d",
       [](A a) {
         return conv2d(a.tensor(), a.tensor(), a.chance(2) ? a.tensor() : Tensor{},
                       {size2(a), size2(a), size2(a), a.integer(), activation(a)});
       }},
      {"conv_transpose1d",
       [](A a) {
         return conv_transpose1d(a.tensor(), a.tensor(), a.chance(2) ? a.tensor() : Tensor{},
                                 {a.integer(), a.integer(), a.integer(), a.integer(), a.integer(), a.integer(),
                                  activation(a)});
       }},
      {"conv_transpose2d",
       [](A a) {
         return conv_transpose2d(a.tensor(), a.tensor(), a.chance(2) ? a.tensor() : Tensor{},
                                 {size2(a), size2(a), size2(a), size2(a), a.integer(), size2(a), activation(a)});
       }},
      {"conv3d",
       [](A a) {
         return conv3d(a.tensor(), a.tensor(), a.chance(2) ? a.tensor() : Tensor{},
                       {size3(a), size3(a), size3(a), a.integer(), activation(a), a.chance(2)});
       }},
      {"conv_transpose3d",
       [](A a) {
         return conv_transpose3d(a.tensor(), a.tensor(), a.chance(2) ? a.tensor() : Tensor{},
                                 {size3(a), size3(a), size3(a), size3(a), a.integer(), size3(a), activation(a)});
       }},
      // Operands that fit, so that the attributes are checked.
      {"conv3d",
       [](A a) {
         return conv3d(Tensor::ones({1, 4, 3, 4, 4}), Tensor::ones({4, 2, 3, 2, 2}), {},
                       {size3(a), size3(a), size3(a), a.chance(2) ? 2 : a.integer(), activation(a), a.chance(2)});
       }},
      {"conv_transpose3d",
       [](A a) {
         return conv_transpose3d(Tensor::ones({1, 4, 3, 4, 4}), Tensor::ones({4, 2, 3, 2, 2}), {},
                                 {size3(a), size3(a), size3(a), size3(a), a.chance(2) ? 2 : a.integer(), size3(a),
                                  activation(a)});
       }},
      {"conv2d",
       [](A a) {
         return conv2d(Tensor::ones({1, 4, 6, 6}), Tensor::ones({4, 2, 3, 3}), {},
                       {size2(a), size2(a), size2(a), a.chance(2) ? 2 : a.integer(), activation(a)});
       }},
      {"conv_transpose2d",
       [](A a) {
         return conv_transpose2d(Tensor::ones({1, 4, 6, 6}), Tensor::ones({4, 2, 3, 3}), {},
                                 {size2(a), size2(a), size2(a), size2(a), a.chance(2) ? 2 : a.integer(), size2(a),
                                  activation(a)});
       }},
      {"conv_workspace",
       [](A a) {
         const ConvGeometry geometry{static_cast<int>(a.integer()),
                                     a.integer(),
                                     a.integer(),
                                     a.integer(),
                                     a.integer(),
                                     extents(a),
                                     extents(a),
                                     extents(a),
                                     extents(a),
                                     margins(a),
                                     extents(a)};
         return conv_workspace(geometry, a.enumerator<DType>(8), a.device());
       }},
  };
  expect_errors_that_name_the_call(table, kCalls, kSeed);
}

TEST(InvalidCalls, OfTapesChecksAndThreads) {
  const Precision precision = float32_precision();
  const int threads = num_threads();
  const auto f = [](const std::vector<Tensor>& in) {
    return in[0].dtype() == kFloat64 ? in[0] * 2.0 : Tensor::ones({2}, {.dtype = in[0].dtype()});
  };
  const auto first = [](const std::vector<Tensor>& in) { return in.empty() ? Tensor::scalar(1.0) : in[0].detach(); };
  const auto options = [](A a) { return GradcheckOptions{a.scalar(), a.scalar(), a.scalar()}; };
  const std::vector<Call> table{
      {"backward",
       [](A a) {
         Tensor x = Tensor::ones({2, 3}).requires_grad_();
         Tape tape;
         const Tensor y = x * 2.0;
         tape.backward(a.chance(2) ? y : a.tensor(), {.grad_output = a.tensor()});
       }},
      {"gradient",
       [](A a) {
         Tensor x = Tensor::ones({2, 3}).requires_grad_();
         Tape tape;
         const Tensor y = x * 2.0;
         return tape.gradient(a.chance(2) ? y : a.tensor(), {a.chance(2) ? x : a.tensor()},
                              {.grad_output = a.tensor(), .allow_unused = a.chance(2)});
       }},
      {"checkpoint",
       [&](A a) {
         const Tape tape;
         return checkpoint(first, a.tensors());
       }},
      {"gradcheck", [&](A a) { return gradcheck(f, a.tensors(), options(a)); }},
      {"gradgradcheck", [&](A a) { return gradgradcheck(f, a.tensors(), options(a)); }},
      {"parallel_for", [](A a) { parallel_for(-(a.integer() % 8), [](std::int64_t) {}); }},
      {"parallel_ranges", [](A a) { parallel_ranges(7, a.integer(), [](std::int64_t, std::int64_t) {}); }},
      {"set_num_threads", [](A a) { set_num_threads(static_cast<int>(a.integer() % 4)); }},
      {"set_float32_precision", [](A a) { set_float32_precision(a.enumerator<Precision>(2)); }},
      {"Generator::below", [](A a) { return Generator().below(static_cast<std::uint64_t>(a.integer())); }},
      {"Stream::create", [](A a) { return Stream::create(a.device()); }},
      {"Stream::wrap", [](A a) { return Stream::wrap(nullptr, a.device()); }},
      {"Stream::current", [](A a) { return Stream::current(a.device()); }},
      {"synchronize", [](A a) { synchronize(a.device()); }},
  };
  expect_errors_that_name_the_call(table, kCalls / 5, kSeed);
  set_num_threads(threads);
  set_float32_precision(precision);
}

}  // namespace
}  // namespace adjoint::testing
