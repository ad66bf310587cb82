// distributed_worker FAULT: ranks take steps, on GPUs where there are, and rank 1 does what no rank should. The others
// print the error that they get and end with 3.
#include <adjoint/core/distributed/world.h>
#include <adjoint/core/error.h>
#include <adjoint/core/tape.h>
#include <adjoint/core/tensor.h>
#include <adjoint/nn/data_parallel.h>
#include <adjoint/nn/linear.h>
#include <adjoint/nn/sequential.h>
#include <adjoint/ops/distributed/collectives.h>

#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>

namespace {

using namespace adjoint;

Tensor ones(const Shape& shape) { return Tensor::ones(shape, {.device = default_device()}); }

void step(int number, const std::string& fault) {
  const bool odd = distributed::rank() == 1 && number == 3;
  if (odd && fault == "killed") kill(getpid(), SIGKILL);
  if (odd && fault == "hangs") {
    alarm(8);  // it must not outlive a launcher that leaves it alone
    for (;;) pause();
  }
  if (odd && fault == "throws") throw std::runtime_error("rank 1 had enough");
  if (odd && fault == "operation") {
    distributed::all_gather(ones({3}));
    return;
  }
  distributed::all_reduce(ones({odd && fault == "shape" ? 4 : 3}));
}

// Rank 1's loss leaves out the second layer.
void sweep_without_a_layer() {
  const nn::Linear first(2, 2), second(2, 2);
  nn::Sequential net{first, second};
  net.to(default_device());
  distributed::DataParallel model(net);
  Tape tape;
  const Tensor x = ones({1, 2});
  tape.backward((distributed::rank() == 1 ? first(x) : model(x)).sum());
}

}  // namespace

int main(int, char** argv) {
  const std::string fault = argv[1];
  distributed::init();
  std::fprintf(stderr, "STARTED %d\n", distributed::rank());
  const int steps = fault == "steps" && distributed::rank() == 1 ? 3 : 5;
  try {
    if (fault == "unused") sweep_without_a_layer();
    for (int number = 0; number < steps; ++number) step(number, fault);
  } catch (const adjoint::Error& error) {
    std::fprintf(stderr, "SURVIVOR %d: %s\n", distributed::rank(), error.what());
    return 3;
  }
  return 0;
}
