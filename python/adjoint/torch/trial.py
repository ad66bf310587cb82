"""only_where_faster: times a replaced module against PyTorch's, once, for the shapes of its first call."""

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
_ROUNDS = 5  # rounds after an uncounted first one; their median counts
_LEAST_SECONDS = 2e-3  # minimum duration of a round


@dataclasses.dataclass
class Trial:
    """Milliseconds per call, forward and, if it records, backward, for an input of `shape`. A way has inf if it fails,
    for example in a dtype that PyTorch does not support or for lack of memory. failure: its message."""

    shape: tuple
    records: bool
    adjoint: float
    pytorch: float
    failure: str = ""

    @property
    def kept(self):
        return "adjoint" if self.adjoint <= self.pytorch else "pytorch"

    def __str__(self):
        what = "forward and backward" if self.records else "forward"
        if self.failure:
            return f"{self.kept} is kept: {what} of {self.shape} fails: {self.failure}"
        return (
            f"{self.kept} is kept: {what} of {self.shape} took {self.adjoint:.4g} ms by adjoint, {self.pytorch:.4g} ms by "
            f"pytorch"
        )


class _Hook:
    """Runs after the module's calls until one can be measured. There is one trial, even if both ways fail in it."""

    def __init__(self, name, trials, restore):
        self.name, self.trials, self.restore = name, trials, restore

    def __call__(self, module, arguments, _):
        if not _can_measure(arguments):
            return
        end(module)
        trial = _measure(module, *arguments[: 1 + module.transposed])  # a subclass may take more arguments
        self.trials[self.name] = trial
        _LOG.info("%s: %s", self.name, trial)
        if trial.kept == "pytorch":
            self.restore(module)


def begin(module, name, trials, restore):
    """Tries from the module's next call on, until it can measure one. The result goes to trials[name] and to the
    log."""
    module._adjoint_trial = module.register_forward_hook(_Hook(name, trials, restore))


def end(module):
    """Undoes begin()."""
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
    records = torch.is_grad_enabled() and (input.requires_grad or any(p.requires_grad for p in module.parameters()))
    functions = {"adjoint": module.ours, "pytorch": module.theirs}
    operands, timers, failures = [], {}, []
    times = {name: [] for name in functions}

    @contextlib.contextmanager
    def noted(name):
        try:
            yield
        except Exception as error:  # the user's call has succeeded, and the trial must not make it fail
            failures.append(f"{name}: {str(error).strip()}".partition("\n")[0])

    # The caller's hooks, such as a checkpoint's, must not see the tensors saved here, so the last hooks set here win.
    with saved_tensors_hooks(lambda tensor: tensor, lambda tensor: tensor) if records else contextlib.nullcontext():
        with noted("operands"):
            operands += _operands(module, input, records)
        for name in functions if operands else ():
            with noted(name):
                way = functools.partial(module.computed_by, functions[name], *operands, output_size)
                timers[name] = _Timer(way, [t for t in operands if t is not None and t.requires_grad], operands[0])
        for _ in range(_ROUNDS):
            for name, timer in timers.items():
                with noted(name):
                    times[name].append(timer.milliseconds())
    medians = (statistics.median(each) if len(each) == _ROUNDS else math.inf for each in times.values())
    return Trial(tuple(input.shape), records, *medians, "; ".join(failures))


def _operands(module, input, records):
    """Returns input, weight, and bias or None, as in the module's call. They have the parameters' shapes but not their
    values, because computing these may change the module, as spectral_norm does."""
    shape = (module.in_channels, module.out_channels // module.groups, *module.kernel_size)
    if not module.transposed:
        shape = (module.out_channels, module.in_channels // module.groups, *module.kernel_size)
    dtype = next(module.parameters()).dtype
    trains = records and any(p.requires_grad for p in module.parameters())

    def ramp(shape):
        values = torch.linspace(-1, 1, math.prod(shape), device=input.device)  # the module may support no other dtype
        return values.reshape(shape).to(dtype).requires_grad_(trains)

    x = input.detach().clone().requires_grad_(records and input.requires_grad)
    return x, ramp(shape), None if module.bias is None else ramp((module.out_channels,))


class _Timer:
    """Times calls, with their gradients in `leaves`, if there are any."""

    def __init__(self, way, leaves, input):
        self.way, self.leaves, self.input = way, leaves, input
        with torch.no_grad():
            self.seed = torch.ones_like(way()) if leaves else None
        self._seconds(3)  # makes plans, and lets cuDNN choose
        self.count = 1 + int(_LEAST_SECONDS / max(self._seconds(1), 1e-7))

    def milliseconds(self):
        """Returns a call's milliseconds, in a round of calls."""
        return 1e3 * self._seconds(self.count) / self.count

    def _seconds(self, count):
        _wait(self.input)
        begin = time.perf_counter()
        for _ in range(count):
            y = self.way()
            if self.leaves:
                torch.autograd.grad(y, self.leaves, self.seed)
        _wait(self.input)
        return time.perf_counter() - begin


def _wait(tensor):
    if tensor.is_cuda:
        torch.cuda.synchronize(tensor.device)
