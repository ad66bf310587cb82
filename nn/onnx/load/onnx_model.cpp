#include <adjoint/nn/onnx/onnx_model.h>

#include <adjoint/core/base/check.h>
#include <adjoint/core/base/error.h>
#include <adjoint/nn/onnx/load/file.h>
#include <adjoint/nn/onnx/load/operators.h>
#include <adjoint/ops/join/join.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <map>
#include <set>
#include <unordered_map>
#include <unordered_set>
#include <utility>

namespace adjoint::nn {
namespace detail {

struct OnnxProgram {
  struct Step;
  struct Body {
    std::vector<std::int32_t> inputs, outputs;  // values
    std::vector<Step> steps;
  };
  struct Step {
    OnnxFile::Node node;
    const OnnxOperator* run;                    // null: If or Loop
    std::vector<std::int32_t> inputs, outputs;  // values; -1: missing
    std::vector<std::int32_t> last_read;        // values that no later step reads; in a body nothing
    std::uint32_t foreign_buffers = 0;          // operands that training would write to, but are no buffers of ours
    std::vector<Body> bodies;                   // of If: then and else
  };
  struct Constant {
    std::int32_t value;
    Tensor tensor;               // undefined for a parameter or buffer
    std::size_t registered = 0;  // its place among those
  };

  std::int64_t operator_set = 0;
  std::vector<OnnxFile::Input> inputs;
  std::vector<std::string> input_names, output_names;
  std::vector<std::int32_t> input_values, output_values;
  std::vector<Constant> constants;
  std::vector<Step> steps;
  std::size_t values = 0;
};

namespace {

bool has_bit(std::uint32_t set, std::size_t i) { return i < 32 && (set >> i & 1U) != 0; }

enum class Role : std::uint8_t { kConstant, kParameter, kBuffer };

// A program from a file, and the tensors that its module registers.
class Compiler {
 public:
  struct Registered {
    std::string name;
    Tensor value;
    bool is_parameter;
  };

  explicit Compiler(OnnxFile file) : file_(std::move(file)) {}

  std::shared_ptr<const OnnxProgram> run() {
    program_.operator_set = file_.operator_set;
    for (const OnnxFile::Input& input : file_.inputs) {
      program_.input_names.push_back(input.name);
      program_.input_values.push_back(define(input.name, "the inputs"));
    }
    program_.inputs = std::move(file_.inputs);
    find_roles(file_.nodes);
    add_constants(file_.constants);
    program_.steps = steps_of(file_.nodes);
    for (const std::string& output : file_.outputs) {
      program_.output_names.push_back(output);
      program_.output_values.push_back(use(output, "the outputs"));
    }
    find_last_reads();
    return std::make_shared<const OnnxProgram>(std::move(program_));
  }

  std::vector<Registered> registered;

 private:
  std::int32_t define(const std::string& name, std::string_view by) {
    const auto [at, is_new] = values_.emplace(name, static_cast<std::int32_t>(program_.values));
    ADJOINT_CHECK(is_new && !name.empty(),
                  "load_onnx: every value must be made once, under a name; got \"{}\" again in {}", name, by);
    ++program_.values;
    return at->second;
  }
  std::int32_t use(const std::string& name, std::string_view by) const {
    const auto found = values_.find(name);
    ADJOINT_CHECK(found != values_.end(), "load_onnx: a value must be made before it is used; got \"{}\" in {}", name,
                  by);
    return found->second;
  }

  // A floating-point constant is a parameter if any node reads it as data. Casts hand on their results' roles.
  void find_roles(const std::vector<OnnxFile::Node>& nodes) {
    for (auto node = nodes.rbegin(); node != nodes.rend(); ++node) {
      for (const auto& [name, graph] : node->graphs) find_roles(graph->nodes);
      const OnnxOperator* const op = find_onnx_operator(node->type);
      const bool hands_on = (node->type == "Cast" || node->type == "Identity") && !node->outputs.empty();
      const Role of_result = hands_on ? roles_[node->outputs[0]] : Role::kParameter;
      for (std::size_t i = 0; i < node->inputs.size(); ++i) {
        Role& role = roles_[node->inputs[i]];
        // A loop's first inputs are its limit and condition.
        const std::uint32_t settings = op != nullptr ? op->settings : 3U, buffers = op != nullptr ? op->buffers : 0U;
        if (has_bit(buffers, i)) role = std::max(role, Role::kBuffer);
        if (!has_bit(buffers | settings, i) && role == Role::kConstant) role = of_result;
      }
    }
  }

