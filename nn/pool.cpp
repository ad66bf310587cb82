#include <adjoint/nn/pool.h>

#include <adjoint/core/base/check.h>

#include <algorithm>

namespace adjoint::nn::detail {
namespace {

std::string text(const Size2& size) {
  return size.h == size.w ? std::to_string(size.w) : fmt::format("({}, {})", size.h, size.w);
}

void check_at_least(const char* type, const char* option, const Size2& size, std::int64_t least) {
  ADJOINT_CHECK(std::min(size.h, size.w) >= least, "{}: {} must be at least {}; got {}", type, option, least,
                text(size));
}

}  // namespace

std::string describe_window(const char* type, const Size2& kernel_size, const Size2& stride, const Size2& padding,
                            const Size2& dilation) {
  check_at_least(type, "kernel_size", kernel_size, 1);
  check_at_least(type, "stride", stride, 0);
  check_at_least(type, "padding", padding, 0);
  check_at_least(type, "dilation", dilation, 1);
  const Size2 step{stride.h == 0 ? kernel_size.h : stride.h, stride.w == 0 ? kernel_size.w : stride.w};
  std::string described =
      fmt::format("kernel_size={}, stride={}, padding={}", text(kernel_size), text(step), text(padding));
  if (!(dilation == Size2(1))) described += ", dilation=" + text(dilation);
  return described;
}

std::string describe_output(const char* type, const Size2& output_size) {
  check_at_least(type, "output_size", output_size, 0);
  return "output_size=" + text(output_size);
}

}  // namespace adjoint::nn::detail
