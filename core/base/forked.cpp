#include <adjoint/core/base/forked.h>

#include <pthread.h>

#include <algorithm>
#include <thread>

namespace adjoint {
namespace {

struct Held {
  std::mutex guard;  // of the list; locked first
  std::vector<std::mutex*> mutexes;
};

Held& held() {
  static auto* const all = new Held;  // programs may fork after static objects are gone
  return *all;
}

// Threads lock several mutexes in orders that nothing prescribes. Therefore this holds none while it waits for another.
void lock_all() {
  Held& all = held();
  all.guard.lock();
  while (true) {
    const auto busy =
        std::find_if(all.mutexes.begin(), all.mutexes.end(), [](auto* mutex) { return !mutex->try_lock(); });
    if (busy == all.mutexes.end()) return;
    std::for_each(all.mutexes.begin(), busy, [](auto* mutex) { mutex->unlock(); });
    std::this_thread::yield();
  }
}

void unlock_all() {
  Held& all = held();
  for (std::mutex* const mutex : all.mutexes) mutex->unlock();
  all.guard.unlock();
}

}  // namespace

HeldAtFork::HeldAtFork(std::mutex& mutex) {
  [[maybe_unused]] static const int registered = ::pthread_atfork(lock_all, unlock_all, unlock_all);
  const std::lock_guard lock(held().guard);
  held().mutexes.push_back(&mutex);
}

}  // namespace adjoint
