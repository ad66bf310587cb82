"""Calls of the library on PyTorch's tensors: the place of a call, the rounding of float32, and memory layouts."""

import ctypes
import functools
import math

import torch
from torch._prims_common import suggest_memory_format

from adjoint import library
from adjoint.library import Context
from adjoint.torch import extension

DTYPES = {torch.float16: 0, torch.bfloat16: 1, torch.float32: 2, torch.float64: 3}
PRECISIONS = {"float32": 0, "tf32": 1}
_precision = "float32"


def set_precision(precision: str) -> None:
    """Sets how float32 may round on a GPU: "float32" (the default: float32's accuracy) or "tf32" (faster).

    Raises ValueError for another name.
    """
    global _precision
    if precision not in PRECISIONS:
        raise ValueError(f"set_precision: precision must be one of {list(PRECISIONS)}; got {precision!r}")
    _precision = precision
    if extension.module is not None:
        extension.module.set_precision(PRECISIONS[precision])


def get_precision() -> str:
    """Returns the last value given to set_precision()."""
    return _precision


class _Context:
    """The place of a call: the native structure, which threads share and which never changes, and its address."""

    def __init__(self, device, stream, dtype, precision):
        self.native = Context(device=device, stream=stream, dtype=DTYPES[dtype], precision=PRECISIONS[precision])
        self.address = ctypes.addressof(self.native)


context = functools.lru_cache(maxsize=1024)(_Context)

# Returns a stream's handle as a number, without the Stream object that the public function makes first. PyTorch's own
# compiler calls it as well.
current_stream = getattr(
    torch._C, "_cuda_getCurrentRawStream", lambda device: torch.cuda.current_stream(device).cuda_stream
)


def plain(tensor):
    """Returns the tensor with contiguous elements, and with the values that memory holds, because the library reads
    memory: a view may say that a reader must reverse signs (torch.Tensor.is_neg). Records nothing."""
    if is_channels_last(tensor) and not tensor.is_neg() and tensor.dtype in DTYPES:
        return _copied("adjoint_copy_from_channels_last", tensor, torch.contiguous_format)
    return tensor.resolve_neg().contiguous()


def last_format(dim):
    """Returns PyTorch's memory format with channels last for a number of axes, or None if it has none."""
    return {4: torch.channels_last, 5: torch.channels_last_3d}.get(dim)


def channels_last(tensor):
    """Returns a contiguous picture or volume in channels_last, without a copy if it has both layouts. Records
    nothing."""
    memory_format = last_format(tensor.dim())
    if tensor.is_contiguous(memory_format=memory_format):
        return tensor
    return _copied("adjoint_copy_to_channels_last", tensor, memory_format)


def laid(tensor, to_channels_last):
    """Makes a tensor contiguous, or a contiguous tensor channels_last. PyTorch makes the copy if it records it, as in a
    backward pass that is differentiated again."""
    if torch.is_grad_enabled() and tensor.requires_grad:
        memory_format = last_format(tensor.dim()) if to_channels_last else torch.contiguous_format
        return tensor.resolve_neg().contiguous(memory_format=memory_format)
    return channels_last(tensor) if to_channels_last else plain(tensor)


def _copied(function, tensor, memory_format):
    """Copies by the library, whose copies between these layouts take a fraction of the time of PyTorch's."""
    out = torch.empty_like(tensor, memory_format=memory_format)
    batch, channels, *rows, columns = tensor.shape
    where, shape = _where(tensor), library.Extents(batch, channels, math.prod(rows), columns)
    library.call(function, where.address, ctypes.addressof(shape), tensor.data_ptr(), out.data_ptr())
    return out


def _where(tensor):
    device = tensor.get_device()  # -1 for the CPU, as the library has it
    return context(device, None if device < 0 else current_stream(device), tensor.dtype, _precision)


def is_channels_last(tensor):
    """Returns true if the tensor is in channels_last without gaps, and not contiguous as well."""
    return not tensor.is_contiguous() and _fits_channels_last(tensor)


def _fits_channels_last(tensor):
    memory_format = last_format(tensor.dim())
    return memory_format is not None and tensor.is_contiguous(memory_format=memory_format)


