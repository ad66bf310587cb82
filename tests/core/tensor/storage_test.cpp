// Memory of the CPU's tensors, as reported by the error of a request that cannot be met.
#include <adjoint/core/base/error.h>
#include <adjoint/core/tensor/storage.h>
#include <adjoint/core/tensor/tensor.h>

#include <gtest/gtest.h>

#include <cstdint>
#include <fstream>
#include <memory>
#include <string>

namespace adjoint {
namespace {

struct Told {
  std::int64_t asked = 0, holding = 0, free = 0;
};

// The error of a request for 2^60 bytes.
Told tell() {
  const auto number_after = [](const std::string& text, const char* word) {
    return std::stoll(text.substr(text.find(word) + std::string(word).size()));
  };
  try {
    Tensor::empty({std::int64_t{1} << 58});
  } catch (const OutOfMemoryError& error) {
    const std::string text = error.what();
    return {number_after(text, "asked for "), number_after(text, "holding "), number_after(text, "free ")};
  }
  ADD_FAILURE() << "nothing was thrown";
  return {};
}

std::int64_t meminfo(const std::string& wanted) {
  std::ifstream lines("/proc/meminfo");
  std::string key, unit;
  for (std::int64_t kibibytes = 0; lines >> key >> kibibytes; std::getline(lines, unit)) {
    if (key == wanted + ":") return kibibytes * 1024;
  }
  return 0;
}

TEST(Storage, OutOfMemoryTellsWhatWasAskedHeldAndFree) {
  const Told before = tell();
  EXPECT_EQ(before.asked, std::int64_t{1} << 60);
  EXPECT_GT(before.free, meminfo("MemAvailable") / 2);
  EXPECT_LE(before.free, meminfo("MemTotal"));
  {
    const Tensor tensor = Tensor::zeros({1000}), view = tensor.narrow(0, 0, 10), none = Tensor::zeros({0});
    EXPECT_EQ(tell().holding - before.holding, 4000);
  }
  EXPECT_EQ(tell().holding, before.holding) << "given back";
}

TEST(Storage, OfOthersIsNeitherHeldNorGivenBack) {
  const Told before = tell();
  float elements[4] = {1, 2, 3, 4};
  {
    const Tensor tensor = Tensor::from_blob(elements, {4});
    EXPECT_EQ(tell().holding, before.holding);
  }
  EXPECT_EQ(tell().holding, before.holding);
}

TEST(Storage, OfOthersTellsThemOnceWhenTheLastHandleGoes) {
  float elements[4] = {1, 2, 3, 4};
  int told = 0;
  auto storage = Storage::wrap(elements, sizeof elements, kCPU, [&] { ++told; });
  std::shared_ptr<Storage> other = storage;
  storage.reset();
  EXPECT_EQ(told, 0);
  other.reset();
  EXPECT_EQ(told, 1);
}

TEST(Storage, IsFromTheMachineWhereAGibibyteAndMoreIsThere) {
  if (meminfo("MemAvailable") < std::int64_t{4} << 30) GTEST_SKIP() << "needs 4 GiB of free memory";
  EXPECT_EQ(Tensor::empty({(std::int64_t{1} << 30) + 1}, {.dtype = kUInt8}).numel(), (std::int64_t{1} << 30) + 1);
}

}  // namespace
}  // namespace adjoint
