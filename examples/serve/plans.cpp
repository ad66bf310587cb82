#include "plans.h"

#include <adjoint/core/base/error.h>

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <exception>
#include <limits>

namespace serve {
namespace {

namespace nn = adjoint::nn;
using adjoint::Error;
using adjoint::Tensor;

nn::Plan planned(const Network& network, std::int64_t size) {
  try {
    return nn::Plan([&](const std::vector<Tensor>& x) { return std::vector{network.call(x[0]).contiguous()}; },
                    {Tensor::zeros(network.batch_of(size))});
  } catch (const adjoint::OutOfMemoryError&) {
    throw;
  } catch (const Error& error) {
    throw Error(fmt::format("serve: {} must take batches of {}: {}; --batch sets the largest", network.name, size,
                            error.what()));
  }
}

}  // namespace

std::vector<std::int64_t> batch_sizes(std::int64_t most) {
  std::vector<std::int64_t> sizes;
  for (std::int64_t size = 1; size < most; size *= 2) sizes.push_back(size);
  sizes.push_back(most);
  return sizes;
}

Plans::Plans(const Network& network, const std::vector<std::int64_t>& sizes) {
  for (const std::int64_t size : sizes) {
    nn::Plan plan = planned(network, size);
    const Tensor& result = plan.outputs()[0];
    if (result.dim() == 0 || result.size(0) != size) {
      throw Error(fmt::format("serve: the first axis of the results must be the batch; got {} for inputs {}",
                              to_string(result.shape()), to_string(plan.inputs()[0].shape())));
    }
    if (result.nbytes() / static_cast<std::size_t>(size) > std::numeric_limits<std::uint32_t>::max())
      throw Error(
          fmt::format("serve: a result must have less than 4 GiB; got {} for a batch", to_string(result.shape())));
    plans_.push_back(std::move(plan));
  }
}

void Plans::answer(std::span<const std::unique_ptr<Request>> batch) {
  try {
    compute(batch);
  } catch (const std::exception& error) {
    if (batch.size() == 1) {
      batch[0]->refuse(Status::kFailed, error.what());
    } else {
      for (std::size_t i = 0; i < batch.size(); ++i) answer(batch.subspan(i, 1));
    }
  }
}

void Plans::compute(std::span<const std::unique_ptr<Request>> batch) {
  const auto size = static_cast<std::int64_t>(batch.size());
  const auto plan =
      std::find_if(plans_.begin(), plans_.end(), [&](const nn::Plan& p) { return p.inputs()[0].size(0) == size; });
  Tensor inputs = plan->inputs()[0];
  const std::size_t input_bytes = inputs.nbytes() / batch.size();
  auto* const to = static_cast<std::byte*>(inputs.raw_mutable_data());
  for (std::size_t i = 0; i < batch.size(); ++i) std::memcpy(to + i * input_bytes, batch[i]->elements(), input_bytes);
  const Tensor& results = plan->run()[0];
  const std::size_t nbytes = results.nbytes() / batch.size();
  const auto* const from = static_cast<const std::byte*>(results.raw_data());
  for (std::size_t i = 0; i < batch.size(); ++i) {
    batch[i]->answer({.batch = static_cast<std::uint32_t>(size),
                      .row = static_cast<std::uint32_t>(i),
                      .nbytes = static_cast<std::uint32_t>(nbytes)},
                     from + i * nbytes);
  }
}

}  // namespace serve
