"""The trio: conv, conv_transpose and conv_weight, each other's derivatives in every mode.

One trilinear form of image, filter and feature has three partial derivatives, and they are the three operators
(docs/convolution.md). So one class represents all of them: an operator reads two of the three and yields the third, and
its derivative with respect to one operand is the operator that yields that operand from the other operand and the
result's gradient.
"""

import contextlib

import torch
from torch.autograd import Function, forward_ad

from adjoint.torch import native


class Operator:
    """takes: two of "image", "feature" and "filter"; yields: the third. A bias may be added for each of its
    channels."""

    def __init__(self, name, takes, yields, has_bias):
        self.name, self.takes, self.yields, self.has_bias = name, takes, yields, has_bias
        self.function = f"adjoint_{name}"
        self.registered = None  # torch.ops' operator of this name: registration.py
        # `apply`: recorded by autograd alone, as fast as possible; `transform`: for every other transform.
        self.apply = _recorded(self).apply
        self.transform = _transformed(self).apply

    def run(self, problem, *tensors, **behind):
        """Runs the operator alone, unrecorded. behind: native.run's activation and frozen filter."""
        geometry = problem.address or problem.native_address()
        return native.run(self.function, geometry, problem.shapes[self.yields], *tensors, **behind)

    def activated(self, problem, activation, *tensors):
        """Computes the operator of two tensors and a bias or None, followed by the activation; in one pass if only
        autograd observes it."""
        if is_ordinary(tensors) and getattr(forward_ad, "_current_level", 0) < 0:
            if not (torch.is_grad_enabled() and any(t is not None and t.requires_grad for t in tensors)):
                return self.run(problem, *tensors, activation=activation)
            if activation.has_gradient:
                return _Activated.apply(self, problem, activation, *tensors)
        return activation(self(problem, *tensors))

    def below(self, problem, *tensors):
        """Computes the operator below autograd, where operands may not be numbers yet."""
        if is_ordinary(tensors):
            return self.run(problem, *tensors)
        with held(torch._C._AutoDispatchBelowAutograd()):
            return self.dispatch(problem, *tensors)

    def dispatch(self, problem, *tensors):
        """Calls the operator by the name and the numbers that PyTorch knows."""
        out = self.registered(
            *tensors, problem.stride, problem.padding, problem.dilation, problem.groups, *self.size(problem)
        )
        if self.yields == "feature":  # an image that is a stride longer has more positions
            for axis, (rest, stride) in enumerate(zip(problem.output_padding(), problem.stride), 2):
                if rest >= stride:
                    out = out.narrow(axis, 0, problem.shapes["feature"][axis]).contiguous()
        return out

    def size(self, problem):
        """Returns the registered operator's argument on the result's extents, if they do not follow from the rest."""
        if self.yields == "filter":
            return (problem.shapes["filter"][2:],)
        return (problem.output_padding(),) if self.yields == "image" else ()

    def gradients(self, problem, operands, needs, grad):
        """Returns the gradient with respect to each operand that needs one, given the result's; None for the others."""
        ordinary = is_ordinary((grad,))
        channels_last = ordinary and native.asks_for_channels_last(grad)
        if ordinary and not native.may_be_read_as_it_lies(grad):
            grad = native.laid(grad, False)  # one copy for all operators that take it
        known = dict(zip(self.takes, operands), **{self.yields: grad})
        gradients = []
        for role, need in zip(self.takes, needs):
            operator, gradient = YIELDS[role], None
            if need:
                taken = [known[r] for r in operator.takes]
                asks = ordinary and native.asks_for_channels_last(known[role]) if role == "filter" else channels_last
                if asks and role == "filter" and is_unseen(taken):
                    gradient = operator.run(problem, *taken, filter_to_last=True)
                else:
                    gradient = operator(problem, *taken)
                if asks:
                    gradient = native.laid(gradient, True)
            gradients.append(gradient)
        if self.has_bias:
            gradients.append(grad.sum(problem.sum_axes) if needs[2] else None)
        return tuple(gradients)

    def tangent(self, problem, operands, tangents):
        """Returns the result's tangent, given those of operands and bias, each of which may be None."""
        first, second = operands
        terms = []
        if tangents[0] is not None:
            terms.append(self(problem, tangents[0], second))
        if tangents[1] is not None:
            terms.append(self(problem, first, tangents[1]))
        if self.has_bias and tangents[2] is not None:
            shape = [1] * (problem.rank + 2)
            shape[1] = -1
            terms.append(tangents[2].reshape(shape).expand(problem.shapes[self.yields]).clone())
        return sum(terms[1:], terms[0])

    def batched(self, problem, count, dims, tensors):
        """Computes the operator for `count` problems together. Operands have them along the axes `dims`, or None if all
        problems share an operand. Returns the results, and their axis."""
        shared_filter = self.yields != "filter" and dims[self.takes.index("filter")] is None
        fold = _Samples(count) if shared_filter else _Groups(count)
        shapes = {role: fold.shape(role, shape) for role, shape in problem.shapes.items()}
        folded = problem.of_shapes(**shapes, groups=fold.groups(problem.groups))
        operands = []
        for role, tensor, dim in zip(self.takes, tensors, dims):
            if role == "filter" and shared_filter:
                operands.append(tensor)
                continue
            tensor = tensor.expand(count, *tensor.shape) if dim is None else tensor.movedim(dim, 0)
            operands.append(fold.operand(role, tensor))
        result = fold.result(self.yields, self(folded, *operands), problem.shapes[self.yields])
        if self.has_bias and tensors[2] is not None:
            bias = tensors[2]
            bias = bias.unsqueeze(0) if dims[2] is None else bias.movedim(dims[2], 0)
            result = result + bias.reshape(bias.shape[0], 1, -1, *(1,) * problem.rank)
        return result, 0

    def __call__(self, problem, *tensors):
        """Computes the operator, and every observer records it. `tensors`: two, and for operators with a bias the bias
        or None."""
        if self.has_bias and len(tensors) == 2:
            tensors = (*tensors, None)
        if _transforms_active() or getattr(forward_ad, "_current_level", 0) >= 0:
            return self.transform(problem, *tensors)
        if not is_ordinary(tensors):
            return self.dispatch(problem, *tensors)
        if torch.is_grad_enabled():
            for tensor in tensors:
                if tensor is not None and tensor.requires_grad:
                    return self.apply(problem, *tensors)
        return self.run(problem, *tensors)


