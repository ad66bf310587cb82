#include <adjoint/nn/pool.h>

#include <adjoint/core/base/check.h>

#include <algorithm>

namespace adjoint::nn::detail {
namespace {

std::string text(const Dims& size) {
  const bool is_one = std::all_of(size.begin(), size.end(), [&](std::int64_t value) { return value == size[0]; });
  return is_one ? std::to_string(size[0]) : fmt::format("{}", size);
}

void check_at_least(const char* type, const char* option, const Dims& size, std::int64_t least) {
  ADJOINT_CHECK(*std::min_element(size.begin(), size.end()) >= least, "{}: {} must be at least {}; got {}", type,
                option, least, text(size));
}

}  // namespace

std::string describe_window(const char* type, const Dims& kernel_size, const Dims& stride, const Dims& padding,
                            const Dims& dilation) {
  check_at_least(type, "kernel_size", kernel_size, 1);
  check_at_least(type, "stride", stride, 0);
  check_at_least(type, "padding", padding, 0);
  check_at_least(type, "dilation", dilation, 1);
  Dims step = stride;
  for (std::size_t i = 0; i < step.size(); ++i) {
    if (step[i] == 0) step[i] = kernel_size[i];
  }
  std::string described =
      fmt::format("kernel_size={}, stride={}, padding={}", text(kernel_size), text(step), text(padding));
  if (!(dilation == Dims::filled(dilation.size(), 1))) described += ", dilation=" + text(dilation);
  return described;
}

std::string describe_output(const char* type, const Dims& output_size) {
  check_at_least(type, "output_size", output_size, 0);
  return "output_size=" + text(output_size);
}

}  // namespace adjoint::nn::detail
