// libtorch's overhead per small recorded operation; bench/compare_overhead compares it with Adjoint's.
#include <torch/torch.h>

#include "overhead.h"

namespace {

struct Libtorch {
  using Tensor = torch::Tensor;

  static Tensor leaf(std::int64_t rows, std::int64_t columns, bool on_gpu) {
    return torch::ones({rows, columns}, torch::TensorOptions(on_gpu ? torch::kCUDA : torch::kCPU).requires_grad(true));
  }

  template <class Step>
  static overhead::Times run(const Tensor& x, const Step& step, int count) {
    const Tensor seed = torch::ones_like(x);
    if (x.is_cuda()) torch::cuda::synchronize();
    const double start = overhead::now();
    double recorded = 0;
    double swept = 0;
    {
      Tensor y = x;
      for (int i = 0; i < count; ++i) y = step(y);
      recorded = overhead::now();
      y.backward(seed);
      swept = overhead::now();
    }
    return {recorded - start, swept - recorded, overhead::now() - start};
  }
};

}  // namespace

int main(int argc, char** argv) {
  torch::set_num_threads(1);
  overhead::run_all<Libtorch>(argc, argv);
}
