// Prints tensors as PyTorch does.
#include <adjoint/core/base/check.h>
#include <adjoint/core/tensor/tensor.h>

#include <algorithm>
#include <cmath>
#include <ostream>

namespace adjoint {
namespace {

constexpr std::int64_t kSummaryThreshold = 1000;  // elements above which long axes are summarised
constexpr std::int64_t kEdgeItems = 3;            // items then shown at each end
constexpr int kPrecision = 4;
constexpr std::size_t kIndent = 7;  // the width of "tensor("

// The elements that will be shown, in row-major order, with "..." between edges.
class Printer {
 public:
  explicit Printer(const Tensor& tensor)
      : shape_(tensor.shape()), dtype_(tensor.dtype()), summarise_(tensor.numel() > kSummaryThreshold) {
    gather(tensor, 0);
    choose_format();
  }

  std::string print() {
    std::size_t next = 0;
    std::string text;
    print_axis(0, next, text);
    return text;
  }

 private:
  bool cut(std::size_t axis) const { return summarise_ && shape_[axis] > 2 * kEdgeItems; }

  template <class F>
  void for_shown(std::size_t axis, F&& f) const {
    for (std::int64_t i = 0; i < shape_[axis]; ++i) {
      if (cut(axis) && i == kEdgeItems) i = shape_[axis] - kEdgeItems;
      f(i);
    }
  }

  void gather(const Tensor& tensor, std::size_t axis) {
    if (axis == shape_.size()) {
      values_.push_back(tensor.item<double>());
      integers_.push_back(dtype_ == kInt64 ? tensor.item<std::int64_t>() : static_cast<std::int64_t>(0));
      return;
    }
    const Shape rest(tensor.shape().begin() + 1, tensor.shape().end());
    const Strides strides(tensor.strides().begin() + 1, tensor.strides().end());
    for_shown(axis, [&](std::int64_t i) {
      gather(tensor.view_as(rest, strides, tensor.storage_offset() + i * tensor.strides()[0]), axis + 1);
    });
  }

  // Floats that are all whole print as "1."; a wide range of magnitudes prints in scientific notation.
  void choose_format() {
    double largest = 0.0, smallest = INFINITY;
    for (const double value : values_) {
      if (!std::isfinite(value)) continue;
      whole_ &= value == std::ceil(value);
      if (value == 0.0) continue;
      largest = std::max(largest, std::abs(value));
      smallest = std::min(smallest, std::abs(value));
    }
    scientific_ = largest > 0.0 && (largest / smallest > 1000.0 || largest > 1e8 || smallest < 1e-4) &&
                  !(whole_ && largest < 1e8);
    for (std::size_t i = 0; i < values_.size(); ++i) {
      if (std::isfinite(values_[i])) width_ = std::max(width_, element(i).size());
    }
  }

  std::string element(std::size_t i) const {
    const double value = values_[i];
    if (dtype_ == kBool) return value != 0.0 ? "True" : "False";
    if (dtype_ == kInt64) return std::to_string(integers_[i]);
    if (!is_floating_point(dtype_)) return std::to_string(static_cast<std::int64_t>(value));
    if (std::isnan(value)) return "nan";
    if (std::isinf(value)) return value > 0.0 ? "inf" : "-inf";
    if (scientific_) return fmt::format("{:.{}e}", value, kPrecision);
    if (whole_) return fmt::format("{:.0f}.", value);
    return fmt::format("{:.{}f}", value, kPrecision);
  }

  void print_axis(std::size_t axis, std::size_t& next, std::string& text) {
    if (axis == shape_.size()) {
      text += fmt::format("{:>{}}", element(next++), width_);
      return;
    }
    const bool last = axis + 1 == shape_.size();
    const std::string separator =
        last ? ", " : fmt::format(",{:\n>{}}{:>{}}", "", shape_.size() - axis - 1, "", kIndent + axis + 1);
    text += '[';
    bool first = true;
    for_shown(axis, [&](std::int64_t i) {
      if (!first) text += separator;
      if (cut(axis) && i == shape_[axis] - kEdgeItems) text.append("...").append(separator);
      first = false;
      print_axis(axis + 1, next, text);
    });
    text += ']';
  }

  Shape shape_;
  DType dtype_;
  bool summarise_;
  bool whole_ = true;
  bool scientific_ = false;
  std::size_t width_ = 0;
  std::vector<double> values_;
  std::vector<std::int64_t> integers_;
};

}  // namespace

std::string to_string(const Tensor& tensor) {
  if (!tensor.defined()) return "tensor(undefined)";
  std::string text = "tensor(" + (tensor.numel() == 0 ? "[]" : Printer(tensor.detach()).print());
  const bool usual = tensor.dtype() == kFloat32 || tensor.dtype() == kInt64 || tensor.dtype() == kBool;
  if (tensor.numel() == 0 && tensor.dim() != 1) text += fmt::format(", size={}", tensor.shape());
  if (!usual || (tensor.numel() == 0 && tensor.dtype() != kFloat32)) text += fmt::format(", dtype={}", tensor.dtype());
  if (!tensor.device().is_cpu()) text += fmt::format(", device='{}'", tensor.device());
  if (tensor.requires_grad()) text += ", requires_grad=True";
  return text + ")";
}

std::ostream& operator<<(std::ostream& out, const Dims& dims) { return out << to_string(dims); }
std::ostream& operator<<(std::ostream& out, DType dtype) { return out << to_string(dtype); }
std::ostream& operator<<(std::ostream& out, Device device) { return out << to_string(device); }
std::ostream& operator<<(std::ostream& out, const Tensor& tensor) { return out << to_string(tensor); }

}  // namespace adjoint
