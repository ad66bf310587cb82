#include <adjoint/core/cuda/spare_workspaces.h>

#include <adjoint/core/cuda/backend.h>
#include <adjoint/core/memory/spare_blocks.h>

#include <cstdlib>
#include <string_view>

namespace adjoint::cuda {
namespace {

using adjoint::detail::SpareBlocks;

// Trivially destructible, so that it can be used while the thread, or the process, ends.
constinit thread_local SpareBlocks spares;

struct Closer {
  ~Closer() {
    spares.close();
    release_spare_workspaces();
  }
};

bool keeps() {
  static const bool keeps = [] {
    const char* const wanted = std::getenv("ADJOINT_KEEP_WORKSPACES");
    return wanted == nullptr || std::string_view(wanted) != "0";
  }();
  return keeps;
}

}  // namespace

bool keeps_workspaces(std::size_t nbytes, void* stream) {
  return stream == nullptr && nbytes <= SpareBlocks::kMostBytes && keeps();
}

void* take_workspace(std::size_t nbytes, int device) {
  if (void* const spare = spares.take(nbytes, device)) return spare;
  thread_local const Closer closer;
  void* stream = nullptr;
  return allocate(SpareBlocks::block_bytes(nbytes), device, &stream);
}

void leave_workspace(void* data, std::size_t nbytes, int device) noexcept {
  if (!spares.keep(data, nbytes, device)) release(data, device, nullptr);
}

void release_spare_workspaces() noexcept {
  spares.empty([](void* data, int device) { release(data, device, nullptr); });
}

}  // namespace adjoint::cuda
