"""Drop-in for PyTorch's transposed convolutions, on Adjoint's kernels.

    import adjoint.torch as adj
    m = adj.ConvTranspose1d(128, 128, 3)     # torch.nn.ConvTranspose1d's signature, state_dict and initial weights
    y = adj.conv_transpose2d(x, w, bias, stride, padding, output_padding, groups, dilation)
    adj.replace(model)                       # every ConvTranspose1d and ConvTranspose2d of a model, in place
    adj.set_precision("tf32")

Autograd works to any order: the three operators of the trio are each other's gradients. Tensors of float16, bfloat16,
float32 and float64, on CUDA and on the CPU; non-contiguous and lazily negated ones are copied first. Calls run on the
current stream.
"""

import ctypes
import functools

import torch
from torch import nn
from torch.autograd import forward_ad
from torch.nn.modules.utils import _pair, _single

from adjoint import library
from adjoint.library import Context, Geometry, Pair

__all__ = [
    "ConvTranspose1d",
    "ConvTranspose2d",
    "conv_transpose1d",
    "conv_transpose2d",
    "get_precision",
    "replace",
    "set_precision",
]

_DTYPES = {torch.float16: 0, torch.bfloat16: 1, torch.float32: 2, torch.float64: 3}
_PRECISIONS = {"float32": 0, "tf32": 1}
_precision = "float32"


def set_precision(precision):
    """How float32 may round on a GPU: "float32" (the default: float32's accuracy) or "tf32" (faster).

    Raises ValueError for another name.
    """
    global _precision
    if precision not in _PRECISIONS:
        raise ValueError(f"set_precision: precision must be one of {list(_PRECISIONS)}; got {precision!r}")
    _precision = precision


def get_precision():
    """What set_precision() was last given."""
    return _precision


class _Context:
    """Where a call runs: the native structure, which threads share and nobody changes, and its address."""

    def __init__(self, device, stream, dtype, precision):
        self.native = Context(device=device, stream=stream, dtype=_DTYPES[dtype], precision=_PRECISIONS[precision])
        self.address = ctypes.addressof(self.native)


_context = functools.lru_cache(maxsize=1024)(_Context)

# A stream's handle as a number, without the Stream object that the public way makes first: PyTorch's own compiler
# calls it as well.
_current_stream = getattr(
    torch._C, "_cuda_getCurrentRawStream", lambda device: torch.cuda.current_stream(device).cuda_stream
)


def _plain(tensor):
    """The tensor with its elements one after another, and as they are in memory, where the library reads them: a view may
    say that their signs are to be read the other way round (torch.Tensor.is_neg)."""
    return tensor.resolve_neg().contiguous()


def _run(function, geometry, shape, first, second, *bias):
    """Calls one of the library's operators; `bias` is an address or None where the operator takes one."""
    first, second = _plain(first), _plain(second)
    out = first.new_empty(shape)
    device = out.get_device()  # -1 for the CPU, as the library has it
    context = _context(device, None if device < 0 else _current_stream(device), out.dtype, _precision)
    library.call(
        function, context.address, geometry.address, first.data_ptr(), second.data_ptr(), *bias, out.data_ptr()
    )
    return out


def _check_operands(name, rank, input, weight):
    if input.dim() != rank + 2 or weight.dim() != rank + 2:
        raise ValueError(
            f"{name}: input and weight must have {rank + 2} axes; got input {tuple(input.shape)}, "
            f"weight {tuple(weight.shape)}"
        )
    if input.dtype != weight.dtype or input.device != weight.device:
        raise ValueError(
            f"{name}: input and weight must share dtype and device; got {input.dtype} on {input.device} and "
            f"{weight.dtype} on {weight.device}"
        )
    if not (input.is_cpu or input.is_cuda):
        raise ValueError(f"{name}: tensors must be on the CPU or on a CUDA device; got {input.device}")
    if input.dtype not in _DTYPES:
        raise ValueError(f"{name}: the dtype must be float16, bfloat16, float32 or float64; got {input.dtype}")


