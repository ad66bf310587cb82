// Initialisers beyond a single distribution: computed on the CPU in float64 and copied.
#include <adjoint/nn/init.h>

#include <adjoint/core/autograd/node.h>
#include <adjoint/core/autograd/tape.h>
#include <adjoint/core/base/check.h>
#include <adjoint/core/tensor/tensor_impl.h>

#include <Eigen/QR>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

namespace adjoint::nn::init {
namespace {

void check(const char* op, const Tensor& tensor, std::size_t least, std::size_t most) {
  check_defined(op, "tensor", tensor);
  ADJOINT_CHECK(!adjoint::detail::used_by_a_tape(tensor),
                "{}: a live tape must not have used the tensor; got shape {}; initialise it before the tape, or under "
                "PauseTape",
                op, tensor.shape());
  ADJOINT_CHECK(is_floating_point(tensor.dtype()), "{}: the tensor must be floating point; got {}", op, tensor.dtype());
  const std::size_t rank = tensor.shape().size();
  ADJOINT_CHECK(rank >= least && rank <= most, "{}: the tensor must have {} axes; got shape {}", op,
                least == most ? fmt::format("{}", least) : fmt::format("{} to {}", least, most), tensor.shape());
}

void write(Tensor& tensor, const std::vector<double>& values) {
  tensor.copy_(Tensor::from_vector(values, tensor.shape(), {.dtype = kFloat64}));
}

std::vector<double> drawn(const Shape& shape) { return Tensor::randn(shape, {.dtype = kFloat64}).to_vector<double>(); }

}  // namespace

void eye_(Tensor tensor) {
  const OpScope scope("eye_");
  check("eye_", tensor, 2, 2);
  const PauseTape pause;
  std::vector<double> values(static_cast<std::size_t>(tensor.numel()));
  const auto columns = static_cast<std::size_t>(tensor.size(1)), rows = static_cast<std::size_t>(tensor.size(0));
  for (std::size_t i = 0; i < std::min(rows, columns); ++i) values[i * columns + i] = 1.0;
  write(tensor, values);
}

void dirac_(Tensor tensor, std::int64_t groups) {
  const OpScope scope("dirac_");
  check("dirac_", tensor, 3, 5);
  const Shape shape = tensor.shape();
  ADJOINT_CHECK(groups >= 1 && shape[0] % groups == 0, "dirac_: groups must divide the first extent; got {}, shape {}",
                groups, shape);
  const PauseTape pause;
  std::vector<double> values(static_cast<std::size_t>(tensor.numel()));
  std::int64_t taps = 1, centre = 0;
  for (std::size_t axis = 2; axis < shape.size(); ++axis) {
    centre = centre * shape[axis] + shape[axis] / 2;
    taps *= shape[axis];
  }
  const std::int64_t outputs = shape[0] / groups;
  for (std::int64_t group = 0; group < groups && taps > 0; ++group) {
    for (std::int64_t c = 0; c < std::min(outputs, shape[1]); ++c) {
      values[static_cast<std::size_t>(((group * outputs + c) * shape[1] + c) * taps + centre)] = 1.0;
    }
  }
  write(tensor, values);
}

void trunc_normal_(Tensor tensor, double mean, double standard_deviation, double a, double b) {
  const OpScope scope("trunc_normal_");
  check("trunc_normal_", tensor, 0, kMaxRank);
  ADJOINT_CHECK(
      standard_deviation > 0.0 && std::isfinite(standard_deviation) && std::isfinite(mean) && a < b,
      "trunc_normal_: the standard deviation must be positive, and a below b; got mean {}, standard deviation "
      "{}, a {}, b {}",
      mean, standard_deviation, a, b);
  // A uniform number between the distribution function's values at the ends, mapped to a normal one by bisection.
  const auto below = [&](double x) { return 0.5 * std::erfc((mean - x) / standard_deviation / std::sqrt(2.0)); };
  const double from = below(a), to = below(b);
  ADJOINT_CHECK(from < to,
                "trunc_normal_: [a, b] must hold some of the distribution; got mean {}, standard deviation "
                "{}, a {}, b {}",
                mean, standard_deviation, a, b);
  const PauseTape pause;
  std::vector<double> values = Tensor::rand(tensor.shape(), {.dtype = kFloat64}).to_vector<double>();
  for (double& value : values) {
    const double wanted = from + value * (to - from);
    double low = std::max(a, mean - 40.0 * standard_deviation), high = std::min(b, mean + 40.0 * standard_deviation);
    for (int step = 0; step < 64; ++step) {
      const double middle = low + (high - low) / 2.0;
      (below(middle) < wanted ? low : high) = middle;
    }
    value = std::clamp(low, a, b);
  }
  write(tensor, values);
}

void orthogonal_(Tensor tensor, double gain) {
  const OpScope scope("orthogonal_");
  check("orthogonal_", tensor, 2, kMaxRank);
  const PauseTape pause;
  if (tensor.numel() == 0) return;
  const std::int64_t rows = tensor.size(0), columns = tensor.numel() / rows;
  const std::int64_t longer = std::max(rows, columns), shorter = std::min(rows, columns);
  const std::vector<double> normal = drawn({longer, shorter});
  const Eigen::MatrixXd matrix = Eigen::Map<const Eigen::MatrixXd>(normal.data(), longer, shorter);
  const Eigen::HouseholderQR<Eigen::MatrixXd> qr(matrix);
  const Eigen::MatrixXd q = qr.householderQ() * Eigen::MatrixXd::Identity(longer, shorter);
  std::vector<double> values(static_cast<std::size_t>(tensor.numel()));
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t j = 0; j < columns; ++j) {
      // Making R's diagonal positive makes the distribution uniform.
      const std::int64_t k = rows < columns ? i : j;
      const double sign = qr.matrixQR()(k, k) < 0.0 ? -gain : gain;
      values[static_cast<std::size_t>(i * columns + j)] = sign * (rows < columns ? q(j, i) : q(i, j));
    }
  }
  write(tensor, values);
}

