"""The layers that the benchmarks run on: bench/layers/*.csv."""

import csv
import dataclasses
import math
import pathlib


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
        """conv_transpose's keywords, or conv's."""
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
        """Of one of the three operators, a multiplication and an addition counted as two; taps at borders counted."""
        feature = self.input_shape if self.transposed else self.output_shape
        return 2 * math.prod(feature) * math.prod(self.weight_shape[1:])

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


def read(name):
    """The layers of bench/layers/<name>.csv. One number stands for every axis; without a batch, `batch` is None."""
    with open(pathlib.Path(__file__).resolve().parent / "layers" / f"{name}.csv", newline="") as file:
        return [_layer(row) for row in csv.DictReader(file)]


def _layer(row):
    extents = tuple(map(int, row["input"].split("x")))

    def axes(column):
        values = tuple(map(int, row[column].split("x")))
        return values if len(values) == len(extents) else values * len(extents)

    names = ("kernel", "stride", "padding", "output_padding", "dilation")
    return Layer(row["name"], int(row["batch"]) if row["batch"] else None, int(row["in_channels"]),
                 int(row["out_channels"]), extents, groups=int(row["groups"]), transposed=row["kind"] == "conv_transpose",
                 **{name: axes(name) for name in names})
