"""The C++ extension: compiled and stored by build(), and loaded with the package if it exists."""

import hashlib
import importlib.machinery
import importlib.util
import os
import pathlib
import shlex
import shutil
import sysconfig
import tempfile
import warnings

import torch

from adjoint import __version__
from adjoint import library

_HERE = pathlib.Path(__file__).resolve().parent
_SOURCE, *_HEADERS = (_HERE / f"extension{rest}" for rest in (".cpp", "_memory.h", "_problem.h"))
_NAME = "adjoint.torch._extension"


def _header():
    """Returns the path of c_api.h: the wheel's, else the source tree's."""
    kept = _HERE / "c_api.h"
    return kept if kept.exists() else _HERE.parents[2] / "ops" / "conv" / "c_api.h"


def location() -> pathlib.Path:
    """Returns the extension's path for this PyTorch, this Python and this package, even if there is no such file.

    The folder is ADJOINT_CACHE, else adjoint/ in the user's cache folder (XDG_CACHE_HOME, or ~/.cache).
    """
    suffix = sysconfig.get_config_var("EXT_SUFFIX")
    parts = [__version__, torch.__version__, str(torch.version.git_version), str(torch.version.cuda), suffix]
    parts += [path.read_text() for path in (_SOURCE, *_HEADERS, _header()) if path.exists()]
    digest = hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]
    named = os.environ.get("ADJOINT_CACHE")
    caches = os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache"
    folder = pathlib.Path(named) if named else pathlib.Path(caches) / "adjoint"
    return folder / f"torch-{torch.__version__}-adjoint-{__version__}-{digest}{suffix}"


def _load():
    chosen = os.environ.get("ADJOINT_BACKEND") or "auto"
    if chosen not in ("auto", "ctypes"):
        raise ImportError(f"adjoint: ADJOINT_BACKEND must be auto or ctypes; got {chosen!r}")
    path = location()
    if chosen == "ctypes" or not path.exists():
        return None
    loader = importlib.machinery.ExtensionFileLoader(_NAME, str(path))
    try:
        spec = importlib.util.spec_from_file_location(_NAME, path, loader=loader)
        loaded = importlib.util.module_from_spec(spec)
        loader.exec_module(loaded)
        return loaded
    except ImportError as error:
        warnings.warn(f"adjoint: {path} does not load, and ctypes stands in for it; got {error}; build it again")
        return None


def backend() -> str:
    """Returns "extension" or "ctypes", the way in which calls reach the shared library.

    "extension": the C++ extension that `python -m adjoint.torch build` compiles. A call takes the host as long as one
    of PyTorch's own convolutions. "ctypes": Python alone, with the same results, which takes the host about twice as
    long. Calls use ctypes if no extension was built for this version of PyTorch, of Python and of this package, if the
    extension does not load, or if the variable ADJOINT_BACKEND is "ctypes". The import makes the choice.
    """
    return "ctypes" if module is None else "extension"


def _cuda_options():
    """Returns include folders and libraries for the current stream, which a PyTorch with CUDA needs."""
    from torch.utils import cpp_extension

    if torch.version.cuda is None:
        return {}
    folders = [pathlib.Path(cpp_extension.CUDA_HOME) / "include"] if cpp_extension.CUDA_HOME else []
    folders += pathlib.Path(torch.__file__).resolve().parents[1].glob("nvidia/*/include")  # PyTorch's own wheels
    folders = [folder for folder in folders if folder.exists()]
    if not any((folder / "cuda_runtime_api.h").exists() for folder in folders):
        raise RuntimeError("build: a PyTorch with CUDA needs cuda_runtime_api.h; name the toolkit in CUDA_HOME")
    macros = [("ADJOINT_TORCH_CUDA", None)]
    return dict(include_dirs=list(map(str, folders)), libraries=["c10_cuda"], define_macros=macros)


def build() -> pathlib.Path:
    """Compiles the extension against the installed PyTorch, which takes a minute, and returns its path.

    Needs a C++ compiler, setuptools and PyTorch's headers (Debian: libtorch-dev and pybind11-dev). The variables CXX
    and CC name another compiler, optionally with ccache before it. The extension is loaded from the next import on.
    """
    from setuptools import Distribution
    from torch.utils.cpp_extension import BuildExtension, CppExtension, include_paths

    if not any(pathlib.Path(folder, "ATen", "core", "Tensor.h").exists() for folder in include_paths()):
        raise RuntimeError("build: PyTorch's headers are needed (Debian: libtorch-dev and pybind11-dev)")
    target = location()
    target.parent.mkdir(parents=True, exist_ok=True)
    # The build is beside the final path. A move puts it there in one step, and no process loads half a file.
    with tempfile.TemporaryDirectory(dir=target.parent) as folder:
        folder = pathlib.Path(folder)
        options = _cuda_options()
        options["include_dirs"] = [str(_header().parent), *options.get("include_dirs", [])]
        # The loader identifies libraries by their internal names, and uses the one that the package has loaded.
        extension = CppExtension(
            _NAME, [str(_SOURCE)], extra_compile_args=["-O2", "-g0", "-fvisibility=hidden"],
            extra_link_args=[str(pathlib.Path(library.path()).resolve())], **options,
        )
        compiler = shlex.split(os.environ.get("CC") or os.environ.get("CXX") or "c++")
        if shutil.which(compiler[0]) is None:
            raise RuntimeError(f"build: a C++ compiler is needed; found no {compiler[0]}")
        commands = {"build_ext": BuildExtension.with_options(use_ninja=False)}
        distribution = Distribution(dict(name="adjoint", ext_modules=[extension], cmdclass=commands))
        command = distribution.get_command_obj("build_ext")
        command.build_lib, command.build_temp = str(folder / "lib"), str(folder / "temp")
        distribution.run_command("build_ext")
        (built,) = (folder / "lib").rglob("*.so")
        os.replace(built, target)
    return target


module = _load()
