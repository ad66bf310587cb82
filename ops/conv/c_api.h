/* The convolution trio as a C interface on raw memory, for bindings from other languages. C89 but for stdint.h.
 *
 * Tensors are contiguous. Calls on CUDA devices are enqueued on `stream` and do not wait for it. A call returns 0. If
 * its arguments are wrong, it enqueues nothing and returns -1, with a message in adjoint_last_error(). It detects NULL
 * where that is not allowed, constants and indices that do not exist, geometries that are not a convolution's, and
 * steps or sizes beyond the limits in conv.h. */
#ifndef ADJOINT_OPS_CONV_C_API_H
#define ADJOINT_OPS_CONV_C_API_H

#include <stdint.h>

#if defined(ADJOINT_STATIC)
#define ADJOINT_C_API
#else
#define ADJOINT_C_API __attribute__((visibility("default")))
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* The values of adjoint::DType. */
enum { ADJOINT_FLOAT16 = 0, ADJOINT_BFLOAT16 = 1, ADJOINT_FLOAT32 = 2, ADJOINT_FLOAT64 = 3 };
/* The values of adjoint::Precision: the rounding of float32 products on a GPU. */
enum { ADJOINT_PRECISION_FLOAT32 = 0, ADJOINT_PRECISION_TF32 = 1 };

/* image[o * stride - padding + k * dilation] * filter[k] * feature[o], per axis (height, width). 1-D problems use the
 * width: height has extent, kernel, stride and dilation 1 and padding 0. */
typedef struct {
  int64_t batch, image_channels, feature_channels, groups;
  int64_t image[2], feature[2], kernel[2], stride[2], padding[2], dilation[2];
  /* The depth of volumes (N, C, D, H, W), which comes first in memory. All 0 for images. */
  int64_t image_depth, feature_depth, kernel_depth, stride_depth, padding_depth, dilation_depth;
} adjoint_conv_geometry;

/* The place of a call. device: -1 is the CPU, other values are indices of CUDA devices. stream: a cudaStream_t; NULL is
 * the default stream. */
typedef struct {
  int device;
  void* stream;
  int dtype;
  int precision;
} adjoint_context;

/* Computes feature (N, Cf, h, w) from image (N, Ci, H, W), filter (Cf, Ci / groups, kh, kw) and bias (Cf), which may be
 * NULL. */
ADJOINT_C_API int adjoint_conv(const adjoint_context* context, const adjoint_conv_geometry* geometry, const void* image,
                               const void* filter, const void* bias, void* feature);
/* Computes image from feature, filter and bias (Ci), which may be NULL. */
ADJOINT_C_API int adjoint_conv_transpose(const adjoint_context* context, const adjoint_conv_geometry* geometry,
                                         const void* feature, const void* filter, const void* bias, void* image);
/* Computes filter from image and feature. */
ADJOINT_C_API int adjoint_conv_weight(const adjoint_context* context, const adjoint_conv_geometry* geometry,
                                      const void* image, const void* feature, void* filter);

/* Activations that kernels compute as they store a result, without a separate pass. parameter: the negative slope of
 * leaky_relu; other activations ignore it. */
enum { ADJOINT_RELU = 1, ADJOINT_LEAKY_RELU = 2, ADJOINT_TANH = 3, ADJOINT_SIGMOID = 4, ADJOINT_SILU = 5 };
typedef struct {
  int kind;
  double parameter;
} adjoint_activation;
/* adjoint_conv and adjoint_conv_transpose followed by an activation, which may be NULL. */
ADJOINT_C_API int adjoint_conv_activated(const adjoint_context* context, const adjoint_conv_geometry* geometry,
                                         const adjoint_activation* activation, const void* image, const void* filter,
                                         const void* bias, void* feature);
ADJOINT_C_API int adjoint_conv_transpose_activated(const adjoint_context* context,
                                                   const adjoint_conv_geometry* geometry,
                                                   const adjoint_activation* activation, const void* feature,
                                                   const void* filter, const void* bias, void* image);

/* A promise that the elements of one filter on one device will not change until it is released. The library keeps up to
 * eight forms of the filter, such as one in a kernel's own order, from call to call. Results keep their bits. If the
 * elements change nevertheless, results may use the old ones. Returns NULL, with a message, if memory is short. */
typedef struct adjoint_frozen_filter adjoint_frozen_filter;
ADJOINT_C_API adjoint_frozen_filter* adjoint_freeze_filter(void);
/* Frees the kept forms, in the order of the streams of the calls. No call with this filter may be running. NULL is
 * allowed. */
ADJOINT_C_API void adjoint_unfreeze_filter(adjoint_frozen_filter* frozen);
/* Returns the bytes of the kept forms; 0 for NULL. */
ADJOINT_C_API int64_t adjoint_frozen_bytes(const adjoint_frozen_filter* frozen);
/* adjoint_conv_activated and adjoint_conv_transpose_activated with the filter of `frozen`, which may be NULL. Any
 * number of threads may call at once. */
ADJOINT_C_API int adjoint_conv_frozen(const adjoint_context* context, const adjoint_conv_geometry* geometry,
                                      adjoint_frozen_filter* frozen, const adjoint_activation* activation,
                                      const void* image, const void* filter, const void* bias, void* feature);
ADJOINT_C_API int adjoint_conv_transpose_frozen(const adjoint_context* context, const adjoint_conv_geometry* geometry,
                                                adjoint_frozen_filter* frozen, const adjoint_activation* activation,
                                                const void* feature, const void* filter, const void* bias, void* image);

/* adjoint_conv_frozen and adjoint_conv_transpose_frozen for image and feature in channels_last, (N, H, W, C) in memory.
 * The filter is contiguous; if filter_is_channels_last is not 0, it is in channels_last, (Cf, kh, kw, Ci). Only for
 * GPUs of sm_90, in half precision and TF32. Enqueues nothing and returns 1 if no kernel reads this format, or if
 * copies to the contiguous order and back are predicted to take less time. */
ADJOINT_C_API int adjoint_conv_channels_last(const adjoint_context* context, const adjoint_conv_geometry* geometry,
                                             adjoint_frozen_filter* frozen, const adjoint_activation* activation,
                                             int filter_is_channels_last, const void* image, const void* filter,
                                             const void* bias, void* feature);
ADJOINT_C_API int adjoint_conv_transpose_channels_last(const adjoint_context* context,
                                                       const adjoint_conv_geometry* geometry,
                                                       adjoint_frozen_filter* frozen,
                                                       const adjoint_activation* activation,
                                                       int filter_is_channels_last, const void* feature,
                                                       const void* filter, const void* bias, void* image);

/* adjoint_conv_weight for operands and a filter in those formats. */
ADJOINT_C_API int adjoint_conv_weight_channels_last(const adjoint_context* context,
                                                    const adjoint_conv_geometry* geometry, int filter_is_channels_last,
                                                    const void* image, const void* feature, void* filter);

/* Copies a contiguous tensor of extents (N, C, H, W) to channels_last, (N, H, W, C) in memory, and back. */
ADJOINT_C_API int adjoint_copy_to_channels_last(const adjoint_context* context, const int64_t extents[4],
                                                const void* from, void* to);
ADJOINT_C_API int adjoint_copy_from_channels_last(const adjoint_context* context, const int64_t extents[4],
                                                  const void* from, void* to);

/* Returns the message of this thread's last call that returned -1, at most 2047 bytes; "" before the first. */
ADJOINT_C_API const char* adjoint_last_error(void);
/* "0.1.0" */
ADJOINT_C_API const char* adjoint_version(void);

#ifdef __cplusplus
}
#endif

#endif
