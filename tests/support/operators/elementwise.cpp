// Elementwise functions: the rows of elementwise_cases.cpp, and functions that the table has no form for.
#include <adjoint/ops/elementwise/elementwise.h>

#include <adjoint/tests/support/operator_cases.h>

#include <string>

namespace adjoint::testing {
namespace {

using In = const std::vector<Tensor>&;
using Out = std::vector<Tensor>;

Tensor mask(const Tensor& x) { return x > 0.0; }

std::vector<OperatorCase> cases() {
  std::vector<OperatorCase> all = {
      {.name = "prelu", .call = [](In in) -> Out { return {prelu(in[0], in[1])}; }},
      {.name = "glu", .call = [](In in) -> Out { return {glu(in[0], 1)}; }},
      {.name = "snake/each", .call = [](In in) -> Out { return {snake(in[0], in[1])}; }},
      {.name = "isnan", .call = [](In in) -> Out { return {isnan(in[0])}; }, .differentiable = false},
      {.name = "isinf", .call = [](In in) -> Out { return {isinf(in[0])}; }, .differentiable = false},
      {.name = "nan_to_num", .call = [](In in) -> Out { return {nan_to_num(in[0], 2.0, 3.0, -4.0)}; }},
      {.name = "fmod/any", .call = [](In in) -> Out { return {fmod(in[0], in[1])}; }},
      {.name = "remainder/any", .call = [](In in) -> Out { return {remainder(in[0], in[1])}; }},
      {.name = "where/scalars",
       .call = [](In in) -> Out { return {where(mask(in[0]), 3.0, -0.0)}; },
       .differentiable = false},
      {.name = "logical_and/masks",
       .call = [](In in) -> Out { return {mask(in[0]) & mask(in[1])}; },
       .differentiable = false},
      {.name = "logical_or/masks",
       .call = [](In in) -> Out { return {mask(in[0]) | mask(in[1])}; },
       .differentiable = false},
      {.name = "logical_xor/masks",
       .call = [](In in) -> Out { return {mask(in[0]) ^ mask(in[1])}; },
       .differentiable = false},
      {.name = "logical_not/mask", .call = [](In in) -> Out { return {~mask(in[0])}; }, .differentiable = false},
  };
  for (const ElementwiseCase& c : elementwise_cases()) {
    all.push_back({.name = c.name,
                   .call = [call = c.call](In in) -> Out { return {call(in)}; },
                   .takes = c.takes,
                   .differentiable = c.differentiable});
  }
  return all;
}

std::vector<BadCall> bad_calls() {
  static const Tensor ones = Tensor::ones({2, 3}), numbers = Tensor::ones({2}, {.dtype = kInt32});
  std::vector<BadCall> all = {
      {"prelu", [] { prelu(ones, Tensor::ones({2})); }, {"3", "2"}},
      {"glu", [] { glu(ones, 1); }, {"3"}},
      {"snake", [] { snake(ones, Tensor::ones({2})); }, {"a must have one element", "(2, 3)", "(2,)"}},
      {"isnan", [] { isnan(Tensor{}); }, {"defined"}},
      {"isinf", [] { isinf(Tensor{}); }, {"defined"}},
      {"nan_to_num", [] { nan_to_num(Tensor{}); }, {"defined"}},
      {"where", [] { where(ones, ones, ones); }, {"bool", "float32"}},
      {"where", [] { where(mask(ones), ones, Tensor::ones({2})); }, {"broadcast", "(2, 3)", "(2,)"}},
      {"&", [] { (void)(mask(numbers) & numbers); }, {"a mask must be bool; got int32; compare, or call logical_and"}},
      {"|", [] { (void)(numbers | mask(numbers)); }, {"bool", "int32"}},
      {"^", [] { (void)(ones ^ mask(ones)); }, {"bool", "float32"}},
      {"~", [] { (void)~numbers; }, {"bool", "int32"}},
      {"~", [] { (void)~Tensor{}; }, {"defined"}},
  };
  for (const ElementwiseCase& c : elementwise_cases()) {
    if (c.name.starts_with("where") || c.name == "snake")
      continue;  // they look at the operand before the function does
    all.push_back({c.name.substr(0, c.name.find('/')),
                   [c] {
                     std::vector<Tensor> in(static_cast<std::size_t>(c.arity), ones);
                     in[0] = Tensor();
                     c.call(in);
                   },
                   {"defined"}});
  }
  return all;
}

}  // namespace

OperatorFamily elementwise_operators() { return {.name = "elementwise", .cases = cases(), .bad_calls = bad_calls()}; }

}  // namespace adjoint::testing
