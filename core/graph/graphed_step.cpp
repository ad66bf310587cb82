#include <adjoint/core/graph/graphed_step.h>

#include <adjoint/core/autograd/tape.h>
#include <adjoint/core/base/check.h>
#include <adjoint/core/graph/step_graphs.h>
#include <adjoint/core/memory/pinned.h>
#include <adjoint/core/profile/profiler.h>
#include <adjoint/core/tensor/copy.h>
#include <adjoint/core/tensor/random.h>

#include <algorithm>
#include <utility>

namespace adjoint {
namespace detail {
namespace {

constexpr std::size_t kLeastSegment = std::size_t{2} << 20;
constexpr std::size_t kMostKeys = 256;  // with counted runs

std::vector<Tensor> detached(std::vector<Tensor> tensors) {
  for (Tensor& tensor : tensors) {
    if (tensor.defined()) tensor = tensor.detach();
  }
  return tensors;
}

}  // namespace

StepDevice::~StepDevice() = default;

struct StepGraphs::Graph {
  // An output of a replay: `tensor` itself or, if the next replay overwrites it, a copy in a new tensor, whose address
  // the graph reads from the values, which the host writes at `address`.
  struct Output {
    Tensor tensor;
    std::byte* address = nullptr;
  };

  Key key;
  std::uint64_t seed = 0;           // built into its kernels, if it draws
  std::uint64_t random_blocks = 0;  // drawn per step
  std::vector<Tensor> inputs;       // the tensors that the graph reads
  std::shared_ptr<BlockArena::Use> blocks;
  StepRecord record;
  std::vector<Output> outputs;
  std::shared_ptr<void> handle;
};

bool StepGraphs::Key::operator==(const Key& other) const {
  const auto same = [](const auto& a, const auto& b) {
    return a.has_value() == b.has_value() &&
           (!a || (a->shape == b->shape && a->dtype == b->dtype && a->format == b->format));
  };
  return autocast == other.autocast && autocast_cache == other.autocast_cache && precision == other.precision &&
         std::equal(inputs.begin(), inputs.end(), other.inputs.begin(), other.inputs.end(), same);
}

StepGraphs::StepGraphs(GraphedStep::Function step, const GraphedStepOptions& options,
                       std::shared_ptr<StepDevice> device)
    : step_(std::move(step)), options_(options), device_(std::move(device)) {
  ADJOINT_CHECK(step_ != nullptr, "GraphedStep: the function must not be empty; got an empty one");
  ADJOINT_CHECK(options.warmup >= 1, "GraphedStep: warmup must be at least 1; got {}", options.warmup);
  ADJOINT_CHECK(options.max_graphs >= 1, "GraphedStep: max_graphs must be at least 1; got {}", options.max_graphs);
  if (device_ == nullptr) return;
  arena_ =
      std::make_shared<BlockArena>(BlockArena::Source{[on = device_](std::size_t nbytes) { return on->take(nbytes); },
                                                      [on = device_](void* data, std::size_t nbytes) {
                                                        on->give_back(data, nbytes);
                                                      }},
                                   kLeastSegment);
}

StepGraphs::~StepGraphs() {
  try {
    reset();
  } catch (const Error&) {  // the device is lost, and there is nothing left to wait for
  }
}

void StepGraphs::reset() {
  if (!graphs_.empty()) device_->wait();
  graphs_.clear();
}

bool StepGraphs::drop_oldest() {
  if (graphs_.empty()) return false;
  device_->wait();
  graphs_.pop_back();
  return true;
}

std::vector<Tensor> StepGraphs::on_device(const std::vector<Tensor>& inputs) const {
  std::vector<Tensor> moved;
  for (const Tensor& input : inputs) moved.push_back(input.defined() ? to_async(input, options_.device) : input);
  return moved;
}

StepGraphs::Graph* StepGraphs::find(const Key& key) {
  const std::uint64_t seed = default_generator().seed();
  for (auto graph = graphs_.begin(); graph != graphs_.end();) {
    const auto next = std::next(graph);
    if (graph->key == key && (graph->random_blocks == 0 || graph->seed == seed)) {
      if (!graph->record.is_valid()) {
        device_->wait();
        graphs_.erase(graph);
      } else if (graph->record.fits_gradients()) {
        graphs_.splice(graphs_.begin(), graphs_, graph);
        return &graphs_.front();
      }
    }
    graph = next;
  }
  return nullptr;
}

bool StepGraphs::is_warm(const Key& key) const {
  const auto found = std::find_if(runs_.begin(), runs_.end(), [&](const auto& run) { return run.first == key; });
  return found != runs_.end() && found->second >= options_.warmup;
}

void StepGraphs::count_run(const Key& key) {
  const auto found = std::find_if(runs_.begin(), runs_.end(), [&](const auto& run) { return run.first == key; });
  if (found == runs_.end()) {
    runs_.emplace_front(key, 1);
    if (runs_.size() > kMostKeys) runs_.pop_back();
    return;
  }
  ++found->second;
  runs_.splice(runs_.begin(), runs_, found);
}

StepGraphs::Graph& StepGraphs::capture(const Key& key, const std::vector<Tensor>& inputs) {
  const auto gone = [](const Graph& graph) { return !graph.record.may_fit(); };
  if (std::any_of(graphs_.begin(), graphs_.end(), gone)) device_->wait();
  graphs_.remove_if(gone);
  while (graphs_.size() >= options_.max_graphs) drop_oldest();

  std::list<Graph> made(1);
  Graph& graph = made.front();
  graph.key = key;
  for (const Tensor& input : inputs) {
    graph.inputs.push_back(input);
    if (!input.defined()) continue;
    graph.inputs.back() = make_tensor({input.shape(), input.dtype(), {}, input.memory_format()}, options_.device);
    copy_async(input, graph.inputs.back());
  }
  const Generator before = default_generator();
  ADJOINT_CHECK(before.device_base() == nullptr,
                "GraphedStep: the thread's default generator must draw from a position on the host; got seed {} with a "
                "device base",
                before.seed());
  graph.seed = before.seed();
  std::vector<Tensor> outputs;
  {
    StepCapture capture(options_.device, arena_, options_.max_bytes, [this] { return drop_oldest(); });
    device_->begin();
    try {
      default_generator().set_device_base(
          capture.value<std::uint64_t>(0, [begin = before.offset()] { return default_generator().offset() - begin; }));
      outputs = detached(step_(graph.inputs));
      clear_autocast_cache();  // casts made by the step belong to the graph
      for (Tensor& output : outputs) {
        const auto shares = [&](const Tensor& input) {
          return input.defined() && input.impl()->storage == output.impl()->storage;
        };
        graph.outputs.emplace_back();
        if (output.defined() && output.numel() > 0 &&
            (arena_->is_new(output.impl()->storage->data()) ||
             std::any_of(graph.inputs.begin(), graph.inputs.end(), shares))) {
          output = contiguous_copy(output, output.memory_format());
          const auto [host, device] = capture.place(sizeof(void*));
          device_->deliver(output.raw_data(), static_cast<void* const*>(device), output.nbytes());
          graph.outputs.back().address = host;
        }
        graph.outputs.back().tensor = output;
      }
      Generator& after = default_generator();
      graph.random_blocks = after.offset() - before.offset();
      ADJOINT_CHECK(after.seed() == before.seed(),
                    "GraphedStep: a captured step must not set the seed; got {} after {}", after.seed(), before.seed());
      after.set_device_base(nullptr);
      graph.handle = device_->end();
      graph.record = capture.finish(outputs);
      if (graph.random_blocks == 0) graph.record.actions.erase(graph.record.actions.begin());  // nothing reads it
      graph.blocks = capture.blocks();
    } catch (...) {
      device_->abandon();
      outputs.clear();
      capture.abandon();
      default_generator() = before;
      throw;
    }
  }
  graphs_.splice(graphs_.begin(), made);
  return graph;
}

std::vector<Tensor> StepGraphs::make_outputs(Graph& graph) {
  std::vector<Tensor> outputs;
  for (const auto& [tensor, address] : graph.outputs) {
    outputs.push_back(tensor);
    if (address == nullptr) continue;
    outputs.back() = make_tensor({tensor.shape(), tensor.dtype(), {}, tensor.memory_format()}, tensor.device());
    void* const data = outputs.back().raw_mutable_data();
    std::memcpy(address, &data, sizeof(data));
  }
  return outputs;
}

void StepGraphs::launch(Graph& graph, const std::vector<Tensor>& inputs) {
  const ProfileScope scope("GraphedStep", default_device());
  device_->follow();
  std::vector<StepMove> moves;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].defined()) continue;
    if (inputs[i].device() != options_.device || !is_packed(inputs[i])) {
      copy_async(inputs[i], graph.inputs[i]);
    } else if (inputs[i].numel() > 0) {
      moves.push_back({graph.inputs[i].raw_mutable_data(), inputs[i].raw_data(), inputs[i].nbytes()});
    }
  }
  for (const auto& values : graph.record.values) {
    if (values->is_written && std::memcmp(values->host.data(), values->written.data(), values->used) == 0) continue;
    device_->feed(moves, values->device->data(), values->host.data(), values->used);
    moves.clear();
    values->written = values->host;
    values->is_written = true;
  }
  if (!moves.empty()) device_->feed(moves, nullptr, nullptr, 0);
  device_->launch(graph.handle.get());
  graph.record.touch();
}

