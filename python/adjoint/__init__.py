"""Adjoint's Python side: a drop-in for PyTorch's convolutions and transposed convolutions, in adjoint.torch."""
