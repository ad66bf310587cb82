"""The trio as operators of torch.ops.adjoint, for tracers, compilers, exporters and other users of the dispatcher.

    conv(Tensor image, Tensor filter, Tensor? bias, int[] stride, int[] padding, int[] dilation, int groups,
         int activation=0, float parameter=0.) -> Tensor
    conv_transpose(Tensor feature, Tensor filter, Tensor? bias, ..., SymInt[] output_padding,
                   int activation=0, float parameter=0.) -> Tensor
    conv_weight(Tensor image, Tensor feature, ..., SymInt[] kernel_size) -> Tensor

Tensors have a batch axis, and attributes have a value for each spatial axis. activation: 0, or a constant of c_api.h.
"""

import inspect

import torch
from torch._prims_common import suggest_memory_format

from adjoint.torch import extension, native, operators
from adjoint.torch.activation import activation_of_constant
from adjoint.torch.functional import autocast_dtype, check_bias, check_operands, lowered
from adjoint.torch.problem import kept_problem, problem_of_call

_SIZE = {"feature": "", "image": ", SymInt[] output_padding", "filter": ", SymInt[] kernel_size"}
_exclude = getattr(torch._C, "_ExcludeDispatchKeyGuard", None) or torch._C.ExcludeDispatchKeyGuard


def _schema(operator):
    tensors = "".join(f"Tensor {role}, " for role in operator.takes) + ("Tensor? bias, " if operator.has_bias else "")
    attributes = f"int[] stride, int[] padding, int[] dilation, int groups{_SIZE[operator.yields]}"
    activation = ", int activation=0, float parameter=0." if operator.has_bias else ""
    return f"{operator.name}({tensors}{attributes}{activation}) -> Tensor"


