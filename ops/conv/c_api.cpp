#include <adjoint/ops/conv/c_api.h>

#include <adjoint/core/check.h>
#include <adjoint/core/precision.h>
#include <adjoint/core/stream.h>
#include <adjoint/core/tape.h>
#include <adjoint/ops/conv/kernels.h>
#include <adjoint/ops/conv/trio.h>

#include <array>
#include <optional>
#include <string>

namespace {

using namespace adjoint;

thread_local std::string last_error;

ConvGeometry to_geometry(const adjoint_conv_geometry& g) {
  const auto pair = [](const std::int64_t(&values)[2]) { return Extent2{values[0], values[1]}; };
  return {.rank = 2,
          .batch = g.batch,
          .image_channels = g.image_channels,
          .feature_channels = g.feature_channels,
          .groups = g.groups,
          .image = pair(g.image),
          .feature = pair(g.feature),
          .kernel = pair(g.kernel),
          .stride = pair(g.stride),
          .padding = pair(g.padding),
          .dilation = pair(g.dilation)};
}

// Runs `body` as the context says; turns exceptions into return codes.
template <class Body>
int guarded(const adjoint_context& context, const Body& body) {
  try {
    ADJOINT_CHECK(context.dtype >= 0 && context.dtype <= ADJOINT_FLOAT64,
                  "adjoint_conv: dtype must be one of the ADJOINT_FLOAT constants; got {}", context.dtype);
    const Device device = context.device < 0 ? kCPU : Device(DeviceType::kCUDA, context.device);
    const PauseTape pause;
    const PrecisionGuard precision(context.precision == ADJOINT_PRECISION_TF32 ? Precision::kTF32 : Precision::kFull);
    std::optional<StreamGuard> stream;
    if (device.is_cuda()) stream.emplace(Stream::wrap(static_cast<CUstream_st*>(context.stream), device));
    body(TensorOptions{.dtype = static_cast<DType>(context.dtype), .device = device});
    return 0;
  } catch (const std::exception& error) {
    last_error = error.what();
    return -1;
  }
}

Tensor view(const void* data, const Shape& shape, const TensorOptions& options) {
  return Tensor::from_blob(const_cast<void*>(data), shape, options);
}

using Kernel = void (*)(std::span<const Tensor>, Tensor&, const ConvGeometry&);
#if defined(ADJOINT_WITH_CUDA)
#define ADJOINT_KERNEL(name, options) ((options).device.is_cuda() ? cuda::name : cpu::name)
#else
#define ADJOINT_KERNEL(name, options) cpu::name
#endif

void run(Kernel kernel, const Tensor& a, const Tensor& b, const void* bias, std::int64_t channels, Tensor out,
         const ConvGeometry& geometry, const TensorOptions& options) {
  if (out.numel() == 0) return;
  std::array<Tensor, 3> in{a, b, bias == nullptr ? Tensor{} : view(bias, {channels}, options)};
  kernel({in.data(), bias == nullptr ? 2U : 3U}, out, geometry);
}

}  // namespace

int adjoint_conv(const adjoint_context* context, const adjoint_conv_geometry* geometry, const void* image,
                 const void* filter, const void* bias, void* feature) {
  return guarded(*context, [&](const TensorOptions& options) {
    const ConvGeometry g = to_geometry(*geometry);
    check_geometry("adjoint_conv", g);
    run(ADJOINT_KERNEL(conv, options), view(image, image_shape(g), options), view(filter, filter_shape(g), options),
        bias, g.feature_channels, view(feature, feature_shape(g), options), g, options);
  });
}

int adjoint_conv_transpose(const adjoint_context* context, const adjoint_conv_geometry* geometry, const void* feature,
                           const void* filter, const void* bias, void* image) {
  return guarded(*context, [&](const TensorOptions& options) {
    const ConvGeometry g = to_geometry(*geometry);
    check_geometry("adjoint_conv_transpose", g);
    run(ADJOINT_KERNEL(conv_transpose, options), view(feature, feature_shape(g), options),
        view(filter, filter_shape(g), options), bias, g.image_channels, view(image, image_shape(g), options), g,
        options);
  });
}

int adjoint_conv_weight(const adjoint_context* context, const adjoint_conv_geometry* geometry, const void* image,
                        const void* feature, void* filter) {
  return guarded(*context, [&](const TensorOptions& options) {
    const ConvGeometry g = to_geometry(*geometry);
    check_geometry("adjoint_conv_weight", g);
    run(ADJOINT_KERNEL(conv_weight, options), view(image, image_shape(g), options),
        view(feature, feature_shape(g), options), nullptr, 0, view(filter, filter_shape(g), options), g, options);
  });
}

const char* adjoint_last_error(void) { return last_error.c_str(); }
const char* adjoint_version(void) { return ADJOINT_VERSION; }
