#!/usr/bin/env python3
"""The layers that the benchmarks run on: bench/layers/*.csv.

    bench/layers.py NAME > bench/layers/NAME.csv

draws the layers of a name in DRAWS anew.
"""

import csv
import dataclasses
import math
import pathlib
import random
import sys


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
    transposed: bool = True

    @property
    def rank(self):
        return len(self.input)

    @property
    def attributes(self):
        """The keyword arguments of conv_transpose or conv."""
        names = ("stride", "padding", "dilation") + ("output_padding",) * self.transposed
        return {**{name: getattr(self, name)[-self.rank:] for name in names}, "groups": self.groups}

    @property
    def input_shape(self):
        return (self.batch, self.in_channels, *self.input)

    @property
    def weight_shape(self):
        channels = (self.in_channels, self.out_channels) if self.transposed else (self.out_channels, self.in_channels)
        return (channels[0], channels[1] // self.groups, *self.kernel)

    @property
    def output_shape(self):
        extents = [
            (i - 1) * s - 2 * p + d * (k - 1) + o + 1 if self.transposed else (i + 2 * p - d * (k - 1) - 1) // s + 1
            for i, k, s, p, o, d in zip(self.input, *(getattr(self, name)[-self.rank:] for name in (
                "kernel", "stride", "padding", "output_padding", "dilation")))
        ]
        return (self.batch, self.out_channels, *extents)

    @property
    def flop(self):
        """The FLOP of one of the three operators. A multiplication and an addition count as two; border taps count."""
        feature = self.input_shape if self.transposed else self.output_shape
        return 2 * math.prod(feature) * math.prod(self.weight_shape[1:])

    @property
    def elements(self):
        """The elements of input and output together, which each of the three operators reads or writes once."""
        return math.prod(self.input_shape) + math.prod(self.output_shape)

    @property
    def title(self):
        """A short text of everything but the name."""
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


def read(name):
    """Returns the layers of bench/layers/<name>.csv. One number applies to every axis; an empty batch becomes None."""
    with open(pathlib.Path(__file__).resolve().parent / "layers" / f"{name}.csv", newline="") as file:
        return [_layer(row) for row in csv.DictReader(file)]


def drawn(seed, count):
    """Draws `count` layers at random, the same for a seed everywhere: both kinds, both ranks, small and large.

    Sizes are drawn evenly in their logarithms. A layer has at most 2^26 elements and 2e11 FLOP in an operator.
    """
    draw = random.Random(seed)
    layers = []
    while len(layers) < count:
        rank, transposed = draw.choice((1, 2)), draw.random() < 0.5
        groups = draw.choice((1, 1, 1, 1, 2, 4))
        channels = [groups * max(1, round(2 ** draw.uniform(0, 9) / groups)) for _ in range(2)]
        if draw.random() < 0.1:  # one filter a channel
            groups, channels = channels[0], [channels[0]] * 2
        length = round(2 ** draw.uniform(4, 16)) if rank == 1 else None
        extents = (length,) if rank == 1 else tuple(round(2 ** draw.uniform(2, 8)) for _ in range(2))
        kernel = tuple(draw.choice((1, 2, 3, 3, 4, 5, 7, 9, 16)[: 9 if rank == 1 else 7]) for _ in range(rank))
        stride = (draw.choice((1, 1, 2, 2, 3, 4)),) * rank
        dilation = (draw.choice((1, 1, 1, 2, 3)),) * rank
        _keep(layers, draw, channels, extents, kernel, stride, dilation, groups, transposed)
    return layers


def drawn_wide(seed, count):
    """Draws layers like drawn(), with 3 to 768 channels, kernels of 1 to 20, strides of 1 to 8, and most extents odd.

    Kernels and strides are also drawn evenly in their logarithms, and a stride is at most its kernel.
    """
    draw = random.Random(seed)

    def size(least, most):
        return min(most, max(least, round(math.exp(draw.uniform(math.log(least), math.log(most))))))

    layers = []
    while len(layers) < count:
        rank, transposed = draw.choice((1, 2)), draw.random() < 0.5
        groups = draw.choice((1, 1, 1, 1, 2, 4))
        channels = [math.ceil(size(3, 768) / groups) * groups for _ in range(2)]
        if draw.random() < 0.1:  # one filter a channel
            groups, channels = channels[0], [channels[0]] * 2
        extents = tuple(size(*((16, 1 << 16) if rank == 1 else (4, 256))) for _ in range(rank))
        extents = tuple(extent | (draw.random() < 0.5) for extent in extents)
        kernel = tuple(size(1, 20) for _ in range(rank))
        stride = tuple(min(size(1, 8), k) for k in kernel)
        dilation = (draw.choice((1, 1, 1, 2, 3)),) * rank
        _keep(layers, draw, channels, extents, kernel, stride, dilation, groups, transposed)
    return layers


def _keep(layers, draw, channels, extents, kernel, stride, dilation, groups, transposed):
    """Draws the rest of a layer, and appends the layer if its size is fit for timing."""
    padding = tuple(draw.randint(0, d * (k - 1) // 2) for d, k in zip(dilation, kernel))
    output_padding = tuple(draw.randint(0, s - 1) if transposed else 0 for s in stride)
    batch = round(2 ** draw.uniform(0, 6))
    layer = Layer(f"drawn {len(layers)}", batch, *channels, extents, kernel, stride, padding, output_padding, dilation,
                  groups, transposed)
    if min(layer.output_shape[2:]) >= 1 and layer.elements <= 1 << 26 and layer.flop <= 2e11:
        layers.append(layer)


# The drawn layers of bench/layers: (function, seed, count).
DRAWS = {"drawn29": (drawn, 29, 100), "drawn32": (drawn, 32, 60), "wide": (drawn_wide, 33, 100)}


def draw_named(name):
    """Draws the layers of bench/layers/<name>.csv anew."""
    draw, seed, count = DRAWS[name]
    return [dataclasses.replace(layer, name=f"{name} {i}") for i, layer in enumerate(draw(seed, count))]


def _layer(row):
    extents = tuple(map(int, row["input"].split("x")))

    def axes(column):
        values = tuple(map(int, row[column].split("x")))
        return values if len(values) == len(extents) else values * len(extents)

    names = ("kernel", "stride", "padding", "output_padding", "dilation")
    return Layer(row["name"], int(row["batch"]) if row["batch"] else None, int(row["in_channels"]),
                 int(row["out_channels"]), extents, groups=int(row["groups"]), transposed=row["kind"] == "conv_transpose",
                 **{name: axes(name) for name in names})


def _row(layer):
    columns = ("kernel", "stride", "padding", "dilation", "output_padding")
    sizes = ["x".join(map(str, getattr(layer, name))) for name in ("input", *columns)]
    kind = "conv_transpose" if layer.transposed else "conv"
    return [layer.name, kind, layer.batch, layer.in_channels, layer.out_channels, *sizes, layer.groups]


if __name__ == "__main__":
    table = csv.writer(sys.stdout, lineterminator="\n")
    table.writerow("name kind batch in_channels out_channels input kernel stride padding dilation output_padding groups"
                   .split())
    table.writerows(map(_row, draw_named(sys.argv[1])))
