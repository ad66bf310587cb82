"""torch.nn.functional's convolutions, on Adjoint's kernels."""

import functools
from typing import Optional, Sequence, Union

import torch
from torch import Tensor
from torch.autograd import forward_ad
from torch.nn.functional import pad
from torch.overrides import handle_torch_function, has_torch_function_variadic

from adjoint.torch import extension, operators
from adjoint.torch.native import DTYPES
from adjoint.torch.problem import as_tuple, check_integers, kept_problem, problem_of_call

Size = Union[int, Sequence[int]]

is_compiling = torch.compiler.is_compiling if hasattr(torch, "compiler") else lambda: False
_NAMES = {
    (rank, transposed): f"conv{'_transpose' if transposed else ''}{rank}d"
    for transposed in (False, True) for rank in (1, 2, 3)
}
_tracing_state = torch._C._get_tracing_state
_transforms_active = getattr(torch._C, "_are_functorch_transforms_active", lambda: False)
# The extension's call, which returns None if arguments do not fit: the code after it finds the reason.
_fast = getattr(extension.module, "convolution", None)

# autocast_dtype() returns the dtype that torch.autocast asks for on a device, or None if autocast is off. Since PyTorch
# 2.4 the queries take the device's type; the older ones, one per device, are deprecated and warn in every call.
if hasattr(torch, "get_autocast_dtype"):

    def autocast_dtype(device):
        return torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else None

else:

    def autocast_dtype(device):
        if device == "cuda":
            return torch.get_autocast_gpu_dtype() if torch.is_autocast_enabled() else None
        return torch.get_autocast_cpu_dtype() if torch.is_autocast_cpu_enabled() else None


def lowered(value, dtype):
    """Casts the tensor as autocast does: floating-point tensors except float64; returns others unchanged."""
    is_cast = isinstance(value, Tensor) and value.is_floating_point() and value.dtype != torch.float64
    return value.to(dtype) if is_cast else value


def check_operands(name, rank, input, weight, bias=None):
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
    if not (input.is_cpu or input.is_cuda or input.is_meta):
        raise ValueError(f"{name}: tensors must be on the CPU or on a CUDA device; got {input.device}")
    if input.dtype not in DTYPES:
        raise ValueError(f"{name}: the dtype must be float16, bfloat16, float32 or float64; got {input.dtype}")
    if bias is not None and (bias.dtype != input.dtype or bias.device != input.device):
        raise ValueError(
            f"{name}: bias must have input's dtype and device; got {bias.dtype} on {bias.device} beside {input.dtype} "
            f"on {input.device}"
        )


def check_bias(name, bias, channels):
    if bias is not None and tuple(bias.shape) != (channels,):
        raise ValueError(f"{name}: bias must have shape {(channels,)}; got {tuple(bias.shape)}")


