// A device for captured steps that only pretends to record, on the CPU.
#pragma once

#include <adjoint/core/graph/step_graphs.h>

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace adjoint::testing {

/// Kernels that a step "launches" run immediately during its capture, because tensors are in the host's memory;
/// functions that a test puts into `kernels` run in each launch.
class PretendDevice final : public detail::StepDevice {
 public:
  void begin() override { ++begun; }
  std::shared_ptr<void> end() override { return std::make_shared<std::function<void()>>(std::exchange(kernels, {})); }
  void abandon() noexcept override { ++abandoned; }
  void deliver(const void* from, void* const* to, std::size_t nbytes) override {
    kernels = [before = std::move(kernels), from, to, nbytes] {
      if (before) before();
      std::memcpy(*to, from, nbytes);
    };
  }
  void follow() override {}
  void feed(std::span<const detail::StepMove> moves, void* to, const std::byte* from, std::size_t nbytes) override {
    for (const detail::StepMove& move : moves) std::memcpy(move.to, move.from, move.nbytes);
    if (nbytes == 0) return;
    std::memcpy(to, from, nbytes);
    written.assign(from, from + nbytes);
    ++writes;
  }
  void launch(void* graph) override {
    ++launches;
    const auto& run = *static_cast<std::function<void()>*>(graph);
    if (run) run();
  }
  void wait() override { ++waits; }
  void* take(std::size_t nbytes) override {
    taken += nbytes;
    return std::aligned_alloc(512, nbytes);
  }
  void give_back(void* data, std::size_t nbytes) noexcept override {
    taken -= nbytes;
    std::free(data);
  }

  std::function<void()> kernels;
  int begun = 0, abandoned = 0, writes = 0, launches = 0, waits = 0;
  std::size_t taken = 0;
  std::vector<std::byte> written;  // last
};

}  // namespace adjoint::testing