std::vector<Tensor> StepGraphs::run(const std::vector<Tensor>& inputs) {
  ADJOINT_CHECK(Tape::current() == nullptr,
                "GraphedStep: no tape must record around the step; got one that does; make the tape inside it");
  Key key;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const Tensor& input = inputs[i];
    key.inputs.emplace_back();
    if (!input.defined()) continue;
    ADJOINT_CHECK(!input.requires_grad(),
                  "GraphedStep: inputs must not require gradients; got input {} of shape {}; detach() it, or let the "
                  "step use it without passing it",
                  i, input.shape());
    key.inputs.back() = TensorSpec{input.shape(), input.dtype(), {}, input.memory_format()};
  }
  if (StepCapture::current() != nullptr) return detached(step_(inputs));  // part of the outer step
  // The region around the step keeps casts of parameters, which a replay must neither use nor leave behind, so it gets
  // its own.
  const AutocastSettings autocast = autocast_settings();
  const PauseAutocast pause;
  const AutocastGuard guard(autocast.dtype, autocast.options);
  if (device_ == nullptr) return detached(step_(on_device(inputs)));
  key.autocast = autocast_dtype();
  key.autocast_cache = autocast.options.cache_enabled;
  key.precision = float32_precision();
  if (Graph* const graph = find(key)) {
    std::vector<Tensor> outputs = make_outputs(*graph);  // before anything is counted, because it may run out of memory
    for (const auto& action : graph->record.actions) action();
    launch(*graph, inputs);
    Generator& generator = default_generator();
    generator.seek(generator.offset() + graph->random_blocks);
    return outputs;
  }
  if (is_warm(key)) {
    Graph& graph = capture(key, inputs);
    std::vector<Tensor> outputs = make_outputs(graph);
    launch(graph, {});
    return outputs;
  }
  std::vector<Tensor> outputs = detached(step_(on_device(inputs)));
  count_run(key);
  return outputs;
}

