#include <adjoint/core/memory/scratch.h>

#include <algorithm>
#include <cstdlib>
#include <new>

namespace adjoint::detail {
namespace {

constexpr std::size_t kStep = 64;

std::size_t whole_steps(std::size_t nbytes) { return (nbytes + kStep - 1) / kStep * kStep; }

void* take(std::size_t nbytes) {
  void* const data = std::aligned_alloc(kStep, whole_steps(nbytes));
  if (data == nullptr) throw std::bad_alloc();
  return data;
}

}  // namespace

constinit thread_local Scratch* Scratch::current_ = nullptr;

Scratch::~Scratch() {
  for (void* const block : more_) std::free(block);
  std::free(block_);
}

void* Scratch::allocate(std::size_t nbytes) {
  const std::size_t begin = used_;
  used_ += whole_steps(std::max<std::size_t>(nbytes, 1));
  if (used_ <= size_) return block_ + begin;
  more_.reserve(more_.size() + 1);
  return more_.emplace_back(take(nbytes));
}

void Scratch::clear() {
  for (void* const block : more_) std::free(block);
  more_.clear();
  if (used_ > size_) {
    std::free(std::exchange(block_, nullptr));
    size_ = 0;
    block_ = static_cast<std::byte*>(take(used_));
    size_ = used_;
  }
  used_ = 0;
}

}  // namespace adjoint::detail
