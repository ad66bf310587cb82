"""Activations that the kernels of convolutions compute where they store the result."""

import ctypes
import functools

import torch
from torch import nn
from torch.nn import functional as F

from adjoint.library import Activation as Native

_aten = torch.ops.aten

# torch.nn's class: its constant in c_api.h, the name of its parameter, the function, and the gradient in what it reads,
# from the gradient in the result, the result and the parameter; None where that does not follow from them.
_TABLE = {
    nn.ReLU: (1, None, lambda x, _: F.relu(x), lambda grad, y, _: _aten.threshold_backward(grad, y, 0)),
    nn.LeakyReLU: (2, "negative_slope", F.leaky_relu, lambda grad, y, a: _aten.leaky_relu_backward(grad, y, a, True)),
    nn.Tanh: (3, None, lambda x, _: torch.tanh(x), lambda grad, y, _: _aten.tanh_backward(grad, y)),
    nn.Sigmoid: (4, None, lambda x, _: torch.sigmoid(x), lambda grad, y, _: _aten.sigmoid_backward(grad, y)),
    nn.SiLU: (5, None, lambda x, _: F.silu(x), None),
}


class Activation:
    """One of the table's, with its parameter."""

    def __init__(self, kind, parameter):
        constant, _, self._function, self._gradient = _TABLE[kind]
        self.parameter = parameter
        self._native = Native(constant, parameter)
        self.address = ctypes.addressof(self._native)
        # With a negative slope the result's sign does not say which side the operand was on.
        self.has_gradient = self._gradient is not None and parameter >= 0

    def __call__(self, x):
        """By PyTorch, as a pass of its own."""
        return self._function(x, self.parameter)

    def gradient(self, grad, y):
        """In what the activation reads, in differentiable operators. y: the result."""
        return self._gradient(grad, y, self.parameter)


_kept = functools.lru_cache(maxsize=256)(Activation)


def activation_of(module):
    """The module's, or None where it is none of the table's. What derives from them may compute something else."""
    row = _TABLE.get(type(module))
    return None if row is None else _kept(type(module), float(getattr(module, row[1])) if row[1] else 0.0)
