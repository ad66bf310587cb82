// ONNX files as modules (component Adjoint::onnx): load_onnx.
//
//   const nn::OnnxModel net = nn::load_onnx("net.onnx");
//   const Tensor y = net(x);
#pragma once

#include <adjoint/core/base/export.h>
#include <adjoint/core/tensor/tensor.h>
#include <adjoint/nn/module.h>
#include <adjoint/nn/parameter.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

namespace adjoint::nn {

namespace detail {
struct OnnxProgram;
}

/// A network that was read from an ONNX file. It runs the file's nodes in operators of this library, which tapes
/// record, so it trains like any other module. Floating-point constants with axes are its parameters, under their
/// names, whose dots separate modules ("encoder.0.weight"). Those without axes, and batch normalisation's statistics,
/// are buffers. Numbers that a node reads as settings are neither. In training mode dropout drops, and batch
/// normalisation uses its batch.
class ADJOINT_API OnnxModel : public Module {
 public:
  /// The graph's outputs for its inputs, in the file's order. An optional input at the end may be left out, or be
  /// undefined. Conditions of If and Loop are read on the host, so one that is on a GPU is waited for. Throws Error,
  /// naming the node, for inputs of other dtypes or fixed extents than the file's, and for attributes and shapes that
  /// an operator does not accept.
  std::vector<Tensor> operator()(const std::vector<Tensor>& inputs) const;
  /// The same, of a network with one input and one output. Throws Error for others.
  Tensor operator()(const Tensor& input) const;

  const std::vector<std::string>& input_names() const;
  const std::vector<std::string>& output_names() const;

 private:
  friend ADJOINT_API OnnxModel load_onnx(const std::filesystem::path& path);
  explicit OnnxModel(std::shared_ptr<const detail::OnnxProgram> program);

  std::shared_ptr<const detail::OnnxProgram> program_;
  std::vector<Parameter> tensors_;  // parameters and buffers, in the program's order
};

/// Reads a model of operator sets 11 to 17, in training mode as every new module. Constants may be stored in other
/// files beside it. Throws Error for a file that cannot be read or that violates the format, and for an operator, an
/// attribute or an operator set that this library does not have; it then names the node and the remedy.
ADJOINT_API OnnxModel load_onnx(const std::filesystem::path& path);

}  // namespace adjoint::nn
