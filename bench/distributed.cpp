// Times data-parallel training on the GPUs of the ranks that mpirun starts, for bench/compare_distributed.py. Rank 0
// prints a line of JSON for each case. Times are in ms: the median over rounds of the slowest rank's time.
//
//   mpirun -n 2 bench_distributed [--ctas=0,4,8] [--networks=wide,unet] [--strong] [tf32] [bf16]
//
// Without --networks the program first times sums of 1 MiB to 4 GiB of float32, in turns with a bare ncclAllReduce of
// the same buffer ("bare_ms", if NCCL was found). For each network it then times, alternately, a step on each rank
// alone ("alone_ms") and through DataParallel ("together_ms") with the same batch per GPU, both as captured steps too
// ("captured_alone_ms", "captured_together_ms"), and a sum of all gradients with no work beside it ("sum_ms"). --ctas
// repeats this for each value of DataParallelOptions::max_ctas. With --strong the ranks together share the batch that
// each has alone, and the program omits captured steps.

#include "trainings.h"

#include <adjoint/adjoint.h>

#if defined(ADJOINT_WITH_NCCL)
#include <nccl.h>
#endif

#include <fmt/core.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace {

using adjoint::Shape;
using adjoint::Tensor;
namespace distributed = adjoint::distributed;

// ---- Time.

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + values.size() / 2, values.end());
  return values[values.size() / 2];
}

// Returns the slowest rank's milliseconds for a call of each kind. The kinds alternate.
std::vector<double> time_ms(const std::vector<std::function<void()>>& kinds, int calls, int rounds = 9) {
  using Clock = std::chrono::steady_clock;
  std::vector<std::vector<double>> times(kinds.size());
  for (int round = -1; round < rounds; ++round) {  // the first, uncounted, loads kernels and makes buckets
    for (std::size_t kind = 0; kind < kinds.size(); ++kind) {
      adjoint::synchronize(adjoint::default_device());
      distributed::barrier();
      const auto begin = Clock::now();
      for (int i = 0; i < calls; ++i) kinds[kind]();
      adjoint::synchronize(adjoint::default_device());
      const double own = std::chrono::duration<double, std::milli>(Clock::now() - begin).count() / calls;
      Tensor slowest = Tensor::from_vector<double>({own}, {1});
      distributed::all_reduce_(slowest, distributed::ReduceOp::kMax);
      if (round >= 0) times[kind].push_back(slowest.item<double>());
    }
  }
  std::vector<double> medians;
  for (const auto& of_kind : times) medians.push_back(median(of_kind));
  return medians;
}

template <class... Args>
void tell(fmt::format_string<Args...> line, Args&&... args) {
  if (distributed::rank() != 0) return;
  std::puts(fmt::format(line, std::forward<Args>(args)...).c_str());
  std::fflush(stdout);
}

// ---- A sum beside NCCL's own.

#if defined(ADJOINT_WITH_NCCL)
void check(ncclResult_t result) {
  if (result == ncclSuccess) return;
  std::fprintf(stderr, "bench_distributed: NCCL: %s\n", ncclGetErrorString(result));
  std::exit(1);
}
#endif

void bench_sum() {
#if defined(ADJOINT_WITH_NCCL)
  std::vector<std::int64_t> words(sizeof(ncclUniqueId) / sizeof(std::int64_t));
  ncclUniqueId id;
  if (distributed::rank() == 0) check(ncclGetUniqueId(&id));
  std::memcpy(words.data(), &id, sizeof id);
  Tensor shared = Tensor::from_vector(words, {static_cast<std::int64_t>(words.size())}, {.dtype = adjoint::kInt64});
  distributed::broadcast_(shared, 0);
  std::memcpy(&id, shared.data<std::int64_t>(), sizeof id);
  ncclComm_t comm = nullptr;
  check(ncclCommInitRank(&comm, distributed::world_size(), id, distributed::rank()));
#endif
  for (const int power : {20, 24, 28, 30, 32}) {
    Tensor x = Tensor::zeros({std::int64_t{1} << (power - 2)}, {.device = adjoint::default_device()});
    std::vector<std::function<void()>> kinds{[&] { distributed::all_reduce_(x); }};
#if defined(ADJOINT_WITH_NCCL)
    kinds.emplace_back([&] {
      check(ncclAllReduce(x.data<float>(), x.mutable_data<float>(), static_cast<std::size_t>(x.numel()), ncclFloat32,
                          ncclSum, comm, adjoint::Stream::current(adjoint::default_device()).handle()));
    });
#endif
    const std::vector<double> ms = time_ms(kinds, 10);
    tell(R"({{"case": "all_reduce", "bytes": {}, "ms": {:.4f}, "bare_ms": {:.4f}}})", x.numel() * 4, ms.front(),
         ms.size() > 1 ? ms.back() : 0.0);
  }
#if defined(ADJOINT_WITH_NCCL)
  check(ncclCommDestroy(comm));
#endif
}

// ---- Networks, at the default batches of the programs; compare_distributed.py has the same batches.