@contextlib.contextmanager
def held(guard):
    """One of PyTorch's guards. Older guards hold as long as they live, and are not context managers."""
    with guard if hasattr(guard, "__enter__") else contextlib.nullcontext():
        yield guard


class _Samples:
    """Computes many problems as the samples of one problem."""

    def __init__(self, count):
        self.count = count

    def shape(self, role, shape):
        return shape if role == "filter" else (self.count * shape[0], *shape[1:])

    def groups(self, groups):
        return groups

    def operand(self, role, tensor):
        return tensor.reshape(-1, *tensor.shape[2:]) if tensor.numel() else tensor.flatten(0, 1)

    def result(self, role, tensor, shape):
        return tensor.reshape(self.count, *shape)


class _Groups:
    """Computes many problems as the groups of channels of one problem."""

    def __init__(self, count):
        self.count = count

    def shape(self, role, shape):
        if role == "filter":
            return (self.count * shape[0], *shape[1:])
        return (shape[0], self.count * shape[1], *shape[2:])

    def groups(self, groups):
        return groups * self.count

    def operand(self, role, tensor):
        return tensor.flatten(0, 1) if role == "filter" else tensor.movedim(0, 1).flatten(1, 2)

    def result(self, role, tensor, shape):
        if role == "filter":
            return tensor.reshape(self.count, *shape)
        return tensor.reshape(shape[0], self.count, *shape[1:]).movedim(1, 0)


