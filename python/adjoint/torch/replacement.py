"""Replaces PyTorch's modules in a model by Adjoint's, and restores them."""

import dataclasses
from typing import Dict, Iterable, Union

from torch import nn
from torch.nn.parameter import is_lazy
from torch.nn.utils import parametrize

from adjoint.torch import modules, trial
from adjoint.torch.activation import activation_of
from adjoint.torch.fusion import FusedSequential, has_own_forward, own_class
from adjoint.torch.native import DTYPES

_TRANSPOSED = {getattr(nn, name): getattr(modules, name) for name in (f"ConvTranspose{rank}d" for rank in (1, 2, 3))}
_CONV = {getattr(nn, name): getattr(modules, name) for name in (f"Conv{rank}d" for rank in (1, 2, 3))}
_OURS = {ours: theirs for theirs, ours in {**_TRANSPOSED, **_CONV}.items()}


@dataclasses.dataclass
class Report:
    """The effect of replace(), fuse() or restore() on each module of a model, by the module's name in it.

    replaced: the module's class now; for fuse(), the layers computed together. left: the reason why a module, or for
    fuse() a part of it, is unchanged; and classes named in `subclasses` that no module is of. trials: with
    only_where_faster, the measurements, in milliseconds, of each layer's first call; a layer that PyTorch computes
    faster is PyTorch's again from then on.
    """

    replaced: Dict[str, str] = dataclasses.field(default_factory=dict)
    left: Dict[str, str] = dataclasses.field(default_factory=dict)
    trials: Dict[str, trial.Trial] = dataclasses.field(default_factory=dict)

    def __str__(self):
        lines = [f"{len(self.replaced)} replaced, {len(self.left)} left"]
        lines += [f"  {name or '(the model)'}: {kind}" for name, kind in self.replaced.items()]
        lines += [f"  {name or '(the model)'}: left, {reason}" for name, reason in self.left.items()]
        lines += [f"  {name or '(the model)'}: {trial}" for name, trial in self.trials.items()]
        return "\n".join(lines)


def replace(
    model: nn.Module,
    transposed: bool = True,
    conv: bool = True,
    subclasses: Union[type, str, Iterable[Union[type, str]]] = (),
    only_where_faster: bool = False,
) -> Report:
    """Makes the convolutions of `model`, Conv1d to ConvTranspose3d, Adjoint's, in place; returns a Report.

    Parameters, buffers, hooks, parametrisations, sharing and the modules' identity are kept, because only the modules'
    class changes; optimisers and state_dicts are not affected. A lazy module is replaced after its first call. Filters
    in torch.channels_last that no kernel reads so are laid out channel by channel, now and by to() later.

    transposed, conv: the kinds to replace. subclasses: one or several classes that derive from these four, or their
    names, to replace as well. Their overrides are kept, and super().forward() and self._conv_forward() become
    Adjoint's. Other subclasses are left, because they may compute something else. The report lists the given classes of
    which the model has no module.

    only_where_faster: each replaced module's first call for some shapes is timed both ways, with the gradients if it
    records, and the module becomes PyTorch's again if that is faster. A way that fails has lost; if both fail,
    Adjoint's module stays. The time is that of the convolution, without the code around it in a subclass's forward(),
    and with both sides' current precisions: torch.backends.cudnn.allow_tf32 for PyTorch, set_precision() for Adjoint.
    """
    report = Report()
    subclasses = (subclasses,) if isinstance(subclasses, (type, str)) else tuple(subclasses)
    met = set()  # of the subclasses
    kinds = {**(_TRANSPOSED if transposed else {}), **(_CONV if conv else {})}
    for name, module in model.named_modules():
        if not isinstance(module, nn.modules.conv._ConvNd):
            continue
        met.update(_names(_kind(module)))
        reason = _replace(module, kinds, subclasses)
        if reason is not None:
            report.left[name] = reason
            continue
        modules.hold_filters(module)
        report.replaced[name] = type(module).__name__ + (", once it has been called" if is_uninitialised(module) else "")
        if only_where_faster:
            trial.begin(module, name, report.trials, _restore)
    for subclass in subclasses:
        if subclass not in met:
            report.left[f"subclasses: {subclass}"] = "no convolution of the model is of it"
    return report


def fuse(model: nn.Module) -> Report:
    """Computes the convolutions in Sequentials of `model` as one operator with the layers after them; returns a Report.

    The convolutions must be Adjoint's, so call replace() first. A BatchNorm may follow a convolution, and becomes part
    of its filter and bias in eval mode; then a ReLU, LeakyReLU, Tanh, Sigmoid or SiLU may follow. Gradients of any
    order are available. Only the class of Sequentials changes, in place; classes that derive from Sequential are fused
    if they inherit its forward(). fusion.FusedSequential says when parts run separately.
    """
    report = Report()
    for name, module in model.named_modules():
        if not isinstance(module, nn.Sequential) or isinstance(module, FusedSequential):
            continue
        pairs, reason = _pairs(module)
        if type(module).forward is not nn.Sequential.forward or has_own_forward(module):
            reason = f"a {type(module).__name__} has a forward of its own"
        elif pairs:
            kind = own_class(module)
            _become(module, FusedSequential if kind is nn.Sequential else _mixed(kind, FusedSequential))
            report.replaced[name] = ", ".join(pairs)
        if reason is not None:
            report.left[name] = reason
    return report


