// libtorch's training steps; bench/compare_steps.py runs this program beside Adjoint's.
//
// cuDNN measures its algorithms (cudnn.benchmark), and products may use TF32. Modes: "plain" updates by
// torch::optim::Adam; "fused", on a GPU, by the operator of Python's Adam(fused=True), which the C++ optimiser does not
// call; "graph" replays the fused step as a CUDA graph.
#include <torch/torch.h>

#include <ATen/autocast_mode.h>
#ifdef ADJOINT_BENCH_TORCH_CUDA
#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#endif

#include "steps.h"

#include <memory>

namespace {

using steps::Case;
using torch::Tensor;
using Tensors = std::vector<Tensor>;
namespace nn = torch::nn;

nn::Conv2d conv(std::int64_t in, std::int64_t out, bool bias = true) {
  return nn::Conv2d(nn::Conv2dOptions(in, out, 3).padding(1).bias(bias));
}

struct BlockImpl : nn::Module {
  explicit BlockImpl(std::int64_t width)
      : body(register_module("body", nn::Sequential(conv(width, width), nn::ReLU(), conv(width, width)))) {}
  Tensor forward(const Tensor& x) { return x + body->forward(x); }

  nn::Sequential body;
};
TORCH_MODULE(Block);

struct SuperResolutionImpl : nn::Module {
  explicit SuperResolutionImpl(std::int64_t width) {
    net->push_back(conv(3, width));
    net->push_back(nn::ReLU());
    for (std::int64_t i = 0; i < steps::kBlocks; ++i) net->push_back(Block(width));
    net->push_back(nn::ConvTranspose2d(nn::ConvTranspose2dOptions(width, width, 4).stride(2).padding(1)));
    net->push_back(nn::ReLU());
    net->push_back(conv(width, 3));
  }
  Tensor forward(const Tensor& x) { return net->forward(x); }

  nn::Sequential net = register_module("net", nn::Sequential());
};
TORCH_MODULE(SuperResolution);

struct Images {
  static constexpr std::size_t kRank = 2;
  using Conv = nn::Conv2d;
  using ConvTranspose = nn::ConvTranspose2d;
  using BatchNorm = nn::BatchNorm2d;
  static Tensor halved(const Tensor& x) { return torch::max_pool2d(x, 2); }
};
struct Volumes {
  static constexpr std::size_t kRank = 3;
  using Conv = nn::Conv3d;
  using ConvTranspose = nn::ConvTranspose3d;
  using BatchNorm = nn::BatchNorm3d;
  static Tensor halved(const Tensor& x) { return torch::max_pool3d(x, 2); }
};

template <class Of>
nn::Sequential double_conv(std::int64_t in, std::int64_t out) {
  nn::Sequential net;
  for (const std::int64_t channels : {in, out}) {
    net->push_back(typename Of::Conv(nn::ConvOptions<Of::kRank>(channels, out, 3).padding(1).bias(false)));
    net->push_back(typename Of::BatchNorm(out));
    net->push_back(nn::ReLU());
  }
  return net;
}

template <class Of>
struct UNet : nn::Module {
  explicit UNet(std::int64_t width)
      : out(register_module("out", typename Of::Conv(nn::ConvOptions<Of::kRank>(width, 1, 1)))) {
    std::int64_t channels = 3;
    for (const std::int64_t multiple : steps::kMultiples) {
      down->push_back(double_conv<Of>(channels, multiple * width));
      channels = multiple * width;
    }
    for (std::size_t level = steps::kMultiples.size() - 1; level-- > 0;) {
      const std::int64_t half = steps::kMultiples[level] * width;
      ups->push_back(typename Of::ConvTranspose(nn::ConvTransposeOptions<Of::kRank>(channels, half, 2).stride(2)));
      up_convs->push_back(double_conv<Of>(2 * half, half));
      channels = half;
    }
  }
  Tensor forward(const Tensor& input) {
    Tensors skips;
    Tensor x = down[0]->as<nn::Sequential>()->forward(input);
    for (std::size_t level = 1; level < down->size(); ++level) {
      skips.push_back(x);
      x = down[level]->as<nn::Sequential>()->forward(Of::halved(x));
    }
    for (std::size_t level = 0; level < ups->size(); ++level) {
      const Tensor up = ups[level]->template as<typename Of::ConvTranspose>()->forward(x);
      x = up_convs[level]->as<nn::Sequential>()->forward(torch::cat({skips.back(), up}, 1));
      skips.pop_back();
    }
    return out->forward(x);
  }