  void add_constants(const OnnxFile::Constants& constants) {
    for (const auto& [name, value] : constants) {
      OnnxProgram::Constant constant{.value = define(name, "the constants"), .tensor = value};
      constant_values_.insert(constant.value);
      Role role = is_floating_point(value.dtype()) ? roles_[name] : Role::kConstant;
      // A number of the formula, such as the 0.5 of gelu, is not trained.
      if (role == Role::kParameter && value.dim() == 0) role = Role::kBuffer;
      if (role != Role::kConstant) {
        constant.tensor = {};
        constant.registered = registered.size();
        registered.push_back({name, value, role == Role::kParameter});
      }
      program_.constants.push_back(std::move(constant));
    }
  }

  std::vector<OnnxProgram::Step> steps_of(const std::vector<OnnxFile::Node>& nodes) {
    std::vector<OnnxProgram::Step> steps;
    for (const OnnxFile::Node& node : nodes) steps.push_back(step_of(node));
    return steps;
  }

  OnnxProgram::Step step_of(const OnnxFile::Node& node) {
    const std::string by = fmt::format("{} node '{}'", node.type, node.name);
    OnnxProgram::Step step{
        .node = node, .run = nullptr, .inputs = {}, .outputs = {}, .last_read = {}, .foreign_buffers = 0, .bodies = {}};
    for (const std::string& input : node.inputs) step.inputs.push_back(input.empty() ? -1 : use(input, by));
    if (node.type == "If" || node.type == "Loop") {
      add_bodies(step, by);
    } else {
      add_operator(step, by);
    }
    for (const std::string& output : node.outputs) step.outputs.push_back(output.empty() ? -1 : define(output, by));
    return step;
  }

  void add_operator(OnnxProgram::Step& step, const std::string& by) const {
    const OnnxOperator* const op = find_onnx_operator(step.node.type);
    ADJOINT_CHECK(op != nullptr,
                  "load_onnx: the operators must be among those of docs/onnx.md; got {}; replace it before exporting",
                  by);
    const auto check_attribute = [&](const std::string& name) {
      const std::string words = fmt::format(" {} ", op->attributes);
      ADJOINT_CHECK(words.find(" " + name + " ") != std::string::npos,
                    "load_onnx: attributes must be among those that are supported ({}); got {} of {}",
                    op->attributes.empty() ? "none" : op->attributes, name, by);
    };
    for (const auto& [name, value] : step.node.attributes) check_attribute(name);
    for (const auto& [name, graph] : step.node.graphs) check_attribute(name);
    step.run = op;
    for (std::size_t i = 0; i < step.inputs.size(); ++i) {
      if (has_bit(op->buffers, i) && !constant_values_.contains(step.inputs[i])) step.foreign_buffers |= 1U << i;
    }
  }

  void add_bodies(OnnxProgram::Step& step, const std::string& by) {
    OnnxFile::Node& node = step.node;
    const bool is_loop = node.type == "Loop";
    const std::size_t least = is_loop ? 2 : 1;  // inputs: a limit and a condition, or a condition
    const std::size_t carried = std::max(node.inputs.size(), least) - least;
    step.inputs.resize(carried + least, -1);
    for (const char* name : is_loop ? std::vector{"body"} : std::vector{"then_branch", "else_branch"}) {
      const auto found = node.graphs.find(name);
      ADJOINT_CHECK(found != node.graphs.end(), "load_onnx: {} must have the attribute {}; got {}", node.type, name,
                    by);
      const OnnxFile::Graph& graph = *found->second;
      const std::size_t outputs = node.outputs.size() + (is_loop ? 1 : 0);  // the condition
      ADJOINT_CHECK(graph.inputs.size() == (is_loop ? carried + 2 : 0) && graph.outputs.size() >= outputs &&
                        graph.outputs.size() >= (is_loop ? carried + 1 : 0),
                    "load_onnx: a body must have its node's inputs and outputs; got {} and {} of {}",
                    graph.inputs.size(), graph.outputs.size(), by);
      step.bodies.push_back(body_of(graph, by));
    }
    node.graphs.clear();
  }

