// Adjoint's training steps; bench/compare_steps.py runs this program beside libtorch's.
#include <adjoint/adjoint.h>

#include "steps.h"

#include <memory>

namespace {

using namespace adjoint;
using steps::Case;
using Tensors = std::vector<Tensor>;

nn::Conv2d conv(std::int64_t in, std::int64_t out, bool bias = true) {
  return nn::Conv2d(in, out, {.kernel_size = 3, .padding = 1, .bias = bias});
}

class Block : public nn::Module {
 public:
  explicit Block(std::int64_t width)
      : body_(register_module("body", nn::Sequential{conv(width, width), nn::ReLU(), conv(width, width)})) {}
  Tensor operator()(const Tensor& x) const { return x + body_(x); }

 private:
  nn::Child<nn::Sequential> body_;
};

nn::Sequential super_resolution(std::int64_t width) {
  nn::Sequential net{conv(3, width), nn::ReLU()};
  for (std::int64_t i = 0; i < steps::kBlocks; ++i) net.append(Block(width));
  net.append(nn::ConvTranspose2d(width, width, {.kernel_size = 4, .stride = 2, .padding = 1}));
  net.append(nn::ReLU());
  net.append(conv(width, 3));
  return net;
}

struct Images {
  using Conv = nn::Conv2d;
  using ConvTranspose = nn::ConvTranspose2d;
  using BatchNorm = nn::BatchNorm2d;
  static Tensor halved(const Tensor& x) { return max_pool2d(x, 2); }
};
struct Volumes {
  using Conv = nn::Conv3d;
  using ConvTranspose = nn::ConvTranspose3d;
  using BatchNorm = nn::BatchNorm3d;
  static Tensor halved(const Tensor& x) { return max_pool3d(x, 2); }
};

template <class Of>
nn::Sequential double_conv(std::int64_t in, std::int64_t out) {
  nn::Sequential net;
  for (const std::int64_t channels : {in, out}) {
    net.append(typename Of::Conv(channels, out, {.kernel_size = 3, .padding = 1, .bias = false}));
    net.append(typename Of::BatchNorm(out));
    net.append(nn::ReLU());
  }
  return net;
}

template <class Of>
class UNet : public nn::Module {
 public:
  explicit UNet(std::int64_t width) : out_(register_module("out", typename Of::Conv(width, 1, 1))) {
    std::int64_t channels = 3;
    for (const std::int64_t multiple : steps::kMultiples) {
      down_.append(double_conv<Of>(channels, multiple * width));
      channels = multiple * width;
    }
    for (std::size_t level = steps::kMultiples.size() - 1; level-- > 0;) {
      const std::int64_t out = steps::kMultiples[level] * width;
      ups_.append(typename Of::ConvTranspose(channels, out, {.kernel_size = 2, .stride = 2}));
      up_convs_.append(double_conv<Of>(2 * out, out));
      channels = out;
    }
  }
  Tensor operator()(const Tensor& input) const {
    Tensors skips;
    Tensor x = down_[0](input);
    for (std::size_t level = 1; level < down_.size(); ++level) {
      skips.push_back(x);
      x = down_[level](Of::halved(x));
    }
    for (std::size_t level = 0; level < ups_.size(); ++level) {
      x = up_convs_[level](cat({skips.back(), ups_[level](x)}, 1));
      skips.pop_back();
    }
    return out_(x);
  }

 private:
  using Convs = nn::ModuleList<nn::Sequential>;
  using Ups = nn::ModuleList<typename Of::ConvTranspose>;
  nn::Child<Convs> down_ = register_module("down", Convs());
  nn::Child<Ups> ups_ = register_module("ups", Ups());
  nn::Child<Convs> up_convs_ = register_module("up_convs", Convs());
  nn::Child<typename Of::Conv> out_;
};

nn::Layer network(const Case& c) {
  if (c.is_sr()) return super_resolution(c.width);
  return c.rank == 2 ? nn::Layer(UNet<Images>(c.width)) : nn::Layer(UNet<Volumes>(c.width));
}

struct Adjoint {
  static std::vector<std::string> modes(bool) { return {"plain", "graph"}; }
  static void synchronize(bool on_gpu) { adjoint::synchronize(on_gpu ? kCUDA : kCPU); }
  static std::size_t peak_bytes(bool on_gpu) {
    const std::size_t peak = memory_stats(on_gpu ? kCUDA : kCPU).peak;
    reset_peak_memory_stats(on_gpu ? kCUDA : kCPU);
    return peak;
  }

  class Training {
   public:
    Training(const Case& c, bool on_gpu)
        : case_(c),
          net_(network(c)),
          batch_{Tensor::from_vector(steps::input_values(c), Shape(c.input())),
                 Tensor::from_vector(steps::target_values(c), Shape(c.target()))} {
      const Device device = on_gpu ? kCUDA : kCPU;
      std::size_t index = 0;
      for (auto& [name, parameter] : net_.named_parameters()) {
        if (parameter.dim() > 1) {
          const steps::Extents shape(parameter.shape().begin(), parameter.shape().end());
          parameter.copy_(Tensor::from_vector(steps::filter_values(shape, index++), parameter.shape()));
        } else if (name.ends_with("bias")) {
          parameter.zero_();
        }
      }
      net_.to(device);
      if (c.channels_last()) net_.to(kChannelsLast);
      for (Tensor& tensor : batch_) {
        tensor = tensor.to(device);
        if (c.channels_last()) tensor = tensor.to(kChannelsLast);
      }
      adam_ = std::make_unique<optim::Adam>(net_.parameters(), optim::AdamOptions{.lr = steps::kLearningRate});
      if (c.graphed()) {
        graph_ = std::make_unique<GraphedStep>([this](const Tensors& batch) { return Tensors{train(batch)}; },
                                               GraphedStepOptions{.device = device});
      }
    }
    void step() {
      const PrecisionGuard precision(Precision::kTF32);
      loss_ = graph_ ? (*graph_)(batch_)[0] : train(batch_);
    }
    double loss() const { return loss_.item<double>(); }

   private:
    Tensor train(const Tensors& batch) {
      adam_->zero_grad();
      Tape tape;
      Tensor loss;
      {
        const AutocastGuard autocast(kBFloat16, {.enabled = case_.bf16()});
        const Tensor result = net_(batch[0]);
        loss = case_.is_sr() ? l1_loss(result, batch[1]) : binary_cross_entropy_with_logits(result, batch[1]);
      }
      tape.backward(loss);
      adam_->step();
      return loss.detach();
    }

    Case case_;
    nn::Layer net_;
    Tensors batch_;
    std::unique_ptr<optim::Adam> adam_;
    std::unique_ptr<GraphedStep> graph_;
    Tensor loss_;
  };
};

}  // namespace

int main(int argc, char** argv) { return steps::run_all<Adjoint>(argc, argv); }
