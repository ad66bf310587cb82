"""Tensors between Adjoint and PyTorch and NumPy, by DLPack and without a copy."""
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
    for name, result, arguments in [("make", POINTER, [ctypes.c_int]), ("take", POINTER, [POINTER]),
                                    ("take_versioned", POINTER, [POINTER]), ("give_versioned", POINTER, [POINTER]),
                                    ("sum", ctypes.c_double, [POINTER]), ("address", ctypes.c_int64, [POINTER]),
                                    ("fill", None, [POINTER, ctypes.c_double]), ("release", None, [POINTER])]:
        function = getattr(bridge, "bridge_" + name)
        function.restype, function.argtypes = result, arguments
    return bridge


BRIDGE = load()
# In the order of adjoint::DType.
DTYPES = [torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.int32, torch.int64, torch.uint8]


class ForNumPy:
    """An object of Adjoint's, as NumPy asks for one."""

    def __init__(self, dtype):
        self.dtype = dtype

    def __dlpack__(self, **_):
        return new_capsule(BRIDGE.bridge_make(self.dtype), b"dltensor", None)

    def __dlpack_device__(self):
        return (1, 0)


class DLPackTest(unittest.TestCase):
    def take(self, tensor):
        capsule = dlpack.to_dlpack(tensor)
        taken = BRIDGE.bridge_take(pointer_of(capsule, b"dltensor"))
        rename(capsule, b"used_dltensor")
        return taken

    def test_torch_reads(self):
        for number, dtype in enumerate(DTYPES):
            x = dlpack.from_dlpack(new_capsule(BRIDGE.bridge_make(number), b"dltensor", None))
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
        x = numpy.from_dlpack(ForNumPy(2))
        self.assertEqual(x.dtype, numpy.float32)
        self.assertEqual(x.tolist(), [[0, 3], [1, 4], [2, 5]])


if __name__ == "__main__":
    unittest.main()
