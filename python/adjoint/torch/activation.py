"""Activations that the kernels of convolutions compute when they store the result."""

import ctypes
import functools
from typing import NamedTuple

import torch
from torch import nn
from torch.nn import functional as F

from adjoint.library import Activation as Native

_aten = torch.ops.aten


def _silu_gradient(grad, _, x):
    s = torch.sigmoid(x)  # aten.silu_backward has no derivative
    return grad * s * (1 + x * (1 - s))


class _Kind(NamedTuple):
    """One of c_api.h's constants: torch.nn's class, the name of its parameter, the function, and the gradient with
    respect to its input, given the result's gradient, the parameter, and the result or the input."""

    module: type
    parameter: str
    function: object
    gradient: object
    of_result: bool  # true if the gradient takes the result, false if the input


_KINDS = {
    1: _Kind(nn.ReLU, "", lambda x, _: F.relu(x), lambda grad, _, y: _aten.threshold_backward(grad, y, 0), True),
    2: _Kind(
        nn.LeakyReLU, "negative_slope", F.leaky_relu,
        # With a negative slope the result's sign does not determine the operand's sign.
        lambda grad, slope, x: _aten.leaky_relu_backward(grad, x, slope, slope >= 0), True,
    ),
    3: _Kind(nn.Tanh, "", lambda x, _: torch.tanh(x), lambda grad, _, y: _aten.tanh_backward(grad, y), True),
    4: _Kind(nn.Sigmoid, "", lambda x, _: torch.sigmoid(x), lambda grad, _, y: _aten.sigmoid_backward(grad, y), True),
    5: _Kind(nn.SiLU, "", lambda x, _: F.silu(x), _silu_gradient, False),
}
_CONSTANTS = {kind.module: constant for constant, kind in _KINDS.items()}


class Activation(NamedTuple):
    """An activation of c_api.h, with its parameter."""

    constant: int
    parameter: float

    def __call__(self, x):
        """Computes the activation by PyTorch, in a separate pass."""
        return _KINDS[self.constant].function(x, self.parameter)

    @property
    def has_gradient(self):
        """True if the gradient follows from the result."""
        return _KINDS[self.constant].of_result and self.parameter >= 0

    def gradient(self, grad, known):
        """Returns the gradient with respect to the activation's input, in differentiable operators. known: the result,
        or without has_gradient the input."""
        return _KINDS[self.constant].gradient(grad, self.parameter, known)

    @property
    def address(self):
        """The address of the native structure."""
        return ctypes.addressof(_native(self))


@functools.lru_cache(maxsize=256)
def _native(activation):
    return Native(*activation)


def activation_of(module):
    """Returns the module's activation, or None if the table does not list its class. Subclasses do not count, because
    they may compute something else."""
    constant = _CONSTANTS.get(type(module))
    if constant is None:
        return None
    name = _KINDS[constant].parameter
    return Activation(constant, float(getattr(module, name)) if name else 0.0)


def activation_of_constant(constant, parameter):
    """Returns the activation of one of c_api.h's constants with its parameter, or None for 0. Raises ValueError."""
    if constant != 0 and constant not in _KINDS:
        raise ValueError(f"activation must be 0 or a constant of c_api.h; got {constant}")
    return Activation(constant, float(parameter)) if constant else None
