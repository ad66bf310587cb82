// A dataset for tests of loaders.
#pragma once

#include <adjoint/data/dataset.h>
#include <adjoint/data/loader.h>

#include <cstdint>
#include <exception>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

namespace adjoint::data {

/// Example i: input (2) holds i and a random number, target () holds -i; some cannot be read.
class NumberedExamples final : public Dataset {
 public:
  explicit NumberedExamples(std::int64_t size, std::set<std::int64_t> broken = {})
      : size_(size), broken_(std::move(broken)) {}
  std::int64_t size() const override { return size_; }
  Example get(std::int64_t index, Generator& generator) const override {
    if (broken_.contains(index)) throw std::runtime_error("'" + std::to_string(index) + ".png' is broken");
    const auto random = static_cast<double>(generator.below(1 << 20));
    return {Tensor::from_vector<double>({static_cast<double>(index), random}, {2}),
            Tensor::full({}, -static_cast<double>(index))};
  }

 private:
  std::int64_t size_;
  std::set<std::int64_t> broken_;
};

using Batches = std::vector<std::vector<float>>;

/// The inputs of the rest of the current epoch, or of the next one.
inline Batches rest_of_epoch(DataLoader& loader) {
  Batches batches;
  while (const auto batch = loader.next()) batches.push_back(batch->input.to_vector<float>());
  return batches;
}

/// The numbers of the examples in these batches.
inline std::vector<std::int64_t> numbers_in(const Batches& batches) {
  std::vector<std::int64_t> numbers;
  for (const auto& batch : batches) {
    for (std::size_t i = 0; i < batch.size(); i += 2) numbers.push_back(static_cast<std::int64_t>(batch[i]));
  }
  return numbers;
}

inline std::string message_of(const auto& call) {
  try {
    call();
  } catch (const std::exception& error) {
    return error.what();
  }
  return "no error";
}

}  // namespace adjoint::data
