#include <adjoint/ops/conv/c_api.h>

#include <adjoint/core/autograd/kept_forms.h>
#include <adjoint/core/autograd/tape.h>
#include <adjoint/core/base/check.h>
#include <adjoint/core/base/precision.h>
#include <adjoint/core/base/stream.h>
#include <adjoint/core/tensor/copy.h>
#include <adjoint/core/tensor/tensor_impl.h>
#include <adjoint/ops/conv/kernels.h>
#include <adjoint/ops/conv/trio.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <exception>
#include <memory>
#include <optional>

struct adjoint_frozen_filter {
  std::shared_ptr<adjoint::detail::KeptForms> forms;
};

namespace {

using namespace adjoint;

// A fixed buffer per thread, so that a message needs no allocation. Longer ones are truncated.
thread_local std::array<char, 2048> last_error{};

int failed(const char* message) {
  std::snprintf(last_error.data(), last_error.size(), "%s", message);
  return -1;
}

ConvGeometry to_geometry(const adjoint_conv_geometry& g) {
  const bool is_volume = g.image_depth != 0 || g.feature_depth != 0 || g.kernel_depth != 0 || g.stride_depth != 0 ||
                         g.padding_depth != 0 || g.dilation_depth != 0;
  const auto extents = [&](std::int64_t depth, const std::int64_t(&values)[2]) {
    return Extents{is_volume ? depth : 1, values[0], values[1]};
  };
  return {.rank = is_volume ? 3 : 2,
          .batch = g.batch,
          .image_channels = g.image_channels,
          .feature_channels = g.feature_channels,
          .groups = g.groups,
          .image = extents(g.image_depth, g.image),
          .feature = extents(g.feature_depth, g.feature),
          .kernel = extents(g.kernel_depth, g.kernel),
          .stride = extents(g.stride_depth, g.stride),
          .padding = {g.padding_depth, g.padding[0], g.padding[1]},
          .dilation = extents(g.dilation_depth, g.dilation)};
}

// `shape`: the other source of the tensors' size, and its name in messages.
void check_context(const char* op, const adjoint_context* context, const char* name, const void* shape) {
  ADJOINT_CHECK(context != nullptr && shape != nullptr, "{}: context and {} must not be null; got {} null", op, name,
                context == nullptr && shape == nullptr ? "both"
                : context == nullptr                   ? "context"
                                                       : name);
  ADJOINT_CHECK(context->dtype >= 0 && context->dtype <= ADJOINT_FLOAT64,
                "{}: dtype must be one of the ADJOINT_FLOAT constants; got {}", op, context->dtype);
  ADJOINT_CHECK(context->precision == ADJOINT_PRECISION_FLOAT32 || context->precision == ADJOINT_PRECISION_TF32,
                "{}: precision must be one of the ADJOINT_PRECISION constants; got {}", op, context->precision);
  ADJOINT_CHECK(context->device >= -1, "{}: device must be -1 for the CPU or a CUDA device's index; got {}", op,
                context->device);
}

// Runs `body` under the context's settings and the name `op`; turns exceptions into return codes.
template <class Body>
int guarded(const char* op, const adjoint_context* context, const char* name, const void* shape, const Body& body) {
  try {
    const OpScope scope(op);
    check_context(op, context, name, shape);
    const Device device = context->device < 0 ? kCPU : Device(DeviceType::kCUDA, context->device);
    const PauseTape pause;
    const PrecisionGuard precision(context->precision == ADJOINT_PRECISION_TF32 ? Precision::kTF32 : Precision::kFull);
    std::optional<StreamGuard> stream;
    if (device.is_cuda()) stream.emplace(Stream::wrap(static_cast<CUstream_st*>(context->stream), device));
    body(TensorOptions{.dtype = static_cast<DType>(context->dtype), .device = device});
    return 0;
  } catch (const std::exception& error) {
    return failed(error.what());
  } catch (...) {
    return failed("adjoint: an exception that is no std::exception");
  }
}

// The same for a convolution: body(its geometry, options)
template <class Body>
int guarded(const char* op, const adjoint_context* context, const adjoint_conv_geometry* geometry, const Body& body) {
  return guarded(op, context, "geometry", geometry, [&](const TensorOptions& options) {
    const ConvGeometry g = to_geometry(*geometry);
    check_geometry(op, g);
    body(g, options);
  });
}

Tensor view(const void* data, const Shape& shape, const TensorOptions& options) {
  return Tensor::from_blob(const_cast<void*>(data), shape, options);
}

#if defined(ADJOINT_WITH_CUDA)
#define ADJOINT_KERNEL(name, options) ((options).device.is_cuda() ? cuda::name : cpu::name)
#else
#define ADJOINT_KERNEL(name, options) cpu::name
#endif

using Kernel = void (*)(std::span<const Tensor>, std::span<Tensor>, const ConvAttr&);

void run(Kernel kernel, const Tensor& a, const Tensor& b, const void* bias, std::int64_t channels, Tensor out,
         const ConvAttr& attr, const TensorOptions& options) {
  if (out.numel() == 0) return;
  const std::array<Tensor, 3> in{a, b, bias == nullptr ? Tensor{} : view(bias, {channels}, options)};
  kernel(in, {&out, 1}, attr);
}

static_assert(ActivationKind{ADJOINT_RELU} == ActivationKind::kReLU &&
              ActivationKind{ADJOINT_LEAKY_RELU} == ActivationKind::kLeakyReLU &&
              ActivationKind{ADJOINT_TANH} == ActivationKind::kTanh &&
              ActivationKind{ADJOINT_SIGMOID} == ActivationKind::kSigmoid &&
              ActivationKind{ADJOINT_SILU} == ActivationKind::kSiLU);

Activation to_activation(const char* op, const adjoint_activation* activation) {
  if (activation == nullptr) return {};
  ADJOINT_CHECK(activation->kind >= ADJOINT_RELU && activation->kind <= ADJOINT_SILU,
                "{}: activation's kind must be one of ADJOINT_RELU to ADJOINT_SILU; got {}", op, activation->kind);
  return {static_cast<ActivationKind>(activation->kind), {activation->parameter}};
}

/// Frozen if `frozen` is not null.
Tensor view_filter(const void* filter, adjoint_frozen_filter* frozen, const ConvGeometry& g,
                   const TensorOptions& options, MemoryFormat format = kContiguous) {
  Shape shape = filter_shape(g);
  if (format == kChannelsLast) std::rotate(shape.begin() + 1, shape.begin() + 2, shape.end());
  Tensor tensor = view(filter, shape, options);
  if (format == kChannelsLast) tensor = tensor.movedim(-1, 1);
  if (frozen != nullptr) tensor.impl()->storage->set_forms(frozen->forms);
  return tensor;
}

int run_conv(const char* op, const adjoint_context* context, const adjoint_conv_geometry* geometry,
             const adjoint_activation* activation, adjoint_frozen_filter* frozen, const void* image, const void* filter,
             const void* bias, void* feature) {
  return guarded(op, context, geometry, [&](const ConvGeometry& g, const TensorOptions& options) {
    const ConvAttr attr{g, to_activation(op, activation)};
    run(ADJOINT_KERNEL(conv, options), view(image, image_shape(g), options), view_filter(filter, frozen, g, options),
        bias, g.feature_channels, view(feature, feature_shape(g), options), attr, options);
  });
}

int run_conv_transpose(const char* op, const adjoint_context* context, const adjoint_conv_geometry* geometry,
                       const adjoint_activation* activation, adjoint_frozen_filter* frozen, const void* feature,
                       const void* filter, const void* bias, void* image) {
  return guarded(op, context, geometry, [&](const ConvGeometry& g, const TensorOptions& options) {
    const ConvAttr attr{g, to_activation(op, activation)};
    run(ADJOINT_KERNEL(conv_transpose, options), view(feature, feature_shape(g), options),
        view_filter(filter, frozen, g, options), bias, g.image_channels, view(image, image_shape(g), options), attr,
        options);
  });
}

// Views represent operands in channels_last: their addresses are checked, and their storage is the caller's.
int run_channels_last(const char* op, const adjoint_context* context, const adjoint_conv_geometry* geometry,
                      bool transposed, adjoint_frozen_filter* frozen, const adjoint_activation* activation,
                      bool filter_is_channels_last, const void* source, const void* filter, const void* bias,
                      void* result) {
  bool is_done = false;
  const int status = guarded(op, context, geometry, [&](const ConvGeometry& g, const TensorOptions& options) {
    const ConvAttr attr{g, to_activation(op, activation)};
    const Shape shapes[] = {image_shape(g), feature_shape(g)};
    const MemoryFormat format = filter_is_channels_last ? kChannelsLast : kContiguous;
    const std::array in{view(source, shapes[transposed ? 1 : 0], options),
                        view_filter(filter, frozen, g, options, format),
                        bias == nullptr ? Tensor{} : view(bias, {shapes[transposed ? 0 : 1][1]}, options)};
    Tensor out = view(result, shapes[transposed ? 0 : 1], options);
    is_done = out.numel() > 0 && ADJOINT_KERNEL(conv_channels_last, options)(in, out, attr, transposed);
  });
  return status != 0 || is_done ? status : 1;
}

// to_last: makes a pixel's channels neighbours.
int copy_channels(const char* op, const adjoint_context* context, const std::int64_t* extents, const void* from,
                  void* to, bool to_last) {
  return guarded(op, context, "extents", extents, [&](const TensorOptions& options) {
    for (int i = 0; i < 4; ++i) {
      ADJOINT_CHECK(extents[i] >= 0, "{}: extents must not be negative; got {} in place {}", op, extents[i], i);
    }
    const Shape first{extents[0], extents[1], extents[2], extents[3]}, last = {first[0], first[2], first[3], first[1]};
    const Tensor source =
        to_last ? view(from, first, options).permute({0, 2, 3, 1}) : view(from, last, options).permute({0, 3, 1, 2});
    Tensor copy = view(to, to_last ? last : first, options);
    if (copy.numel() > 0) copy_into(source, copy);
  });
}

}  // namespace

