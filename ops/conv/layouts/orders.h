// Problems that are cheaper in another order of their operands.
//
// Strides as channels: with image positions, and the filter's taps, separated by their place modulo the stride (space
// to depth; PyTorch's pixel_unshuffle),
//     image[c][block * stride + residue - padding] = unshuffled image[c, residue][block],
//     filter[f][c][block * stride + residue] = unshuffled filter[f][c, residue][block],
// each operator of the trio is itself at stride 1, of fewer taps and more image channels. An axis of stride 1 stays as
// it is. Zeros fill missing positions of the image and missing taps of the filter.
//
// The batch as columns: for conv_weight, which sums over samples as over positions, samples may follow each position,
//     image[n][c][h][w] = image of one sample[c][h][w * samples + n],
// where a tap's dilation is as many times as wide. Rows are long, however small planes are. For planes of one row,
// positions are rows and only samples are columns, so a stride may stay.
//
// Padded rows: for conv_weight, whose sums zeros do not change, and the image of conv, rows may have any length that
// the copy engine needs. That is the move of strides as channels at stride 1.
#pragma once

#include <adjoint/core/base/export.h>
#include <adjoint/ops/conv/geometry.h>
#include <adjoint/ops/conv/layouts/samples_last.h>
#include <adjoint/ops/conv/layouts/unshuffle.h>

#include <cstdint>

namespace adjoint::cuda {

struct RearrangedPlan {
  ConvGeometry geometry;                       // of the same sums in that order
  Unshuffle image, feature, filter;            // no planes if the operand stays unchanged
  SamplesLast image_samples, feature_samples;  // used instead of those
  std::int64_t bias_repetitions = 1;           // of each image channel's
};

/// Strides as channels. False for an empty batch, if no axis has a stride, if an axis has both a stride and a dilation,
/// for an image result with residues that have no tap, and for very large extents.
ADJOINT_API bool plan_strides_as_channels(const ConvGeometry& geometry, bool image_is_result, std::int64_t element_size,
                                          RearrangedPlan& plan);
/// Rows of image and feature padded for the copy engine. `plan.geometry` is the problem's, or the remaining one where
/// strides have become channels. False for an empty batch, and if no row needs padding. For conv_weight only.
ADJOINT_API bool pad_rows(const ConvGeometry& geometry, std::int64_t element_size, RearrangedPlan& plan);
/// Rows of the image padded to multiples of 16 bytes. False if they already are, for an empty batch, and for very large
/// extents. For conv.
ADJOINT_API bool pad_image_rows(const ConvGeometry& geometry, std::int64_t element_size, RearrangedPlan& plan);
/// The batch as columns. False if an axis has a stride and a dilation, unless planes are rows, and for very large
/// extents. For conv_weight only.
ADJOINT_API bool plan_batch_as_columns(const ConvGeometry& geometry, std::int64_t element_size, RearrangedPlan& plan);

}  // namespace adjoint::cuda
