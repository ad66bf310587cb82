#include <adjoint/ops/conv/base/cuda/filter_space.h>

#include <adjoint/core/graph/step_capture.h>
#include <adjoint/core/tensor/storage.h>
#include <adjoint/ops/conv/base/cuda/arithmetic.h>
#include <adjoint/ops/conv/base/form_key.h>

#include <cstdint>
#include <utility>

namespace adjoint::cuda {
namespace {

/// Also true if the driver does not know, as for the default stream while others capture.
bool captures(int device) {
  if (adjoint::detail::StepCapture::current() != nullptr) return true;
  const DeviceGuard guard(device);
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  if (cudaStreamIsCapturing(current_stream(device), &status) != cudaSuccess) {
    cudaGetLastError();
    return true;
  }
  return status != cudaStreamCaptureStatusNone;
}

adjoint::detail::FormKey& operator<<(adjoint::detail::FormKey& key, const Machine& machine) {
  for (const std::int64_t number : numbers_of(machine)) key << number;
  return key;
}

}  // namespace

struct FilterSpace::Place {
  adjoint::detail::KeptForms& forms;
  adjoint::detail::FormKey key;
  std::shared_ptr<const void> storage;  // kept alive by the call, whoever unfreezes
  std::size_t nbytes;
};

FilterSpace::FilterSpace(const ConvProblem& problem, const char* order, std::int64_t part, std::size_t nbytes) {
  if (problem.forms != nullptr && nbytes > 0 && !captures(problem.device)) {
    adjoint::detail::FormKey key(order);
    key << problem.geometry;
    key << problem.machine;
    key << problem.role << arithmetic_of(problem) << part << problem.second << current_stream(problem.device);
    auto storage = std::static_pointer_cast<const Storage>(problem.forms->find(key));
    filled_ = kept_ = storage != nullptr;
    if (!filled_ && problem.forms->has_room()) {
      storage = Storage::allocate(nbytes, Device(DeviceType::kCUDA, problem.device));
    }
    if (storage != nullptr) {
      data_ = storage->data();
      place_.reset(new Place{*problem.forms, std::move(key), std::move(storage), nbytes});
      return;
    }
  }
  data_ = workspace_.emplace(nbytes, problem.device).data();
}

FilterSpace::~FilterSpace() = default;

void FilterSpace::fill() {
  filled_ = true;
  if (place_ == nullptr) return;
  kept_ = place_->forms.keep(place_->key, place_->storage, place_->nbytes) == place_->storage;
}

}  // namespace adjoint::cuda
