// The C++ side of docs/weights.md: weights FOLDER reads from_python.safetensors and input.safetensors, and writes
// output.safetensors, to_python.safetensors and a checkpoint.
#include <adjoint/adjoint.h>

#include <exception>
#include <filesystem>
#include <iostream>

namespace nn = adjoint::nn;

namespace {

nn::Sequential upscaler() {
  return nn::Sequential{nn::Conv2d(3, 8, {.kernel_size = 3, .padding = 1}), nn::BatchNorm2d(8), nn::SiLU(),
                        nn::ConvTranspose2d(8, 3, {.kernel_size = 4, .stride = 2, .padding = 1})};
}

void run(const std::filesystem::path& folder) {
  nn::Sequential net = upscaler();
  nn::load_safetensors(folder / "from_python.safetensors", net, {.rename = {{"^features\\.", ""}, {"^up\\.", "3."}}});
  net.eval();
  const adjoint::Tensor input = nn::load_safetensors(folder / "input.safetensors").tensors.at(0).second;
  nn::save_safetensors(folder / "output.safetensors", {{"output", net(input)}});
  nn::save_safetensors(folder / "to_python.safetensors", net);

  nn::Checkpoint checkpoint(folder);
  checkpoint.add("model", net);
  checkpoint.add_random_state();
  checkpoint.save(1);
  nn::Sequential best = upscaler();
  nn::load_safetensors(folder / "checkpoint-1.safetensors", best, {.strict = false, .rename = {{"^model\\.", ""}}});
  nn::save_safetensors(folder / "from_checkpoint.safetensors", best);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: weights FOLDER\n";
    return 2;
  }
  try {
    run(argv[1]);
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
}