#if !defined(ADJOINT_WITH_CUDA)
std::shared_ptr<StepDevice> make_step_device(Device device) {
  ADJOINT_CHECK(device.is_cpu(),
                "GraphedStep: device needs a build with CUDA; got {} in a build without; configure with "
                "ADJOINT_CUDA=ON",
                device);
  return nullptr;
}
#endif

}  // namespace detail

GraphedStep::GraphedStep(Function step, const GraphedStepOptions& options)
    : graphs_(new detail::StepGraphs(std::move(step), options, detail::make_step_device(options.device))) {}
GraphedStep::~GraphedStep() = default;
GraphedStep::GraphedStep(GraphedStep&&) noexcept = default;
GraphedStep& GraphedStep::operator=(GraphedStep&&) noexcept = default;

detail::StepGraphs& GraphedStep::graphs() const {
  ADJOINT_CHECK(static_cast<bool>(graphs_), "GraphedStep: it must hold a step; got one that was moved from");
  return *graphs_;
}

std::vector<Tensor> GraphedStep::operator()(const std::vector<Tensor>& inputs) { return graphs().run(inputs); }

void GraphedStep::on_replay(const std::function<void()>& action) {
  action();
  if (detail::StepCapture* const capture = detail::StepCapture::current()) capture->on_replay(action);
}

std::size_t GraphedStep::num_graphs() const { return graphs().num_graphs(); }
std::size_t GraphedStep::bytes() const { return graphs().bytes(); }
void GraphedStep::reset() { graphs().reset(); }

}  // namespace adjoint