def _padded(name, rank, input, weight, stride, padding, dilation):
    """Turns 'valid' and 'same' into numbers. Returns the input, padded if 'same' is not symmetric, and the padding."""
    if padding == "valid":
        return input, 0
    if padding != "same":
        raise ValueError(f"{name}: padding must be numbers, 'same' or 'valid'; got {padding!r}")
    if any(s != 1 for s in as_tuple(stride, rank, f"{name}: stride")):
        raise ValueError(f"{name}: padding 'same' must have stride 1; got stride {stride}")
    dilation = as_tuple(dilation, rank, f"{name}: dilation")
    totals = [d * (k - 1) for d, k in zip(dilation, weight.shape[2:])]
    behind = [value for total in reversed(totals) for value in (0, total % 2)]
    return pad(input, behind) if any(behind) else input, tuple(total // 2 for total in totals)


def _traced(rank, transposed, input, weight, bias, stride, padding, output_padding, groups, dilation, activation):
    """Makes the call as compilers and tracers see it: one operator, which checks, and casts if autocast is on."""
    name = _NAMES[rank, transposed]
    check_integers(name, groups, stride, 0 if isinstance(padding, str) else padding, output_padding, dilation)
    if isinstance(padding, str):
        input, padding = _padded(name, rank, input, weight, stride, padding, dilation)
    batch = input if input.dim() == rank + 2 else input.unsqueeze(0)
    stride = as_tuple(stride, rank, f"{name}: stride")
    padding = as_tuple(padding, rank, f"{name}: padding")
    dilation = as_tuple(dilation, rank, f"{name}: dilation")
    if transposed:
        output_padding = as_tuple(output_padding, rank, f"{name}: output_padding")
        operands = batch, weight, bias, stride, padding, dilation, groups, output_padding
        out = torch.ops.adjoint.conv_transpose(*operands, *(activation or ()))
    else:
        out = torch.ops.adjoint.conv(batch, weight, bias, stride, padding, dilation, groups, *(activation or ()))
    return out if input.dim() == rank + 2 else out.squeeze(0)


def _takes_frozen(input, weight, bias):
    """Returns true if nothing records the call, and it does not cast the filter."""
    return autocast_dtype("cuda" if input.is_cuda else "cpu") is None and operators.is_unseen((input, weight, bias))


def _convolution(
    rank, transposed, input, weight, bias, stride, padding, output_padding, groups, dilation, activation=None,
    frozen=None,
):
    if is_compiling() or _tracing_state() is not None:
        return _traced(
            rank, transposed, input, weight, bias, stride, padding, output_padding, groups, dilation, activation
        )
    if has_torch_function_variadic(input, weight, bias):  # such as torch.fx's proxies, and modes
        extra = (output_padding, groups, dilation) if transposed else (dilation, groups)
        out = handle_torch_function(
            _FUNCTIONS[rank, transposed], (input, weight, bias), input, weight, bias, stride, padding, *extra
        )
        return out if activation is None else activation(out)
    if frozen is not None and not _takes_frozen(input, weight, bias):
        frozen = None
    if _fast is not None and not _transforms_active() and forward_ad._current_level < 0:
        numbers, behind = padding, input
        if isinstance(padding, str):
            behind, numbers = _padded(_NAMES[rank, transposed], rank, input, weight, stride, padding, dilation)
        tail = () if activation is None else activation
        if frozen is not None:
            tail = (*(activation or (0, 0.0)), frozen.address)
        out = _fast(rank, transposed, behind, weight, bias, stride, numbers, output_padding, groups, dilation, *tail)
        if out is not None:
            return out
    name = _NAMES[rank, transposed]
    for what, value in (("input", input), ("weight", weight), ("bias", bias)):
        if not isinstance(value, Tensor) and (value is not None or what != "bias"):
            raise TypeError(f"{name}: {what} must be a tensor; got a {type(value).__name__}")
    check_integers(name, groups, stride, 0 if isinstance(padding, str) else padding, output_padding, dilation)
    dtype = autocast_dtype("cuda" if input.is_cuda else "cpu")
    if dtype is not None:
        input, weight, bias = (lowered(value, dtype) for value in (input, weight, bias))
    batched = input.dim() != rank + 1
    batch = input if batched else input.unsqueeze(0)
    check_operands(name, rank, batch, weight, bias)
    if isinstance(padding, str):
        batch, padding = _padded(name, rank, batch, weight, stride, padding, dilation)
    arguments = (rank, transposed, batch.shape, weight.shape, stride, padding, output_padding, groups, dilation)
    try:
        problem = kept_problem(*arguments)
    except TypeError:  # such as a list, which does not hash; other hashable objects might change
        problem = problem_of_call(*arguments)
    operator = operators.conv_transpose if transposed else operators.conv
    check_bias(name, bias, problem.shapes[operator.yields][1])
    if frozen is not None:
        out = operator.run(problem, batch, weight, bias, activation=activation, frozen=frozen)
    elif activation is None:
        out = operator(problem, batch, weight, bias)
    else:
        out = operator.activated(problem, activation, batch, weight, bias)
    return out if batched else out.squeeze(0)


def extended(rank, transposed, activation, frozen):
    """Returns a function like conv1d, with an activation after it or None, and a frozen filter or None. It takes the
    same arguments, without defaults."""
    return functools.partial(_extended_transpose if transposed else _extended, rank, activation, frozen)


def _extended(rank, activation, frozen, input, weight, bias, stride, padding, dilation, groups):
    return _convolution(rank, False, input, weight, bias, stride, padding, 0, groups, dilation, activation, frozen)


def _extended_transpose(
    rank, activation, frozen, input, weight, bias, stride, padding, output_padding, groups, dilation
):
    return _convolution(
        rank, True, input, weight, bias, stride, padding, output_padding, groups, dilation, activation, frozen
    )


def conv1d(
    input: Tensor,
    weight: Tensor,
    bias: Optional[Tensor] = None,
    stride: Size = 1,
    padding: Union[Size, str] = 0,
    dilation: Size = 1,
    groups: int = 1,
) -> Tensor:
    """torch.nn.functional.conv1d.

    input (N, C, L) or (C, L), weight (O, C / groups, k), bias (O,) or None
    -> (N, O, (L + 2 padding - dilation (k - 1) - 1) // stride + 1), without N if input has no N. padding: 'valid' is 0;
    'same' gives the result input's extents, puts the odd zero at the end, and needs stride 1.

    The result is differentiable to any order in all three. Raises ValueError for shapes, dtypes, devices and attributes
    that do not fit, and RuntimeError if the library fails, for example if memory is short.
    """
    return _convolution(1, False, input, weight, bias, stride, padding, 0, groups, dilation)


def conv2d(
    input: Tensor,
    weight: Tensor,
    bias: Optional[Tensor] = None,
    stride: Size = 1,
    padding: Union[Size, str] = 0,
    dilation: Size = 1,
    groups: int = 1,
) -> Tensor:
    """torch.nn.functional.conv2d.

    input (N, C, H, W) or (C, H, W), weight (O, C / groups, kh, kw), bias (O,) or None -> (N, O, H', W'). Each axis, and
    everything else, is as in conv1d.
    """
    return _convolution(2, False, input, weight, bias, stride, padding, 0, groups, dilation)


def conv3d(
    input: Tensor,
    weight: Tensor,
    bias: Optional[Tensor] = None,
    stride: Size = 1,
    padding: Union[Size, str] = 0,
    dilation: Size = 1,
    groups: int = 1,
) -> Tensor:
    """torch.nn.functional.conv3d.

    input (N, C, D, H, W) or (C, D, H, W), weight (O, C / groups, kd, kh, kw), bias (O,) or None
    -> (N, O, D', H', W'). Each axis, and everything else, is as in conv1d.
    """
    return _convolution(3, False, input, weight, bias, stride, padding, 0, groups, dilation)


def conv_transpose1d(
    input: Tensor,
    weight: Tensor,
    bias: Optional[Tensor] = None,
    stride: Size = 1,
    padding: Size = 0,
    output_padding: Size = 0,
    groups: int = 1,
    dilation: Size = 1,
) -> Tensor:
    """torch.nn.functional.conv_transpose1d.

    input (N, C, L) or (C, L), weight (C, O / groups, k), bias (O,) or None
    -> (N, O, (L - 1) stride - 2 padding + dilation (k - 1) + output_padding + 1), without N if input has no N.

    The result is differentiable to any order in all three. Raises ValueError for shapes, dtypes, devices and attributes
    that do not fit, and RuntimeError if the library fails, for example if memory is short.
    """
    return _convolution(1, True, input, weight, bias, stride, padding, output_padding, groups, dilation)


def conv_transpose2d(
    input: Tensor,
    weight: Tensor,
    bias: Optional[Tensor] = None,
    stride: Size = 1,
    padding: Size = 0,
    output_padding: Size = 0,
    groups: int = 1,
    dilation: Size = 1,
) -> Tensor:
    """torch.nn.functional.conv_transpose2d.

    input (N, C, H, W) or (C, H, W), weight (C, O / groups, kh, kw), bias (O,) or None -> (N, O, H', W'). Each axis, and
    everything else, is as in conv_transpose1d.
    """
    return _convolution(2, True, input, weight, bias, stride, padding, output_padding, groups, dilation)


def conv_transpose3d(
    input: Tensor,
    weight: Tensor,
    bias: Optional[Tensor] = None,
    stride: Size = 1,
    padding: Size = 0,
    output_padding: Size = 0,
    groups: int = 1,
    dilation: Size = 1,
) -> Tensor:
    """torch.nn.functional.conv_transpose3d.

    input (N, C, D, H, W) or (C, D, H, W), weight (C, O / groups, kd, kh, kw), bias (O,) or None
    -> (N, O, D', H', W'). Each axis, and everything else, is as in conv_transpose1d.
    """
    return _convolution(3, True, input, weight, bias, stride, padding, output_padding, groups, dilation)


_FUNCTIONS = dict(zip(_NAMES, (conv1d, conv2d, conv3d, conv_transpose1d, conv_transpose2d, conv_transpose3d)))