struct Case {
  const char* network;                                                      // as in trainings.h
  std::function<std::vector<Tensor>(const adjoint::TensorOptions&)> batch;  // makes a rank's batch
};

std::function<std::vector<Tensor>(const adjoint::TensorOptions&)> noise(std::vector<Shape> shapes) {
  return [shapes = std::move(shapes)](const adjoint::TensorOptions& options) {
    std::vector<Tensor> batch;
    for (const Shape& shape : shapes) batch.push_back(Tensor::randn(shape, options));
    return batch;
  };
}

const Case kCases[] = {
    {"super_resolution", noise({{16, 1, 32, 32}, {16, 1, 64, 64}})},
    {"gan", noise({{64, 3, 32, 32}, {128, 64}})},
    {"vocoder", noise({{8, 80, 64}, {8, 1, 16384}})},
    {"segmentation",
     [](const adjoint::TensorOptions& options) {
       const Tensor pictures = Tensor::randn({16, 3, 96, 96}, options);
       return std::vector<Tensor>{pictures, (pictures.mean({1}) > 0.0).to(adjoint::kInt64)};
     }},
    {"autoencoder", noise({{64, 3, 32, 32}, {64, 32}})},
    {"diffusion",
     [](const adjoint::TensorOptions& options) {
       std::vector<Tensor> batch = noise({{128, 3, 32, 32}, {128, 3, 32, 32}})(options);
       batch.push_back(adjoint::randint(1000, {128}, options));
       return batch;
     }},
    {"text",
     [](const adjoint::TensorOptions& options) {
       return std::vector<Tensor>{adjoint::randint(256, {64, 257}, options)};
     }},
    {"wide", noise({{32, 1024, 16, 16}})},
};

void bench_steps(const Case& which, const std::string& precision, int max_ctas, bool strong) {
  const adjoint::TensorOptions options{.device = adjoint::default_device()};
  const std::vector<Tensor> whole = which.batch(options);
  std::vector<Tensor> part;
  for (const Tensor& tensor : whole) {
    part.push_back(strong ? tensor.narrow(0, 0, tensor.size(0) / distributed::world_size()).contiguous() : tensor);
  }
  std::int64_t parameters = 0;
  const auto train = [&](bool parallel) {
    std::shared_ptr<bench::Training> training = bench::make_training(which.network);
    parameters = 0;
    for (const auto& [name, module] : training->modules()) {
      module->to(adjoint::default_device());
      for (const Tensor& parameter : module->parameters()) parameters += parameter.numel();
    }
    training->start(parallel, {.max_ctas = max_ctas});
    return [training, &precision](const std::vector<Tensor>& batch) {
      examples::Arithmetic arithmetic(precision);
      return training->step(arithmetic, batch);
    };
  };
  const auto alone = train(false), together = train(true);
  adjoint::GraphedStep captured_alone(alone), captured_together(together);
  Tensor gradients = Tensor::zeros({parameters}, options);
  std::vector<std::function<void()>> kinds{[&] { alone(whole); }, [&] { together(part); },
                                           [&] { distributed::all_reduce_(gradients); }};
  if (!strong) {
    kinds.emplace_back([&] { captured_alone(whole); });
    kinds.emplace_back([&] { captured_together(whole); });
  }
  std::vector<double> ms = time_ms(kinds, 20);
  ms.resize(5);
  tell(R"({{"case": "{}", "precision": "{}", "max_ctas": {}, "parameters": {}, "alone_ms": {:.4f}, )"
       R"("together_ms": {:.4f}, "captured_alone_ms": {:.4f}, "captured_together_ms": {:.4f}, "sum_ms": {:.4f}}})",
       which.network, precision, max_ctas, parameters, ms[0], ms[1], ms[3], ms[4], ms[2]);
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<std::string> precisions{"tf32", "bf16"};
  std::vector<int> ctas{distributed::DataParallelOptions::kAutomatic};
  std::vector<std::string> networks;
  bool strong = false;
  CLI::App app;
  app.add_option("--ctas", ctas)->delimiter(',')->allow_extra_args(false);
  app.add_option("--networks", networks)->delimiter(',')->allow_extra_args(false);
  app.add_flag("--strong", strong);
  app.add_option("precisions", precisions);
  CLI11_PARSE(app, argc, argv);
  try {
    distributed::init();
    if (adjoint::default_device().is_cpu()) {
      std::fputs("bench_distributed: no CUDA device\n", stderr);
      return 1;
    }
    adjoint::set_float32_precision(adjoint::Precision::kTF32);
    if (!strong && networks.empty()) bench_sum();
    for (const Case& which : kCases) {
      if (!networks.empty() && std::find(networks.begin(), networks.end(), which.network) == networks.end()) continue;
      for (const std::string& precision : precisions) {
        for (const int max_ctas : ctas) bench_steps(which, precision, max_ctas, strong);
      }
    }
  } catch (const std::exception& error) {
    std::fprintf(stderr, "bench_distributed: %s\n", error.what());
    return 1;
  }
  return 0;
}
