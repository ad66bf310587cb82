#include <adjoint/nn/onnx/save/dynamic.h>

#include <adjoint/core/base/check.h>

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

namespace adjoint::nn::detail {
namespace {

// An extent, or another number, in both records.
struct Both {
  std::int64_t here, there;
  bool differ() const { return here != there; }
  friend bool operator==(const Both&, const Both&) = default;
};

template <class T>
bool same(const T& a, const T& b) {
  return a == b;
}
bool same(const Tensor& a, const Tensor& b) {
  if (a.impl() == b.impl()) return true;
  return a.dtype() == b.dtype() && a.shape() == b.shape() &&
         a.to(kCPU).to_vector<double>() == b.to(kCPU).to_vector<double>();
}

class Rewriter {
 public:
  Rewriter(OnnxGraph& graph, const OnnxGraph& other) : graph_(graph), other_(other) {}

  void run() {
    const bool same_course =
        graph_.nodes.size() == other_.nodes.size() && graph_.outputs.size() == other_.outputs.size();
    ADJOINT_CHECK(same_course,
                  "save_onnx: a network must call the same operators at every size; got {} nodes, and {} at another",
                  graph_.nodes.size(), other_.nodes.size());
    for (const OnnxGraph::Port& input : graph_.inputs) sources_.push_back(input.value);
    std::vector<OnnxGraph::Node> nodes = std::move(graph_.nodes);
    graph_.nodes.clear();
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      rewrite(nodes[i], other_.nodes[i]);
      for (const std::int32_t id : nodes[i].outputs) sources_.push_back(id);
      graph_.nodes.push_back(std::move(nodes[i]));
    }
    for (std::size_t i = 0; i < graph_.outputs.size(); ++i) name_axes(i);
  }

 private:
  // An extent of a value, times `factor`, divided by `divisor`.
  struct Extent {
    std::int32_t value = -1;
    std::int64_t axis = 0, factor = 1, divisor = 1;
  };

  // Shape of a value in both records; false if unknown.
  bool shapes(std::int32_t id, Shape& here, Shape& there) const {
    if (id < 0) return false;
    const auto &a = graph_.values[static_cast<std::size_t>(id)].shape,
               &b = other_.values[static_cast<std::size_t>(id)].shape;
    if (!a || !b || a->size() != b->size()) return false;
    here = *a;
    there = *b;
    return true;
  }

  [[noreturn]] void fixed(const OnnxGraph::Node& node) const {
    fail(
        "save_onnx: the size of a dynamic axis must not be fixed; got {} (ONNX's {}), whose attributes or constants "
        "depend on it",
        node.made_by, node.type);
  }

  void rewrite(OnnxGraph::Node& node, const OnnxGraph::Node& there) {
    ADJOINT_CHECK(node.type == there.type && node.inputs == there.inputs && node.outputs == there.outputs,
                  "save_onnx: a network must call the same operators at every size; got {}, and {} at another",
                  node.made_by, there.made_by);
    if (node.attributes.size() != there.attributes.size()) fixed(node);
    for (std::size_t i = 0; i < node.attributes.size(); ++i) {
      const auto &a = node.attributes[i].second, &b = there.attributes[i].second;
      if (a.index() != b.index() ||
          !std::visit([&](const auto& own) { return same(own, std::get<std::decay_t<decltype(own)>>(b)); }, a))
        fixed(node);
    }
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      if (node.inputs[i] < 0) continue;
      const auto id = static_cast<std::size_t>(node.inputs[i]);
      const Tensor &a = graph_.values[id].constant, &b = other_.values[id].constant;
      if (a.defined() != b.defined()) fixed(node);
      if (!a.defined() || same(a, b)) continue;
      if (a.dtype() != kInt64 || a.dim() != 1 || a.shape() != b.shape()) fixed(node);
      node.inputs[i] = computed(node, i, a.to_vector<std::int64_t>(), b.to_vector<std::int64_t>());
    }
  }

  // The numbers `a`, which are `b` in the other record, as input i of a node.
  std::int32_t computed(const OnnxGraph::Node& node, std::size_t i, std::vector<std::int64_t> a,
                        std::vector<std::int64_t> b) {
    std::vector<std::size_t> open;
    for (std::size_t k = 0; k < a.size(); ++k) {
      if (a[k] == b[k]) continue;
      if (node.type == "Slice" && end_of_slice(node, i, k, a, b)) continue;
      open.push_back(k);
    }
    if (open.empty()) return constant(a);
    if (node.type == "Reshape" && open.size() == 1) {
      a[open.front()] = -1;
      return constant(a);
    }
    std::vector<std::int32_t> parts;
    std::size_t begin = 0;
    bool inferred = false;  // a reshape's -1
    const auto constants_until = [&](std::size_t end) {
      if (end > begin)
        parts.push_back(
            constant({a.begin() + static_cast<std::ptrdiff_t>(begin), a.begin() + static_cast<std::ptrdiff_t>(end)}));
      begin = end;
    };
    for (const std::size_t k : open) {
      const std::optional<Extent> extent = find(node, {a[k], b[k]}, k);
      if (!extent) {
        if (node.type != "Reshape" || inferred) fixed(node);
        inferred = true;
        a[k] = -1;
        continue;
      }
      constants_until(k);
      parts.push_back(extent_of(node, *extent));
      begin = k + 1;
    }
    constants_until(a.size());
    return parts.size() == 1 ? parts.front() : add(node, "Concat", parts, {{"axis", std::int64_t{0}}});
  }

