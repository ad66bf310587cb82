"""only_where_faster: a replaced module's calls timed beside PyTorch's, once for the first shapes it is given."""

import contextlib
import dataclasses
import functools
import logging
import math
import statistics
import time

import torch
from torch.autograd.graph import saved_tensors_hooks

from adjoint.torch import operators
from adjoint.torch.functional import is_compiling

_LOG = logging.getLogger("adjoint")
_ROUNDS = 5  # of which the median counts, after one that counts nothing
_LEAST_SECONDS = 2e-3  # of a round


@dataclasses.dataclass
class Trial:
    """Milliseconds a call, forward and where it records backward, for an input of `shape`."""

    shape: tuple
    records: bool
    adjoint: float
    pytorch: float

    @property
    def kept(self):
        return "adjoint" if self.adjoint <= self.pytorch else "pytorch"

    def __str__(self):
        what = "forward and backward" if self.records else "forward"
        return (
            f"{self.kept} is kept: {what} of {self.shape} took {self.adjoint:.4g} ms by adjoint, {self.pytorch:.4g} ms by "
            f"pytorch"
        )


class _Hook:
    """Runs after the module's calls until one could be measured."""

    def __init__(self, name, trials, restore):
        self.name, self.trials, self.restore = name, trials, restore

    def __call__(self, module, arguments, _):
        if not _can_measure(arguments):
            return
        try:
            trial = _measure(module, *arguments)
        except (RuntimeError, ValueError):  # there is no memory for it
            return
        end(module)
        self.trials[self.name] = trial
        _LOG.info("%s: %s", self.name, trial)
        if trial.kept == "pytorch":
            self.restore(module)


def begin(module, name, trials, restore):
    """From the module's next call on, until one can be measured. The result goes to trials[name] and to the log."""
    module._adjoint_trial = module.register_forward_hook(_Hook(name, trials, restore))


def end(module):
    """Takes back begin()."""
    handle = module.__dict__.pop("_adjoint_trial", None)
    if handle is not None:
        handle.remove()


def _can_measure(arguments):
    if is_compiling() or not arguments or not isinstance(arguments[0], torch.Tensor):
        return False
    input = arguments[0]
    if not operators.is_ordinary((input,)) or input.numel() == 0:
        return False
    return not (input.is_cuda and torch.cuda.is_current_stream_capturing())


def _measure(module, input, output_size=None):
    # Weights of the same shape stand for the module's own: to compute those may change the module, as spectral_norm does.
    weight_shape = (module.in_channels, module.out_channels // module.groups, *module.kernel_size)
    if not module.transposed:
        weight_shape = (module.out_channels, module.in_channels // module.groups, *module.kernel_size)
    parameter = next(module.parameters())
    records = torch.is_grad_enabled() and (input.requires_grad or any(p.requires_grad for p in module.parameters()))
    trains = records and any(p.requires_grad for p in module.parameters())

    def ramp(shape, needs):
        count = math.prod(shape)
        values = torch.linspace(-1, 1, count, dtype=parameter.dtype, device=input.device).reshape(shape)
        return values.requires_grad_(needs)

    x = input.detach().clone().requires_grad_(records and input.requires_grad)
    weight = ramp(weight_shape, trains)
    bias = None if module.bias is None else ramp((module.out_channels,), trains)
    leaves = [leaf for leaf in (x, weight, bias) if leaf is not None and leaf.requires_grad]
    functions = module.ours, module.theirs
    ways = [functools.partial(module.computed_by, f, x, weight, bias, output_size) for f in functions]
    with torch.no_grad():
        seed = torch.ones_like(ways[1]()) if records else None

    def seconds(way, count):
        _wait(x)
        begin = time.perf_counter()
        for _ in range(count):
            y = way()
            if records:
                torch.autograd.grad(y, leaves, seed)
        _wait(x)
        return time.perf_counter() - begin

    counts = []
    # The caller's hooks, such as a checkpoint's, are not to see what is saved here: the last ones stand for all.
    with saved_tensors_hooks(lambda tensor: tensor, lambda tensor: tensor) if records else contextlib.nullcontext():
        for way in ways:
            seconds(way, 3)  # plans, and cuDNN's own choice
            counts.append(1 + int(_LEAST_SECONDS / max(seconds(way, 1), 1e-7)))
        rounds = [[seconds(way, count) / count for way, count in zip(ways, counts)] for _ in range(_ROUNDS)]
    adjoint, pytorch = (1e3 * statistics.median(times) for times in zip(*rounds))
    return Trial(tuple(input.shape), records, adjoint, pytorch)


def _wait(tensor):
    if tensor.is_cuda:
        torch.cuda.synchronize(tensor.device)