def _pairs(sequential):
    """Returns texts: the layers that may be computed together, and the reasons why other convolutions stay alone."""
    pairs, reason = [], None
    layers = list(sequential._modules.items())
    for at, (name, layer) in enumerate(layers[:-1]):
        end = at + 1
        end += isinstance(layers[end][1], (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d))
        end += end < len(layers) and activation_of(layers[end][1]) is not None
        if end == at + 1 or not isinstance(layer, nn.modules.conv._ConvNd):
            continue
        own = next((key for key, part in layers[at:end] if has_own_forward(part)), None)
        if own is not None:
            reason = f"the forward of its {own} was replaced on the module itself"
        elif own_class(layer) in _OURS:
            pairs.append(" + ".join(f"{key} {type(part).__name__}" for key, part in layers[at:end]))
        else:
            reason = f"its {name} is a {type(layer).__name__} that is not Adjoint's"
    return pairs, reason


def restore(model: nn.Module) -> Report:
    """Turns every module of `model` that is Adjoint's back into PyTorch's, in place; returns a Report."""
    report = Report()
    for name, module in model.named_modules():
        if isinstance(module, FusedSequential):
            module._forget()
            _become(module, getattr(type(module), "_mixed_from", nn.Sequential))
            report.replaced[name] = type(module).__name__
        if isinstance(module, nn.modules.conv._ConvNd) and _restore(module):
            report.replaced[name] = type(module).__name__
        elif isinstance(module, modules.Held):
            report.left[name] = f"it is a {type(module).__name__}, a subclass of Adjoint's"
    return report


def _replace(module, kinds, subclasses):
    """Returns the reason why the module is unchanged, or None."""
    if issubclass(_kind(module), modules.Held):
        return "it is Adjoint's"
    if has_own_forward(module):
        return "its forward was replaced on the module itself"
    kind = _kind(module)
    base = next((base for base in kinds if issubclass(kind, base)), None)
    if base is None:
        return "its kind was not asked for"
    # This skips weights that a parametrisation computes, because spectral_norm changes the module when it computes one.
    for name, parameter in module.named_parameters():
        if parameter.dtype not in DTYPES:
            return f"its {name} is of {parameter.dtype}"
    if kind is base:
        ours = kinds[base]
    elif any(name in subclasses for name in _names(kind)):
        ours = _mixed(kind, kinds[base])
    else:
        return f"it is a {kind.__name__}, a subclass that was not asked for"
    if kind is not own_class(module):
        module.cls_to_become = ours  # its first call ends with this class
    else:
        _become(module, ours)
    return None


def _restore(module):
    """Returns true if the module was Adjoint's."""
    if is_uninitialised(module) and issubclass(vars(module).get("cls_to_become", object), modules.Held):
        trial.end(module)
        del module.cls_to_become
        return True
    kind = own_class(module)
    theirs = vars(kind).get("_mixed_from", _OURS.get(kind))
    if theirs is None:
        return False
    trial.end(module)
    vars(module).pop("cls_to_become", None)  # left by a lazy module's first call
    _become(module, theirs)
    return True


def _kind(module):
    """Returns the module's class, or for a lazy module the class that it becomes, if it names one."""
    becomes = getattr(module, "cls_to_become", None) if is_uninitialised(module) else None
    return own_class(module) if becomes is None else becomes


def _names(kind):
    """Returns the names that select a subclass in replace(); a replaced module keeps the names of its own class."""
    kind = vars(kind).get("_mixed_from", kind)
    return kind, kind.__name__, f"{kind.__module__}.{kind.__qualname__}"


def is_uninitialised(module):
    """Returns true for a lazy module before its first call."""
    return any(is_lazy(parameter) for parameter in module._parameters.values())


def _become(module, kind):
    # A parametrised module has a class made for it alone, with the parametrised tensors as properties and the module's
    # own class as its base. remove_parametrizations goes back to that base.
    if parametrize.is_parametrized(module):
        old = type(module)
        members = {key: value for key, value in vars(old).items() if key not in ("__dict__", "__weakref__")}
        kind = type(f"Parametrized{kind.__name__}", (kind,), members)
    module.__class__ = kind


_mixes = {}


def _mixed(kind, ours):
    """Returns a class that is `kind`, and whose super() finds Adjoint's forward before PyTorch's."""
    if (kind, ours) not in _mixes:
        members = {"__module__": kind.__module__, "_mixed_from": kind, "__reduce_ex__": _reduce}
        _mixes[kind, ours] = type(kind.__name__, (kind, ours), members)
    return _mixes[kind, ours]


def _reduce(module, protocol):
    # pickle cannot find the class by its name.
    state = module.__getstate__() if hasattr(module, "__getstate__") else None  # a parametrised module's raises
    kind, ours = type(module).__bases__
    # Nor can it find the class that a lazy module becomes.
    state = {key: value for key, value in (state or module.__dict__).items() if key != "cls_to_become"}
    return _unreduce, (kind, ours), state


def _unreduce(kind, ours):
    made = _mixed(kind, ours)
    return made.__new__(made)
