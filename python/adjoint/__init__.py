"""Adjoint's Python side: a drop-in for PyTorch's convolutions and transposed convolutions, in adjoint.torch."""

__version__ = "0.1.0"  # the library's version: library.py refuses any other