int adjoint_copy_to_channels_last(const adjoint_context* context, const int64_t extents[4], const void* from,
                                  void* to) {
  return copy_channels("adjoint_copy_to_channels_last", context, extents, from, to, true);
}

int adjoint_copy_from_channels_last(const adjoint_context* context, const int64_t extents[4], const void* from,
                                    void* to) {
  return copy_channels("adjoint_copy_from_channels_last", context, extents, from, to, false);
}

int adjoint_conv(const adjoint_context* context, const adjoint_conv_geometry* geometry, const void* image,
                 const void* filter, const void* bias, void* feature) {
  return run_conv("adjoint_conv", context, geometry, nullptr, nullptr, image, filter, bias, feature);
}

int adjoint_conv_transpose(const adjoint_context* context, const adjoint_conv_geometry* geometry, const void* feature,
                           const void* filter, const void* bias, void* image) {
  return run_conv_transpose("adjoint_conv_transpose", context, geometry, nullptr, nullptr, feature, filter, bias,
                            image);
}

adjoint_frozen_filter* adjoint_freeze_filter(void) {
  try {
    return new adjoint_frozen_filter{std::make_shared<adjoint::detail::KeptForms>()};
  } catch (const std::exception& error) {
    failed(error.what());
    return nullptr;
  }
}