  // Its names end with it.
  OnnxProgram::Body body_of(const OnnxFile::Graph& graph, const std::string& by) {
    const auto outer = values_;
    OnnxProgram::Body body;
    for (const std::string& input : graph.inputs) body.inputs.push_back(define(input, by));
    add_constants(graph.constants);
    body.steps = steps_of(graph.nodes);
    for (const std::string& output : graph.outputs) body.outputs.push_back(use(output, by));
    values_ = outer;
    return body;
  }

  static void for_each_value(const OnnxProgram::Step& step, const std::function<void(std::int32_t)>& f) {
    for (const std::int32_t value : step.inputs) f(value);
    for (const std::int32_t value : step.outputs) f(value);
    for (const OnnxProgram::Body& body : step.bodies) {
      for (const std::int32_t value : body.inputs) f(value);
      for (const OnnxProgram::Step& inner : body.steps) for_each_value(inner, f);
      for (const std::int32_t value : body.outputs) f(value);
    }
  }

  void find_last_reads() {
    std::set<std::int32_t> seen(program_.output_values.begin(), program_.output_values.end());
    for (auto step = program_.steps.rbegin(); step != program_.steps.rend(); ++step) {
      // An output that nothing reads need not be one that we have.
      for (std::int32_t& value : step->outputs)
        if (!seen.contains(value)) value = -1;
      for_each_value(*step, [&](std::int32_t value) {
        if (value >= 0 && seen.insert(value).second) step->last_read.push_back(value);
      });
    }
  }

  OnnxFile file_;
  OnnxProgram program_;
  std::unordered_map<std::string, std::int32_t> values_;  // that are visible at this place
  std::unordered_map<std::string, Role> roles_;
  std::unordered_set<std::int32_t> constant_values_;
};

// A part of a path.
class Part : public Module {
 public:
  Part() : Module("OnnxModel") {}
};

// Registers the modules for all parts of a dotted name but the last, whose place is then in the innermost. If a part
// cannot name a module, underscores replace all dots.
class Places {
 public:
  explicit Places(Module root) : root_(std::move(root)) {}

  std::pair<Module, std::string> of(const std::string& name) {
    std::vector<std::string> parts{""};
    for (const char c : name) {
      if (c == '.') {
        parts.emplace_back();
      } else {
        parts.back() += c;
      }
    }
    std::string path;
    bool fits = std::none_of(parts.begin(), parts.end(), [](const std::string& part) { return part.empty(); });
    for (std::size_t i = 0; fits && i + 1 < parts.size(); ++i) {
      path += (i == 0 ? "" : ".") + parts[i];
      fits = !tensors_.contains(path);
    }
    fits = fits && !modules_.contains(name) && tensors_.insert(name).second;
    if (!fits) {
      std::string flat = name.empty() ? "constant" : name;
      std::replace(flat.begin(), flat.end(), '.', '_');
      while (modules_.contains(flat) || !tensors_.insert(flat).second) flat += '_';
      return {root_, flat};
    }
    Module at = root_;
    path.clear();
    for (std::size_t i = 0; i + 1 < parts.size(); ++i) {
      path += (i == 0 ? "" : ".") + parts[i];
      auto found = modules_.find(path);
      if (found == modules_.end()) {
        Part made;
        at.register_module(parts[i], made);
        found = modules_.emplace(path, made).first;
      }
      at = found->second;
    }
    return {at, parts.back()};
  }

