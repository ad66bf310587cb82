// DLPack's structures, out and in; tests/python/test_dlpack.py tries them on PyTorch and NumPy.
#include <adjoint/core/tensor/dlpack.h>
#include <adjoint/core/tensor/tensor.h>
#include <adjoint/tests/support/errors.h>

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

namespace adjoint {
namespace {

// The ABI: sizes and places on a machine of 64 bits.
static_assert(sizeof(dlpack::View) == 48 && offsetof(dlpack::View, byte_offset) == 40);
static_assert(sizeof(dlpack::ManagedTensor) == 64 && offsetof(dlpack::ManagedTensor, deleter) == 56);
static_assert(sizeof(dlpack::ManagedTensorVersioned) == 80 && offsetof(dlpack::ManagedTensorVersioned, view) == 32);

constexpr DType kAllDTypes[] = {kFloat16, kBFloat16, kFloat32, kFloat64, kInt32, kInt64, kUInt8, kBool};

template <class Managed>
void check_round_trip(Managed* (*out)(const Tensor&, const Stream*), Device device) {
  for (const DType dtype : kAllDTypes) {
    SCOPED_TRACE(to_string(dtype));
    const Tensor base = Tensor::ones({3, 4}, {.dtype = dtype, .device = device});
    Tensor x = base.permute({1, 0}).narrow(0, 1, 2);
    const void* const address = x.raw_data();
    Managed* const managed = out(x, nullptr);
    EXPECT_EQ(x.impl_ptr().use_count(), 2);
    EXPECT_EQ(managed->view.ndim, 2);
    EXPECT_EQ(managed->view.strides[0], 1);
    Tensor y = from_dlpack(managed);
    EXPECT_EQ(y.raw_data(), address);
    EXPECT_EQ(y.shape(), x.shape());
    EXPECT_EQ(y.strides(), x.strides());
    EXPECT_EQ(y.dtype(), dtype);
    EXPECT_EQ(y.device(), device);
    y.zero_();
    EXPECT_EQ(x.to_vector<int>(), std::vector<int>(6, 0)) << "the elements are shared";
    EXPECT_EQ(x.impl_ptr().use_count(), 2);
    y = {};
    EXPECT_EQ(x.impl_ptr().use_count(), 1) << "the deleter ran";
  }
}

TEST(DLPack, GoesOutAndInWithoutACopy) {
  check_round_trip(to_dlpack, kCPU);
  check_round_trip(to_dlpack_versioned, kCPU);
}

TEST(DLPackCuda, GoesOutAndInWithoutACopy) {
  if (!cuda_is_available()) GTEST_SKIP() << "no CUDA device";
  check_round_trip(to_dlpack, kCUDA);
  check_round_trip(to_dlpack_versioned, kCUDA);
}

TEST(DLPackCuda, TheConsumersStreamWaits) {
  if (!cuda_is_available()) GTEST_SKIP() << "no CUDA device";
  const Stream producer = Stream::create(), consumer = Stream::create();
  for (int round = 1; round <= 20; ++round) {
    Tensor x = Tensor::zeros({1 << 24}, {.device = kCUDA});
    synchronize(kCUDA);
    dlpack::ManagedTensor* managed = nullptr;
    {
      const StreamGuard guard(producer);
      for (int i = 0; i < 10; ++i) x.add_(round);
      managed = to_dlpack(x, &consumer);
    }
    const StreamGuard guard(consumer);
    ASSERT_EQ((from_dlpack(managed) * 1.0).to_vector<float>(), std::vector<float>(1 << 24, 10.0F * round));
    producer.synchronize();
  }
}

// A producer in another library's place.
struct Foreign {
  std::vector<float> elements = {0, 1, 2, 3, 4, 5};
  std::vector<std::int64_t> shape = {2, 3}, strides = {3, 1};
  int deleted = 0;
  dlpack::ManagedTensorVersioned managed = {};

