"""Puts the shared library into the wheel: the library that ADJOINT_LIBRARY names, or one that CMake builds from this
tree."""

import os
import pathlib
import shutil
import subprocess
import sys

from setuptools import Distribution, setup
from setuptools.command.build_py import build_py

try:
    from setuptools.command.bdist_wheel import bdist_wheel
except ImportError:  # setuptools before 70
    from wheel.bdist_wheel import bdist_wheel

SOURCE = pathlib.Path(__file__).resolve().parent.parent
HEADER = SOURCE / "ops" / "conv" / "c_api.h"
OPTIONS = ("CMAKE_BUILD_TYPE=Release", "ADJOINT_BUILD_TESTS=OFF", "ADJOINT_BUILD_EXAMPLES=OFF", "ADJOINT_DATA=OFF")


def built_library(folder):
    """Builds the library alone in `folder`. CMAKE_ARGS may add options; CMAKE_BUILD_PARALLEL_LEVEL sets the jobs."""
    options = [f"-D{option}" for option in OPTIONS] + os.environ.get("CMAKE_ARGS", "").split()
    generator = ["-G", "Ninja"] if shutil.which("ninja") else []
    subprocess.run(["cmake", "-S", SOURCE, "-B", folder, *generator, *options], check=True)
    parallel = [] if generator or "CMAKE_BUILD_PARALLEL_LEVEL" in os.environ else ["--parallel", str(os.cpu_count())]
    subprocess.run(["cmake", "--build", folder, "--target", "adjoint", *parallel], check=True)
    return folder / "libadjoint.so"


class BuildPy(build_py):
    def run(self):
        super().run()
        if self.editable_mode:  # library.py looks for build/libadjoint.so beside python/; ADJOINT_LIBRARY names another
            return
        if not HEADER.is_file():
            sys.exit(f"adjoint: python/ must be built in a tree of Adjoint's sources; {SOURCE} has no {HEADER.name}")
        named = os.environ.get("ADJOINT_LIBRARY")
        temporary = pathlib.Path(self.get_finalized_command("build").build_temp).resolve()
        library = pathlib.Path(named) if named else built_library(temporary / "adjoint")
        if not library.is_file():
            sys.exit(f"adjoint: ADJOINT_LIBRARY must name the shared library; there is no {library.resolve()}")
        shutil.copyfile(library, pathlib.Path(self.build_lib, "adjoint", "libadjoint.so"))
        shutil.copy(HEADER, pathlib.Path(self.build_lib, "adjoint", "torch"))  # for `python -m adjoint.torch build`


class BdistWheel(bdist_wheel):
    def get_tag(self):
        return "py3", "none", super().get_tag()[2]  # ctypes works with any Python; the library is for this machine


class BinaryDistribution(Distribution):
    def has_ext_modules(self):
        return True


setup(cmdclass={"build_py": BuildPy, "bdist_wheel": BdistWheel}, distclass=BinaryDistribution)