 private:
  Module root_;
  std::map<std::string, Module> modules_;  // by path
  std::set<std::string> tensors_;          // paths
};

void check_input(const OnnxFile::Input& input, const Tensor& x) {
  ADJOINT_CHECK(x.dtype() == input.dtype, "OnnxModel: the input \"{}\" must be {}; got {} {}; convert it with to()",
                input.name, input.dtype, x.dtype(), x.shape());
  bool fits = !input.has_shape || input.extents.size() == x.shape().size();
  for (std::size_t i = 0; fits && i < input.extents.size(); ++i)
    fits = input.extents[i] < 0 || input.extents[i] == x.shape()[i];
  ADJOINT_CHECK(fits, "OnnxModel: the input \"{}\" must have the shape ({}), where -1 is any extent; got {}",
                input.name, fmt::join(input.extents, ", "), x.shape());
}

// Constants, shapes and the values computed from them are on the host, because most of them are settings. Those that
// meet tensors of a device as operands are moved to that device.
void move_to_data(std::vector<Tensor>& operands, std::uint32_t settings) {
  const auto is_data = [&](std::size_t i) { return operands[i].defined() && (i >= 32 || (settings >> i & 1U) == 0); };
  Device device = kCPU;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    if (is_data(i) && !operands[i].is_cpu()) device = operands[i].device();
  }
  for (std::size_t i = 0; i < operands.size() && device != kCPU; ++i) {
    if (is_data(i)) operands[i] = operands[i].to(device);
  }
}

// The errors of the operators inside name the node.
OnnxResults run_step(const OnnxProgram::Step& step, const OnnxArgs& args) {
  try {
    return step.run->run(args);
  } catch (const OutOfMemoryError&) {
    throw;
  } catch (const Error& error) {
    const std::string_view message = error.what();
    if (message.starts_with("load_onnx:")) throw;
    fail("OnnxModel: {} node '{}': {}", step.node.type, step.node.name, message);
  }
}

// Runs steps on the values of a call.
class Runner {
 public:
  Runner(const OnnxProgram& program, std::vector<Tensor>& values, bool training)
      : program_(program), values_(values), training_(training) {}

  void run(const std::vector<OnnxProgram::Step>& steps) {
    for (const OnnxProgram::Step& step : steps) {
      std::vector<Tensor> operands;
      for (const std::int32_t id : step.inputs) operands.push_back(id < 0 ? Tensor() : at(id));
      if (step.run != nullptr) move_to_data(operands, step.run->settings);
      for (std::size_t i = 0; training_ && i < operands.size(); ++i) {
        if (has_bit(step.foreign_buffers, i) && operands[i].defined()) operands[i] = operands[i].clone();
      }
      const OnnxArgs args(step.node, operands, program_.operator_set, training_);
      OnnxResults results = step.run != nullptr        ? run_step(step, args)
                            : step.node.type == "Loop" ? loop(step.bodies[0], args)
                                                       : run_body(step.bodies[condition(args, args[0]) ? 0 : 1], {});
      for (std::size_t i = 0; i < step.outputs.size(); ++i) {
        if (step.outputs[i] < 0) continue;
        if (i >= results.size() || !results[i].defined()) args.refuse(fmt::format("its output {} is not supported", i));
        at(step.outputs[i]) = std::move(results[i]);
      }
      for (const std::int32_t id : step.last_read) at(id) = {};
    }
  }

 private:
  Tensor& at(std::int32_t id) { return values_[static_cast<std::size_t>(id)]; }

  static bool condition(const OnnxArgs& args, const Tensor& value) {
    if (value.dtype() != kBool || value.numel() != 1)
      args.refuse(fmt::format("its condition must be one bool; got {} {}", value.dtype(), value.shape()));
    return value.item<bool>();
  }

  OnnxResults run_body(const OnnxProgram::Body& body, const std::vector<Tensor>& inputs) {
    for (std::size_t i = 0; i < inputs.size(); ++i) at(body.inputs[i]) = inputs[i];
    run(body.steps);
    OnnxResults results;
    for (const std::int32_t id : body.outputs) results.push_back(at(id));
    return results;
  }

