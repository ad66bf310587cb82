// Activations, one element at a time: the activations of the table in activation.h, and glu, prelu and snake, which
// have several operands.
#pragma once

#include <adjoint/ops/elementwise/functor.h>

#include <cmath>
#include <numbers>

namespace adjoint::functor {

template <class T>
struct ReLU : Unary<NoAttr, Kept::kResult, true, kNumbers> {
  static constexpr const char* kName = "relu";
  ADJOINT_HD T operator()(T x) const { return x <= T{0} ? T{0} : x; }  // keeps NaN
  /// 0 rather than 0 * g, so that an infinite gradient stops here too.
  ADJOINT_HD T gradient(T g, T y) const { return y <= T{0} ? T{0} : g; }
  template <class V>
  V onnx(const V& x) const {
    return x.is_integer() ? x.node("Max", {x.number(0.0)}) : x.node("Relu");
  }
};
template <class T>
struct LeakyReLU : Unary<ScalarAttr, Kept::kOperand, true> {
  static constexpr const char* kName = "leaky_relu";
  T slope;
  explicit LeakyReLU(const ScalarAttr& attr) : slope(static_cast<T>(attr.value)) {}
  ADJOINT_HD T operator()(T x) const { return select(x > T{0}, x, x * slope); }
  ADJOINT_HD T gradient(T g, T x) const { return select(x > T{0}, g, g * slope); }
  template <class V>
  V onnx(const V& x) const {
    return x.node("LeakyRelu", {}, {{"alpha", slope}});
  }
};
template <class T>
struct Tanh : Unary<NoAttr, Kept::kResult> {
  static constexpr const char* kName = "tanh";
  static constexpr const char* kOnnx = "Tanh";
  ADJOINT_HD T operator()(T x) const { return tanh(x); }
  template <class V>
  ADJOINT_HD V gradient(const V& g, const V& y) const {
    return g * (1 - y * y);
  }
};
template <class T>
struct Sigmoid : Unary<NoAttr, Kept::kResult> {
  static constexpr const char* kName = "sigmoid";
  static constexpr const char* kOnnx = "Sigmoid";
  ADJOINT_HD T operator()(T x) const { return sigmoid(x); }
  template <class V>
  ADJOINT_HD V gradient(const V& g, const V& y) const {
    return g * (1 - y) * y;
  }
};
/// clamp_min(x, low), on a GPU as one instruction: with a comparison and a selection in the activation of convolution's
/// TF32 kernels, the compiler keeps their sums on the stack and serialises their products.
template <class T>
ADJOINT_HD inline T not_below(T x, T low) {
#if defined(__CUDA_ARCH__)
  if constexpr (std::is_same_v<T, float>) {
    float y;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(y) : "f"(x), "f"(low));
    return y;
  }
#endif
  return clamp_min(x, low);
}
// Outside the range in which a function x f(x) differs from 0 below and from x above, a finite value replaces x, so
// that no infinity or square of a large number meets a 0.
template <class T>
struct SiLU : Unary<> {
  static constexpr const char* kName = "silu";
  static constexpr T kFar = T(1000);
  ADJOINT_HD T operator()(T x) const { return not_below(x, -kFar) / (T{1} + exp(-x)); }
  template <class V>
  ADJOINT_HD V gradient(const V& g, const V& x) const {
    const V s = sigmoid(x);
    return g * s * (clamp(x, -kFar, kFar) * (1 - s) + 1);
  }
  template <class V>
  V onnx(const V& x) const {
    return x * x.node("Sigmoid");
  }
};

