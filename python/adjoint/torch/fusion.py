"""fuse() makes convolutions in a model's Sequentials one operator with the layers after them."""

import torch
from torch import nn
from torch.nn.modules import module as nn_module
from torch.nn.utils import parametrize

from adjoint.torch import modules, operators
from adjoint.torch.activation import activation_of
from adjoint.torch.functional import is_compiling

_NORMS = {1: nn.BatchNorm1d, 2: nn.BatchNorm2d, 3: nn.BatchNorm3d}
_CONVS = (
    modules.Conv1d, modules.Conv2d, modules.Conv3d,
    modules.ConvTranspose1d, modules.ConvTranspose2d, modules.ConvTranspose3d,
)
_tracing_state = torch._C._get_tracing_state
_GLOBAL_HOOKS = [
    getattr(nn_module, f"_global_{name}_hooks")
    for name in ("forward", "forward_pre", "backward", "backward_pre")
    if hasattr(nn_module, f"_global_{name}_hooks")
]
_HOOKS = ("_forward_hooks", "_backward_hooks", "_backward_pre_hooks")


def _is_seen(module):
    """Returns true if a hook sees the module's results or gradients, or if a forward set on it computes them."""
    return any(getattr(module, name, None) for name in _HOOKS) or has_own_forward(module)


def has_own_forward(module):
    """Returns true if a forward was set on the module itself. It tests this as nn.Module does, for compilers."""
    return "forward" in module.__dict__ or "_conv_forward" in module.__dict__


class FusedSequential(nn.Sequential):
    """A Sequential that computes convolutions together with the layers after them.

    Each call determines these layers, so modules may be changed, hooked, trained and evaluated as before. They are a
    convolution of Adjoint's, then a BatchNorm in eval mode, then a ReLU, LeakyReLU, Tanh, Sigmoid or SiLU; either of
    the latter two may be absent. If one of them has a hook, or its forward was replaced on the module itself, they run
    separately.

    While nothing is recorded, a Sequential keeps a folded filter until one of the tensors that it is made of changes,
    or until train(), load_state_dict(), to() or the like is called. PyTorch does not see in-place writes through
    `.data`; call train() or eval() after them. Compilers and tracers see activations as a part of their convolution,
    and a BatchNorm unfolded, because their programs would fold it in each call.
    """

    def forward(self, input):
        if any(_GLOBAL_HOOKS):
            return super().forward(input)
        layers = list(self._modules.values())
        at = 0
        while at < len(layers):
            norm, activation, end = _tail(layers, at, input)
            if end > at + 1:
                input = self._run(layers[at], norm, activation, input)
            else:
                input = layers[at](input)
            at = end
        return input

    def _run(self, conv, norm, activation, input):
        arguments = (input,)
        for hook in conv._forward_pre_hooks.values():  # such as weight_norm's, which computes the weight
            result = hook(conv, arguments)
            if result is not None:
                arguments = result if isinstance(result, tuple) else (result,)
        weight, bias = conv.weight, conv.bias
        if norm is not None:
            weight, bias = self._folded(conv, norm, weight, bias)
        return conv.computed_by(conv.function_of(weight, activation), *arguments[:1], weight, bias, *arguments[1:])

    def _folded(self, conv, norm, weight, bias):
        """Returns the filter and bias of both layers together."""
        parts = (weight, bias, norm.weight, norm.bias, norm.running_mean, norm.running_var)
        keeps = not torch.is_grad_enabled() and weight is conv._parameters.get("weight")
        keeps = keeps and operators.is_ordinary(parts)
        tensors = [part for part in parts if part is not None]
        if not keeps or any([part.is_inference() for part in tensors]):
            return _fold(conv, norm, weight, bias)
        folds = self.__dict__.setdefault("_folds", {})
        # An assignment to `.data` does not change the version, but it changes the address.
        versions = [norm.eps, *[part._version for part in tensors], *[part.data_ptr() for part in tensors]]
        known = folds.get(conv)
        if known is None or known[1] != versions or any(a is not b for a, b in zip(known[0], parts)):
            # Holding their memory keeps its address from other tensors that are assigned to `.data`.
            memory = [part.detach() for part in tensors]
            folds[conv] = known = parts, versions, _fold(conv, norm, weight, bias), memory
        frozen = conv._adjoint_frozen
        if frozen is not None:
            frozen.follow(weight, known[2][0])
        return known[2]

    def _forget(self):
        self.__dict__.pop("_folds", None)

    def train(self, mode=True):
        self._forget()
        return super().train(mode)

    def _apply(self, *arguments, **keywords):
        self._forget()
        return super()._apply(*arguments, **keywords)

    def _load_from_state_dict(self, *arguments, **keywords):
        self._forget()
        return super()._load_from_state_dict(*arguments, **keywords)

    def __getstate__(self):
        return {key: value for key, value in self.__dict__.items() if key != "_folds"}


def own_class(module):
    """Returns the module's class without those that parametrisations have added."""
    return parametrize.type_before_parametrizations(module) if parametrize.is_parametrized(module) else type(module)


def _tail(layers, at, input):
    """Returns the layers computed together with layer `at`: a BatchNorm or None, an activation or None, and the index
    of the first layer after them."""
    conv = layers[at]
    if own_class(conv) not in _CONVS or _is_seen(conv) or getattr(conv, "_forward_pre_hooks_with_kwargs", None):
        return None, None, at + 1
    end, norm, activation = at + 1, None, None
    if end < len(layers) and _folds(conv, layers[end], input):
        norm, end = layers[end], end + 1
    if end < len(layers) and not _is_seen(layers[end]) and not layers[end]._forward_pre_hooks:
        activation = activation_of(layers[end])
        end += activation is not None
    return norm, activation, end


def _folds(conv, norm, input):
    return (
        type(norm) is _NORMS[len(conv.kernel_size)]
        and not norm.training
        and not is_compiling()
        and _tracing_state() is None
        and isinstance(input, torch.Tensor)  # a torch.fx proxy's graph would keep the numbers
        and input.dim() == len(conv.kernel_size) + 2  # without a batch, a norm interprets the axes differently or fails
        and norm.running_mean is not None
        and norm.running_var is not None
        and norm.num_features == conv.out_channels
        and not _is_seen(norm)
        and not norm._forward_pre_hooks
    )


def _fold(conv, norm, weight, bias):
    scale = torch.rsqrt(norm.running_var + norm.eps)
    if norm.weight is not None:
        scale = scale * norm.weight
    shift = -norm.running_mean if bias is None else bias - norm.running_mean
    shift = shift * scale
    if norm.bias is not None:
        shift = shift + norm.bias
    # The filter's axes with the results' channels separated: (groups, C / groups, O / groups, ...) if it is transposed.
    ones = [1] * len(conv.kernel_size)
    if conv.transposed:
        apart = weight.reshape(conv.groups, -1, *weight.shape[1:])
        folded = (apart * scale.reshape(conv.groups, 1, -1, *ones)).reshape(weight.shape)
    else:
        folded = weight * scale.reshape(-1, 1, *ones)
    return folded.to(weight.dtype), shift.to(weight.dtype)