  nn::ModuleList down = register_module("down", nn::ModuleList());
  nn::ModuleList ups = register_module("ups", nn::ModuleList());
  nn::ModuleList up_convs = register_module("up_convs", nn::ModuleList());
  typename Of::Conv out;
};

/// Autocast to bfloat16 while it lives.
class Autocast {
 public:
  Autocast(bool enabled, bool on_gpu) : on_gpu_(on_gpu) {
    at::autocast::increment_nesting();
    enable(enabled);
  }
  ~Autocast() {
    enable(false);
    if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
  }
  Autocast(const Autocast&) = delete;
  Autocast& operator=(const Autocast&) = delete;

 private:
  void enable(bool enabled) const {
#if TORCH_VERSION_MAJOR > 2 || (TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR >= 4)
    const at::DeviceType device = on_gpu_ ? at::kCUDA : at::kCPU;
    at::autocast::set_autocast_enabled(device, enabled);
    at::autocast::set_autocast_dtype(device, at::kBFloat16);
#else
    if (on_gpu_) {
      at::autocast::set_enabled(enabled);
      at::autocast::set_autocast_gpu_dtype(at::kBFloat16);
    } else {
      at::autocast::set_cpu_enabled(enabled);
      at::autocast::set_autocast_cpu_dtype(at::kBFloat16);
    }
#endif
  }

  bool on_gpu_;
};

/// Adam in one launch for many parameters, with its counts on the device, so that a graph can hold it.
class FusedAdam {
 public:
  explicit FusedAdam(Tensors parameters) : parameters_(std::move(parameters)) {
    for (const Tensor& parameter : parameters_) {
      averages_.push_back(torch::zeros_like(parameter));
      squares_.push_back(torch::zeros_like(parameter));
      counts_.push_back(torch::zeros({}, parameter.options().dtype(torch::kFloat32).requires_grad(false)));
    }
  }
  void step() {
    const torch::NoGradGuard no_grad;
    Tensors gradients;
    for (const Tensor& parameter : parameters_) gradients.push_back(parameter.grad());
    at::_foreach_add_(counts_, 1);
    at::_fused_adam_(parameters_, gradients, averages_, squares_, /*max_exp_avg_sqs=*/Tensors(), counts_,
                     steps::kLearningRate, 0.9, 0.999, /*weight_decay=*/0.0, /*eps=*/1e-8, /*amsgrad=*/false,
                     /*maximize=*/false);
  }

 private:
  Tensors parameters_, averages_, squares_, counts_;
};

/// A function's work on the GPU: run directly at first, then captured, and from then on replayed.
template <class Step>
class Graph {
 public:
#ifdef ADJOINT_BENCH_TORCH_CUDA
  explicit Graph(Step step) : step_(std::move(step)), stream_(c10::cuda::getStreamFromPool()) {}
  void operator()() {
    constexpr int kDirectCalls = 3;
    const c10::cuda::CUDAStreamGuard guard(stream_);
    if (calls_ < kDirectCalls) {
      step_();
    } else {
      if (calls_ == kDirectCalls) {
        torch::cuda::synchronize();
        graph_.capture_begin();
        step_();
        graph_.capture_end();
      }
      graph_.replay();
    }
    ++calls_;
  }

 private:
  Step step_;
  c10::cuda::CUDAStream stream_;
  at::cuda::CUDAGraph graph_;
  int calls_ = 0;
#else
  explicit Graph(const Step&) {}
  void operator()() { throw std::runtime_error("steps: this libtorch has no CUDA graphs"); }
#endif
};

struct Libtorch {
  static std::vector<std::string> modes(bool on_gpu) {
    if (!on_gpu) return {"plain"};
#ifdef ADJOINT_BENCH_TORCH_CUDA
    return {"plain", "fused", "graph"};
#else
    return {"plain", "fused"};
#endif
  }
  static void synchronize(bool on_gpu) {
    if (on_gpu) torch::cuda::synchronize();
  }
  static std::size_t peak_bytes(bool on_gpu) {
    if (!on_gpu) return 0;
#ifdef ADJOINT_BENCH_TORCH_CUDA
    torch::empty({1}, torch::kCUDA);  // starts the allocator
    const auto peak = c10::cuda::CUDACachingAllocator::getDeviceStats(0).allocated_bytes[0].peak;
    c10::cuda::CUDACachingAllocator::resetPeakStats(0);
    return static_cast<std::size_t>(peak);
#else
    return 0;
#endif
  }

