#include <adjoint/tests/faults/faults.h>

#include <adjoint/core/autograd/tape.h>
#include <adjoint/core/base/error.h>
#include <adjoint/core/base/parallel.h>
#include <adjoint/core/tensor/random.h>
#include <adjoint/tests/faults/allocations.h>

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <memory>
#include <new>

namespace adjoint::testing {
namespace {

// Bits of the tensors and of their gradients; for an undefined one a mark instead.
std::vector<std::uint8_t> bits_of(const std::vector<Tensor>& tensors) {
  std::vector<std::uint8_t> bits;
  const auto append = [&](const Tensor& tensor) {
    bits.push_back(tensor.defined());
    if (!tensor.defined()) return;
    const Tensor host = tensor.detach().to(kCPU).contiguous();
    const auto* const data = static_cast<const std::uint8_t*>(host.raw_data());
    bits.insert(bits.end(), data, data + host.numel() * element_size(host.dtype()));
  };
  const PauseTape pause;
  std::size_t most = 0;  // bytes: under AddressSanitizer a vector that grows costs most of a trial's time
  for (const Tensor& tensor : tensors) {
    most += 2 + (tensor.defined() ? 2 * static_cast<std::size_t>(tensor.numel() * element_size(tensor.dtype())) : 0);
  }
  bits.reserve(most);
  for (const Tensor& tensor : tensors) {
    append(tensor);
    append(tensor.defined() ? tensor.grad() : tensor);
  }
  return bits;
}

struct Outcome {
  std::int64_t allocations = 0;  // up to the one that failed, or all
  std::vector<std::uint8_t> bits;
};

// Runs the trial with allocation n failing (none for n = 0).
Outcome attempt(const std::function<Trial()>& make, std::int64_t n, bool for_good) {
  manual_seed(7);
  const Trial trial = make();
  Outcome outcome;
  for (std::size_t step = 0; step < trial.steps.size(); ++step) {
    const std::vector<std::uint8_t> before = bits_of(trial.state());
    bool threw = false;
    const std::int64_t left = n - outcome.allocations;
    try {
      FailAllocation fail(left > 0 ? left : 0, for_good, outcome.allocations);
      trial.steps[step]();
    } catch (const std::bad_alloc&) {
      threw = true;
    } catch (const OutOfMemoryError&) {
      threw = true;
    }
    if (!threw) continue;
    EXPECT_EQ(bits_of(trial.state()), before) << "step " << step << " failed and changed something";
    trial.steps[step]();
  }
  std::vector<Tensor> all = trial.state();
  for (const Tensor& result : trial.results()) all.push_back(result);
  outcome.bits = bits_of(all);
  return outcome;
}

}  // namespace

void expect_all_or_nothing(const std::string& name, const std::function<Trial()>& make) {
  SCOPED_TRACE(name);
  attempt(make, 0, false);  // makes the objects that a process creates once and keeps
  const Outcome expected = attempt(make, 0, false);
  for (const bool for_good : {false, true}) {
    for (std::int64_t n = 1; n <= expected.allocations && !::testing::Test::HasFailure(); ++n) {
      SCOPED_TRACE("allocation " + std::to_string(n) + (for_good ? " and all after it" : "") + " failed");
      std::int64_t live = live_allocations();
      EXPECT_EQ(attempt(make, n, for_good).bits, expected.bits) << "trying again gave other bits";
      if (num_threads() > 1 || live_allocations() == live) continue;
      // A failure may leave memory that is kept for later, such as a block of the GPU's cache; a leak grows with every
      // failure.
      live = live_allocations();
      attempt(make, n, for_good);
      EXPECT_EQ(live_allocations(), live) << "memory was lost";
    }
  }
}

}  // namespace adjoint::testing