void adjoint_unfreeze_filter(adjoint_frozen_filter* frozen) { delete frozen; }

int64_t adjoint_frozen_bytes(const adjoint_frozen_filter* frozen) {
  return frozen == nullptr ? 0 : static_cast<int64_t>(frozen->forms->nbytes());
}

int adjoint_conv_frozen(const adjoint_context* context, const adjoint_conv_geometry* geometry,
                        adjoint_frozen_filter* frozen, const adjoint_activation* activation, const void* image,
                        const void* filter, const void* bias, void* feature) {
  return run_conv("adjoint_conv_frozen", context, geometry, activation, frozen, image, filter, bias, feature);
}

int adjoint_conv_transpose_frozen(const adjoint_context* context, const adjoint_conv_geometry* geometry,
                                  adjoint_frozen_filter* frozen, const adjoint_activation* activation,
                                  const void* feature, const void* filter, const void* bias, void* image) {
  return run_conv_transpose("adjoint_conv_transpose_frozen", context, geometry, activation, frozen, feature, filter,
                            bias, image);
}

int adjoint_conv_activated(const adjoint_context* context, const adjoint_conv_geometry* geometry,
                           const adjoint_activation* activation, const void* image, const void* filter,
                           const void* bias, void* feature) {
  return run_conv("adjoint_conv_activated", context, geometry, activation, nullptr, image, filter, bias, feature);
}

