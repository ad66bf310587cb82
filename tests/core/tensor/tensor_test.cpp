#include <adjoint/core/autograd/tape.h>
#include <adjoint/core/base/parallel.h>
#include <adjoint/core/tensor/random.h>
#include <adjoint/core/tensor/tensor.h>
#include <adjoint/tests/support/errors.h>

#include <gtest/gtest.h>

#include <cstdint>

#include <cmath>
#include <sstream>

namespace adjoint {
namespace {

TEST(Tensor, MakesWhatItSays) {
  const Tensor tensor = Tensor::from_vector<float>({1, 2, 3, 4, 5, 6}, {2, 3});
  EXPECT_EQ(tensor.shape(), (Shape{2, 3}));
  EXPECT_EQ(tensor.strides(), (Strides{3, 1}));
  EXPECT_EQ(tensor.size(-1), 3);
  EXPECT_EQ(tensor.dim(), 2);
  EXPECT_TRUE(tensor.is_contiguous());
  EXPECT_EQ(tensor.data<float>()[4], 5.0F);
  EXPECT_EQ(Tensor::eye(3).to_vector<int>(), (std::vector<int>{1, 0, 0, 0, 1, 0, 0, 0, 1}));
  EXPECT_EQ(Tensor::arange(1, 2, 0.25, {.dtype = kFloat64}).to_vector<double>(),
            (std::vector<double>{1, 1.25, 1.5, 1.75}));
  EXPECT_EQ(Tensor::arange(3, 0, -1, {.dtype = kInt64}).to_vector<std::int64_t>(),
            (std::vector<std::int64_t>{3, 2, 1}));
  EXPECT_EQ(Tensor::arange(1, 0).numel(), 0);
  EXPECT_EQ(Tensor::arange(2.5).to_vector<float>(), (std::vector<float>{0, 1, 2}));
  EXPECT_EQ(Tensor::arange(3, {.dtype = kInt64}).to_vector<std::int64_t>(), (std::vector<std::int64_t>{0, 1, 2}));
  EXPECT_EQ(Tensor::arange(-1).numel(), 0);
  EXPECT_EQ(Tensor::full({2}, -1.5, {.dtype = kBFloat16}).to_vector<float>(), (std::vector<float>{-1.5F, -1.5F}));
  EXPECT_EQ(Tensor::scalar(4.0).item<std::int64_t>(), 4);
}

TEST(Tensor, EveryPairOfDtypesConverts) {
  const DType dtypes[] = {kFloat16, kBFloat16, kFloat32, kFloat64, kInt32, kInt64, kUInt8, kBool};
  for (const DType from : dtypes) {
    for (const DType to : dtypes) {
      const Tensor source = Tensor::from_vector<double>({0, 1, 3}, {3}).to(from);
      Tensor target = Tensor::empty({3}, {.dtype = to});
      target.copy_(source);
      const double three = from == kBool || to == kBool ? 1.0 : 3.0;
      EXPECT_EQ(target.to_vector<double>(), (std::vector<double>{0, 1, three}))
          << to_string(from) << " " << to_string(to);
    }
  }
  EXPECT_EQ(Tensor::from_vector<bool>({true, false}, {2}, {.dtype = kInt32}).to_vector<bool>(),
            (std::vector<bool>{true, false}));
}

TEST(Tensor, ZeroSizesWork) {
  const Tensor empty = Tensor::zeros({0, 3});
  EXPECT_EQ(empty.numel(), 0);
  EXPECT_TRUE(empty.is_contiguous());
  EXPECT_TRUE(empty.to_vector<float>().empty());
  Tensor target = Tensor::ones({2, 0});
  target.copy_(Tensor::ones({1, 0})).fill_(3);
  EXPECT_EQ(Tensor::rand({0}).numel(), 0);
  EXPECT_EQ(Tensor::eye(0).shape(), (Shape{0, 0}));
  EXPECT_EQ(Tensor::zeros({0, 1LL << 61, 4, 4}).numel(), 0) << "UBSan sees the strides";
}

// Products of such extents do not fit in 63 bits; UBSan sees each that is taken.
TEST(Tensor, SizesWithoutElementsMayHaveExtentsBeyond63Bits) {
  constexpr std::int64_t kHuge = 1LL << 61;
  for (const Shape& shape : {Shape{0, kHuge, 8}, Shape{kHuge, 8, 0}, Shape{kHuge, 0, kHuge, 8}, Shape{0, kHuge, 2},
                             Shape{0, 2, 2, INT64_MAX}}) {
    SCOPED_TRACE(to_string(shape));
    const Tensor x = Tensor::zeros(shape);
    EXPECT_EQ(x.numel(), 0);
    EXPECT_TRUE(x.is_contiguous());
    EXPECT_TRUE(x.to_vector<float>().empty());
    EXPECT_NE(to_string(x), "");
    EXPECT_EQ((x + x).shape(), shape);
    EXPECT_EQ(x.detach().clone().shape(), shape);
    EXPECT_EQ(Tensor::rand(shape).copy_(x).add_(x).mul_(2).shape(), shape);
  }
}

TEST(Tensor, CopyBroadcastsAndHandlesOverlap) {
  Tensor target = Tensor::zeros({2, 3});
  target.copy_(Tensor::from_vector<float>({1, 2, 3}, {3}));
  EXPECT_EQ(target.to_vector<int>(), (std::vector<int>{1, 2, 3, 1, 2, 3}));
  Tensor line = Tensor::arange(0.0, 6);
  Tensor head = line.view_as({5}, {1}, 0), tail = line.view_as({5}, {1}, 1);
  tail.copy_(head);
  EXPECT_EQ(line.to_vector<int>(), (std::vector<int>{0, 0, 1, 2, 3, 4}));
  EXPECT_ERROR(target.copy_(Tensor::zeros({2, 2})), "copy_: shapes must broadcast", "(2, 3)", "(2, 2)");
  EXPECT_ERROR(target.copy_(Tensor::zeros({2, 2, 3})), "copy_: source must broadcast to the tensor's shape");
}

TEST(Tensor, InPlaceOperationsRefuseElementsThatShareMemory) {
  Tensor expanded = Tensor::zeros({1}).expand({3});
  EXPECT_ERROR(expanded.copy_(Tensor::arange(0.0, 3)), "copy_: elements of the tensor must not share memory",
               "clone()");
  EXPECT_ERROR(expanded.uniform_(0, 1), "uniform_: elements of the tensor must not share memory", "(3,)");
  EXPECT_EQ(expanded.to_vector<float>(), (std::vector<float>{0, 0, 0}));
}

TEST(Tensor, FromBlobSharesTheCallersMemory) {
  float values[] = {1, 2, 3};
  Tensor tensor = Tensor::from_blob(values, {3});
  tensor.fill_(7);
  EXPECT_EQ(values[2], 7.0F);
  EXPECT_ERROR(Tensor::from_blob(nullptr, {3}), "from_blob: data must not be null");
}

TEST(Tensor, MistakesAreErrors) {
  EXPECT_ERROR(Tensor{}.shape(), "shape: the tensor must be defined; got Tensor{}");
  EXPECT_ERROR(Tensor::zeros({2}).item<float>(), "item: the tensor must have one element; got shape (2,)");
  EXPECT_ERROR(Tensor::zeros({2}).data<double>(),
               "data: the element type must be the tensor's; got float64 for a tensor of float32");
  EXPECT_ERROR(Tensor::from_vector<float>({1, 2}, {3}),
               "from_vector: the number of values must be the shape's; got 2 values, shape (3,)");
  EXPECT_ERROR(Tensor::zeros({-1}), "zeros: extents must not be negative; got (-1,)");
  EXPECT_ERROR(Tensor::empty({1LL << 61, 2}), "must fit in 63 bits");
  EXPECT_ERROR(Tensor::arange(0, 1, 0), "step not 0");
  EXPECT_ERROR(Tensor::zeros({2}, {.dtype = kInt64, .requires_grad = true}), "zeros: the dtype must be floating point");
  EXPECT_ERROR(Tensor::zeros({2}).set_grad(Tensor::zeros({3})), "set_grad: the gradient must have the tensor's shape");
  Tensor own = Tensor::zeros({2});
  EXPECT_ERROR(own.set_grad(own), "set_grad: a tensor must not be its own gradient");
  own.set_grad(own.detach());
  EXPECT_ERROR(Tensor::zeros({2}, {.device = {DeviceType::kCUDA, 99}}), "zeros: the device must exist; got cuda:99");
}

TEST(Tensor, ErrorsNameTheMemberOrTheFactoryThatWasCalled) {
  Tensor none;
  const Tensor x = Tensor::ones({2});
  EXPECT_ERROR(none.strides(), "strides: the tensor must be defined");
  EXPECT_ERROR(none.storage_offset(), "storage_offset: the tensor must be defined");
  EXPECT_ERROR(none.dtype(), "dtype: the tensor must be defined");
  EXPECT_ERROR(none.device(), "device: the tensor must be defined");
  EXPECT_ERROR(none.dim(), "dim: the tensor must be defined");
  EXPECT_ERROR(none.size(0), "size: the tensor must be defined");
  EXPECT_ERROR(none.numel(), "numel: the tensor must be defined");
  EXPECT_ERROR(none.is_contiguous(), "is_contiguous: the tensor must be defined");
  EXPECT_ERROR(none.options(), "options: the tensor must be defined");
  EXPECT_ERROR(none.data<float>(), "data: the tensor must be defined");
  EXPECT_ERROR(none.mutable_data<float>(), "mutable_data: the tensor must be defined");
  EXPECT_ERROR(none.raw_data(), "raw_data: the tensor must be defined");
  EXPECT_ERROR(none.raw_mutable_data(), "raw_mutable_data: the tensor must be defined");
  EXPECT_ERROR(none.item<float>(), "item: the tensor must be defined");
  EXPECT_ERROR(none.to_vector<float>(), "to_vector: the tensor must be defined");
  EXPECT_ERROR(none.detach(), "detach: the tensor must be defined");
  EXPECT_ERROR(none.requires_grad(), "requires_grad: the tensor must be defined");
  EXPECT_ERROR(none.requires_grad_(), "requires_grad_: the tensor must be defined");
  EXPECT_ERROR(none.grad(), "grad: the tensor must be defined");
  EXPECT_ERROR(none.set_grad(x), "set_grad: the tensor must be defined");
  EXPECT_ERROR(none.zero_(), "zero_: the tensor must be defined");
  EXPECT_ERROR(Tensor::eye(-1), "eye: extents must not be negative; got (-1, -1)");
  EXPECT_ERROR(Tensor::arange(0.0, 1e15), "arange: out of memory on cpu");
  EXPECT_ERROR(Tensor::rand({1LL << 61, 4}), "rand: the number of elements must fit in 63 bits");
  EXPECT_ERROR(Tensor::ones({1LL << 61, 2}), "ones: the number of bytes must fit in 63 bits");
  EXPECT_ERROR(Tensor::scalar(1, {.dtype = static_cast<DType>(8)}),
               "scalar: the dtype must be one of DType's enumerators; got DType(8)");
  EXPECT_ERROR(Tensor::from_blob(nullptr, {-2}), "from_blob: extents must not be negative");
}

TEST(Tensor, DevicesAndDtypesThatDoNotExistAreErrors) {
  EXPECT_ERROR(Device(DeviceType::kCPU, 3), "Device: the type must be kCPU or kCUDA", "got type 0, index 3");
  EXPECT_ERROR(Device(DeviceType::kCUDA, 256), "got type 1, index 256");
  EXPECT_ERROR(Device(DeviceType::kCUDA, 128), "got type 1, index 128");
  EXPECT_ERROR(Device(DeviceType::kCUDA, -1), "got type 1, index -1");
  EXPECT_ERROR(Device(static_cast<DeviceType>(2)), "got type 2, index 0");
  EXPECT_EQ(to_string(Device(DeviceType::kCUDA, 127)), "cuda:127");

  const Tensor x = Tensor::ones({2});
  float values[] = {1, 2};
  Device broken = kCPU;
  broken.index = 3;
  EXPECT_ERROR(x.to(broken), "to: the device must exist; got cpu:3");
  EXPECT_ERROR(Tensor::from_blob(values, {2}, {.device = broken}), "from_blob: the device must exist; got cpu:3");
  broken.type = static_cast<DeviceType>(7);
  EXPECT_ERROR(Tensor::empty({2}, {.device = broken}), "empty: the device must exist; got DeviceType(7):3");
  EXPECT_ERROR(Tensor::from_blob(values, {2}, {.device = Device(DeviceType::kCUDA, 127)}),
               "from_blob: the device must exist; got cuda:127");

  for (const int value : {8, 99, 255}) {
    const auto dtype = static_cast<DType>(value);
    const std::string got = "DType(" + std::to_string(value) + ")";
    EXPECT_EQ(to_string(dtype), got);
    EXPECT_ERROR(element_size(dtype), "dtype: the dtype must be one of DType's enumerators", got.c_str());
    EXPECT_ERROR(x.to(dtype), "to: the dtype must be one of DType's enumerators", got.c_str());
    EXPECT_ERROR(Tensor::zeros({0}, {.dtype = dtype}), "zeros: the dtype must be", got.c_str());
    EXPECT_ERROR(Tensor::from_vector<float>({1}, {1}, {.dtype = dtype}), "from_vector: the dtype must be", got.c_str());
    EXPECT_ERROR(Tensor::from_blob(values, {2}, {.dtype = dtype}), "from_blob: the dtype must be", got.c_str());
    EXPECT_ERROR(Tensor::randn({2}, {.dtype = dtype}), "randn: the dtype must be floating point", got.c_str());
  }
}

TEST(Tensor, OutOfMemorySaysHowMuchAndTheProgramGoesOn) {
  const Tensor before = Tensor::ones({4});
  try {
    Tensor::empty({1LL << 50});
    FAIL();
  } catch (const OutOfMemoryError& error) {
    const std::string message = error.what();
    EXPECT_NE(message.find("asked for 4503599627370496 bytes"), std::string::npos) << message;
    EXPECT_NE(message.find("holding"), std::string::npos);
    EXPECT_NE(message.find("free"), std::string::npos);
  }
  EXPECT_EQ(before.to_vector<int>(), (std::vector<int>{1, 1, 1, 1}));
}

std::string printed(const Tensor& tensor) {
  std::ostringstream out;
  out << tensor;
  return out.str();
}

// The output of PyTorch 1.13 for the same tensors.
TEST(TensorPrint, LooksLikePyTorch) {
  EXPECT_EQ(printed(Tensor::from_vector<double>({1, 2.5, -3}, {3})), "tensor([ 1.0000,  2.5000, -3.0000])");
  EXPECT_EQ(printed(Tensor::eye(2)), "tensor([[1., 0.],\n        [0., 1.]])");
  EXPECT_EQ(printed(Tensor::ones({2, 1, 2}, {.dtype = kInt64})), "tensor([[[1, 1]],\n\n        [[1, 1]]])");
  EXPECT_EQ(printed(Tensor::scalar(3.0)), "tensor(3.)");
  EXPECT_EQ(printed(Tensor::ones({2}, {.dtype = kBool})), "tensor([True, True])");
  EXPECT_EQ(printed(Tensor::full({1}, 0.5, {.dtype = kFloat64})), "tensor([0.5000], dtype=float64)");
  EXPECT_EQ(printed(Tensor::zeros({2}, {.requires_grad = true})), "tensor([0., 0.], requires_grad=True)");
  EXPECT_EQ(printed(Tensor::zeros({0})), "tensor([])");
  EXPECT_EQ(printed(Tensor::zeros({2, 0})), "tensor([], size=(2, 0))");
  EXPECT_EQ(printed(Tensor::from_vector<double>({NAN, INFINITY, 1}, {3})), "tensor([nan, inf, 1.])");
  EXPECT_EQ(printed(Tensor::from_vector<double>({1e-6, 1}, {2})), "tensor([1.0000e-06, 1.0000e+00])");
  EXPECT_EQ(printed(Tensor::arange(0, 2000, 1, {.dtype = kInt64})),
            "tensor([   0,    1,    2, ..., 1997, 1998, 1999])");
  EXPECT_EQ(printed(Tensor{}), "tensor(undefined)");
}

TEST(Tensor, ResultsDoNotDependOnTheNumberOfThreads) {
  const int before = num_threads();
  std::vector<std::vector<float>> results;
  for (const int threads : {1, 2, 3}) {
    set_num_threads(threads);
    manual_seed(11);
    results.push_back(Tensor::randn({300, 301}).to_vector<float>());
  }
  set_num_threads(before);
  EXPECT_EQ(results[0], results[1]);
  EXPECT_EQ(results[0], results[2]);
}

}  // namespace
}  // namespace adjoint
