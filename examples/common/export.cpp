#include "common/export.h"

#include <memory>

namespace examples {

void add_export(Program& program, std::function<void(const std::string& model, const std::string& to)> write) {
  struct Files {
    std::string model, to;
  };
  const auto files = std::make_shared<Files>();
  CLI::App& app = program.verb("export", "Write a model as an ONNX file, for ONNX Runtime and other engines",
                               [files, write = std::move(write), name = program.name()](adjoint::Device) {
                                 check_output(name, files->to, {".onnx"});
                                 write(files->model, files->to);
                               });
  app.add_option("model", files->model, "model.safetensors of a training")->required();
  app.add_option("output", files->to, "ONNX file to write")->required();
}

}  // namespace examples
