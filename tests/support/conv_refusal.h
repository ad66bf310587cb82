// Calls of the convolutions that must be refused, shared by their tests.
#pragma once

#include <adjoint/core/autograd/tape.h>
#include <adjoint/core/base/error.h>
#include <adjoint/core/tensor/tensor.h>
#include <adjoint/tests/support/values.h>

#include <gtest/gtest.h>

#include <cstdint>
#include <exception>
#include <functional>
#include <limits>
#include <string>
#include <type_traits>
#include <vector>

namespace adjoint::testing {

inline constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();

/// Bytes of CPU tensors alive, as the out-of-memory message states them.
std::string bytes_held();

/// A tensor of any size that holds one number.
Tensor wide(const Shape& shape, DType dtype = kFloat32);

class ConvRefusal : public ::testing::Test {
 protected:
  /// Expects `call` to throw an E with `message`, and to leave tape, tensors and memory alone.
  template <class E = Error>
  void refuses(const std::function<Tensor()>& call, const std::string& message) {
    Tape tape;
    const Tensor sum = input_ + weight_.select(3, 0).sum();  // the tape has leaves and operations
    const std::size_t recorded = tape.size();
    const std::string held = bytes_held();
    try {
      call();
      ADD_FAILURE() << "no error; expected: " << message;
    } catch (const E& error) {
      if constexpr (std::is_same_v<E, OutOfMemoryError>) {
        EXPECT_EQ(std::string(error.what()).substr(0, message.size()), message);
      } else {
        EXPECT_EQ(std::string(error.what()), message);
      }
    } catch (const std::exception& error) {
      ADD_FAILURE() << "another exception: " << error.what() << "; expected: " << message;
    }
    EXPECT_EQ(tape.size(), recorded);
    EXPECT_EQ(bytes_held(), held);
    expect_values("input", input_, std::vector<double>(static_cast<std::size_t>(input_.numel()), 1.0));
    expect_values("weight", weight_, std::vector<double>(static_cast<std::size_t>(weight_.numel()), 1.0));
  }

  // conv_transpose2d of 4 channels, 8x8, to 6 channels.
  Tensor input_ = Tensor::ones({2, 4, 8, 8}, {.requires_grad = true});
  Tensor weight_ = Tensor::ones({4, 6, 3, 3}, {.requires_grad = true});
  Tensor bias_ = Tensor::ones({6});
};

}  // namespace adjoint::testing
