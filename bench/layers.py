"""The transposed convolutions that the comparisons with PyTorch run on."""

import dataclasses
import math


@dataclasses.dataclass(frozen=True)
class Layer:
    name: str
    batch: int
    in_channels: int
    out_channels: int
    input: tuple  # extents: (length,) or (height, width)
    kernel: tuple
    stride: tuple = (1, 1)
    padding: tuple = (0, 0)
    output_padding: tuple = (0, 0)
    dilation: tuple = (1, 1)
    groups: int = 1

    @property
    def rank(self):
        return len(self.input)

    @property
    def attributes(self):
        """conv_transpose's keywords."""
        tail = {name: getattr(self, name)[-self.rank:] for name in ("stride", "padding", "output_padding", "dilation")}
        return {**tail, "groups": self.groups}

    @property
    def input_shape(self):
        return (self.batch, self.in_channels, *self.input)

    @property
    def weight_shape(self):
        return (self.in_channels, self.out_channels // self.groups, *self.kernel)

    @property
    def output_shape(self):
        a = self.attributes
        extents = (
            (i - 1) * s - 2 * p + d * (k - 1) + o + 1
            for i, k, s, p, o, d in zip(
                self.input, self.kernel, a["stride"], a["padding"], a["output_padding"], a["dilation"]
            )
        )
        return (self.batch, self.out_channels, *extents)

    @property
    def flop(self):
        """Of one of the three operators, a multiplication and an addition counted as two; taps at borders counted."""
        return 2 * math.prod(self.input_shape) * math.prod(self.weight_shape[1:])

    @property
    def elements(self):
        """Of input and output together, which each of the three operators reads or writes once."""
        return math.prod(self.input_shape) + math.prod(self.output_shape)

    @property
    def title(self):
        """Everything but the name, in short."""
        parts = [f"{self.batch} x {self.in_channels}->{self.out_channels}", "k" + _short(self.kernel)]
        for letter, name, unit in (("s", "stride", 1), ("p", "padding", 0), ("d", "dilation", 1)):
            values = self.attributes[name]
            if any(value != unit for value in values):
                parts.append(letter + _short(values))
        if self.groups > 1:
            parts.append(f"{self.groups} groups")
        return ", ".join([" ".join(parts), "x".join(map(str, self.input))])


def _short(values):
    return str(values[0]) if len(set(values)) == 1 else "(" + ",".join(map(str, values)) + ")"


TWO = (2, 2)

# Problems of KernelBench (the first three) and layers of DCGAN, U-Net, FSRCNN, HiFi-GAN and a depthwise upsampler.
LAYERS = [
    Layer("1-D k3", 64, 128, 128, (65536,), (3,)),
    Layer("1-D k5 dilated", 32, 32, 64, (131072,), (5,), dilation=(3, 3)),
    Layer("2-D k3x7", 8, 32, 32, (512, 1024), (3, 7), padding=(1, 3)),
    Layer("DCGAN 8x8", 128, 512, 256, (8, 8), (4, 4), TWO, (1, 1)),
    Layer("DCGAN 32x32", 128, 128, 64, (32, 32), (4, 4), TWO, (1, 1)),
    Layer("U-Net up", 16, 256, 128, (64, 64), TWO, TWO),
    Layer("FSRCNN out", 16, 56, 1, (256, 256), (9, 9), (3, 3), (4, 4), TWO),
    Layer("HiFi-GAN u0", 16, 512, 256, (512,), (16,), (8, 8), (4, 4)),
    Layer("HiFi-GAN u2", 16, 128, 64, (32768,), (4,), TWO, (1, 1)),
    Layer("depthwise 2x", 32, 256, 256, (64, 64), (4, 4), TWO, (1, 1), groups=256),
]
