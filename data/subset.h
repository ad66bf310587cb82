// Datasets made of others: some of the examples of one, and several concatenated.
//
//   const std::vector<Subset> parts = random_split(digits, {0.9, 0.1});  // or numbers of examples, {54000, 6000}
//   DataLoader train(parts[0], {.batch_size = 64}), test(parts[1], {.batch_size = 64});
#pragma once

#include <adjoint/core/base/export.h>
#include <adjoint/core/tensor/random.h>
#include <adjoint/core/tensor/scalar.h>
#include <adjoint/data/dataset.h>

#include <cstdint>
#include <functional>
#include <vector>

namespace adjoint::data {

/// Example i is example indices[i] of the dataset, which must outlive it.
class ADJOINT_API Subset final : public Dataset {
 public:
  /// Throws Error for an index that the dataset does not have.
  Subset(const Dataset& dataset, std::vector<std::int64_t> indices);
  Subset(const Dataset&& dataset, std::vector<std::int64_t> indices) = delete;
  Subset(const Subset& other) : Dataset(), dataset_(other.dataset_), indices_(other.indices_) {}
  Subset& operator=(const Subset&) = delete;

  std::int64_t size() const override { return static_cast<std::int64_t>(indices_.size()); }
  Example get(std::int64_t index, Generator& generator) const override;
  const std::vector<std::int64_t>& indices() const { return indices_; }

 private:
  const Dataset* dataset_;
  std::vector<std::int64_t> indices_;
};

/// The dataset's examples in random parts: `lengths` are their sizes, which add up to the dataset's, or reals, shares
/// of it that add up to 1; the examples left over by rounding down go to the first parts, one each. Throws Error for
/// others.
ADJOINT_API std::vector<Subset> random_split(const Dataset& dataset, const std::vector<Scalar>& lengths,
                                             Generator& generator = default_generator());
std::vector<Subset> random_split(const Dataset&& dataset, const std::vector<Scalar>& lengths) = delete;

/// The examples of the first dataset, then of the second, and so on: ConcatDataset all({photos, drawings}). They must
/// outlive it.
class ADJOINT_API ConcatDataset final : public Dataset {
 public:
  /// Throws Error for an empty list.
  explicit ConcatDataset(std::vector<std::reference_wrapper<const Dataset>> datasets);

  std::int64_t size() const override { return ends_.back(); }
  Example get(std::int64_t index, Generator& generator) const override;

 private:
  std::vector<std::reference_wrapper<const Dataset>> datasets_;
  std::vector<std::int64_t> ends_;  // per dataset: the number of examples up to its end
};

}  // namespace adjoint::data
