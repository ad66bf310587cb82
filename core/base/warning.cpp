#include <adjoint/core/base/warning.h>

#include <adjoint/core/base/forked.h>

#include <cstdio>
#include <memory>
#include <mutex>
#include <utility>

namespace adjoint {
namespace {

std::mutex warning_guard;
const HeldAtFork warning_at_fork(warning_guard);

// Shared, so that taking it needs no memory. Never destroyed: threads may warn after static objects are gone.
std::shared_ptr<const WarningHandler>& warning_handler() {
  static auto* const handler = new std::shared_ptr<const WarningHandler>;
  return *handler;
}

}  // namespace

WarningHandler set_warning_handler(WarningHandler handler) {
  std::shared_ptr<const WarningHandler> next, before;
  if (handler) next = std::make_shared<const WarningHandler>(std::move(handler));
  {
    const std::lock_guard lock(warning_guard);
    before = std::exchange(warning_handler(), std::move(next));
  }
  return before == nullptr ? WarningHandler() : *before;
}

void detail::warn(const std::string& message) {
  std::shared_ptr<const WarningHandler> handler;
  {
    const std::lock_guard lock(warning_guard);
    handler = warning_handler();
  }
  if (handler != nullptr) return (*handler)(message);
  std::fprintf(stderr, "adjoint: warning: %s\n", message.c_str());
}

}  // namespace adjoint
