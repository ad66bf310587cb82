"""freeze() fixes a model's weights, which lets kernels pack a filter once and not in each call."""

import threading

from torch import nn

from adjoint.library import FrozenFilter
from adjoint.torch import modules


def _state(tensor):
    """A value that changes when a tensor is written or moved, as far as PyTorch counts this."""
    return None if tensor.is_inference() else tensor._version, tensor.data_ptr(), tensor.dtype, tensor.device


class _Kept:
    """A tensor in its current state, and its frozen filter in the library."""

    def __init__(self, tensor):
        self.tensor, self.state, self.handle = tensor, _state(tensor), FrozenFilter()
        self._memory = tensor.detach()  # held, to keep its address from other tensors


class Filter:
    """A module's parameter, and the filter that fuse() last folded from it. Copies and pickles of this are None,
    because copied modules are not frozen."""

    def __init__(self, parameter):
        self.parameter, self.folded, self.holders = _Kept(parameter), None, 0

    def of(self, weight):
        """Returns the frozen filter for the weight of a call, or None if the weight is another tensor, such as an
        assigned one. Raises RuntimeError if the weight has changed."""
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
        """Must be called before each use of a filter folded from the weight. Raises as of() does."""
        self.of(weight)
        kept = self.folded
        if weight is self.parameter.tensor and (kept is None or kept.tensor is not folded):
            self.folded = _Kept(folded)

    def kept_bytes(self):
        return sum(kept.handle.kept_bytes() for kept in (self.parameter, self.folded) if kept is not None)

    def __reduce__(self):
        return type(None), ()


class Frozen:
    """Keeps a model frozen until unfreeze(), the end of a `with` block, or its own end. If several objects hold the
    same module, each keeps it frozen."""

    _lock = threading.RLock()  # for the record of holders; calls do not take it

    def __init__(self, held):
        self._held = held  # pairs of a module and its Filter

    def unfreeze(self) -> None:
        """Allows the weights to change again; their packed forms are released once no call computes with them."""
        with self._lock:
            held, self._held = self._held, []
            for module, filter in held:
                filter.holders -= 1
                if filter.holders == 0 and vars(module).get("_adjoint_frozen") is filter:
                    del module._adjoint_frozen

    def kept_bytes(self) -> int:
        """The bytes of the packed forms at present, on all devices."""
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
    """Freezes the filters of Adjoint's convolutions in `model`, including those made by replace() and fuse(), as long
    as the returned Frozen lives. Results keep their bits.

    A convolution whose kernel packs its filter, or copies it into another order, then does so in the first call of its
    shapes on a stream, and keeps the result. It keeps up to eight such forms of a filter, each about as large as the
    filter, in float32 up to twice as large; in later calls of other shapes it packs as usual. If fuse() folds a
    BatchNorm, the folded filter is kept in the same way. Some calls pack as usual, with the same results: calls that
    autograd records (use torch.no_grad() or torch.inference_mode()), that autocast casts, that torch.compile,
    torch.export or torch.jit.trace trace, or that a CUDA graph captures; calls under torch.func; calls with filters
    that a parametrisation computes in each call, or that are assigned later; and calls in half precision on the CPU.

    If an optimiser, load_state_dict() or to() writes or moves a frozen filter, the module's next call raises a
    RuntimeError; call unfreeze() first. PyTorch, and therefore freeze(), does not see writes through `.data`, raw
    pointers and replays of graphs: results are those of the earlier elements. Copies and pickles of the model are not
    frozen. Any number of threads may compute at once.

    Raises ValueError if the model, or a module below it, is in training mode.
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