int adjoint_conv_transpose_activated(const adjoint_context* context, const adjoint_conv_geometry* geometry,
                                     const adjoint_activation* activation, const void* feature, const void* filter,
                                     const void* bias, void* image) {
  return run_conv_transpose("adjoint_conv_transpose_activated", context, geometry, activation, nullptr, feature, filter,
                            bias, image);
}

int adjoint_conv_channels_last(const adjoint_context* context, const adjoint_conv_geometry* geometry,
                               adjoint_frozen_filter* frozen, const adjoint_activation* activation,
                               int filter_is_channels_last, const void* image, const void* filter, const void* bias,
                               void* feature) {
  return run_channels_last("adjoint_conv_channels_last", context, geometry, false, frozen, activation,
                           filter_is_channels_last != 0, image, filter, bias, feature);
}

int adjoint_conv_transpose_channels_last(const adjoint_context* context, const adjoint_conv_geometry* geometry,
                                         adjoint_frozen_filter* frozen, const adjoint_activation* activation,
                                         int filter_is_channels_last, const void* feature, const void* filter,
                                         const void* bias, void* image) {
  return run_channels_last("adjoint_conv_transpose_channels_last", context, geometry, true, frozen, activation,
                           filter_is_channels_last != 0, feature, filter, bias, image);
}

int adjoint_conv_weight_channels_last(const adjoint_context* context, const adjoint_conv_geometry* geometry,
                                      int filter_is_channels_last, const void* image, const void* feature,
                                      void* filter) {
  bool is_done = false;
  const int status =
      guarded("adjoint_conv_weight_channels_last", context, geometry,
              [&](const ConvGeometry& g, const TensorOptions& options) {
                const std::array in{view(image, image_shape(g), options), view(feature, feature_shape(g), options)};
                const MemoryFormat format = filter_is_channels_last != 0 ? kChannelsLast : kContiguous;
                Tensor out = view_filter(filter, nullptr, g, options, format);
                is_done =
                    out.numel() > 0 && g.batch > 0 && ADJOINT_KERNEL(conv_weight_channels_last, options)(in, out, g);
              });
  return status != 0 || is_done ? status : 1;
}

int adjoint_conv_weight(const adjoint_context* context, const adjoint_conv_geometry* geometry, const void* image,
                        const void* feature, void* filter) {
  return guarded("adjoint_conv_weight", context, geometry, [&](const ConvGeometry& g, const TensorOptions& options) {
    Tensor out = view(filter, filter_shape(g), options);
    if (out.numel() == 0) return;
    if (g.batch == 0) {
      out.zero_();
      return;
    }
    const std::array<Tensor, 2> in{view(image, image_shape(g), options), view(feature, feature_shape(g), options)};
    ADJOINT_KERNEL(conv_weight, options)(in, out, g);
  });
}

const char* adjoint_last_error(void) { return last_error.data(); }
const char* adjoint_version(void) { return ADJOINT_VERSION; }
