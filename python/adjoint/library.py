"""The shared library's C interface (ops/conv/c_api.h), reached by ctypes."""

import ctypes
import ctypes.util
import os
import pathlib
import weakref

from adjoint import __version__

Pair = ctypes.c_int64 * 2
Depth = ctypes.c_int64 * 6  # of image, feature, kernel, stride, padding and dilation


class Geometry(ctypes.Structure):
    """adjoint_conv_geometry"""

    _fields_ = [
        ("batch", ctypes.c_int64),
        ("image_channels", ctypes.c_int64),
        ("feature_channels", ctypes.c_int64),
        ("groups", ctypes.c_int64),
        ("image", Pair),
        ("feature", Pair),
        ("kernel", Pair),
        ("stride", Pair),
        ("padding", Pair),
        ("dilation", Pair),
        ("depth", Depth),
    ]


class Context(ctypes.Structure):
    """adjoint_context"""

    _fields_ = [
        ("device", ctypes.c_int),
        ("stream", ctypes.c_void_p),
        ("dtype", ctypes.c_int),
        ("precision", ctypes.c_int),
    ]


class Activation(ctypes.Structure):
    """adjoint_activation"""

    _fields_ = [("kind", ctypes.c_int), ("parameter", ctypes.c_double)]


# The number of arguments of each function.
_FUNCTIONS = {
    "adjoint_conv": 6,
    "adjoint_conv_transpose": 6,
    "adjoint_conv_activated": 7,
    "adjoint_conv_transpose_activated": 7,
    "adjoint_conv_frozen": 8,
    "adjoint_conv_transpose_frozen": 8,
    "adjoint_conv_channels_last": 9,
    "adjoint_conv_transpose_channels_last": 9,
    "adjoint_freeze_filter": 0,
    "adjoint_unfreeze_filter": 1,
    "adjoint_frozen_bytes": 1,
    "adjoint_conv_weight": 5,
    "adjoint_conv_weight_channels_last": 6,
    "adjoint_copy_to_channels_last": 4,
    "adjoint_copy_from_channels_last": 4,
}

Extents = ctypes.c_int64 * 4


def path() -> str:
    """Returns the library's path: ADJOINT_LIBRARY, else the wheel's library, else the one of the build folder beside
    python/, else the loader's choice."""
    named = os.environ.get("ADJOINT_LIBRARY")
    if named:
        return named
    here = pathlib.Path(__file__).resolve().parent
    for place in (here / "libadjoint.so", here.parents[1] / "build" / "libadjoint.so"):
        if place.exists():
            return str(place)
    return ctypes.util.find_library("adjoint") or "libadjoint.so"


def _load():
    name = path()
    try:
        library = ctypes.CDLL(name)
        library.adjoint_version.restype = ctypes.c_char_p
    except (OSError, AttributeError) as error:
        raise ImportError(
            f"adjoint: the shared library must load; got {error}; build it, and name it in ADJOINT_LIBRARY"
        ) from error
    found = library.adjoint_version().decode()
    if found != __version__:
        raise ImportError(
            f"adjoint: package and shared library must be of one version; got package {__version__} and library "
            f"{found} ({name}); install them from one tree, or name another library in ADJOINT_LIBRARY"
        )
    try:
        # Every argument is passed as an address, a few small integers too, because ctypes passes a number at less cost
        # than a structure.
        for name, count in _FUNCTIONS.items():
            getattr(library, name).argtypes = [ctypes.c_void_p] * count
        library.adjoint_last_error.restype = ctypes.c_char_p
        library.adjoint_freeze_filter.restype = ctypes.c_void_p
        library.adjoint_unfreeze_filter.restype = None
        library.adjoint_frozen_bytes.restype = ctypes.c_int64
    except AttributeError as error:
        raise ImportError(
            f"adjoint: package and shared library must be built from one tree; got package {__version__} and an older "
            f"library {found} ({name}), for {error}; install them together, or name another library in ADJOINT_LIBRARY"
        ) from error
    return library


_library = _load()


def call(function, *arguments):
    """Calls a function of the library. Returns true if it did its work; a function that may decline returns 1. Raises
    RuntimeError with its message if it fails."""
    status = getattr(_library, function)(*arguments)
    if status < 0:
        raise RuntimeError(_library.adjoint_last_error().decode())
    return status == 0


class FrozenFilter:
    """adjoint_frozen_filter, released with the last reference; a call holds a reference while it runs. Raises
    RuntimeError if memory is short."""

    def __init__(self):
        self.address = _library.adjoint_freeze_filter()
        if self.address is None:
            raise RuntimeError(_library.adjoint_last_error().decode())
        # The end of the process releases everything anyway.
        weakref.finalize(self, _library.adjoint_unfreeze_filter, self.address).atexit = False

    def kept_bytes(self):
        return _library.adjoint_frozen_bytes(self.address)


def version() -> str:
    """Returns the library's version, such as "0.1.0"."""
    return _library.adjoint_version().decode()