template <class T>
struct ReLU6 : Unary<NoAttr, Kept::kOperand, true> {
  static constexpr const char* kName = "relu6";
  ADJOINT_HD T operator()(T x) const { return x < T{0} ? T{0} : x > T{6} ? T{6} : x; }
  ADJOINT_HD T gradient(T g, T x) const { return x <= T{0} || x >= T{6} ? T{0} : g; }
  template <class V>
  V onnx(const V& x) const {
    return clip(x, 0.0, 6.0);
  }
};
template <class T>
struct Hardtanh : Unary<PairAttr, Kept::kOperand, true> {
  static constexpr const char* kName = "hardtanh";
  T low, high;
  explicit Hardtanh(const PairAttr& attr) : low(static_cast<T>(attr.first)), high(static_cast<T>(attr.second)) {}
  ADJOINT_HD T operator()(T x) const { return x < low ? low : x > high ? high : x; }
  ADJOINT_HD T gradient(T g, T x) const { return x <= low || x >= high ? T{0} : g; }
  template <class V>
  V onnx(const V& x) const {
    return clip(x, low, high);
  }
};
template <class T>
struct ELU : Unary<ScalarAttr> {
  static constexpr const char* kName = "elu";
  T alpha;
  explicit ELU(const ScalarAttr& attr) : alpha(static_cast<T>(attr.value)) {}
  ADJOINT_HD T operator()(T x) const { return x > T{0} ? x : alpha * expm1(x); }
  template <class V>
  ADJOINT_HD V gradient(const V& g, const V& x) const {
    return where(x > 0, g, g * alpha * exp(clamp_max(x, 0)));  // keeps the deselected value finite
  }
  template <class V>
  V onnx(const V& x) const {
    return x.node("Elu", {}, {{"alpha", alpha}});
  }
};
/// Klambauer, Unterthiner, Mayr, Hochreiter: "Self-normalizing neural networks", 2017, whose constants these are.
template <class T>
struct SELU : Unary<> {
  static constexpr const char* kName = "selu";
  static constexpr const char* kOnnx = "Selu";
  static constexpr double kScale = 1.0507009873554804934193349852946, kAlpha = 1.6732632423543772848170429916717;
  ADJOINT_HD T operator()(T x) const { return x > T{0} ? T(kScale) * x : T(kScale * kAlpha) * expm1(x); }
  template <class V>
  ADJOINT_HD V gradient(const V& g, const V& x) const {
    return where(x > 0, g * T(kScale), g * T(kScale * kAlpha) * exp(clamp_max(x, 0)));
  }
};
/// x P(X <= x) of a standard normal X (Hendrycks, Gimpel: "Gaussian error linear units", 2016).
template <class T>
struct GELU : Unary<> {
  static constexpr const char* kName = "gelu";
  static constexpr T kRootHalf = std::numbers::sqrt2_v<T> / 2;
  static constexpr T kDensity = std::numbers::inv_sqrtpi_v<T> * std::numbers::sqrt2_v<T> / 2;  // at 0
  static constexpr T kFar = T(50);
  ADJOINT_HD T operator()(T x) const { return clamp_min(x, -kFar) * (T(0.5) * (T{1} + erf(x * kRootHalf))); }
  template <class V>
  ADJOINT_HD V gradient(const V& g, const V& at) const {
    const V x = clamp(at, -kFar, kFar);
    return g * ((erf(x * kRootHalf) + 1) / 2 + x * exp(x * x / -2) * kDensity);
  }
  // Engines know this form.
  template <class V>
  V onnx(const V& x) const {
    return x * ((x / std::numbers::sqrt2).node("Erf") + 1.0) * 0.5;
  }
};
/// The same with the tanh approximation of the normal distribution, from the same article.
template <class T>
struct GELUTanh : Unary<> {
  static constexpr const char* kName = "gelu_tanh";
  static constexpr T kScale = std::numbers::inv_sqrtpi_v<T> * std::numbers::sqrt2_v<T>;  // sqrt(2 / pi)
  static constexpr T kCubic = T(0.044715), kFar = T(50);
  template <class V>
  ADJOINT_HD static V bend(const V& x) {
    return tanh((x + x * x * x * kCubic) * kScale);
  }
  ADJOINT_HD T operator()(T x) const {
    const T above = clamp_min(x, -kFar);
    return above * (T(0.5) * (T{1} + bend(clamp_max(above, kFar))));
  }
  template <class V>
  ADJOINT_HD V gradient(const V& g, const V& at) const {
    const V x = clamp(at, -kFar, kFar), t = bend(x);
    return g * ((t + 1 + x * (1 - t * t) * (x * x * (3 * kCubic) + 1) * kScale) / 2);
  }
  // Engines know this form.
  template <class V>
  V onnx(const V& x) const {
    const V cube = x.node("Pow", {x.number(3.0)});
    return x * (((x + cube * kCubic) * kScale).node("Tanh") + 1.0) * 0.5;
  }
};
template <class T>
struct Softplus : Unary<PairAttr> {
  static constexpr const char* kName = "softplus";
  static constexpr MixedPrecision kMixedPrecision = MixedPrecision::kFull;
  T beta, threshold;
  explicit Softplus(const PairAttr& attr) : beta(static_cast<T>(attr.first)), threshold(static_cast<T>(attr.second)) {}
  ADJOINT_HD T operator()(T x) const {
    const T scaled = x * beta;
    if (scaled > threshold) return x;
    return ((scaled < T{0} ? T{0} : scaled) + log1p(exp(-abs(scaled)))) / beta;
  }
  template <class V>
  ADJOINT_HD V gradient(const V& g, const V& x) const {
    return where(x * beta > threshold, g, g * sigmoid(x * beta));
  }
  // From a threshold of 20 on, x differs by less than is rounded away.
  template <class V>
  V onnx(const V& x) const {
    const V steep = scaled(x, beta), y = scaled(steep.node("Softplus"), 1.0 / beta);
    return threshold < 20.0 ? where(steep > threshold, x, y) : y;
  }
};
template <class T>
struct LogSigmoid : Unary<> {
  static constexpr const char* kName = "logsigmoid";
  ADJOINT_HD T operator()(T x) const { return (x < T{0} ? x : T{0}) - log1p(exp(-abs(x))); }
  template <class V>
  ADJOINT_HD V gradient(const V& g, const V& x) const {
    return g * sigmoid(-x);
  }
  template <class V>
  V onnx(const V& x) const {
    return -(-x).node("Softplus");
  }
};
template <class T>
struct Softsign : Unary<> {
  static constexpr const char* kName = "softsign";
  static constexpr const char* kOnnx = "Softsign";
  ADJOINT_HD T operator()(T x) const { return x / (T{1} + abs(x)); }
  template <class V>
  ADJOINT_HD V gradient(const V& g, const V& x) const {
    const V distance = abs(x) + 1;
    return g / distance / distance;
  }
};
/// x tanh(softplus(x)) (Misra: "Mish: a self regularized non-monotonic activation function", 2019). With e = exp(x),
/// tanh(log(1 + e)) = (e^2 + 2 e) / (e^2 + 2 e + 2), which neither overflows nor cancels when written in exp(-|x|). It
/// does not use abs, whose derivative at 0 is neither branch's.
template <class T>
struct Mish : Unary<> {
  static constexpr const char* kName = "mish";
  template <class V>
  ADJOINT_HD static V bend(const V& x) {
    const V e = exp(where(x > 0, -x, x));
    return where(x > 0, (e * 2 + 1) / (e * 2 + 1 + e * e * 2), e * (e + 2) / (e * (e + 2) + 2));
  }
  static constexpr T kFar = T(1000);
  ADJOINT_HD T operator()(T x) const { return clamp_min(x, -kFar) * bend(x); }
  template <class V>
  ADJOINT_HD V gradient(const V& g, const V& x) const {
    const V t = bend(x);
    return g * (t + clamp(x, -kFar, kFar) * (1 - t * t) * sigmoid(x));
  }
  template <class V>
  V onnx(const V& x) const {
    return x * x.node("Softplus").node("Tanh");
  }
};
template <class T>
struct Hardsigmoid : Unary<NoAttr, Kept::kOperand, true> {
  static constexpr const char* kName = "hardsigmoid";
  ADJOINT_HD T operator()(T x) const { return x < T{-3} ? T{0} : x > T{3} ? T{1} : (x + T{3}) / T{6}; }
  ADJOINT_HD T gradient(T g, T x) const { return x <= T{-3} || x >= T{3} ? T{0} : g / T{6}; }
  template <class V>
  V onnx(const V& x) const {
    return x.node("HardSigmoid", {}, {{"alpha", 1.0 / 6.0}, {"beta", 0.5}});
  }
};
/// x hardsigmoid(x) (Howard et al.: "Searching for MobileNetV3", 2019).
template <class T>
struct Hardswish : Unary<> {
  static constexpr const char* kName = "hardswish";
  static constexpr const char* kOnnx = "HardSwish";
  ADJOINT_HD T operator()(T x) const { return x < T{-3} ? T{0} : x > T{3} ? x : x * (x + T{3}) / T{6}; }
  template <class V>
  ADJOINT_HD V gradient(const V& g, const V& x) const {
    return where(x < -3, zeros_like(g), where(x > 3, g, g * ((clamp(x, -3, 3) * 2 + 3) / 6)));
  }
};