class _Geometry:
    """A resolved problem: the native structure, and the shapes of image, feature and filter as the caller has them.

    `input` and `weight` are shapes.
    """

    def __init__(self, rank, input, weight, stride, padding, output_padding, groups, dilation):
        name = f"conv_transpose{rank}d"
        if groups < 1 or input[1] != weight[0] or input[1] % groups:
            raise ValueError(
                f"{name}: input channels must equal weight's first axis and be a multiple of groups; got input "
                f"{input}, weight {weight}, groups {groups}"
            )
        if min(stride) < 1 or min(dilation) < 1 or min(padding) < 0 or min(output_padding) < 0:
            raise ValueError(
                f"{name}: stride and dilation must be positive, padding and output_padding not negative; got stride "
                f"{stride}, dilation {dilation}, padding {padding}, output_padding {output_padding}"
            )
        for extra, s, d in zip(output_padding, stride, dilation):
            if extra >= max(s, d):
                raise ValueError(
                    f"{name}: output_padding must be below stride or below dilation; got output_padding "
                    f"{output_padding}, stride {stride}, dilation {dilation}"
                )
        kernel = weight[2:]
        feature = input[2:]
        image = tuple(
            (f - 1) * s - 2 * p + d * (k - 1) + o + 1
            for f, s, p, d, k, o in zip(feature, stride, padding, dilation, kernel, output_padding)
        )
        if min(image) < 1 or min(feature) < 1:
            raise ValueError(f"{name}: extents must be at least 1; got input {feature} and output {image}")
        channels = weight[1] * groups
        self.feature_shape = input
        self.image_shape = (input[0], channels, *image)
        self.filter_shape = weight
        self.bias_shape = (channels,)
        self.bias_sum = (0, *range(2, rank + 2))

        def pair(values, unit):
            return Pair(*((unit,) * (2 - rank) + tuple(values)))

        self.native = Geometry(
            input[0], channels, input[1], groups, pair(image, 1), pair(feature, 1), pair(kernel, 1),
            pair(stride, 1), pair(padding, 0), pair(dilation, 1),
        )
        self.address = ctypes.addressof(self.native)


# A model asks for the same few in every step, and resolving one takes longer than launching its kernels. The key is the
# arguments as they come, for bringing them into one form first costs more than finding them.
@functools.lru_cache(maxsize=1024)
def _geometry(rank, input, weight, stride, padding, output_padding, groups, dilation):
    """The problem of arguments as the caller gave them. Raises TypeError where they are no key."""
    attributes = (stride, padding, output_padding, dilation)
    if not all(isinstance(value, (int, tuple)) for value in attributes):
        raise TypeError(f"stride and the like must be integers or tuples to be a key; got {attributes}")
    stride, padding, output_padding, dilation = map(_single if rank == 1 else _pair, attributes)
    return _Geometry(rank, tuple(input), tuple(weight), stride, padding, output_padding, groups, dilation)


# The trio: each operator's gradients are the other two, so derivatives of any order stay inside it. `run` is the
# operator alone; `apply` records it for autograd, which costs as much as the rest of a call.


def _call(operator, geometry, *tensors):
    """operator.apply, or operator.run where autograd would record nothing; each of `tensors` may be None."""
    if torch.is_grad_enabled():
        for tensor in tensors:
            if tensor is not None and tensor.requires_grad:
                return operator.apply(geometry, *tensors)
    # Forward-mode differentiation and tracing heed no grad mode, and apply refuses them; past it they would be silently
    # wrong. Were the level of the former to go by another name, apply would be called always: slower, and right.
    if getattr(forward_ad, "_current_level", 0) >= 0 or torch.jit.is_tracing():
        return operator.apply(geometry, *tensors)
    return operator.run(geometry, *tensors)


class _Conv(torch.autograd.Function):
    @staticmethod
    def run(geometry, image, filter):
        return _run("adjoint_conv", geometry, geometry.feature_shape, image, filter, None)

    @staticmethod
    def forward(ctx, geometry, image, filter):
        ctx.geometry = geometry
        ctx.save_for_backward(image, filter)
        return _Conv.run(geometry, image, filter)

    @staticmethod
    def backward(ctx, grad):
        image, filter = ctx.saved_tensors
        grad = _plain(grad)  # once for all that take it
        _, need_image, need_filter = ctx.needs_input_grad
        return (
            None,
            _call(_ConvTranspose, ctx.geometry, grad, filter, None) if need_image else None,
            _call(_ConvWeight, ctx.geometry, image, grad) if need_filter else None,
        )


class _ConvTranspose(torch.autograd.Function):
    @staticmethod
    def run(geometry, feature, filter, bias):
        bias = None if bias is None else _plain(bias)
        address = None if bias is None else bias.data_ptr()
        return _run("adjoint_conv_transpose", geometry, geometry.image_shape, feature, filter, address)

    @staticmethod
    def forward(ctx, geometry, feature, filter, bias):
        ctx.geometry = geometry
        ctx.save_for_backward(feature, filter)
        return _ConvTranspose.run(geometry, feature, filter, bias)

    @staticmethod
    def backward(ctx, grad):
        feature, filter = ctx.saved_tensors
        grad = _plain(grad)  # once for all that take it
        _, need_feature, need_filter, need_bias = ctx.needs_input_grad
        return (
            None,
            _call(_Conv, ctx.geometry, grad, filter) if need_feature else None,
            _call(_ConvWeight, ctx.geometry, grad, feature) if need_filter else None,
            grad.sum(ctx.geometry.bias_sum) if need_bias else None,
        )


class _ConvWeight(torch.autograd.Function):
    @staticmethod
    def run(geometry, image, feature):
        return _run("adjoint_conv_weight", geometry, geometry.filter_shape, image, feature)

    @staticmethod
    def forward(ctx, geometry, image, feature):
        ctx.geometry = geometry
        ctx.save_for_backward(image, feature)
        return _ConvWeight.run(geometry, image, feature)

    @staticmethod
    def backward(ctx, grad):
        image, feature = ctx.saved_tensors
        grad = _plain(grad)  # once for all that take it
        _, need_image, need_feature = ctx.needs_input_grad
        return (
            None,
            _call(_ConvTranspose, ctx.geometry, feature, grad, None) if need_image else None,
            _call(_Conv, ctx.geometry, image, grad) if need_feature else None,
        )


