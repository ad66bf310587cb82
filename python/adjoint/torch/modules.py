"""torch.nn's convolutions with another forward(): signatures, state_dict and initial weights are inherited."""

from torch import nn
from torch.nn import functional as F

from adjoint.torch.functional import conv1d, conv2d, conv_transpose1d, conv_transpose2d


class _Conv:
    def computed_by(self, function, input, weight, bias, _=None):
        """`function` of operands, with the module's attributes."""
        padding = self.padding
        if self.padding_mode != "zeros":
            input, padding = F.pad(input, self._reversed_padding_repeated_twice, mode=self.padding_mode), 0
        return function(input, weight, bias, self.stride, padding, self.dilation, self.groups)

    def _conv_forward(self, input, weight, bias):
        return self.computed_by(self.ours, input, weight, bias)


class _ConvTranspose:
    def computed_by(self, function, input, weight, bias, output_size=None):
        """`function` of operands, with the module's attributes."""
        if self.padding_mode != "zeros":
            raise ValueError(f"padding_mode must be 'zeros'; got {self.padding_mode!r}")
        output_padding = self.output_padding
        if output_size is not None:
            output_padding = self._output_padding(
                input, output_size, self.stride, self.padding, self.kernel_size, len(self.kernel_size), self.dilation
            )
        return function(input, weight, bias, self.stride, self.padding, output_padding, self.groups, self.dilation)

    def forward(self, input, output_size=None):
        return self.computed_by(self.ours, input, self.weight, self.bias, output_size)


class Conv1d(_Conv, nn.Conv1d):
    """torch.nn.Conv1d: same signature, state_dict and initial weights."""

    ours, theirs = staticmethod(conv1d), staticmethod(F.conv1d)


class Conv2d(_Conv, nn.Conv2d):
    """torch.nn.Conv2d: same signature, state_dict and initial weights."""

    ours, theirs = staticmethod(conv2d), staticmethod(F.conv2d)


class ConvTranspose1d(_ConvTranspose, nn.ConvTranspose1d):
    """torch.nn.ConvTranspose1d: same signature, state_dict and initial weights."""

    ours, theirs = staticmethod(conv_transpose1d), staticmethod(F.conv_transpose1d)


class ConvTranspose2d(_ConvTranspose, nn.ConvTranspose2d):
    """torch.nn.ConvTranspose2d: same signature, state_dict and initial weights."""

    ours, theirs = staticmethod(conv_transpose2d), staticmethod(F.conv_transpose2d)
