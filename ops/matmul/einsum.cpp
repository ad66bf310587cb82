// einsum: each operand becomes a tensor with one axis a label; two at a time they become a batch of matrix products.
#include <adjoint/ops/matmul/einsum.h>

#include <adjoint/core/autograd/op.h>
#include <adjoint/core/base/check.h>
#include <adjoint/core/graph/one_call.h>
#include <adjoint/core/graph/onnx_call.h>
#include <adjoint/ops/elementwise/elementwise.h>
#include <adjoint/ops/matmul/matmul.h>
#include <adjoint/ops/reduce/reduce.h>
#include <adjoint/ops/view/diagonal.h>

#include <algorithm>
#include <cctype>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <utility>

namespace adjoint {
namespace {

constexpr const char* kEinsum = "einsum";

// A letter, or for axes of an ellipsis, from the last: -1, -2, ...
using Label = int;
using Labels = std::vector<Label>;

bool names(const Labels& labels, Label label) { return std::find(labels.begin(), labels.end(), label) != labels.end(); }

struct Labelled {
  Tensor tensor;
  Labels labels;  // of each axis
};

// The labels of "ij...k", whose ellipsis means `further` axes.
Labels labels_of(std::string_view term, std::size_t further, std::string_view equation) {
  Labels labels;
  bool ellipsis = false;
  for (std::size_t i = 0; i < term.size(); ++i) {
    const auto letter = static_cast<unsigned char>(term[i]);
    if (std::isalpha(letter) != 0) {
      labels.push_back(letter);
      continue;
    }
    ADJOINT_CHECK(!ellipsis && term.substr(i, 3) == "...",
                  "einsum: a term must be of letters, and one ellipsis at most; got \"{}\" in \"{}\"", term, equation);
    for (std::size_t k = further; k > 0; --k) labels.push_back(-static_cast<Label>(k));
    ellipsis = true;
    i += 2;
  }
  return labels;
}

// A parsed equation.
struct Equation {
  std::vector<Labelled> operands;
  Labels result;
  std::map<Label, std::int64_t> extents;
  bool has_equal_ellipses = true;  // of as many axes

  Equation(std::string_view given, const std::vector<Tensor>& tensors) {
    std::string text;
    std::copy_if(given.begin(), given.end(), std::back_inserter(text), [](char c) { return c != ' '; });
    const std::size_t arrow = text.find("->");
    std::vector<std::string> terms{""};
    for (const char c : text.substr(0, arrow)) {
      if (c == ',') {
        terms.emplace_back();
      } else {
        terms.back() += c;
      }
    }
    ADJOINT_CHECK(!tensors.empty() && terms.size() == tensors.size(),
                  "einsum: there must be a term for each operand; got {} operands for \"{}\"", tensors.size(), given);
    std::size_t most = 0;
    std::set<std::size_t> ellipses;
    for (std::size_t i = 0; i < terms.size(); ++i) {
      const std::size_t axes = add(terms[i], tensors[i], given);
      most = std::max(most, axes);
      if (terms[i].find('.') != std::string::npos) ellipses.insert(axes);
    }
    has_equal_ellipses = ellipses.size() <= 1;
    if (arrow != std::string::npos) {
      result = labels_of(text.substr(arrow + 2), most, given);
    } else {
      for (std::size_t k = most; k > 0; --k) result.push_back(-static_cast<Label>(k));
      for (const Label letter : single_letters()) result.push_back(letter);
    }
    for (std::size_t i = 0; i < result.size(); ++i) {
      ADJOINT_CHECK(extents.contains(result[i]) && std::count(result.begin(), result.end(), result[i]) == 1,
                    "einsum: a name of the result must be one of the operands' and stand once; got '{}' in \"{}\"",
                    static_cast<char>(result[i]), given);
    }
  }

