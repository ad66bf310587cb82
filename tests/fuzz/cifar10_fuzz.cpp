#include "file.h"

#include <adjoint/core/base/error.h>
#include <adjoint/data/array_files.h>

#include <algorithm>

using namespace adjoint;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  constexpr std::size_t kMost = 1 << 14;  // unpacked it may be a thousand times that
  if (size > kMost) return -1;
  try {
    const data::LabelledImages set = data::read_cifar10(fuzz::in_memory(data, size));
    const std::int64_t count = set.labels.size(0);
    fuzz::check(count > 0 && set.images.shape() == Shape{count, 3, 32, 32}, "a picture for each label");
    const auto* labels = set.labels.data<std::int64_t>();
    fuzz::check(std::all_of(labels, labels + count, [](std::int64_t i) { return i >= 0 && i <= 9; }), "ten classes");
  } catch (const OutOfMemoryError& error) {
    fuzz::check(false, error.what());
  } catch (const Error& error) {
    fuzz::check(std::string(error.what()).starts_with("read_cifar10: '"), error.what());
  }
  return 0;
}
