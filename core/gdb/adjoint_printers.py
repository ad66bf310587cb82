"""gdb pretty-printers for Adjoint's Tensor, Shape (Dims, Strides), DType and Device.

In ~/.gdbinit, PREFIX being where Adjoint is installed:

    source PREFIX/share/adjoint/gdb/adjoint_printers.py

A tensor prints as its dtype, shape and device and, on the CPU, its elements, as many as `set print elements` says. The
library need not be built with debug information: what a Tensor points to is read by the layout below, that of
core/tensor/tensor_impl.h and core/tensor/storage.h with libstdc++ on a 64-bit machine, which tests/package/gdb_test
holds against it.
"""
import itertools
import math
import struct

import gdb
import gdb.printing

# Name, struct's code; bfloat16 is the upper half of a float32.
DTYPES = [("float16", "e"), ("bfloat16", "H"), ("float32", "f"), ("float64", "d"),
          ("int32", "i"), ("int64", "q"), ("uint8", "B"), ("bool", "?")]
MAX_RANK = 8
DIMS_SIZE = 8 * MAX_RANK + 8  # the values, how many there are, padding

# Offsets in TensorImpl and in Storage.
STORAGE, SHAPE = 0, 16
STRIDES = SHAPE + DIMS_SIZE
OFFSET = STRIDES + DIMS_SIZE
NUMEL, DTYPE, CHANNELS_LAST, REQUIRES_GRAD = OFFSET + 8, OFFSET + 16, OFFSET + 18, OFFSET + 19
TAPE_SERIAL, IMPL_SIZE = OFFSET + 24, OFFSET + 32
DATA, DEVICE, STORAGE_SIZE = 0, 16, 18


def memory(address, size):
    return bytes(gdb.selected_inferior().read_memory(address, size))


def dims_in(block, at=0):
    count = block[at + 8 * MAX_RANK]
    if count > MAX_RANK:
        raise ValueError("no list of extents")
    return struct.unpack_from("<%dq" % count, block, at)


def dims_text(dims):
    return "(%s)" % (", ".join(map(str, dims)) + ("," if len(dims) == 1 else ""))


def dtype_text(value):
    return DTYPES[value][0] if value < len(DTYPES) else "DType(%d)" % value


def device_text(kind, index):
    return "cpu" if kind == 0 else "cuda:%d" % index


class DTypePrinter:
    def __init__(self, value):
        self.value = value

    def to_string(self):
        return dtype_text(int(self.value))


class DevicePrinter:
    def __init__(self, value):
        self.value = value

    def to_string(self):
        return device_text(int(self.value["type"]), int(self.value["index"]))


class DimsPrinter:
    def __init__(self, value):
        self.value = value

    def to_string(self):
        try:
            return dims_text(dims_in(self.value.bytes if hasattr(self.value, "bytes") else
                                     memory(int(self.value.address), DIMS_SIZE)))
        except (gdb.error, TypeError, ValueError, IndexError, struct.error):
            return "<not a list of extents>"


class TensorPrinter:
    """The elements are its children."""

    def __init__(self, value):
        self.note = None
        try:
            self.read(int(value["impl_"]["_M_ptr"]))
        except (gdb.error, ValueError, IndexError, struct.error):
            self.note = "<not a tensor>"

    def read(self, address):
        if address == 0:
            self.note = "undefined"
            return
        impl = memory(address, IMPL_SIZE)
        storage = memory(struct.unpack_from("<Q", impl, STORAGE)[0], STORAGE_SIZE)
        self.shape, self.strides = dims_in(impl, SHAPE), dims_in(impl, STRIDES)
        self.offset, self.numel = struct.unpack_from("<qq", impl, OFFSET)
        self.dtype = impl[DTYPE]
        self.data = struct.unpack_from("<Q", storage, DATA)[0]
        self.on_cpu = storage[DEVICE] == 0
        self.device = device_text(storage[DEVICE], storage[DEVICE + 1])
        self.channels_last, self.grad = bool(impl[CHANNELS_LAST]), bool(impl[REQUIRES_GRAD])
        self.recorded = struct.unpack_from("<Q", impl, TAPE_SERIAL)[0] != 0
        if self.dtype >= len(DTYPES) or len(self.strides) != len(self.shape):
            raise ValueError("no tensor")

    def to_string(self):
        if self.note:
            return self.note
        state = ", channels_last" if self.channels_last else ""
        state += ", recorded" if self.recorded else ", requires_grad" if self.grad else ""
        return "%s %s on %s%s" % (dtype_text(self.dtype), dims_text(self.shape), self.device, state)

    def children(self):
        if self.note or not self.on_cpu or self.numel == 0:
            return
        code = DTYPES[self.dtype][1]
        size = struct.calcsize(code)
        # gdb asks for as many as it prints.
        for count, place in enumerate(itertools.product(*map(range, self.shape))):
            at = self.offset + sum(i * stride for i, stride in zip(place, self.strides))
            raw = memory(self.data + at * size, size)
            if DTYPES[self.dtype][0] == "bfloat16":
                value = struct.unpack("<f", b"\0\0" + raw)[0]
            else:
                value = struct.unpack("<" + code, raw)[0]
            yield str(count), self.text(value)

    @staticmethod
    def text(value):
        if isinstance(value, bool):
            return str(value).lower()
        if isinstance(value, float) and math.isfinite(value):
            return "%.7g" % value
        return str(value)

    def display_hint(self):
        return "array"


def printers():
    found = gdb.printing.RegexpCollectionPrettyPrinter("adjoint")
    found.add_printer("Tensor", "^adjoint::Tensor$", TensorPrinter)
    found.add_printer("Dims", "^adjoint::(Dims|Shape|Strides)$", DimsPrinter)
    found.add_printer("DType", "^adjoint::DType$", DTypePrinter)
    found.add_printer("Device", "^adjoint::Device$", DevicePrinter)
    return found


gdb.printing.register_pretty_printer(None, printers(), replace=True)