 private:
  // The operand with its labels, and the number of axes that its ellipsis means.
  std::size_t add(const std::string& term, const Tensor& tensor, std::string_view equation) {
    check_defined(kEinsum, "an operand", tensor);
    const DType dtype = operands.empty() ? tensor.dtype() : operands[0].tensor.dtype();
    // In a region of mixed precision the operators inside find a common one.
    const bool fits = tensor.dtype() == dtype || (adjoint::detail::autocast_region() != nullptr &&
                                                  is_floating_point(tensor.dtype()) && is_floating_point(dtype));
    ADJOINT_CHECK(fits && dtype != kBool,
                  "einsum: operands must share a dtype, which is not bool; got {} {} for \"{}\"", tensor.dtype(),
                  tensor.shape(), equation);
    const std::size_t named = labels_of(term, 0, equation).size(), axes = tensor.shape().size();
    const bool ellipsis = term.find('.') != std::string::npos;
    ADJOINT_CHECK(ellipsis ? named <= axes : named == axes,
                  "einsum: a term must name each axis of its operand; got \"{}\" in \"{}\" for {}", term, equation,
                  tensor.shape());
    Labelled operand{tensor, labels_of(term, axes - named, equation)};
    for (std::size_t i = 0; i < axes; ++i) {
      ++places_[operand.labels[i]];
      const std::int64_t extent = tensor.shape()[i];
      std::int64_t& known = extents.try_emplace(operand.labels[i], extent).first->second;
      ADJOINT_CHECK(extent == known || extent == 1 || known == 1,
                    "einsum: axes of one name must have one extent, or 1; got {} and {} in \"{}\"", known, extent,
                    equation);
      if (known == 1) known = extent;
    }
    take_diagonals(operand, equation);
    operands.push_back(std::move(operand));
    return axes - named;
  }

  static void take_diagonals(Labelled& operand, std::string_view equation) {
    Labels& labels = operand.labels;
    for (std::size_t i = 0; i < labels.size();) {
      const auto again = std::find(labels.begin() + static_cast<std::ptrdiff_t>(i) + 1, labels.end(), labels[i]);
      if (again == labels.end()) {
        ++i;
        continue;
      }
      const auto first = static_cast<std::int64_t>(i), second = again - labels.begin();
      ADJOINT_CHECK(operand.tensor.size(first) == operand.tensor.size(second),
                    "einsum: axes of one name must have one extent in an operand; got {} for \"{}\"",
                    operand.tensor.shape(), equation);
      operand.tensor = diagonal(operand.tensor, 0, first, second);
      const Label label = labels[i];
      labels.erase(again);
      labels.erase(labels.begin() + first);
      labels.push_back(label);
    }
  }

  // In alphabetical order, those that occur once in all terms.
  Labels single_letters() const {
    Labels single;
    for (const auto& [label, count] : places_) {
      if (label > 0 && count == 1) single.push_back(label);
    }
    return single;
  }

