#include <adjoint/core/base/check.h>
#include <adjoint/core/tensor/copy.h>
#include <adjoint/core/tensor/tensor_impl.h>
#include <adjoint/nn/plan.h>
#include <adjoint/nn/stream_program.h>
#include <adjoint/nn/streaming.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <memory>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <utility>

namespace adjoint::nn {
namespace {

using detail::SignalCalls;
using detail::StreamClock;
using detail::StreamProgram;

std::string shown(const Tensor& x) {
  return x.defined() ? fmt::format("{} {} on {}", x.dtype(), x.shape(), x.device()) : "Tensor{}";
}

// The axes but the last are rows of samples.
std::int64_t rows_of(const Tensor& x) { return Shape(x.shape().begin(), x.shape().end() - 1).numel(); }
std::size_t row_bytes(const Tensor& x) { return static_cast<std::size_t>(x.size(-1)) * element_size(x.dtype()); }

void clear_elements(Tensor x) { std::memset(x.raw_mutable_data(), 0, x.nbytes()); }

// The network's calls, from signals of two lengths. A network may refuse short signals, or lengths that its strides do
// not divide; longer ones follow then.
std::unique_ptr<StreamProgram> stream_program(const detail::TensorFunction& f, const Tensor& example,
                                              std::int64_t block) {
  const auto silence = [&](std::int64_t samples) {
    Shape shape = example.shape();
    shape[2] = samples;
    return Tensor::zeros(shape, {.dtype = example.dtype()});
  };
  constexpr std::int64_t kSamples[] = {256, 2048, 16384};
  for (std::size_t i = 0;; ++i) {
    const std::int64_t least = kSamples[i], step = i == 0 ? block : std::lcm(block, std::int64_t{256});
    const std::int64_t samples = (least + step - 1) / step * step;
    std::optional<SignalCalls> calls;
    try {
      calls = detail::record_signal(f, silence(samples));
    } catch (const Error&) {
      if (i + 1 == std::size(kSamples)) throw;
      continue;
    }
    auto result = std::make_unique<StreamProgram>(std::move(*calls), silence(samples), block);
    const std::int64_t longer = samples + step;
    result->check_same(StreamProgram(detail::record_signal(f, silence(longer)), silence(longer), block));
    return result;
  }
}

}  // namespace

struct Streaming::Impl {
  std::unique_ptr<StreamProgram> program;
  std::shared_ptr<StreamClock> clock = std::make_shared<StreamClock>();
  std::int64_t block = 0;
  std::optional<Plan> plan;
  detail::WindowSpec result;  // the samples of the output

  std::int64_t outputs(std::int64_t n) const { return n * result.up / result.down; }

  // A block whose first n samples the plan's input holds.
  const Tensor& run(std::int64_t n) {
    clock->samples = n;
    const Tensor& out = plan->run()[0];
    clock->advance = n;
    clock->position += n;
    return out;
  }
  const Tensor& run_silence() {
    clear_elements(plan->inputs()[0]);
    return run(block);
  }

  // Rows of n samples to rows of outputs(n).
  void pass(const void* in, void* out, std::int64_t n) {
    Tensor input = plan->inputs()[0];
    const auto* read = static_cast<const std::byte*>(in);
    auto* written = static_cast<std::byte*>(input.raw_mutable_data());
    const std::size_t bytes = static_cast<std::size_t>(n) * element_size(input.dtype()), row = row_bytes(input);
    for (std::int64_t i = rows_of(input); i > 0 && bytes > 0; --i, read += bytes, written += row) {
      std::memcpy(written, read, bytes);
      std::memset(written + bytes, 0, row - bytes);
    }
    if (bytes == 0) clear_elements(input);
    const std::int64_t silent = inside_of(result, *clock, outputs(n)).begin;
    const Tensor& made = run(n);
    const std::size_t element = element_size(made.dtype()), whole = static_cast<std::size_t>(outputs(n)) * element,
                      zeros = static_cast<std::size_t>(silent) * element;
    read = static_cast<const std::byte*>(made.raw_data());
    written = static_cast<std::byte*>(out);
    for (std::int64_t i = rows_of(made); i > 0 && whole > 0; --i, read += row_bytes(made), written += whole) {
      std::memset(written, 0, zeros);
      std::memcpy(written + zeros, read + zeros, whole - zeros);
    }
  }

