"""Passes tensors between Adjoint, PyTorch and NumPy, by DLPack and without a copy."""
import ctypes
import gc
import os
import unittest
import weakref

try:
    import numpy
    import torch
    from torch.utils import dlpack
except ImportError as error:
    raise unittest.SkipTest(f"needs PyTorch and NumPy: {error}") from error

POINTER = ctypes.c_void_p
new_capsule = ctypes.pythonapi.PyCapsule_New
new_capsule.restype, new_capsule.argtypes = ctypes.py_object, [POINTER, ctypes.c_char_p, POINTER]
pointer_of = ctypes.pythonapi.PyCapsule_GetPointer
pointer_of.restype, pointer_of.argtypes = POINTER, [ctypes.py_object, ctypes.c_char_p]
rename = ctypes.pythonapi.PyCapsule_SetName
rename.argtypes = [ctypes.py_object, ctypes.c_char_p]


def load():
    bridge = ctypes.CDLL(os.environ["ADJOINT_DLPACK_BRIDGE"])
    for name, result, arguments in [("has_cuda", ctypes.c_int, []), ("take", POINTER, [POINTER]),
                                    ("make", POINTER, [ctypes.c_int, ctypes.c_int, POINTER]),
                                    ("take_versioned", POINTER, [POINTER]), ("give_versioned", POINTER, [POINTER]),
                                    ("sum", ctypes.c_double, [POINTER]), ("address", ctypes.c_int64, [POINTER]),
                                    ("fill", None, [POINTER, ctypes.c_double]), ("release", None, [POINTER])]:
        function = getattr(bridge, "bridge_" + name)
        function.restype, function.argtypes = result, arguments
    return bridge


BRIDGE = load()
# In the order of adjoint::DType.
DTYPES = [torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.int32, torch.int64, torch.uint8]


class Made:
    """A tensor of Adjoint's, with the protocol's members."""

    def __init__(self, dtype, gpu=-1):
        self.dtype, self.gpu, self.streams = dtype, gpu, []

    def __dlpack__(self, stream=None, **_):
        self.streams.append(stream)
        consumer = None if stream in (None, 1) else stream  # 1 is CUDA's default stream
        return new_capsule(BRIDGE.bridge_make(self.dtype, self.gpu, consumer), b"dltensor", None)

    def __dlpack_device__(self):
        return (1, 0) if self.gpu < 0 else (2, self.gpu)


class DLPackTest(unittest.TestCase):
    def take(self, tensor):
        capsule = dlpack.to_dlpack(tensor)
        taken = BRIDGE.bridge_take(pointer_of(capsule, b"dltensor"))
        rename(capsule, b"used_dltensor")
        return taken

    def test_torch_reads(self):
        for number, dtype in enumerate(DTYPES):
            x = dlpack.from_dlpack(Made(number).__dlpack__())
            self.assertEqual(x.dtype, dtype)
            self.assertEqual(x.stride(), (1, 3))
            self.assertEqual(x.tolist(), [[0, 3], [1, 4], [2, 5]])

    def test_torch_gives(self):
        for dtype in DTYPES:
            x = torch.arange(12).reshape(3, 4).to(dtype)
            part = x.t()[1:, ::2]
            taken = self.take(part)
            self.assertEqual(BRIDGE.bridge_address(taken), part.data_ptr())
            self.assertEqual(BRIDGE.bridge_sum(taken), float(part.double().sum()))
            BRIDGE.bridge_fill(taken, 7)
            self.assertEqual(part.tolist(), [[7, 7]] * 3)
            self.assertEqual(x[1].tolist(), [4, 5, 6, 7])
            BRIDGE.bridge_release(taken)

    def test_elements_live_as_long_as_they_are_used(self):
        taken = self.take(torch.full((1 << 20,), 3.0))
        gc.collect()
        torch.full((1 << 20,), 4.0)
        self.assertEqual(BRIDGE.bridge_sum(taken), 3.0 * (1 << 20))
        BRIDGE.bridge_release(taken)

        array = numpy.ones(1000)
        gone = weakref.ref(array)
        taken = self.take(torch.from_numpy(array))
        del array
        gc.collect()
        self.assertIsNotNone(gone())
        BRIDGE.bridge_release(taken)
        gc.collect()
        self.assertIsNone(gone(), "the deleter gives the elements back")

    def test_versioned(self):
        taken = self.take(torch.arange(6.0).reshape(2, 3))
        again = BRIDGE.bridge_take_versioned(BRIDGE.bridge_give_versioned(taken))
        self.assertEqual(BRIDGE.bridge_address(again), BRIDGE.bridge_address(taken))
        BRIDGE.bridge_release(taken)
        self.assertEqual(BRIDGE.bridge_sum(again), 15.0)
        BRIDGE.bridge_release(again)

    @unittest.skipUnless(hasattr(numpy, "from_dlpack"), "needs NumPy 1.22")
    def test_numpy_reads(self):
        x = numpy.from_dlpack(Made(2))
        self.assertEqual(x.dtype, numpy.float32)
        self.assertEqual(x.tolist(), [[0, 3], [1, 4], [2, 5]])


@unittest.skipUnless(torch.cuda.is_available() and BRIDGE.bridge_has_cuda(), "needs a CUDA GPU")
class CudaTest(unittest.TestCase):
    """Adjoint works on the default stream here, and PyTorch on one that does not wait for it automatically."""

    def test_torch_reads_on_its_stream(self):
        for number, dtype in enumerate(DTYPES):
            made, side = Made(number, gpu=0), torch.cuda.Stream(0)
            torch.cuda._sleep(50_000_000)  # on the default stream, before Adjoint's elements are there
            with torch.cuda.stream(side):
                x = torch.from_dlpack(made)
                values = x.tolist()
            self.assertEqual((str(x.device), x.dtype, x.stride()), ("cuda:0", dtype, (1, 3)))
            self.assertEqual((values, made.streams), ([[0, 3], [1, 4], [2, 5]], [side.cuda_stream]))

    def test_torch_gives_to_the_default_stream(self):
        for dtype in DTYPES:
            x, side = torch.zeros(3, 4, dtype=dtype, device="cuda:0"), torch.cuda.Stream(0)
            torch.cuda.synchronize()
            with torch.cuda.stream(side):
                torch.cuda._sleep(50_000_000)
                part = x.fill_(5).t()[1:, ::2]
                capsule = part.__dlpack__(stream=1)
            taken = BRIDGE.bridge_take(pointer_of(capsule, b"dltensor"))
            rename(capsule, b"used_dltensor")
            self.assertEqual(BRIDGE.bridge_address(taken), part.data_ptr())
            self.assertEqual(BRIDGE.bridge_sum(taken), 30.0)
            BRIDGE.bridge_fill(taken, 7)
            self.assertEqual(x.tolist(), [[5, 7, 7, 7], [5, 5, 5, 5], [5, 7, 7, 7]])
            BRIDGE.bridge_release(taken)


if __name__ == "__main__":
    unittest.main()