  std::map<Label, int> places_;  // the count of each in the terms
};

// Sums of integers are int64.
Tensor of_dtype(const Tensor& sum, const Tensor& operand) {
  return is_floating_point(operand.dtype()) ? sum : sum.to(operand.dtype());
}

// Without the axes that drops(label) names, which are summed over.
template <class Drops>
Labelled without(const Labelled& operand, const Drops& drops) {
  Labelled left{operand.tensor, {}};
  Dims summed;
  for (std::size_t i = 0; i < operand.labels.size(); ++i) {
    if (drops(operand.labels[i])) {
      summed.push_back(static_cast<std::int64_t>(i));
    } else {
      left.labels.push_back(operand.labels[i]);
    }
  }
  if (!summed.empty()) left.tensor = of_dtype(left.tensor.sum(summed), operand.tensor);
  return left;
}

// The operand as (batch, rows, columns), each the product of the axes that these labels name.
Tensor grouped(const Labelled& operand, const Labels (&groups)[3]) {
  Dims order;
  Shape shape;
  for (const Labels& group : groups) {
    std::int64_t extent = 1;
    for (const Label label : group) {
      const auto axis = std::find(operand.labels.begin(), operand.labels.end(), label) - operand.labels.begin();
      order.push_back(axis);
      extent *= operand.tensor.size(axis);
    }
    shape.push_back(extent);
  }
  return operand.tensor.permute(order).reshape(shape);
}

// (batch, rows, inner), (batch, inner, columns) -> (batch, rows, columns). Without `sums` inner is one element, and the
// product is no matrix product.
Tensor of_matrices(const Tensor& a, const Tensor& b, bool sums) {
  if (!sums) return a * b;
  if (is_floating_point(a.dtype())) return matmul(a, b);
  return of_dtype((a.unsqueeze(-1) * b.unsqueeze(1)).sum({2}), a);
}

// The product of both, summed over the labels that neither `kept` nor another operand needs.
Labelled contracted(const Labelled& a, const Labelled& b, const Labels& kept) {
  const Labelled left = without(a, [&](Label l) { return !names(b.labels, l) && !names(kept, l); });
  const Labelled right = without(b, [&](Label l) { return !names(a.labels, l) && !names(kept, l); });
  Labels batch, rows, inner, columns;
  for (const Label label : left.labels)
    (!names(right.labels, label) ? rows : names(kept, label) ? batch : inner).push_back(label);
  for (const Label label : right.labels) {
    if (!names(left.labels, label)) columns.push_back(label);
  }
  Labelled result;
  Shape shape;
  ADJOINT_CHECK(batch.size() + rows.size() + columns.size() <= kMaxRank,
                "einsum: no product on the way may have more than {} axes; got {} of operands {} and {}", kMaxRank,
                batch.size() + rows.size() + columns.size(), a.tensor.shape(), b.tensor.shape());
  for (const auto& [group, from] : {std::pair{&batch, &left}, {&rows, &left}, {&columns, &right}}) {
    for (const Label label : *group) {
      result.labels.push_back(label);
      shape.push_back(
          from->tensor.size(std::find(from->labels.begin(), from->labels.end(), label) - from->labels.begin()));
    }
  }
  result.tensor =
      of_matrices(grouped(left, {batch, rows, inner}), grouped(right, {batch, inner, columns}), !inner.empty())
          .reshape(shape);
  return result;
}

OnnxValue einsum_onnx(OnnxCall& call, const std::string& equation) {
  std::vector<OnnxValue> operands;
  for (std::size_t i = 0; i < call.in.size(); ++i) operands.push_back(call.operand(i));
  return call.add_node("Einsum", operands, {{"equation", equation.c_str()}}, 1).front();
}

Tensor by_products(Equation parsed) {
  // An extent of 1 counts as no axis if there is a larger one.
  for (Labelled& operand : parsed.operands) {
    const Labelled whole = operand;
    std::size_t axis = 0;
    operand.labels.clear();
    for (const Label label : whole.labels) {
      if (operand.tensor.size(static_cast<std::int64_t>(axis)) != parsed.extents[label]) {
        operand.tensor = operand.tensor.squeeze(static_cast<std::int64_t>(axis));
      } else {
        operand.labels.push_back(label);
        ++axis;
      }
    }
  }
  Labelled all = parsed.operands.front();
  for (std::size_t i = 1; i < parsed.operands.size(); ++i) {
    Labels kept = parsed.result;
    for (std::size_t later = i + 1; later < parsed.operands.size(); ++later) {
      const Labels& labels = parsed.operands[later].labels;
      kept.insert(kept.end(), labels.begin(), labels.end());
    }
    all = contracted(all, parsed.operands[i], kept);
  }
  all = without(all, [&](Label label) { return !names(parsed.result, label); });
  Dims order;
  for (const Label label : parsed.result) {
    order.push_back(std::find(all.labels.begin(), all.labels.end(), label) - all.labels.begin());
  }
  return all.tensor.permute(order);
}

}  // namespace

Tensor einsum(std::string_view equation, const std::vector<Tensor>& operands) {
  const OpScope scope(kEinsum);
  const Equation parsed(equation, operands);
  const auto compute = [&] { return by_products(parsed); };
  // ONNX's Einsum accepts operands of one dtype; ONNX Runtime's needs elements, and fails on sums of one operand.
  const bool has_node = adjoint::detail::autocast_region() == nullptr && operands.size() > 1 &&
                        parsed.has_equal_ellipses &&
                        std::all_of(operands.begin(), operands.end(), [](const Tensor& t) { return t.numel() > 0; });
  if (!has_node) return compute();
  return adjoint::detail::as_one_call(kEinsum, einsum_onnx, std::string(equation), compute, Operands(operands));
}

}  // namespace adjoint