  Foreign() {
    managed.version = {1, 7};
    managed.manager_ctx = this;
    managed.deleter = [](dlpack::ManagedTensorVersioned* self) { ++static_cast<Foreign*>(self->manager_ctx)->deleted; };
    managed.view = {elements.data(), {dlpack::kCPUDevice, 0}, 2, {dlpack::kFloat, 32, 1},
                    shape.data(),    strides.data(),          0};
  }
};

TEST(DLPack, OfAnotherLibraryIsReadAsItIs) {
  Foreign f;
  EXPECT_EQ(from_dlpack(&f.managed).to_vector<int>(), (std::vector<int>{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(f.deleted, 1);
  f.managed.view.strides = nullptr;
  EXPECT_EQ(from_dlpack(&f.managed).to_vector<int>(), (std::vector<int>{0, 1, 2, 3, 4, 5})) << "contiguous";
  f.managed.view.strides = f.strides.data();
  f.managed.view.byte_offset = 20;  // from the last element back
  f.strides = {-3, -1};
  f.managed.view.strides = f.strides.data();
  EXPECT_EQ(from_dlpack(&f.managed).to_vector<int>(), (std::vector<int>{5, 4, 3, 2, 1, 0}));
  f.shape = {0, 3};
  f.managed.view.data = nullptr;
  EXPECT_EQ(from_dlpack(&f.managed).shape(), (Shape{0, 3}));
  f.managed.deleter = nullptr;  // nobody wants to know
  EXPECT_EQ(from_dlpack(&f.managed).numel(), 0);
  EXPECT_EQ(f.deleted, 4);
}

TEST(DLPack, ThatDoesNotFitStaysTheCallers) {
  const auto refused = [&](auto change, const char* message) {
    Foreign other;
    change(other.managed);
    EXPECT_ERROR(from_dlpack(&other.managed), message);
    EXPECT_EQ(other.deleted, 0);
  };
  using M = dlpack::ManagedTensorVersioned;
  refused([](M& m) { m.version.major = 2; }, "from_dlpack: the major version must be 1; got 2.7");
  refused([](M& m) { m.flags = dlpack::kReadOnly; }, "from_dlpack: tensors can be written to");
  refused([](M& m) { m.view.dtype = {5, 64, 1}; }, "from_dlpack: the dtype must be float16");
  refused([](M& m) { m.view.dtype.lanes = 4; }, "got code 2, 32 bits, 4 lanes");
  refused([](M& m) { m.view.device = {12, 0}; }, "from_dlpack: the device must be the CPU");
  refused([](M& m) { m.view.device = {dlpack::kCUDADevice, 500}; }, "got type 2, number 500");
  refused([](M& m) { m.view.ndim = 9; }, "from_dlpack: there must be at most 8 axes; got 9");
  refused([](M& m) { m.view.byte_offset = 2; }, "from_dlpack: memory must be aligned to its elements of 4 bytes");
  refused([](M& m) { m.view.data = nullptr; }, "from_dlpack: a tensor of shape (2, 3) must have memory");
  refused([](M& m) { m.view.shape[0] = -1; }, "from_dlpack: ");
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  for (const auto& [rows, columns] : {std::pair{kMost, 2L}, {2L, kMost}, {1L << 32, 1L << 32}, {2L, -1L}, {0L, -1L}}) {
    refused([h = rows, w = columns](M& m) { m.view.shape[0] = h, m.view.shape[1] = w; },
            "from_dlpack: extents must not be negative, nor their product 2^63 or more");
  }
  for (const auto& [row, column] : {std::pair{kMost, 1L},
                                    {kMost / 4, 1L},
                                    {-kMost - 1, 1L},
                                    {1L, kMost / 2 + 1},
                                    {kMost - 1, 1L},
                                    {-kMost, -kMost / 2},
                                    {kMost / 16, -kMost / 8}}) {
    refused([h = row, w = column](M& m) { m.view.strides[0] = h, m.view.strides[1] = w; },
            "from_dlpack: shape and strides must lie in memory");
  }
  refused([](M& m) { m.view.byte_offset = std::numeric_limits<std::uint64_t>::max() - 3; },
          "from_dlpack: shape and strides must lie in memory");
  refused([](M& m) { m.view.shape = nullptr; }, "from_dlpack: a tensor of 2 axes must have a shape; got null");
  EXPECT_ERROR(from_dlpack(static_cast<dlpack::ManagedTensor*>(nullptr)), "from_dlpack: the managed tensor must be");
  EXPECT_ERROR(from_dlpack(static_cast<M*>(nullptr)), "from_dlpack: the managed tensor must be one; got null");
  EXPECT_ERROR(to_dlpack({}), "to_dlpack: x must be defined");
  Tensor w = Tensor::ones({2});
  w.requires_grad_();
  EXPECT_ERROR(to_dlpack(w), "to_dlpack: another library must not change or lose a gradient", "detach()");
}

TEST(DLPack, OfNoElementsHasNoStrides) {
  Foreign f;
  f.shape = {0, 3};
  f.strides = {std::numeric_limits<std::int64_t>::max(), std::numeric_limits<std::int64_t>::min()};
  EXPECT_EQ(from_dlpack(&f.managed).strides(), contiguous_strides(Shape{0, 3}));
}

TEST(DLPack, BytesOfABoolAreZeroOrOne) {
  std::array<std::uint8_t, 8> bytes{0, 1, 2, 1, 0, 255, 1, 0};
  Foreign f;
  f.managed.view.data = bytes.data();
  f.managed.view.dtype = {dlpack::kBoolean, 8, 1};
  f.shape = {2, 2}, f.strides = {3, 1};  // 0 1 1 0
  EXPECT_EQ(from_dlpack(&f.managed).to_vector<int>(), (std::vector<int>{0, 1, 1, 0}));
  EXPECT_EQ(f.deleted, 1);
  f.shape = {2, 3};
  EXPECT_ERROR(from_dlpack(&f.managed), "from_dlpack: bytes of a bool tensor must be 0 or 1; got 2", "x != 0");
  f.shape = {2, 2}, f.strides = {-1, -3}, f.managed.view.byte_offset = 5;
  EXPECT_ERROR(from_dlpack(&f.managed), "got 255");
  EXPECT_EQ(f.deleted, 1);
  EXPECT_EQ(bytes[2], 2);  // the memory is another's
}

}  // namespace
}  // namespace adjoint
