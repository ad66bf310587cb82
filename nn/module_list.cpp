#include <adjoint/nn/module_list.h>

#include <adjoint/core/base/check.h>

namespace adjoint::nn::detail {

void no_such_module(std::size_t index, std::size_t size) {
  fail("ModuleList: an index must be below the number of modules; got {} of {}", index, size);
}

}  // namespace adjoint::nn::detail