def _split(operator, arguments):
    """Turns an operator's arguments into its problem, its tensors, and its activation or None. Raises ValueError for
    operands that do not fit."""
    count = 3 if operator.has_bias else 2
    tensors, (stride, padding, dilation, groups, *rest) = arguments[:count], arguments[count:]
    size, activation = ([], rest) if operator.yields == "feature" else (rest[:1], rest[1:])
    activation = activation_of_constant(*activation, *(0, 0.0)[len(activation):])  # defaults may be omitted
    first, second, *bias = tensors
    name, rank = f"adjoint::{operator.name}", first.dim() - 2
    if rank not in (1, 2, 3):
        raise ValueError(f"{name}: operands must have 3 to 5 axes; got {tuple(first.shape)}")
    check_operands(name, rank, first, second, *bias)
    attributes = {"stride": stride, "padding": padding, "dilation": dilation}
    for what, values in (*attributes.items(), *zip(_SIZE[operator.yields].split()[-1:], size)):
        if len(values) != rank:
            raise ValueError(f"{name}: {what} must have one value for each of {rank} axes; got {tuple(values)}")
    output_padding = tuple(size[0]) if operator.yields == "image" else 0
    weight = second.shape
    if operator.yields == "filter":
        weight = (second.shape[1], first.shape[1] // max(groups, 1), *size[0])
    arguments = (
        rank, operator.yields == "image", first.shape, weight, tuple(stride), tuple(padding), output_padding, groups,
        tuple(dilation),
    )
    try:
        problem = kept_problem(*arguments)
    except TypeError:  # shapes of a trace
        problem = problem_of_call(*arguments)
    if operator.yields == "filter" and tuple(second.shape) != problem.shapes["feature"]:
        problem = _of_feature(name, problem, tuple(second.shape))
    if operator.has_bias:
        check_bias(name, *bias, problem.shapes[operator.yields][1])
    return problem, tensors, activation


def _of_feature(name, problem, feature):
    """Returns the problem for a feature with fewer positions, as an output_padding allows. Raises ValueError."""
    expected = problem.shapes["feature"]
    axes = zip(expected[2:], feature[2:], problem.stride, problem.dilation)
    if feature[:2] != expected[:2] or any(f < 1 or e < f or (e - f) * s >= max(s, d) for e, f, s, d in axes):
        raise ValueError(f"{name}: feature must have shape {expected}; got {feature}")
    return problem.of_shapes(problem.shapes["image"], feature, problem.shapes["filter"], problem.groups)


def _kernel(operator):
    def kernel(*arguments):
        problem, tensors, activation = _split(operator, arguments)
        return operator.run(problem, *tensors, activation=activation)

    return kernel


def _fake(operator):
    def fake(*arguments):
        problem, tensors, _ = _split(operator, arguments)
        out = tensors[0].new_empty(problem.shapes[operator.yields])
        # PyTorch's own test comes first, because it accepts strides that a compiler does not know.
        last = native.last_format(out.dim())
        asking = [t for t in tensors[:2] if last is not None and suggest_memory_format(t) == last]
        if operator.yields == "filter" or not native.asks_for_channels_last(*asking):
            return out
        return out.to(memory_format=last)  # contiguous() keeps strides that fit both layouts

    return fake


def _autocast(operator, device):
    key = torch._C._dispatch_key_parse(f"Autocast{device}")

    def kernel(*arguments):
        dtype = autocast_dtype(device.lower())
        with operators.held(_exclude(torch._C.DispatchKeySet(key))):
            return operator.registered(*(lowered(value, dtype) if dtype else value for value in arguments))

    return kernel


def _register_autograd(operator, library):
    count = 3 if operator.has_bias else 2

    def setup_context(ctx, inputs, output):
        ctx.problem, tensors, ctx.activation = _split(operator, inputs)
        behind = () if ctx.activation is None else (output,) if ctx.activation.has_gradient else tensors[2:]
        ctx.save_for_backward(*tensors[:2], *behind)

    def backward(ctx, grad):
        first, second, *behind = ctx.saved_tensors
        if ctx.activation is not None:
            if not ctx.activation.has_gradient:
                behind = [operator(ctx.problem, first, second, *behind)]  # the activation's input, computed again
            grad = ctx.activation.gradient(grad, *behind)
        gradients = operator.gradients(ctx.problem, (first, second), ctx.needs_input_grad[:count], grad)
        return (*gradients, *(None,) * (len(ctx.needs_input_grad) - count))

    torch.library.register_autograd(f"adjoint::{operator.name}", backward, setup_context=setup_context, lib=library)


def _vmap(operator):
    count = 3 if operator.has_bias else 2

    def vmap(info, dims, *arguments):
        problem, _, activation = _split(operator, [_one(value, dim) for value, dim in zip(arguments, dims)])
        out, dim = operator.batched(problem, info.batch_size, dims[:count], arguments[:count])
        return out if activation is None else activation(out), dim

    return vmap


def _one(value, dim):
    """Returns an argument's shape for one of the problems that vmap has put along `dim`."""
    return value.select(dim, 0) if isinstance(dim, int) else value


def _register():
    library = torch.library.Library("adjoint", "DEF")
    options = {}
    if "tags" in inspect.signature(library.define).parameters:
        options["tags"] = [
            getattr(torch.Tag, tag) for tag in ("pt2_compliant_tag", "needs_fixed_stride_order") if hasattr(torch.Tag, tag)
        ]
    for operator in operators.YIELDS.values():
        library.define(_schema(operator), **options)
        operator.registered = getattr(torch.ops.adjoint, operator.name)
        if extension.module is None:  # the extension has the kernels, casts and gradients
            for device in ("CPU", "CUDA"):
                library.impl(operator.name, _kernel(operator), device)
                library.impl(operator.name, _autocast(operator, device), f"Autocast{device}")
            if hasattr(torch.library, "register_autograd"):
                _register_autograd(operator, library)
            else:
                library.impl(operator.name, _before_autograd(operator), "Autograd")
        if hasattr(torch.library, "register_fake"):
            torch.library.register_fake(f"adjoint::{operator.name}", _fake(operator), lib=library)
        else:
            library.impl(operator.name, _fake(operator), "Meta")
        if hasattr(torch.library, "register_vmap"):
            torch.library.register_vmap(f"adjoint::{operator.name}", _vmap(operator), lib=library)
    return library


def _before_autograd(operator):
    """Registers a kernel that records, for versions of PyTorch that accept no formulas."""

    def kernel(*arguments):
        problem, tensors, activation = _split(operator, arguments)
        out = operator.transform(problem, *tensors)
        return out if activation is None else activation(out)

    return kernel


library = _register()  # the operators exist as long as this object
