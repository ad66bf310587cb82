"""Convolution problems: PyTorch's arguments, checked and resolved into shapes once."""

import ctypes
import functools
import operator

import torch

from adjoint.library import Depth, Geometry, Pair


_INTEGERS = (int, getattr(torch, "SymInt", int))  # which are left unchanged
_STEPS = ("stride", "padding", "output_padding", "dilation")


def check_integers(name, groups, *steps):
    """Raises TypeError for values that are not integers; `steps` are stride, padding, output_padding and dilation.
    Bools and floats equal integers, and a lookup with them would find a kept problem. PyTorch accepts bools in a
    sequence, except as its first element."""
    if type(groups) is not int and not _is_integer(groups):
        raise TypeError(f"{name}: groups must be an integer; got {groups!r}")
    for what, value in zip(_STEPS, steps):
        kind = type(value)
        if kind is int or (kind is tuple and value and type(value[0]) is type(value[-1]) is int):
            continue
        first, *rest = value or (0,) if isinstance(value, (tuple, list)) else (value,)
        if not _is_integer(first) or not all(isinstance(one, int) or _is_integer(one) for one in rest):
            raise TypeError(f"{name}: {what} must be an integer or a sequence of integers; got {value!r}")


def _is_integer(value):
    """Returns true for an integer, or an object that represents one, such as NumPy's or a torch.SymInt, or an array."""
    if isinstance(value, int):
        return not isinstance(value, bool)
    return hasattr(value, "__index__") and not str(getattr(value, "dtype", "")).endswith("bool")


def as_tuple(value, rank, name):
    """Returns one value for each of `rank` axes, from an integer or from a sequence of one or `rank` integers. Raises
    TypeError, or ValueError for another number of values."""
    if isinstance(value, int):
        values = (value,)
    else:
        values = tuple(value) if isinstance(value, (tuple, list)) else _as_tuple(value, name)
    if len(values) == 1:
        values = values * rank
    if len(values) != rank:
        raise ValueError(f"{name} must have one value, or one for each of {rank} axes; got {value}")
    return tuple(each if isinstance(each, _INTEGERS) else operator.index(each) for each in values)


def _as_tuple(value, name):
    for convert in (tuple, lambda number: (operator.index(number),)):  # such as one of NumPy's
        try:
            return convert(value)
        except TypeError:
            pass
    raise TypeError(f"{name} must be an integer or a sequence of integers; got {value!r}")