def asks_for_channels_last(*tensors):
    """Returns true if the result of these operands should be in channels_last: if the strides of one operand say so, as
    in PyTorch. They may have gaps; for a tensor with both layouts, the strides of axes of extent 1 decide."""
    for tensor in tensors:
        memory_format = last_format(tensor.dim())
        if memory_format is not None:
            strides = tensor.stride()
            # The first half checks that channels fit in a row. The second, which is in Python, does not check this.
            if strides[1] * tensor.shape[1] <= strides[-1] and suggest_memory_format(tensor) == memory_format:
                return True
    return False


def may_be_read_as_it_lies(*tensors):
    """Returns true if the tensors are in channels_last, not all contiguous as well, and a kernel may be able to
    read them without copies; the library decides."""
    return any(map(is_channels_last, tensors)) and all(map(_may_be_read, tensors))


def _may_be_read(tensor):
    if tensor.device.type != "cuda" or tensor.is_neg() or not _fits_channels_last(tensor):
        return False
    return tensor.dtype in (torch.float16, torch.bfloat16) or tensor.dtype == torch.float32 and _precision == "tf32"


def _run_in_channels_last(function, geometry, shape, first, second, bias, activation, frozen, filter_to_last):
    """Returns the result of operands that a kernel may read in place, or None if the library would copy them."""
    is_weight = function == "adjoint_conv_weight"
    to_last = filter_to_last if is_weight else True
    memory_format = last_format(len(shape)) if to_last else torch.contiguous_format
    out = torch.empty(shape, dtype=first.dtype, device=first.device, memory_format=memory_format)
    if is_weight:
        addresses = [int(is_channels_last(out))]
    else:
        filter_is_last = is_channels_last(second) and not second.is_neg()
        if not filter_is_last:
            second = plain(second)
        bias = None if bias is None else plain(bias)
        addresses = [0 if each is None else each.address for each in (frozen, activation)]
        addresses.append(int(filter_is_last))
    tensors = (first, second, out) if is_weight else (first, second, bias, out)
    addresses += [0 if each is None else each.data_ptr() for each in tensors]
    return out if library.call(f"{function}_channels_last", _where(out).address, geometry, *addresses) else None


def lies_both_ways(shape):
    """Returns true if pictures or volumes of the shape are both contiguous and in channels_last."""
    return shape[1] == 1 or math.prod(shape[2:]) == 1


def run(function, geometry, shape, first, second, bias=None, activation=None, frozen=None,
        filter_to_last=False):
    """Calls one of the library's operators; `geometry` is an address. If no kernel reads a tensor in place, it is
    copied on the way in or out. frozen: the library.FrozenFilter of the filter `second`, or None. filter_to_last:
    adjoint_conv_weight may write its result in channels_last; where copies stand in for a kernel it is contiguous."""
    to_channels_last = function != "adjoint_conv_weight" and asks_for_channels_last(first, second)
    if may_be_read_as_it_lies(first) if to_channels_last else may_be_read_as_it_lies(first, second):
        out = _run_in_channels_last(function, geometry, shape, first, second, bias, activation, frozen,
                                    filter_to_last)
        if out is not None:
            return out
    first, second = plain(first), plain(second)
    if to_channels_last and lies_both_ways(shape):
        out = torch.empty(shape, dtype=first.dtype, device=first.device, memory_format=last_format(len(shape)))
    else:
        out = first.new_empty(shape)
    where = _where(out)
    addresses = [where.address, geometry, first.data_ptr(), second.data_ptr(), out.data_ptr()]
    if function != "adjoint_conv_weight":
        bias = None if bias is None else plain(bias)
        addresses.insert(4, None if bias is None else bias.data_ptr())
    if frozen is not None:
        function = f"{function}_frozen"
        addresses[2:2] = [frozen.address, None if activation is None else activation.address]
    elif activation is not None:
        function = f"{function}_activated"
        addresses.insert(2, activation.address)
    library.call(function, *addresses)
    return channels_last(out) if to_channels_last else out
