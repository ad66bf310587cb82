// Adjoint: tensors, a tape that differentiates, and transposed convolution. Includes every public header.
#pragma once

#include <adjoint/core/custom.h>
#include <adjoint/core/device.h>
#include <adjoint/core/dtype.h>
#include <adjoint/core/error.h>
#include <adjoint/core/gradcheck.h>
#include <adjoint/core/named_tensors.h>
#include <adjoint/core/parallel.h>
#include <adjoint/core/precision.h>
#include <adjoint/core/random.h>
#include <adjoint/core/shape.h>
#include <adjoint/core/stream.h>
#include <adjoint/core/tape.h>
#include <adjoint/core/tensor.h>
#include <adjoint/nn/activation.h>
#include <adjoint/nn/conv.h>
#include <adjoint/nn/init.h>
#include <adjoint/nn/linear.h>
#include <adjoint/nn/module.h>
#include <adjoint/nn/safetensors.h>
#include <adjoint/nn/sequential.h>
#include <adjoint/ops/conv/conv.h>
#include <adjoint/ops/conv/workspace.h>
#include <adjoint/ops/elementwise/elementwise.h>
#include <adjoint/ops/join/join.h>
#include <adjoint/ops/loss/loss.h>
#include <adjoint/ops/matmul/matmul.h>
#include <adjoint/ops/reduce/reduce.h>
#include <adjoint/ops/resample/resample.h>
#include <adjoint/ops/roll/roll.h>
#include <adjoint/ops/view/view.h>
#include <adjoint/optim/adam.h>
#include <adjoint/optim/clip.h>
#include <adjoint/optim/optimizer.h>
#include <adjoint/optim/schedule.h>
#include <adjoint/optim/sgd.h>

// Absent from builds without ADJOINT_DATA.
#if __has_include(<adjoint/data/loader.h>)
#include <adjoint/data/dataset.h>
#include <adjoint/data/image.h>
#include <adjoint/data/loader.h>
#include <adjoint/data/transforms.h>
#endif
