"""freeze(): weights that will not change, so that kernels put a filter into their order once, not in each call."""

import threading

from torch import nn

from adjoint.library import FrozenFilter
from adjoint.torch import modules


def _state(tensor):
    """What tells that a tensor was written or moved, as far as PyTorch counts it."""
    return None if tensor.is_inference() else tensor._version, tensor.data_ptr(), tensor.dtype, tensor.device


class _Kept:
    """A tensor, as it is now, and what stands for it in the library."""

    def __init__(self, tensor):
        self.tensor, self.state, self.handle = tensor, _state(tensor), FrozenFilter()
        self._memory = tensor.detach()  # held, so that no other tensor comes to lie at its address


class Filter:
    """A module's parameter, and what fuse() has folded of it last. Copies and pickles of it are None: those of a module
    are not frozen."""

    def __init__(self, parameter):
        self.parameter, self.folded, self.holders = _Kept(parameter), None, 0

    def of(self, weight):
        """What stands for the weight of a call, or None where that is another tensor, such as an assigned one. Raises
        RuntimeError where it has changed."""
        for kept in (self.parameter, self.folded):
            if kept is not None and kept.tensor is weight:
                if kept.state != _state(weight):
                    raise RuntimeError(
                        "weights must not change while their model is frozen; got a weight of shape "
                        f"{tuple(weight.shape)} that was written or moved since freeze(); unfreeze it first"
                    )
                return kept.handle
        return None

    def follow(self, weight, folded):
        """To be called before each use of what is folded of the weight. Raises as of() does."""
        self.of(weight)
        kept = self.folded
        if weight is self.parameter.tensor and (kept is None or kept.tensor is not folded):
            self.folded = _Kept(folded)

    def kept_bytes(self):
        return sum(kept.handle.kept_bytes() for kept in (self.parameter, self.folded) if kept is not None)

    def __reduce__(self):
        return type(None), ()


class Frozen:
    """Keeps a model frozen until unfreeze(), the end of a `with` block, or its own end. Of several that hold the same
    module, each keeps it so."""

    _lock = threading.RLock()  # of who holds what; calls take none

    def __init__(self, held):
        self._held = held  # pairs of a module and its Filter

    def unfreeze(self) -> None:
        """The weights can be changed again, and what was kept of them is released once no call computes with it."""
        with self._lock:
            held, self._held = self._held, []
            for module, filter in held:
                filter.holders -= 1
                if filter.holders == 0 and vars(module).get("_adjoint_frozen") is filter:
                    del module._adjoint_frozen

    def kept_bytes(self) -> int:
        """Bytes of what is kept now, on whichever devices."""
        return sum(filter.kept_bytes() for _, filter in self._held)

    def __enter__(self) -> "Frozen":
        return self

    def __exit__(self, *_) -> None:
        self.unfreeze()

    def __del__(self):
        self.unfreeze()

    def __reduce__(self):
        raise TypeError("Frozen must not be copied or pickled; freeze the copy of the model instead")


def freeze(model: nn.Module) -> Frozen:
    """Freezes the filters of Adjoint's convolutions in `model`, those that replace() and fuse() made among them, for
    as long as the Frozen lives that it returns. Results keep their bits.

    A convolution whose kernel packs its filter, or copies it into another order, then does so in the first call of
    its shapes on a stream, and keeps what it made: up to eight such forms of a filter, each about as large as the
    filter, in float32 up to twice; in later calls of other shapes it packs as ever. Where fuse() folds a BatchNorm,
    what it folds is kept so. These pack as ever, with the same results: calls that autograd records (use
    torch.no_grad() or torch.inference_mode()), that autocast casts, that torch.compile, torch.export or
    torch.jit.trace see, that a CUDA graph captures; calls under torch.func; filters that a parametrisation makes anew
    in each call, or that are assigned later; and those of half precision on the CPU.

    A filter that is written or moved all the same, by an optimiser, load_state_dict() or to(), is refused in the
    module's next call by a RuntimeError; unfreeze() is to come first. What PyTorch does not see, writes through
    `.data`, raw pointers and replays of graphs, is not seen here: results are those of the elements before. Copies
    and pickles of the model are not frozen. Any number of threads may compute at once.

    Raises ValueError where the model, or a module below it, is in training mode.
    """
    for name, module in model.named_modules():
        if module.training:
            which = repr(name) if name else type(module).__name__
            raise ValueError(f"freeze: the model must be in eval mode; got {which} in training mode; call eval()")
    held = []
    with Frozen._lock:
        for module in model.modules():
            weight = module._parameters.get("weight") if isinstance(module, modules.Held) else None
            if type(weight) is not nn.Parameter:  # such as one that a parametrisation makes in each call
                continue
            filter = module._adjoint_frozen
            if filter is None or filter.of(weight) is None:
                filter = Filter(weight)
            held.append((module, filter))
        for module, filter in held:
            filter.holders += 1
            module._adjoint_frozen = filter
    return Frozen(held)