# The dtype that torch.autocast asks for where a tensor is, or None where it is off. Since PyTorch 2.4 the queries take
# the device's type; those that name it are deprecated there, and warn in every call.
if hasattr(torch, "get_autocast_dtype"):

    def _autocast_dtype(tensor):
        device = "cuda" if tensor.is_cuda else "cpu"
        return torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else None

else:

    def _autocast_dtype(tensor):
        if tensor.is_cuda:
            return torch.get_autocast_gpu_dtype() if torch.is_autocast_enabled() else None
        return torch.get_autocast_cpu_dtype() if torch.is_autocast_cpu_enabled() else None


def _conv_transpose(rank, input, weight, bias, stride, padding, output_padding, groups, dilation):
    dtype = _autocast_dtype(input)
    if dtype is not None and input.dtype != torch.float64:
        input, weight = input.to(dtype), weight.to(dtype)
        bias = None if bias is None else bias.to(dtype)
    batched = input.dim() == rank + 2
    batch = input if batched else input.unsqueeze(0)
    _check_operands(f"conv_transpose{rank}d", rank, batch, weight)
    try:
        geometry = _geometry(rank, batch.shape, weight.shape, stride, padding, output_padding, groups, dilation)
    except TypeError:  # such as a list: it does not hash, and what hashes otherwise might change
        stride, padding, output_padding, dilation = map(
            _single if rank == 1 else _pair, (stride, padding, output_padding, dilation)
        )
        geometry = _geometry(rank, batch.shape, weight.shape, stride, padding, output_padding, groups, dilation)
    if bias is not None and (
        bias.shape != geometry.bias_shape or bias.dtype != input.dtype or bias.device != input.device
    ):
        raise ValueError(
            f"conv_transpose{rank}d: bias must have shape {geometry.bias_shape} and input's dtype and device; got "
            f"{tuple(bias.shape)} of {bias.dtype} on {bias.device}"
        )
    out = _call(_ConvTranspose, geometry, batch, weight, bias)
    return out if batched else out.squeeze(0)


def conv_transpose1d(input, weight, bias=None, stride=1, padding=0, output_padding=0, groups=1, dilation=1):
    """torch.nn.functional.conv_transpose1d.

    input (N, C, L) or (C, L), weight (C, O / groups, k), bias (O,) or None
    -> (N, O, (L - 1) stride - 2 padding + dilation (k - 1) + output_padding + 1), without N where input has none.

    Differentiable to any order in all three. Raises ValueError for shapes, dtypes, devices and attributes that do not
    fit, and RuntimeError where the library fails, such as for want of memory.
    """
    return _conv_transpose(1, input, weight, bias, stride, padding, output_padding, groups, dilation)


def conv_transpose2d(input, weight, bias=None, stride=1, padding=0, output_padding=0, groups=1, dilation=1):
    """torch.nn.functional.conv_transpose2d.

    input (N, C, H, W) or (C, H, W), weight (C, O / groups, kh, kw), bias (O,) or None -> (N, O, H', W'), each axis and
    all else as in conv_transpose1d.
    """
    return _conv_transpose(2, input, weight, bias, stride, padding, output_padding, groups, dilation)


class _ConvTransposeModule:
    """forward() for both ranks; everything else is torch.nn's."""

    def forward(self, input, output_size=None):
        if self.padding_mode != "zeros":
            raise ValueError(f"padding_mode must be 'zeros'; got {self.padding_mode!r}")
        output_padding = self.output_padding
        if output_size is not None:
            output_padding = self._output_padding(
                input, output_size, self.stride, self.padding, self.kernel_size, self._rank, self.dilation
            )
        return _conv_transpose(
            self._rank, input, self.weight, self.bias, self.stride, self.padding, output_padding, self.groups,
            self.dilation,
        )


class ConvTranspose1d(_ConvTransposeModule, nn.ConvTranspose1d):
    """torch.nn.ConvTranspose1d: same signature, state_dict and initial weights."""

    _rank = 1


class ConvTranspose2d(_ConvTransposeModule, nn.ConvTranspose2d):
    """torch.nn.ConvTranspose2d: same signature, state_dict and initial weights."""

    _rank = 2


def replace(model):
    """Makes every ConvTranspose1d and ConvTranspose2d of `model` Adjoint's, in place, and returns the model.

    Parameters, buffers, hooks and the modules' identity stay; subclasses of torch.nn's modules are left alone.
    """
    swap = {nn.ConvTranspose1d: ConvTranspose1d, nn.ConvTranspose2d: ConvTranspose2d}
    for module in model.modules():
        if type(module) in swap:
            module.__class__ = swap[type(module)]
    return model