  void reset() {
    for (std::size_t i = 1; i < plan->inputs().size(); ++i) {
      Tensor state = plan->inputs()[i];
      const Tensor& first = program->states()[i - 1].first;
      first.defined() ? copy_into(first, state) : clear_elements(state);
    }
    std::fill(clock->lengths.begin(), clock->lengths.end(), StreamClock::kEndless);
    clock->advance = 0;
    clock->position = -program->blocks_before() * block;
    while (clock->position < 0) run_silence();
  }
};

Streaming::Streaming(std::function<Tensor(const Tensor&)> f, const StreamingOptions& options)
    : Streaming([f = std::move(f)](const std::vector<Tensor>& x) { return std::vector<Tensor>{f(x[0])}; }, options,
                kFloat32) {}

Streaming::Streaming(const detail::TensorFunction& f, const StreamingOptions& options, DType dtype) : impl_(new Impl) {
  ADJOINT_CHECK(options.block >= 1 && options.channels >= 1 && options.batch >= 1,
                "Streaming: block, channels and batch must be positive; got {}, {} and {}", options.block,
                options.channels, options.batch);
  Impl& impl = *impl_;
  impl.block = options.block;
  const Tensor block =
      Tensor::zeros({options.batch, options.channels, options.block}, {.dtype = options.dtype.value_or(dtype)});
  impl.program = stream_program(f, block, options.block);
  StreamProgram& program = *impl.program;
  ADJOINT_CHECK(options.block % program.multiple() == 0,
                "Streaming: the block must be a multiple of the network's strides; got block {}, strides {}",
                options.block, program.multiple());
  const detail::Signal& output = program.output();
  impl.result = {
      .axis = output.axis, .up = output.up, .down = output.down, .delay = output.delay, .length = output.length};
  impl.clock->lengths.assign(program.lengths(0).size(), StreamClock::kEndless);
  std::vector<Tensor> inputs{block};
  for (const detail::ProgramState& state : program.states())
    inputs.push_back(Tensor::zeros(state.shape, {.dtype = state.dtype}));
  impl.plan.emplace(
      [&](const std::vector<Tensor>& x) {
        std::vector<Tensor> results = x;  // a plan keeps writes to states because they are outputs
        results[0] = program.run(x[0], std::span(x).subspan(1), impl.clock);
        return results;
      },
      inputs, PlanOptions{.threads = options.threads});
  impl.reset();
}

Streaming::Streaming(Streaming&&) noexcept = default;
Streaming& Streaming::operator=(Streaming&&) noexcept = default;
Streaming::~Streaming() = default;

DType Streaming::dtype_of(const Module& module) {
  const std::vector<Tensor> parameters = module.parameters();
  return parameters.empty() ? kFloat32 : parameters[0].dtype();
}

void Streaming::process(const Tensor& in, Tensor& out) {
  Impl& own = impl();
  Tensor block = own.plan->inputs()[0];
  const Shape& shape = block.shape();
  ADJOINT_CHECK(in.defined() && in.dim() == 3 && in.size(0) == shape[0] && in.size(1) == shape[1] &&
                    in.size(2) <= own.block && in.size(2) % multiple() == 0 && in.dtype() == block.dtype() &&
                    in.device().is_cpu(),
                "Streaming: a block must be {} ({}, {}, n) on the CPU, n up to {} and a multiple of {}; got {}",
                block.dtype(), shape[0], shape[1], own.block, multiple(), shown(in));
  const std::int64_t n = in.size(2), outputs = own.outputs(n);
  const Tensor& made = own.plan->outputs()[0];
  Shape expected = made.shape();
  expected[expected.size() - 1] = outputs;
  ADJOINT_CHECK(out.defined() && out.shape() == expected && out.dtype() == made.dtype() && out.device().is_cpu() &&
                    out.is_contiguous(),
                "Streaming: out must be a contiguous {} {} on the CPU for {} samples; got {}", made.dtype(), expected,
                n, shown(out));
  check_writable("Streaming", out);
  const Tensor packed = in.contiguous();
  own.pass(packed.raw_data(), out.raw_mutable_data(), n);
}

void Streaming::process(std::span<const float> in, std::span<float> out) {
  process_elements(kFloat32, in.data(), in.size(), out.data(), out.size());
}
void Streaming::process(std::span<const double> in, std::span<double> out) {
  process_elements(kFloat64, in.data(), in.size(), out.data(), out.size());
}

void Streaming::process_elements(DType dtype, const void* in, std::size_t read, void* out, std::size_t written) {
  Impl& own = impl();
  const Tensor &block = own.plan->inputs()[0], &made = own.plan->outputs()[0];
  const auto rows = static_cast<std::size_t>(rows_of(block));
  const auto n = static_cast<std::int64_t>(read / rows);
  ADJOINT_CHECK(block.dtype() == dtype && made.dtype() == dtype,
                "Streaming: elements must have the dtype of the network's input and output; got {}, network {} and {}",
                dtype, block.dtype(), made.dtype());
  ADJOINT_CHECK(read % rows == 0 && n <= own.block && n % multiple() == 0,
                "Streaming: a block must have {} rows of n elements, n up to {} and a multiple of {}; got {} elements",
                rows, own.block, multiple(), read);
  const std::int64_t expected = rows_of(made) * own.outputs(n);
  ADJOINT_CHECK(static_cast<std::int64_t>(written) == expected,
                "Streaming: out must have {} elements for {} samples; got {}", expected, n, written);
  own.pass(in, out, n);
}

Tensor Streaming::operator()(const Tensor& in) {
  const Tensor& made = impl().plan->outputs()[0];
  ADJOINT_CHECK(in.defined() && in.dim() == 3, "Streaming: a block must have the shape (batch, channels, n); got {}",
                shown(in));
  Shape shape = made.shape();
  shape[shape.size() - 1] = outputs(in.size(2));
  Tensor out = Tensor::empty(shape, {.dtype = made.dtype()});
  process(in, out);
  return out;
}

Tensor Streaming::flush() {
  Impl& own = impl();
  StreamClock& clock = *own.clock;
  clock.lengths = own.program->lengths(clock.position);
  const std::int64_t length = clock.lengths[own.result.length];
  std::int64_t first = own.outputs(clock.position) - own.result.delay;
  const std::int64_t start = clock.position == 0 ? length : first;  // zeros precede output 0
  const Tensor& made = own.plan->outputs()[0];
  Shape shape = made.shape();
  const std::int64_t extent = shape[shape.size() - 1];
  shape[shape.size() - 1] = std::max<std::int64_t>(length - start, 0);
  const Tensor rest = Tensor::zeros(shape, {.dtype = made.dtype()});
  for (; first < length; first += extent) {
    own.run_silence();
    const std::int64_t begin = std::max<std::int64_t>(first, 0), end = std::min(first + extent, length);
    if (begin >= end) continue;
    Tensor part = rest.narrow(-1, begin - start, end - begin);
    copy_into(made.narrow(-1, begin - first, end - begin), part);
  }
  own.reset();
  return rest;
}

void Streaming::reset() { impl().reset(); }
std::int64_t Streaming::latency() const { return impl().result.delay; }
std::int64_t Streaming::multiple() const { return impl().program->multiple(); }
std::int64_t Streaming::outputs(std::int64_t n) const { return impl().outputs(n); }
std::size_t Streaming::nbytes() const { return impl().plan->nbytes(); }

Streaming::Impl& Streaming::impl() const {
  ADJOINT_CHECK(static_cast<bool>(impl_), "Streaming: it must hold a network; got one that was moved from");
  return *impl_;
}

}  // namespace adjoint::nn