# ---- The observers of a call. Each test is a lookup, because every call makes all of them.

_transforms_active = getattr(torch._C, "_are_functorch_transforms_active", lambda: False)
_dispatch_modes = getattr(torch._C, "_len_torch_dispatch_stack", lambda: 0)
_tracing_state = torch._C._get_tracing_state
_has_storage = getattr(torch._C, "_has_storage", lambda tensor: True)  # a batch of gradients has none
_ORDINARY = {torch.Tensor, torch.nn.Parameter, type(None)}


def is_ordinary(tensors):
    """Returns true if the tensors have memory, and only autograd observes operations on them."""
    if _tracing_state() is not None or _dispatch_modes() or _transforms_active():
        return False
    for tensor in tensors:
        if type(tensor) not in _ORDINARY or (tensor is not None and (tensor.is_meta or not _has_storage(tensor))):
            return False
    return True


def is_unseen(tensors):
    """Returns true if nothing observes operations on the tensors at the moment."""
    if not is_ordinary(tensors) or getattr(forward_ad, "_current_level", 0) >= 0:
        return False
    return not (torch.is_grad_enabled() and any(t is not None and t.requires_grad for t in tensors))


# ---- The functions that autograd records. An autograd.Function that has setup_context can be transformed, but takes
# several times as long to apply, because its arguments are bound by their signature.


def _backward(operator):
    def backward(ctx, grad):
        operands = ctx.saved_tensors
        return (None, *operator.gradients(ctx.problem, operands, ctx.needs_input_grad[1:], grad))

    return backward


def _jvp(operator):
    def jvp(ctx, _, *tangents):
        return operator.tangent(ctx.problem, ctx.saved_tensors, tangents)

    return jvp


def _recorded(operator):
    def forward(ctx, problem, *tensors):
        ctx.problem = problem
        ctx.save_for_backward(*tensors[:2])
        return operator.run(problem, *tensors)

    members = {"forward": forward, "backward": _backward(operator)}
    return _function(operator, members)


class _Activated(Function):
    @staticmethod
    def forward(ctx, operator, problem, activation, *tensors):
        out = operator.run(problem, *tensors, activation=activation)
        ctx.operator, ctx.problem, ctx.activation = operator, problem, activation
        ctx.save_for_backward(*tensors[:2], out)
        return out

    @staticmethod
    def backward(ctx, grad):
        *operands, out = ctx.saved_tensors
        grad = ctx.activation.gradient(grad, out)
        return (None, None, None, *ctx.operator.gradients(ctx.problem, operands, ctx.needs_input_grad[3:], grad))


def _transformed(operator):
    def setup_context(ctx, inputs, output):
        ctx.problem, *tensors = inputs
        ctx.save_for_backward(*tensors[:2])
        ctx.save_for_forward(*tensors[:2])

    def forward_of_both(ctx, problem, *tensors):
        setup_context(ctx, (problem, *tensors), None)
        return operator.below(problem, *tensors)

    def vmap(info, dims, problem, *tensors):
        return operator.batched(problem, info.batch_size, dims[1:], tensors)

    members = {"backward": _backward(operator), "jvp": _jvp(operator)}
    if hasattr(Function, "setup_context"):
        members.update(forward=operator.below, setup_context=setup_context, vmap=vmap)
    else:
        members.update(forward=forward_of_both)
    return _function(operator, members)


def _function(operator, members):
    name = "".join(part.capitalize() for part in operator.name.split("_"))
    return type(name, (Function,), {key: staticmethod(member) for key, member in members.items()})


conv = Operator("conv", ("image", "filter"), "feature", has_bias=True)
conv_transpose = Operator("conv_transpose", ("feature", "filter"), "image", has_bias=True)
conv_weight = Operator("conv_weight", ("image", "feature"), "filter", has_bias=False)
YIELDS = {operator.yields: operator for operator in (conv, conv_transpose, conv_weight)}