  // Slices to the end, or from a distance to it.
  bool end_of_slice(const OnnxGraph::Node& node, std::size_t i, std::size_t k, std::vector<std::int64_t>& a,
                    const std::vector<std::int64_t>& b) const {
    Shape here, there;
    const Tensor& axes = graph_.values[static_cast<std::size_t>(node.inputs[3])].constant;
    if (!axes.defined() || !shapes(node.inputs[0], here, there)) return false;
    const auto axis = static_cast<std::size_t>(axes.to_vector<std::int64_t>()[k]);
    const std::int64_t distance = here[axis] - a[k];
    if (distance != there[axis] - b[k] || distance < 0 || (distance == 0 && i != 2)) return false;
    a[k] = distance == 0 ? std::numeric_limits<std::int64_t>::max() : -distance;
    return true;
  }

  // An extent that has these values; of the node's inputs first, and at axis k first.
  std::optional<Extent> find(const OnnxGraph::Node& node, Both wanted, std::size_t k) const {
    std::vector<std::int32_t> order(node.inputs.begin(), node.inputs.end());
    const auto inputs = static_cast<std::ptrdiff_t>(graph_.inputs.size());
    order.insert(order.end(), sources_.begin(), sources_.begin() + inputs);
    order.insert(order.end(), sources_.rbegin(), sources_.rend() - inputs);
    std::optional<Extent> multiple;
    for (const std::int32_t id : order) {
      Shape here, there;
      if (!shapes(id, here, there)) continue;
      std::vector<std::size_t> axes;
      if (k < here.size()) axes.push_back(k);
      for (std::size_t axis = 0; axis < here.size(); ++axis) axes.push_back(axis);
      for (const std::size_t axis : axes) {
        const Both extent{here[axis], there[axis]};
        if (!extent.differ()) continue;
        if (extent == wanted) return Extent{id, static_cast<std::int64_t>(axis)};
        if (multiple || wanted.here == 0 || extent.here == 0) continue;
        if (wanted.here % extent.here == 0 && wanted.here / extent.here * extent.there == wanted.there) {
          multiple = Extent{id, static_cast<std::int64_t>(axis), wanted.here / extent.here, 1};
        } else if (extent.here % wanted.here == 0 && extent.here / wanted.here * wanted.there == extent.there) {
          multiple = Extent{id, static_cast<std::int64_t>(axis), 1, extent.here / wanted.here};
        }
      }
    }
    return multiple;
  }

  std::int32_t extent_of(const OnnxGraph::Node& node, const Extent& extent) {
    const std::int32_t shape = add(node, "Shape", {extent.value}, {});
    std::int32_t found = add(node, "Gather", {shape, constant({extent.axis})}, {});
    if (extent.factor != 1) found = add(node, "Mul", {found, constant({extent.factor})}, {});
    if (extent.divisor != 1) found = add(node, "Div", {found, constant({extent.divisor})}, {});
    return found;
  }

  std::int32_t constant(const std::vector<std::int64_t>& numbers) {
    return value(Tensor::from_vector(numbers, {static_cast<std::int64_t>(numbers.size())}));
  }

  std::int32_t add(const OnnxGraph::Node& before, const char* type, std::vector<std::int32_t> inputs,
                   decltype(OnnxGraph::Node::attributes) attributes) {
    const std::int32_t id = value({});
    graph_.nodes.push_back({.type = type,
                            .made_by = before.made_by,
                            .inputs = std::move(inputs),
                            .outputs = {id},
                            .attributes = std::move(attributes)});
    return id;
  }

  std::int32_t value(const Tensor& constant) {
    graph_.values.push_back({.name = {}, .constant = constant, .shape = {}});
    return static_cast<std::int32_t>(graph_.values.size() - 1);
  }

  // An output's axis has the name of the input's axis of the same extent, or a new name.
  void name_axes(std::size_t i) {
    OnnxGraph::Port& output = graph_.outputs[i];
    const Shape& there = other_.outputs[i].shape;
    ADJOINT_CHECK(there.size() == output.shape.size(),
                  "save_onnx: an output must have as many axes at every size; got {}, and {} at another", output.shape,
                  there);
    output.axes.resize(output.shape.size());
    for (std::size_t axis = 0; axis < output.shape.size(); ++axis) {
      const Both extent{output.shape[axis], there[axis]};
      if (!extent.differ()) continue;
      output.axes[axis] = fmt::format("output_{}_axis_{}", i, axis);
      for (std::size_t k = graph_.inputs.size(); k-- > 0;) {
        const OnnxGraph::Port& input = graph_.inputs[k];
        for (std::size_t from = input.axes.size(); from-- > 0;) {
          if (Both{input.shape[from], other_.inputs[k].shape[from]} == extent && !input.axes[from].empty())
            output.axes[axis] = input.axes[from];
        }
      }
    }
  }

  OnnxGraph& graph_;
  const OnnxGraph& other_;
  std::vector<std::int32_t> sources_;  // values that are there before the node: inputs, then nodes' outputs
};

}  // namespace

void make_dynamic(OnnxGraph& graph, const OnnxGraph& other) { Rewriter(graph, other).run(); }

}  // namespace adjoint::nn::detail
