// The contents of an ONNX file, checked, without its protocol's classes. Internal to this folder.
#pragma once

#include <adjoint/core/tensor/tensor.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace adjoint::nn::detail {

struct OnnxFile {
  using Attribute = std::variant<std::int64_t, double, std::string, std::vector<std::int64_t>, std::vector<double>,
                                 std::vector<std::string>, Tensor>;
  struct Graph;
  struct Node {
    std::string type, name;  // its own name, or its first output's
    std::vector<std::string> inputs, outputs;
    std::map<std::string, Attribute> attributes;
    std::map<std::string, std::shared_ptr<const Graph>> graphs;  // attributes, too: bodies of If and Loop
  };
  using Constants = std::vector<std::pair<std::string, Tensor>>;
  /// A body. Its nodes also read values of the graph around it.
  struct Graph {
    std::vector<std::string> inputs, outputs;
    Constants constants;
    std::vector<Node> nodes;
  };
  /// An input of the graph.
  struct Input {
    std::string name;
    DType dtype = kFloat32;
    std::vector<std::int64_t> extents;  // -1: any
    bool has_shape = false;
  };

  std::int64_t operator_set = 0;
  std::vector<Input> inputs;  // without constants
  std::vector<std::string> outputs;
  Constants constants;
  std::vector<Node> nodes;
};

/// Throws Error, naming the path, for a file that violates the format or uses parts of it that no program of ours has:
/// other domains, sparse and quantised tensors.
OnnxFile read_onnx(const std::filesystem::path& path);

}  // namespace adjoint::nn::detail
