#include <adjoint/nn/onnx/onnx_model.h>

#include <adjoint/core/base/check.h>
#include <adjoint/core/base/error.h>
#include <adjoint/nn/onnx/load/file.h>
#include <adjoint/nn/onnx/load/operators.h>

#include <algorithm>
#include <map>
#include <set>
#include <unordered_map>
#include <utility>

namespace adjoint::nn {
namespace detail {

struct OnnxProgram {
  struct Step {
    OnnxFile::Node node;
    const OnnxOperator* run;
    std::vector<std::int32_t> inputs, outputs;  // values; -1: none
    std::vector<std::int32_t> last_read;        // values that no later step reads
    std::uint32_t foreign_buffers = 0;          // operands that training would write to, but are no buffers of ours
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
    add_constants();
    for (OnnxFile::Node& node : file_.nodes) add_step(std::move(node));
    for (const std::string& output : file_.outputs) {
      program_.output_names.push_back(output);
      program_.output_values.push_back(use(output, "the outputs"));
    }
    program_.values = values_.size();
    find_last_reads();
    return std::make_shared<const OnnxProgram>(std::move(program_));
  }

  std::vector<Registered> registered;

 private:
  std::int32_t define(const std::string& name, std::string_view by) {
    const auto [at, is_new] = values_.emplace(name, static_cast<std::int32_t>(values_.size()));
    ADJOINT_CHECK(is_new && !name.empty(),
                  "load_onnx: every value must be made once, under a name; got \"{}\" again in {}", name, by);
    return at->second;
  }
  std::int32_t use(const std::string& name, std::string_view by) const {
    const auto found = values_.find(name);
    ADJOINT_CHECK(found != values_.end(), "load_onnx: a value must be made before it is used; got \"{}\" in {}", name,
                  by);
    return found->second;
  }

  // A floating-point constant is a parameter if any node reads it as data.
  void add_constants() {
    std::unordered_map<std::string, Role> roles;
    for (const OnnxFile::Node& node : file_.nodes) {
      const OnnxOperator* const op = find_onnx_operator(node.type);
      for (std::size_t i = 0; op != nullptr && i < node.inputs.size(); ++i) {
        Role& role = roles[node.inputs[i]];
        if (has_bit(op->buffers, i)) role = std::max(role, Role::kBuffer);
        if (!has_bit(op->buffers | op->settings, i) && role == Role::kConstant) role = Role::kParameter;
      }
    }
    for (auto& [name, value] : file_.constants) {
      OnnxProgram::Constant constant{.value = define(name, "the constants"), .tensor = value};
      Role role = is_floating_point(value.dtype()) ? roles[name] : Role::kConstant;
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

  void add_step(OnnxFile::Node node) {
    const std::string by = fmt::format("{} node '{}'", node.type, node.name);
    const OnnxOperator* const op = find_onnx_operator(node.type);
    ADJOINT_CHECK(op != nullptr,
                  "load_onnx: the operators must be among those of docs/onnx.md; got {}; replace it before exporting",
                  by);
    for (const auto& [name, value] : node.attributes) {
      const std::string words = fmt::format(" {} ", op->attributes);
      ADJOINT_CHECK(words.find(" " + name + " ") != std::string::npos,
                    "load_onnx: attributes must be among those that are supported ({}); got {} of {}",
                    op->attributes.empty() ? "none" : op->attributes, name, by);
    }
    OnnxProgram::Step step{.node = std::move(node), .run = op, .inputs = {}, .outputs = {}, .last_read = {}};
    for (const std::string& input : step.node.inputs) step.inputs.push_back(input.empty() ? -1 : use(input, by));
    const auto first = static_cast<std::int32_t>(program_.inputs.size());
    const auto last = first + static_cast<std::int32_t>(program_.constants.size());
    for (std::size_t i = 0; i < step.inputs.size(); ++i) {
      const bool constant = step.inputs[i] >= first && step.inputs[i] < last;
      if (has_bit(op->buffers, i) && !constant) step.foreign_buffers |= 1U << i;
    }
    for (const std::string& output : step.node.outputs)
      step.outputs.push_back(output.empty() ? -1 : define(output, by));
    program_.steps.push_back(std::move(step));
  }

  void find_last_reads() {
    std::set<std::int32_t> seen(program_.output_values.begin(), program_.output_values.end());
    for (auto step = program_.steps.rbegin(); step != program_.steps.rend(); ++step) {
      for (const auto& all : {step->inputs, step->outputs}) {
        for (const std::int32_t value : all) {
          if (value >= 0 && seen.insert(value).second) step->last_read.push_back(value);
        }
      }
    }
  }

  OnnxFile file_;
  OnnxProgram program_;
  std::unordered_map<std::string, std::int32_t> values_;
};

// A part of a path.
class Part : public Module {
 public:
  Part() : Module("OnnxModel") {}
};

// Where a name's last part is registered: modules for the parts before. If a part cannot name a module, underscores
// replace all dots.
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

// Constants, shapes and what nodes compute of them are on the host, where most of them are settings. Those that are
// operands of tensors on a device go there.
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
  std::vector<Tensor> operands;
  for (const auto& step : program.steps) {
    operands.clear();
    for (const std::int32_t id : step.inputs)
      operands.push_back(id < 0 ? Tensor() : values[static_cast<std::size_t>(id)]);
    detail::move_to_data(operands, step.run->settings);
    for (std::size_t i = 0; training() && i < operands.size(); ++i) {
      if (detail::has_bit(step.foreign_buffers, i) && operands[i].defined()) operands[i] = operands[i].clone();
    }
    const detail::OnnxArgs args(step.node, operands, program.operator_set, training());
    detail::OnnxResults results = detail::run_step(step, args);
    for (std::size_t i = 0; i < step.outputs.size(); ++i) {
      if (step.outputs[i] < 0) continue;
      if (i >= results.size() || !results[i].defined()) args.refuse(fmt::format("its output {} is not supported", i));
      values[static_cast<std::size_t>(step.outputs[i])] = std::move(results[i]);
    }
    for (const std::int32_t id : step.last_read) values[static_cast<std::size_t>(id)] = {};
  }
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