  class Training {
   public:
    Training(const Case& c, bool on_gpu) : case_(c), on_gpu_(on_gpu) {
      if (c.is_sr())
        net_ = nn::AnyModule(SuperResolution(c.width));
      else if (c.rank == 2)
        net_ = nn::AnyModule(std::make_shared<UNet<Images>>(c.width));
      else
        net_ = nn::AnyModule(std::make_shared<UNet<Volumes>>(c.width));
      const auto last = c.rank == 2 ? torch::MemoryFormat::ChannelsLast : torch::MemoryFormat::ChannelsLast3d;
      const auto format = c.channels_last() ? last : torch::MemoryFormat::Contiguous;
      const torch::Device device(on_gpu ? torch::kCUDA : torch::kCPU);
      const auto moved = [&](const std::vector<float>& values, const steps::Extents& shape) {
        return torch::tensor(values).view(shape).to(device).contiguous(format);
      };
      input_ = moved(steps::input_values(c), c.input());
      target_ = moved(steps::target_values(c), c.target());
      net_.ptr()->to(device);
      std::size_t index = 0;
      const torch::NoGradGuard no_grad;
      for (const auto& named : net_.ptr()->named_parameters()) {
        Tensor parameter = named.value();
        if (parameter.dim() > 1)
          parameter.set_data(moved(steps::filter_values(parameter.sizes().vec(), index++), parameter.sizes().vec()));
        else if (named.key().size() >= 4 && named.key().substr(named.key().size() - 4) == "bias")
          parameter.zero_();
      }
      const Tensors parameters = net_.ptr()->parameters();
      if (c.mode == "plain")
        adam_ = std::make_unique<torch::optim::Adam>(parameters, torch::optim::AdamOptions(steps::kLearningRate));
      else
        fused_ = std::make_unique<FusedAdam>(parameters);
      // A step copies its batch, as a training with a new batch per step does.
      if (c.graphed()) {
        graph_input_ = torch::empty_like(input_);
        graph_target_ = torch::empty_like(target_);
        graph_ = std::make_unique<Graph<Captured>>(Captured{this});
      }
      synchronize(on_gpu);
    }
    Training(const Training&) = delete;
    Training& operator=(const Training&) = delete;

    void step() {
      if (!graph_) return train(input_, target_);
      (*graph_)();
    }
    double loss() const {
      synchronize(on_gpu_);  // a graph computes it on a separate stream
      return loss_.item<double>();
    }

   private:
    struct Captured {
      Training* training;
      void operator()() const {
        training->graph_input_.copy_(training->input_);
        training->graph_target_.copy_(training->target_);
        training->train(training->graph_input_, training->graph_target_);
      }
    };

    void train(const Tensor& input, const Tensor& target) {
      for (Tensor& parameter : net_.ptr()->parameters()) parameter.mutable_grad() = Tensor();
      Tensor loss;
      {
        const Autocast autocast(case_.bf16(), on_gpu_);
        const Tensor result = net_.forward(input);
        loss = case_.is_sr() ? torch::l1_loss(result, target) : torch::binary_cross_entropy_with_logits(result, target);
      }
      loss.backward();
      if (fused_)
        fused_->step();
      else
        adam_->step();
      loss_ = loss.detach();
    }

    Case case_;
    bool on_gpu_;
    nn::AnyModule net_;
    Tensor input_, target_, graph_input_, graph_target_, loss_;
    std::unique_ptr<torch::optim::Adam> adam_;
    std::unique_ptr<FusedAdam> fused_;
    std::unique_ptr<Graph<Captured>> graph_;
  };
};

}  // namespace

int main(int argc, char** argv) {
  at::globalContext().setBenchmarkCuDNN(true);
  at::globalContext().setAllowTF32CuDNN(true);
  at::globalContext().setAllowTF32CuBLAS(true);
  return steps::run_all<Libtorch>(argc, argv);
}
