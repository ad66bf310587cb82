/* The convolution trio as a C interface on raw memory, for bindings from other languages. C89 but for stdint.h.
 *
 * Tensors are contiguous. Calls on CUDA devices are enqueued on `stream` and do not wait for it. A call returns 0, or
 * -1 with a message in adjoint_last_error(), for any mistake in its arguments that can be told from them: null where
 * NULL is not allowed, constants and indices that do not exist, a geometry that is no convolution's, or whose steps or
 * sizes are beyond those of conv.h; nothing was enqueued then. */
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

/* As in adjoint::DType. */
enum { ADJOINT_FLOAT16 = 0, ADJOINT_BFLOAT16 = 1, ADJOINT_FLOAT32 = 2, ADJOINT_FLOAT64 = 3 };
/* As in adjoint::Precision: how float32 may round on a GPU. */
enum { ADJOINT_PRECISION_FLOAT32 = 0, ADJOINT_PRECISION_TF32 = 1 };

/* image[o * stride - padding + k * dilation] * filter[k] * feature[o], per axis (height, width). 1-D problems use the
 * width: height has extent, kernel, stride and dilation 1 and padding 0. */
typedef struct {
  int64_t batch, image_channels, feature_channels, groups;
  int64_t image[2], feature[2], kernel[2], stride[2], padding[2], dilation[2];
} adjoint_conv_geometry;

/* Where a call runs. device: -1 for the CPU, else a CUDA device's index. stream: a cudaStream_t, NULL for the default.
 */
typedef struct {
  int device;
  void* stream;
  int dtype;
  int precision;
} adjoint_context;

/* feature (N, Cf, h, w) from image (N, Ci, H, W), filter (Cf, Ci / groups, kh, kw) and bias (Cf), or NULL for none. */
ADJOINT_C_API int adjoint_conv(const adjoint_context* context, const adjoint_conv_geometry* geometry, const void* image,
                               const void* filter, const void* bias, void* feature);
/* image from feature, filter and bias (Ci), or NULL for none. */
ADJOINT_C_API int adjoint_conv_transpose(const adjoint_context* context, const adjoint_conv_geometry* geometry,
                                         const void* feature, const void* filter, const void* bias, void* image);
/* filter from image and feature. */
ADJOINT_C_API int adjoint_conv_weight(const adjoint_context* context, const adjoint_conv_geometry* geometry,
                                      const void* image, const void* feature, void* filter);

/* Activations of a result, computed where it is stored; one that needs no pass of its own. parameter: leaky_relu's
 * negative slope; others have none. */
enum { ADJOINT_RELU = 1, ADJOINT_LEAKY_RELU = 2, ADJOINT_TANH = 3, ADJOINT_SIGMOID = 4, ADJOINT_SILU = 5 };
typedef struct {
  int kind;
  double parameter;
} adjoint_activation;
/* adjoint_conv and adjoint_conv_transpose, activated; NULL for none. */
ADJOINT_C_API int adjoint_conv_activated(const adjoint_context* context, const adjoint_conv_geometry* geometry,
                                         const adjoint_activation* activation, const void* image, const void* filter,
                                         const void* bias, void* feature);
ADJOINT_C_API int adjoint_conv_transpose_activated(const adjoint_context* context,
                                                   const adjoint_conv_geometry* geometry,
                                                   const adjoint_activation* activation, const void* feature,
                                                   const void* filter, const void* bias, void* image);

/* A filter whose elements will not change until it is released: what kernels make of it, such as the filter in their
 * order, is kept from call to call, up to eight such forms. Results keep their bits. A filter that changes all the same
 * may be taken for what it was. A frozen filter stands for one filter on one device. NULL, with a message, where memory
 * is short. */
typedef struct adjoint_frozen_filter adjoint_frozen_filter;
ADJOINT_C_API adjoint_frozen_filter* adjoint_freeze_filter(void);
/* Gives back what is kept, in the order of the streams of the calls, none of which runs now. NULL is allowed. */
ADJOINT_C_API void adjoint_unfreeze_filter(adjoint_frozen_filter* frozen);
/* Bytes of what is kept; 0 for NULL. */
ADJOINT_C_API int64_t adjoint_frozen_bytes(const adjoint_frozen_filter* frozen);
/* adjoint_conv_activated and adjoint_conv_transpose_activated by a filter that `frozen`, or NULL for none, stands for.
 * Any number of threads may call at once. */
ADJOINT_C_API int adjoint_conv_frozen(const adjoint_context* context, const adjoint_conv_geometry* geometry,
                                      adjoint_frozen_filter* frozen, const adjoint_activation* activation,
                                      const void* image, const void* filter, const void* bias, void* feature);
ADJOINT_C_API int adjoint_conv_transpose_frozen(const adjoint_context* context, const adjoint_conv_geometry* geometry,
                                                adjoint_frozen_filter* frozen, const adjoint_activation* activation,
                                                const void* feature, const void* filter, const void* bias, void* image);

/* adjoint_conv_frozen and adjoint_conv_transpose_frozen of image and feature in channels_last, (N, H, W, C) in memory;
 * the filter is contiguous, or in channels_last, (Cf, kh, kw, Ci), if filter_is_channels_last is not 0. `frozen` may
 * be NULL. On GPUs of sm_90 alone, in half precision and TF32. Returns 1, and enqueues nothing, where no kernel reads
 * them so, or where copies to the contiguous order and back are predicted to take less time. */
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

/* adjoint_conv_weight of such operands, and such a filter. */
ADJOINT_C_API int adjoint_conv_weight_channels_last(const adjoint_context* context,
                                                    const adjoint_conv_geometry* geometry, int filter_is_channels_last,
                                                    const void* image, const void* feature, void* filter);

/* Copies a tensor of extents (N, C, H, W), contiguous as the operators read it, to the order that other frameworks call
 * channels_last, in which a pixel's channels are neighbours: (N, H, W, C) in memory. And the other way. */
ADJOINT_C_API int adjoint_copy_to_channels_last(const adjoint_context* context, const int64_t extents[4],
                                                const void* from, void* to);
ADJOINT_C_API int adjoint_copy_from_channels_last(const adjoint_context* context, const int64_t extents[4],
                                                  const void* from, void* to);

/* What went wrong in this thread's last call that returned -1, in 2047 bytes at most; "" before the first. */
ADJOINT_C_API const char* adjoint_last_error(void);
/* "0.1.0" */
ADJOINT_C_API const char* adjoint_version(void);

#ifdef __cplusplus
}
#endif

#endif