  // Inputs are the limit, the condition and the values that steps hand on. The body's inputs are the step's number, the
  // condition and these values; its outputs are the condition, the values, and one element of each list.
  OnnxResults loop(const OnnxProgram::Body& body, const OnnxArgs& args) {
    const std::int64_t limit = args.has(0) ? args.host_integer(0) : std::numeric_limits<std::int64_t>::max();
    bool goes_on = !args.has(1) || condition(args, args[1]);
    std::vector<Tensor> state(args.in.begin() + 2, args.in.end());
    std::vector<std::vector<Tensor>> lists(body.outputs.size() - 1 - state.size());
    for (std::int64_t i = 0; i < limit && goes_on; ++i) {
      std::vector<Tensor> inputs{Tensor::full({}, i, {.dtype = kInt64}), Tensor::full({}, goes_on, {.dtype = kBool})};
      inputs.insert(inputs.end(), state.begin(), state.end());
      const OnnxResults results = run_body(body, inputs);
      goes_on = condition(args, results[0]);
      for (std::size_t k = 0; k < state.size(); ++k) state[k] = results[1 + k];
      for (std::size_t k = 0; k < lists.size(); ++k) lists[k].push_back(results[1 + state.size() + k]);
    }
    for (const std::vector<Tensor>& list : lists) {
      if (list.empty()) args.refuse("its lists must have an element; got a loop without a step");
      state.push_back(stack(list));
    }
    return state;
  }

  const OnnxProgram& program_;
  std::vector<Tensor>& values_;
  const bool training_;
};

}  // namespace
}  // namespace detail

OnnxModel::OnnxModel(std::shared_ptr<const detail::OnnxProgram> program)
    : Module("OnnxModel"), program_(std::move(program)) {}

const std::vector<std::string>& OnnxModel::input_names() const { return program_->input_names; }
const std::vector<std::string>& OnnxModel::output_names() const { return program_->output_names; }

std::vector<Tensor> OnnxModel::operator()(const std::vector<Tensor>& inputs) const {
  check_not_moved_from("OnnxModel");
  const detail::OnnxProgram& program = *program_;
  ADJOINT_CHECK(inputs.size() <= program.inputs.size(), "OnnxModel: there must be at most {} inputs; got {}",
                program.inputs.size(), inputs.size());
  std::vector<Tensor> values(program.values);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].defined()) detail::check_input(program.inputs[i], inputs[i]);
    values[static_cast<std::size_t>(program.input_values[i])] = inputs[i];
  }
  for (const auto& constant : program.constants) {
    Tensor& value = values[static_cast<std::size_t>(constant.value)];
    value = constant.tensor.defined() ? constant.tensor : tensors_[constant.registered].tensor();
  }
  detail::Runner(program, values, training()).run(program.steps);
  std::vector<Tensor> outputs;
  for (const std::int32_t id : program.output_values) outputs.push_back(values[static_cast<std::size_t>(id)]);
  return outputs;
}

Tensor OnnxModel::operator()(const Tensor& input) const {
  check_not_moved_from("OnnxModel");
  ADJOINT_CHECK(program_->inputs.size() == 1 && program_->output_values.size() == 1,
                "OnnxModel: a network that is called with a tensor must have one input and one output; got {} and {}; "
                "call it with a vector",
                program_->inputs.size(), program_->output_values.size());
  return hooked(input, [&](const Tensor& x) { return (*this)(std::vector<Tensor>{x})[0]; });
}

OnnxModel load_onnx(const std::filesystem::path& path) {
  detail::Compiler compiler(detail::read_onnx(path));
  OnnxModel model(compiler.run());
  detail::Places places{Module(model)};
  for (const auto& [name, value, is_parameter] : compiler.registered) {
    auto [module, last] = places.of(name);
    model.tensors_.push_back(is_parameter ? module.register_parameter(last, value)
                                          : Parameter(module.register_buffer(last, value)));
  }
  return model;
}

}  // namespace adjoint::nn