// ---- With a second operand.

/// x sigmoid(gate) (Dauphin et al.: "Language modeling with gated convolutional networks", 2017).
template <class T>
struct GLU : Signature<2, kFloating> {
  static constexpr const char* kName = "glu";
  ADJOINT_HD T operator()(T x, T gate) const { return x * sigmoid(gate); }
  template <class V>
  V onnx(const V& x, const V& gate) const {
    return x * gate.node("Sigmoid");
  }
};
/// (g, x, gate) -> the gate's gradient.
template <class T>
struct GLUGradGate : Signature<3, kFloating> {
  static constexpr const char* kName = "glu";
  template <class V>
  ADJOINT_HD V operator()(const V& g, const V& x, const V& gate) const {
    const V s = sigmoid(gate);
    return g * (x * (s * (1 - s)));
  }
};

template <class T>
struct PReLU : Signature<2, kFloating> {
  static constexpr const char* kName = "prelu";
  static constexpr const char* kOnnx = "PRelu";
  static constexpr MixedPrecision kMixedPrecision = MixedPrecision::kLow;
  ADJOINT_HD T operator()(T x, T weight) const { return select(x > T{0}, x, x * weight); }
};
/// g is the result's gradient.
template <class T>
struct PReLUGrad : Signature<3, kFloating> {
  static constexpr const char* kName = "prelu_grad";
  ADJOINT_HD T operator()(T g, T x, T weight) const { return select(x > T{0}, g, g * weight); }
};
/// g at the values that prelu multiplies by its weight, else 0.
template <class T>
struct PReLUGate : Signature<2, kFloating> {
  static constexpr const char* kName = "prelu_gate";
  ADJOINT_HD T operator()(T g, T x) const { return x > T{0} ? T{0} : g; }
};
template <class T>
struct Snake : Signature<2, kFloating> {
  static constexpr const char* kName = "snake";
  ADJOINT_HD T operator()(T x, T a) const {
    const T s = sin(a * x);
    return x + s * s / a;
  }
  template <class V>
  V onnx(const V& x, const V& a) const {
    const V s = (x * a).node("Sin");
    return x + s * s / a;
  }
};
/// (g, x, a) -> snake's gradients, as formulas for numbers and for tensors.
template <class T>
struct SnakeGradX : Signature<3, kFloating> {
  static constexpr const char* kName = "snake";
  template <class V>
  ADJOINT_HD V operator()(const V& g, const V& x, const V& a) const {
    return g * (sin(a * x * 2) + 1);
  }
};
template <class T>
struct SnakeGradA : Signature<3, kFloating> {
  static constexpr const char* kName = "snake";
  template <class V>
  ADJOINT_HD V operator()(const V& g, const V& x, const V& a) const {
    const V s = sin(a * x);
    return g * ((x * sin(a * x * 2) - s * s / a) / a);
  }
};

}  // namespace adjoint::functor
