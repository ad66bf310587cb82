#include <adjoint/data/subset.h>

#include <adjoint/core/base/check.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

namespace adjoint::data {
namespace {

// The sizes of random_split's parts.
std::vector<std::int64_t> sizes_of(const std::vector<Scalar>& lengths, std::int64_t count) {
  std::vector<std::int64_t> sizes;
  const bool shares =
      std::any_of(lengths.begin(), lengths.end(), [](const Scalar& s) { return s.is_floating_point(); });
  if (!shares) {
    for (const Scalar& length : lengths) sizes.push_back(length.to<std::int64_t>());
    const bool none_negative = std::all_of(sizes.begin(), sizes.end(), [](std::int64_t size) { return size >= 0; });
    ADJOINT_CHECK(none_negative && std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0}) == count,
                  "random_split: lengths must not be negative and must add up to the dataset's size; got {} for {} "
                  "examples",
                  fmt::join(sizes, ", "), count);
    return sizes;
  }
  const std::vector<double> parts(lengths.begin(), lengths.end());
  const bool none_negative = std::all_of(parts.begin(), parts.end(), [](double part) { return part >= 0.0; });
  ADJOINT_CHECK(none_negative && std::abs(std::accumulate(parts.begin(), parts.end(), 0.0) - 1.0) < 1e-6,
                "random_split: shares must not be negative and must add up to 1; got {}", fmt::join(parts, ", "));
  for (const double part : parts) {
    sizes.push_back(static_cast<std::int64_t>(std::floor(static_cast<double>(count) * part)));
  }
  const std::int64_t rest = count - std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0});
  for (std::int64_t i = 0; i < rest; ++i) ++sizes[static_cast<std::size_t>(i) % sizes.size()];
  return sizes;
}

}  // namespace

Subset::Subset(const Dataset& dataset, std::vector<std::int64_t> indices)
    : dataset_(&dataset), indices_(std::move(indices)) {
  const std::int64_t count = dataset.size();
  for (const std::int64_t index : indices_) {
    ADJOINT_CHECK(index >= 0 && index < count, "Subset: indices must be those of the dataset; got {} of {} examples",
                  index, count);
  }
}

Example Subset::get(std::int64_t index, Generator& generator) const {
  ADJOINT_CHECK(index >= 0 && index < size(), "Subset: an index must be below the number of examples; got {} of {}",
                index, size());
  return dataset_->get(indices_[static_cast<std::size_t>(index)], generator);
}

std::vector<Subset> random_split(const Dataset& dataset, const std::vector<Scalar>& lengths, Generator& generator) {
  ADJOINT_CHECK(!lengths.empty(), "random_split: there must be at least one length; got none");
  const std::vector<std::int64_t> sizes = sizes_of(lengths, dataset.size());
  std::vector<std::int64_t> order(static_cast<std::size_t>(dataset.size()));
  std::iota(order.begin(), order.end(), std::int64_t{0});
  for (std::size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[generator.below(i)]);
  std::vector<Subset> parts;
  auto begin = order.begin();
  for (const std::int64_t size : sizes) {
    parts.emplace_back(dataset, std::vector<std::int64_t>(begin, begin + size));
    begin += size;
  }
  return parts;
}

ConcatDataset::ConcatDataset(std::vector<std::reference_wrapper<const Dataset>> datasets)
    : datasets_(std::move(datasets)) {
  ADJOINT_CHECK(!datasets_.empty(), "ConcatDataset: there must be at least one dataset; got none");
  std::int64_t end = 0;
  for (const Dataset& dataset : datasets_) ends_.push_back(end += dataset.size());
}

Example ConcatDataset::get(std::int64_t index, Generator& generator) const {
  ADJOINT_CHECK(index >= 0 && index < size(),
                "ConcatDataset: an index must be below the number of examples; got {} of {}", index, size());
  const auto at = static_cast<std::size_t>(std::upper_bound(ends_.begin(), ends_.end(), index) - ends_.begin());
  return datasets_[at].get().get(index - (at == 0 ? 0 : ends_[at - 1]), generator);
}

}  // namespace adjoint::data
