"""Adjoint's Python side: a drop-in for PyTorch's transposed convolutions, in adjoint.torch."""
