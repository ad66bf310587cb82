"""torch.nn's convolutions with another forward(). They inherit signatures, state_dict and initial weights."""

import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.parameter import is_lazy

from adjoint.torch.functional import (
    conv1d, conv2d, conv3d, conv_transpose1d, conv_transpose2d, conv_transpose3d, extended, is_compiling,
)
from adjoint.torch.native import asks_for_channels_last, last_format


def may_stay_in_channels_last(module, tensor):
    """Returns true if kernels of the tensor's device may read a filter of the module in channels_last."""
    if not tensor.is_cuda or tensor.dtype == torch.float64 or torch.cuda.get_device_capability(tensor.device)[0] != 9:
        return False
    return module.groups == 1 and all(c >= 16 and c % 8 == 0 for c in (module.in_channels, module.out_channels))


def hold_filters(module):
    """Lays the module's filters out channel by channel, as most kernels read them, with the same values and identity.
    Every call would copy filters in channels_last, and their gradients too. Filters in channels_last stay so if kernels
    read them. Filters that processes share stay in place, because other processes must see them."""
    for parameter in module.parameters():
        for tensor in (parameter, parameter.grad):
            if tensor is None or is_lazy(tensor) or (tensor.is_cpu and tensor.is_shared()):
                continue
            if may_stay_in_channels_last(module, tensor):
                continue
            # A filter that has both layouts gets the strides of a contiguous one; one with gaps is a part of something
            # else.
            if asks_for_channels_last(tensor) and tensor.is_contiguous(memory_format=last_format(tensor.dim())):
                tensor.data = tensor.data.contiguous().view(-1).view(tensor.shape)


class Held:
    """The common part of Adjoint's modules."""

    _adjoint_frozen = None  # or freezing.py's Filter

    def function_of(self, weight, activation=None):
        """Returns the function that computes the module with this filter and an activation after it."""
        frozen = self._adjoint_frozen
        frozen = None if frozen is None or is_compiling() else frozen.of(weight)
        if activation is None and frozen is None:
            return self.ours
        return extended(len(self.kernel_size), self.transposed, activation, frozen)

    def _apply(self, *arguments, **keywords):  # to(memory_format=torch.channels_last), among others
        super()._apply(*arguments, **keywords)
        hold_filters(self)
        return self


class _Conv(Held):
    def computed_by(self, function, input, weight, bias, _=None):
        """Computes `function` of operands, with the module's attributes."""
        padding = self.padding
        if self.padding_mode != "zeros":
            input, padding = F.pad(input, self._reversed_padding_repeated_twice, mode=self.padding_mode), 0
        return function(input, weight, bias, self.stride, padding, self.dilation, self.groups)

    def _conv_forward(self, input, weight, bias):
        return self.computed_by(self.function_of(weight), input, weight, bias)


class _ConvTranspose(Held):
    def computed_by(self, function, input, weight, bias, output_size=None):
        """Computes `function` of operands, with the module's attributes."""
        if self.padding_mode != "zeros":
            raise ValueError(f"padding_mode must be 'zeros'; got {self.padding_mode!r}")
        output_padding = self.output_padding
        if output_size is not None:
            output_padding = self._output_padding(
                input, output_size, self.stride, self.padding, self.kernel_size, len(self.kernel_size), self.dilation
            )
        return function(input, weight, bias, self.stride, self.padding, output_padding, self.groups, self.dilation)

    def forward(self, input, output_size=None):
        weight = self.weight
        return self.computed_by(self.function_of(weight), input, weight, self.bias, output_size)


class Conv1d(_Conv, nn.Conv1d):
    """torch.nn.Conv1d: same signature, state_dict and initial weights."""

    ours, theirs = staticmethod(conv1d), staticmethod(F.conv1d)


class Conv2d(_Conv, nn.Conv2d):
    """torch.nn.Conv2d: same signature, state_dict and initial weights."""

    ours, theirs = staticmethod(conv2d), staticmethod(F.conv2d)


class Conv3d(_Conv, nn.Conv3d):
    """torch.nn.Conv3d: same signature, state_dict and initial weights."""

    ours, theirs = staticmethod(conv3d), staticmethod(F.conv3d)


class ConvTranspose1d(_ConvTranspose, nn.ConvTranspose1d):
    """torch.nn.ConvTranspose1d: same signature, state_dict and initial weights."""

    ours, theirs = staticmethod(conv_transpose1d), staticmethod(F.conv_transpose1d)


class ConvTranspose2d(_ConvTranspose, nn.ConvTranspose2d):
    """torch.nn.ConvTranspose2d: same signature, state_dict and initial weights."""

    ours, theirs = staticmethod(conv_transpose2d), staticmethod(F.conv_transpose2d)


class ConvTranspose3d(_ConvTranspose, nn.ConvTranspose3d):
    """torch.nn.ConvTranspose3d: same signature, state_dict and initial weights."""

    ours, theirs = staticmethod(conv_transpose3d), staticmethod(F.conv_transpose3d)