void sparse_(Tensor tensor, double sparsity, double standard_deviation) {
  const OpScope scope("sparse_");
  check("sparse_", tensor, 2, 2);
  ADJOINT_CHECK(sparsity >= 0.0 && sparsity <= 1.0, "sparse_: sparsity must be in [0, 1]; got {}", sparsity);
  const PauseTape pause;
  const auto rows = static_cast<std::size_t>(tensor.size(0)), columns = static_cast<std::size_t>(tensor.size(1));
  const auto zeros = static_cast<std::size_t>(std::ceil(sparsity * static_cast<double>(rows)));
  std::vector<double> values = drawn(tensor.shape());
  for (double& value : values) value *= standard_deviation;
  const std::vector<double> order = Tensor::rand(tensor.shape(), {.dtype = kFloat64}).to_vector<double>();
  std::vector<std::size_t> at(rows);
  for (std::size_t column = 0; column < columns; ++column) {
    std::iota(at.begin(), at.end(), std::size_t{0});
    std::sort(at.begin(), at.end(),
              [&](std::size_t i, std::size_t j) { return order[i * columns + column] < order[j * columns + column]; });
    for (std::size_t i = 0; i < zeros; ++i) values[at[i] * columns + column] = 0.0;
  }
  write(tensor, values);
}

namespace {

// Fills the tensor with repeated elements of a smaller one: `init` draws a tensor of shape `drawn`, which is reshaped
// to `with_ones`, expanded to `repeated`, and reshaped to the tensor's shape.
void fill_repeated(Tensor tensor, const Initialiser& init, const Shape& drawn, const Shape& with_ones,
                   const Shape& repeated) {
  const PauseTape pause;
  const Tensor smaller = Tensor::empty(drawn, tensor.options());
  init ? init(smaller) : kaiming_normal_(smaller);
  tensor.copy_(smaller.reshape(with_ones).expand(repeated).reshape(tensor.shape()));
}

}  // namespace

void icnr_(Tensor tensor, std::int64_t upscale_factor, const Initialiser& init) {
  check("icnr_", tensor, 4, 4);
  const Shape& shape = tensor.shape();
  ADJOINT_CHECK(upscale_factor >= 1 && upscale_factor <= 1024 && shape[0] % (upscale_factor * upscale_factor) == 0,
                "icnr_: upscale_factor^2 must divide the tensor's first extent; got shape {}, upscale_factor {}", shape,
                upscale_factor);
  const std::int64_t copies = upscale_factor * upscale_factor, channels = shape[0] / copies;
  fill_repeated(tensor, init, {channels, shape[1], shape[2], shape[3]}, {channels, 1, shape[1], shape[2], shape[3]},
                {channels, copies, shape[1], shape[2], shape[3]});
}

void icnr_transposed_(Tensor tensor, std::int64_t stride, const Initialiser& init) {
  check("icnr_transposed_", tensor, 3, 4);
  Shape shape = tensor.shape();
  const bool row = shape.size() == 3;
  if (row) shape.insert(2, 1);
  const std::int64_t down = row ? 1 : stride;
  ADJOINT_CHECK(stride >= 1 && shape[2] % down == 0 && shape[3] % stride == 0,
                "icnr_transposed_: the stride must divide the weight's taps; got shape {}, stride {}", tensor.shape(),
                stride);
  const std::int64_t h = shape[2] / down, w = shape[3] / stride;
  const Shape drawn = row ? Shape{shape[0], shape[1], w} : Shape{shape[0], shape[1], h, w};
  fill_repeated(tensor, init, drawn, {shape[0], shape[1], h, 1, w, 1}, {shape[0], shape[1], h, down, w, stride});
}

}  // namespace adjoint::nn::init
