// Random calls of the public interface, most of them invalid: each returns, or throws an Error that names the function
// called. Each module's tests have their own table of calls.
#pragma once

#include <adjoint/core/tensor/tensor.h>

#include <cstdint>
#include <functional>
#include <random>
#include <string>
#include <vector>

namespace adjoint::testing {

/// Draws arguments: mostly small and plausible, often of a wrong kind, now and then an extreme. Sizes are small or far
/// beyond any machine's memory, so that every call is fast.
class Arguments {
 public:
  explicit Arguments(std::uint64_t seed);

  bool chance(unsigned one_in) { return random_() % one_in == 0; }
  std::int64_t integer();
  double scalar();
  Dims dims();
  Shape shape() { return dims(); }
  /// One of the first `count` values, or one that does not exist.
  template <class Enum>
  Enum enumerator(unsigned count) {
    return static_cast<Enum>(chance(4) ? random_() % 256 : random_() % count);
  }
  Device device();
  TensorOptions options();
  /// One of a fixed set of every rank, dtype and kind; undefined now and then. Must not be written.
  Tensor tensor();
  /// A copy of one, for calls that write.
  Tensor fresh();
  std::vector<Tensor> tensors();

 private:
  std::mt19937_64 random_;
  std::vector<Tensor> tensors_;
};

struct Call {
  std::string name;  // as errors must begin
  std::function<void(Arguments&)> run;
};

/// Makes `count` calls of random rows of the table. Fails for exceptions other than Error, for an Error that begins
/// with another name, and for a row whose calls never throw.
void expect_errors_that_name_the_call(const std::vector<Call>& table, int count, std::uint64_t seed);

}  // namespace adjoint::testing