def resolve(rank, transposed, input, weight, stride, padding, output_padding, groups, dilation):
    """Checks the arguments of a call.

    `input` and `weight` are shapes, of rank + 2 extents. -> stride, padding and dilation as tuples, and the result's
    spatial extents. Raises ValueError.
    """
    name = f"conv_transpose{rank}d" if transposed else f"conv{rank}d"
    stride = as_tuple(stride, rank, f"{name}: stride")
    padding = as_tuple(padding, rank, f"{name}: padding")
    output_padding = as_tuple(output_padding, rank, f"{name}: output_padding")
    dilation = as_tuple(dilation, rank, f"{name}: dilation")
    if transposed and (groups < 1 or input[1] != weight[0] or input[1] % groups):
        raise ValueError(
            f"{name}: input channels must equal weight's first axis and be a multiple of groups; got input "
            f"{tuple(input)}, weight {tuple(weight)}, groups {groups}"
        )
    if not transposed and (groups < 1 or input[1] != weight[1] * groups or weight[0] % groups):
        raise ValueError(
            f"{name}: input channels must equal weight's second axis times groups, and groups must divide weight's "
            f"first axis; got input {tuple(input)}, weight {tuple(weight)}, groups {groups}"
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
    extents, kernel = input[2:], weight[2:]
    axes = zip(extents, stride, padding, dilation, kernel, output_padding)
    if transposed:
        size = tuple((i - 1) * s - 2 * p + d * (k - 1) + o + 1 for i, s, p, d, k, o in axes)
    else:
        size = tuple((i + 2 * p - d * (k - 1) - 1) // s + 1 for i, s, p, d, k, _ in axes)
    if min(size) < 1 or min(extents) < 1 or min(weight) < 1:
        raise ValueError(
            f"{name}: extents must be at least 1; got input {tuple(extents)}, weight {tuple(weight)} and output {size}"
        )
    return stride, padding, dilation, size


class Problem:
    """The shapes of image, feature and filter as the caller has them, and the relation of their positions.

    A feature's position o meets the image at o * stride - padding + k * dilation by tap k of the filter. `shapes` are
    those of "image" (N, Ci, ...), "feature" (N, Cf, ...) and "filter" (Cf, Ci / groups, ...).
    """

    __slots__ = ("_native", "address", "dilation", "groups", "padding", "rank", "shapes", "stride", "sum_axes")

    def __init__(self, image, feature, filter, stride, padding, dilation, groups):
        self.shapes = {"image": image, "feature": feature, "filter": filter}
        self.stride, self.padding, self.dilation, self.groups = stride, padding, dilation, groups
        self.rank = len(filter) - 2
        self.sum_axes = (0, *range(2, len(filter)))  # all but those of channels
        self.address, self._native = 0, None

    def of_shapes(self, image, feature, filter, groups):
        """Returns the problem with the same steps for other operands."""
        return Problem(image, feature, filter, self.stride, self.padding, self.dilation, groups)

    def output_padding(self):
        """The output_padding of the conv_transpose that yields the image: the rest after whole strides."""
        image, feature, kernel = (self.shapes[role][2:] for role in ("image", "feature", "filter"))
        axes = zip(image, feature, kernel, self.stride, self.padding, self.dilation)
        return tuple(i - ((f - 1) * s - 2 * p + d * (k - 1) + 1) for i, f, k, s, p, d in axes)

    def native_address(self):
        """The address of the native structure. The first use makes it, because shapes of a trace are not numbers."""
        if self._native is None:
            self._native = self._structure()
            self.address = ctypes.addressof(self._native)
        return self.address

    def _structure(self):
        image, feature, filter = self.shapes["image"], self.shapes["feature"], self.shapes["filter"]

        def pair(values, unit):
            return Pair(*((unit,) * (2 - self.rank) + tuple(values)[-2:]))

        axes = (image[2:], feature[2:], filter[2:], self.stride, self.padding, self.dilation)
        pairs = (pair(values, unit) for values, unit in zip(axes, (1, 1, 1, 1, 0, 1)))
        depth = Depth(*(values[0] for values in axes)) if self.rank == 3 else Depth()
        return Geometry(image[0], image[1], feature[1], self.groups, *pairs, depth)


def problem_of_call(rank, transposed, input, weight, stride, padding, output_padding, groups, dilation):
    """Returns the problem of a call's arguments; `input` and `weight` are shapes. Raises ValueError."""
    groups = groups if isinstance(groups, _INTEGERS) else operator.index(groups)
    stride, padding, dilation, size = resolve(
        rank, transposed, input, weight, stride, padding, output_padding, groups, dilation
    )
    input, weight = tuple(input), tuple(weight)
    if transposed:
        return Problem((input[0], weight[1] * groups, *size), input, weight, stride, padding, dilation, groups)
    return Problem(input, (input[0], weight[0], *size), weight, stride, padding, dilation, groups)


# A model uses the same few problems in every step, and resolving one takes longer than launching its kernels. The key
# is the arguments as given, because bringing them into one form would cost more than the lookup.
@functools.lru_cache(maxsize=4096)
def kept_problem(rank, transposed, input, weight, stride, padding, output_padding, groups, dilation):
    """Returns problem_of_call() for arguments that never change. Raises TypeError for others."""
    attributes = (stride, padding, output_padding, groups, dilation)
    if not all(isinstance(value, (int, tuple)) for value in attributes):
        raise TypeError(f"stride and the like must be integers or tuples to be a key; got {attributes}")
    return problem_of_call(rank, transposed, input, weight, stride, padding, output_padding, groups, dilation)
