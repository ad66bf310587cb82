// Adjoint's overhead per small recorded operation; bench/compare_overhead compares it with libtorch's.
#include <adjoint/adjoint.h>

#include "overhead.h"

namespace {

struct Adjoint {
  using Tensor = adjoint::Tensor;

  static Tensor leaf(std::int64_t rows, std::int64_t columns, bool on_gpu) {
    return Tensor::ones({rows, columns}, {.device = on_gpu ? adjoint::kCUDA : adjoint::kCPU, .requires_grad = true});
  }

  template <class Step>
  static overhead::Times run(const Tensor& x, const Step& step, int count) {
    const Tensor seed = Tensor::ones(x.shape(), {.device = x.device()});
    adjoint::synchronize(x.device());
    const double start = overhead::now();
    double recorded = 0;
    double swept = 0;
    {
      adjoint::Tape tape;
      Tensor y = x;
      for (int i = 0; i < count; ++i) y = step(y);
      recorded = overhead::now();
      tape.backward(y, {.grad_output = seed});
      swept = overhead::now();
    }
    return {recorded - start, swept - recorded, overhead::now() - start};
  }
};

}  // namespace

int main(int argc, char** argv) {
  adjoint::set_num_threads(1);
  overhead::run_all<Adjoint>(argc, argv);
}
