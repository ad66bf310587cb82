#include <adjoint/nn/rank_zero.h>

#include <adjoint/core/autograd/tape.h>
#include <adjoint/core/base/check.h>
#include <adjoint/core/tensor/copy.h>

#include <map>
#include <sstream>
#include <utility>
#include <vector>

namespace adjoint::distributed {

std::string description(const NamedTensors& parameters, const NamedTensors& buffers,
                        const DataParallelOptions& options) {
  std::string lines = fmt::format("options: {} bytes, {}, {}, {}\n", options.bucket_bytes,
                                  options.find_unused_parameters, options.broadcast_buffers, options.max_ctas);
  for (const NamedTensors* list : {&parameters, &buffers}) {
    for (const auto& [name, tensor] : *list) lines += fmt::format("{} {} {}\n", name, tensor.dtype(), tensor.shape());
  }
  return lines;
}

void check_alike(const std::string& own) {
  const std::string first = broadcast_text(own, 0, kName);
  Tensor differs =
      Tensor::scalar(first == own ? world_size() : rank(), {.dtype = kInt64});  // the first rank that differs
  const Call call{.kind = Kind::kAllReduce, .op = ReduceOp::kMin, .caller = kName};
  run(call, differs, differs);
  const int odd = differs.item<int>();
  if (odd == world_size()) return;
  std::istringstream odd_lines(broadcast_text(own, odd, kName)), first_lines(first);
  std::string a, b;
  do {
    a.clear(), b.clear();
    std::getline(odd_lines, a);
    std::getline(first_lines, b);
  } while (a == b);
  fail(
      "{}: every rank's options, and its parameters' and buffers' names, shapes and dtypes, must be rank 0's; got "
      "'{}' on rank {} and '{}' on rank 0",
      kName, a, odd, b);
}

Part broadcast_of(const Tensor& tensor) {
  return {.call = {.kind = Kind::kBroadcast, .caller = kName}, .tensor = tensor};
}

NamedTensors own_buffers(const nn::Module& module) {
  NamedTensors own;
  for (const auto& [name, buffer] : module.named_buffers()) {
    if (name.find('.') == std::string::npos) own.emplace_back(name, buffer);
  }
  return own;
}

void broadcast_all(const NamedTensors& named) {
  const PauseTape pause;
  std::map<std::pair<DeviceType, int>, std::pair<std::vector<Tensor>, std::vector<Part>>> devices;
  for (const auto& [name, tensor] : named) {
    if (tensor.numel() == 0) continue;
    auto& [tensors, packed] = devices[{tensor.device().type, tensor.device().index}];
    tensors.push_back(tensor.detach());
    packed.push_back(broadcast_of(contiguous_copy(tensors.back())));
  }
  for (auto& [device, lists] : devices) {
    auto& [tensors, packed] = lists;
    if (engine() != nullptr) engine()->run_together(packed);
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      if (packed[i].tensor.impl() != tensors[i].impl()) tensors[i].copy_(packed[i].tensor);
    }
  }
}

}  // namespace adjoint::distributed
