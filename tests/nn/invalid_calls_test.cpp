// Random calls of modules and initialisers: no crash, and every error names the function called.

#include <adjoint/nn/activation.h>
#include <adjoint/nn/conv.h>
#include <adjoint/nn/init.h>
#include <adjoint/nn/linear.h>
#include <adjoint/nn/module.h>
#include <adjoint/nn/sequential.h>
#include <adjoint/tests/support/invalid_calls.h>

#include <gtest/gtest.h>

#include <string>

namespace adjoint::testing {
namespace {

using A = Arguments&;

Size2 size2(A a) { return {a.integer(), a.integer()}; }
Size3 size3(A a) { return {a.integer(), a.integer(), a.integer()}; }

// One that may be registered, or not.
std::string name(A a) {
  static const std::string names[] = {"", "a.b", "taken", "free"};
  return names[a.chance(2) ? 3 : static_cast<std::size_t>(a.integer()) % 4];
}

nn::Module module_with_a_name_taken() {
  nn::Module module("Block");
  module.register_buffer("taken", Tensor::ones({2, 3}));
  return module;
}

TEST(InvalidCalls, OfLayers) {
  const nn::Conv1d conv1d(4, 4, {.kernel_size = 3});
  const nn::Conv2d conv2d(4, 2, {.kernel_size = 3});
  const nn::ConvTranspose1d up1d(4, 4, {.kernel_size = 3, .stride = 2});
  const nn::ConvTranspose2d up2d(4, 2, {.kernel_size = 3, .stride = 2});
  const nn::Linear linear(3, 2);
  const nn::PReLU prelu({.num_parameters = 3});
  const nn::Dropout dropout;
  const nn::Sequential chain(nn::Linear(3, 2), nn::ReLU());
  const std::vector<Call> table{
      {"Conv1d",
       [](A a) {
         nn::Conv1d(a.integer(), a.integer(),
                    {{}, a.integer(), a.integer(), a.integer(), a.integer(), a.integer(), a.chance(2)});
       }},
      {"Conv2d",
       [](A a) {
         nn::Conv2d(a.integer(), a.integer(), {{}, size2(a), size2(a), size2(a), size2(a), a.integer(), a.chance(2)});
       }},
      {"Conv3d",
       [](A a) {
         nn::Conv3d(a.integer(), a.integer(), {{}, size3(a), size3(a), size3(a), size3(a), a.integer(), a.chance(2)});
       }},
      {"ConvTranspose3d",
       [](A a) {
         nn::ConvTranspose3d(a.integer(), a.integer(),
                             {{}, size3(a), size3(a), size3(a), size3(a), size3(a), a.integer()});
       }},
      {"ConvTranspose1d",
       [](A a) {
         nn::ConvTranspose1d(a.integer(), a.integer(),
                             {{}, a.integer(), a.integer(), a.integer(), a.integer(), a.integer(), a.integer()});
       }},
      {"ConvTranspose2d",
       [](A a) {
         nn::ConvTranspose2d(a.integer(), a.integer(),
                             {{}, size2(a), size2(a), size2(a), size2(a), size2(a), a.integer()});
       }},
      {"Linear", [](A a) { nn::Linear(a.integer(), a.integer(), {.bias = a.chance(2)}); }},
      {"PReLU", [](A a) { nn::PReLU({.num_parameters = a.integer(), .init = a.scalar()}); }},
      {"PixelShuffle", [](A a) { nn::PixelShuffle(a.integer()); }},
      {"Dropout", [](A a) { nn::Dropout({.p = a.scalar()}); }},
      {"conv1d", [&](A a) { return conv1d(a.tensor()); }},
      {"conv2d", [&](A a) { return conv2d(a.tensor()); }},
      {"conv_transpose1d", [&](A a) { return up1d(a.tensor(), {.output_size = a.integer()}); }},
      {"conv_transpose2d", [&](A a) { return up2d(a.tensor(), {.output_size = size2(a)}); }},
      {"Linear", [&](A a) { return linear(a.tensor()); }},
      {"0: Linear", [&](A a) { return chain(a.tensor()); }},
      {"prelu", [&](A a) { return prelu(a.tensor()); }},
      {"Dropout", [&](A a) { return dropout(a.tensor()); }},
      {"Sequential", [&](A a) { return chain[static_cast<std::size_t>(a.integer())]; }},
  };
  expect_errors_that_name_the_call(table, 5000, 30);
}

TEST(InvalidCalls, OfModules) {
  const std::vector<Call> table{
      {"register_parameter",
       [](A a) {
         nn::Module module = module_with_a_name_taken();
         return module.register_parameter(name(a), a.fresh(), {.optional = a.chance(4)});
       }},
      {"register_buffer",
       [](A a) {
         nn::Module module = module_with_a_name_taken();
         return module.register_buffer(name(a), a.fresh(), {.optional = a.chance(4)});
       }},
      {"register_module",
       [](A a) {
         nn::Module module = module_with_a_name_taken();
         module.register_module(name(a), a.chance(4) ? module : nn::Module("Child"));
       }},
      {"Sequential::append",
       [](A a) {
         nn::Sequential chain;
         chain.append("taken", nn::ReLU());
         chain.append(name(a), nn::ReLU());
       }},
      {"load_state_dict",
       [](A a) {
         nn::Module module = module_with_a_name_taken();
         module.load_state_dict({{"taken", a.tensor()}}, {.strict = a.chance(2), .convert_dtype = a.chance(2)});
       }},
      {"Module::to",
       [](A a) {
         nn::Module module = module_with_a_name_taken();
         module.to(a.enumerator<DType>(8));
       }},
      {"Module::to",
       [](A a) {
         nn::Module module = module_with_a_name_taken();
         module.to(a.device());
       }},
  };
  expect_errors_that_name_the_call(table, 5000, 31);
}

TEST(InvalidCalls, OfInitialisers) {
  namespace init = nn::init;
  const auto kaiming = [](A a) {
    return init::KaimingOptions{a.scalar(), a.enumerator<init::FanMode>(2), a.enumerator<init::Nonlinearity>(6)};
  };
  const std::vector<Call> table{
      {"calculate_gain", [](A a) { init::calculate_gain(a.enumerator<init::Nonlinearity>(6), a.scalar()); }},
      {"constant_", [](A a) { init::constant_(a.fresh(), a.scalar()); }},
      {"zeros_", [](A a) { init::zeros_(a.fresh()); }},
      {"ones_", [](A a) { init::ones_(a.fresh()); }},
      {"uniform_", [](A a) { init::uniform_(a.fresh(), a.scalar(), a.scalar()); }},
      {"normal_", [](A a) { init::normal_(a.fresh(), a.scalar(), a.scalar()); }},
      {"kaiming_uniform_", [&](A a) { init::kaiming_uniform_(a.fresh(), kaiming(a)); }},
      {"kaiming_normal_", [&](A a) { init::kaiming_normal_(a.fresh(), kaiming(a)); }},
      {"xavier_uniform_", [](A a) { init::xavier_uniform_(a.fresh(), {.gain = a.scalar()}); }},
      {"xavier_normal_", [](A a) { init::xavier_normal_(a.fresh(), {.gain = a.scalar()}); }},
      {"bilinear_", [](A a) { init::bilinear_(a.fresh()); }},
      {"default_", [](A a) { init::default_(a.fresh(), a.fresh()); }},
  };
  expect_errors_that_name_the_call(table, 5000, 32);
}

}  // namespace
}  // namespace adjoint::testing
