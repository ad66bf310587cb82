"""Drop-in for PyTorch's convolutions of one and two axes and their transposes, on Adjoint's kernels.

    import adjoint.torch as adj
    print(adj.replace(model))                # every Conv and ConvTranspose of a model, in place; prints a report
    m = adj.ConvTranspose1d(128, 128, 3)     # torch.nn.ConvTranspose1d's signature, state_dict and initial weights
    y = adj.conv2d(x, w, bias, stride, padding, dilation, groups)
    adj.set_precision("tf32")
    frozen = adj.freeze(model.eval())        # for inference: filters are packed once, not in each call

Autograd works to any order, in reverse and in forward mode: the three operators of the trio are each other's gradients.
Tensors may be float16, bfloat16, float32 or float64, on CUDA or on the CPU; non-contiguous and lazily negated tensors
are copied first. Calls run on the current stream. backend() says whether they go through the C++ extension that
`python -m adjoint.torch build` compiles, or through ctypes. docs/python.md describes the package.
"""

from adjoint.torch import registration as _registration  # registers torch.ops.adjoint
from adjoint.torch.extension import backend
from adjoint.torch.freezing import Frozen, freeze
from adjoint.torch.functional import conv1d, conv2d, conv3d, conv_transpose1d, conv_transpose2d, conv_transpose3d
from adjoint.torch.modules import Conv1d, Conv2d, Conv3d, ConvTranspose1d, ConvTranspose2d, ConvTranspose3d
from adjoint.torch.native import get_precision, set_precision
from adjoint.torch.replacement import Report, fuse, replace, restore

__all__ = [
    "Conv1d",
    "Conv2d",
    "Conv3d",
    "ConvTranspose1d",
    "ConvTranspose2d",
    "ConvTranspose3d",
    "Frozen",
    "Report",
    "backend",
    "conv1d",
    "conv2d",
    "conv3d",
    "conv_transpose1d",
    "conv_transpose2d",
    "conv_transpose3d",
    "freeze",
    "fuse",
    "get_precision",
    "replace",
    "restore",
    "set_precision",
]
