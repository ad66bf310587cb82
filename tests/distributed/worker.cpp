// distributed_worker FAULT: ranks make steps, on GPUs if there are any, and rank 1 does something that no rank should.
// The others print the error that they get and end with 3. `distributed_worker gpus` prints the number of GPUs.
#include <adjoint/core/autograd/tape.h>
#include <adjoint/core/base/error.h>
#include <adjoint/core/distributed/world.h>
#include <adjoint/core/graph/graphed_step.h>
#include <adjoint/core/tensor/tensor.h>
#include <adjoint/nn/data_parallel.h>
#include <adjoint/nn/linear.h>
#include <adjoint/nn/sequential.h>
#include <adjoint/ops/distributed/collectives.h>

#include <dlfcn.h>
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

using namespace adjoint;

Tensor ones(const Shape& shape) { return Tensor::ones(shape, {.device = default_device()}); }

[[noreturn]] void hang() {
  alarm(10);  // it must not outlive a launcher that leaves it alone
  for (;;) pause();
}

bool hangs_in_finalize = false;

void step(int number, const std::string& fault) {
  const bool odd = distributed::rank() == 1 && number == 3;
  if (odd && fault == "killed") kill(getpid(), SIGKILL);
  if (odd && fault == "hangs") hang();
  if (odd && fault == "throws") throw std::runtime_error("rank 1 had enough");
  if (odd && fault == "operation") {
    distributed::all_gather(ones({3}));
    return;
  }
  distributed::all_reduce(ones({odd && fault == "shape" ? 4 : 3}));
}

// Rank 1's loss leaves out the second layer, or in the first sweep both; or it freezes only the first layer; or rank 1
// is killed while the second layer's sums, of the second sweep, may be in progress.
void sweep(const std::string& fault) {
  nn::Linear first(2, 2), second(2, 2);
  nn::Sequential net{first, second};
  net.to(default_device());
  distributed::DataParallel model(net, {.bucket_bytes = 1});
  const bool odd = distributed::rank() == 1, leaves_out = odd && fault == "unused";
  for (int number = 0; number < 2; ++number) {
    if (odd && fault == "swept" && number == 1) {
      first.weight.tensor().register_hook([](const Tensor&) -> Tensor {
        kill(getpid(), SIGKILL);
        return {};
      });
    }
    net.zero_grad();
    if (odd && fault == "freezes" && number == 1) first.requires_grad_(false);
    Tape tape;
    const Tensor x = ones({1, 2});
    Tensor own = ones({1});
    own.requires_grad_();
    const Tensor y = leaves_out ? first(x) : model(x);
    tape.backward((odd && fault == "skips" && number == 0 ? own : y).sum());
  }
}

// Rank 1's first loss leaves out a sum, whose gradient has the same shape as the next sum.
void leave_out() {
  for (int number = 0; number < 2; ++number) {
    Tensor x = ones({3});
    Tape tape;
    const Tensor sum = distributed::all_reduce(x.requires_grad_());
    tape.backward((distributed::rank() == 1 && number == 0 ? x : sum).sum());
  }
}

// The first calls run as they are and are captured; the others are replays.
void replay(int calls) {
  GraphedStep sum(
      [](const std::vector<Tensor>& in) -> std::vector<Tensor> { return {distributed::all_reduce(in[0])}; });
  for (int call = 0; call < calls; ++call) sum({ones({3})});
}

}  // namespace

// Stands before MPI's.
extern "C" __attribute__((visibility("default"))) int MPI_Finalize() {
  if (hangs_in_finalize) hang();
  return reinterpret_cast<int (*)()>(dlsym(RTLD_NEXT, "MPI_Finalize"))();
}

int main(int, char** argv) {
  const std::string fault = argv[1];
  if (fault == "gpus") {
    std::printf("%d\n", cuda_device_count());
    return 0;
  }
  const char* const launched = std::getenv("OMPI_COMM_WORLD_RANK");
  if (fault == "early" && launched != nullptr && std::string(launched) == "1") hang();
  distributed::init();
  std::fprintf(stderr, "STARTED %d\n", distributed::rank());
  const bool odd = distributed::rank() == 1;
  hangs_in_finalize = odd && fault == "late";
  try {
    const bool sweeps = fault == "unused" || fault == "skips" || fault == "freezes" || fault == "swept";
    if (sweeps) sweep(fault);
    if (fault == "leaves_out") leave_out();
    if (fault == "replays") replay(odd ? 6 : 10);
    const int steps = fault == "replays" ? 0 : odd && fault == "steps" ? 3 : odd && fault == "more_steps" ? 7 : 5;
    for (int number = 0; number < steps; ++number) step(number, fault);
  } catch (const adjoint::Error& error) {
    std::fprintf(stderr, "SURVIVOR %d: %s\n", distributed::rank(), error.what());
    return 3;
  }
  return 0;
}
