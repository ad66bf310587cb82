"""Builds the wheel from an existing library, installs it in a new venv, and imports it there."""

import importlib.util
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
import zipfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
LIBRARY = os.environ["ADJOINT_LIBRARY"]
NEEDED = ("pip", "setuptools", "wheel", "venv")
OTHER = """extern "C" const char* adjoint_version() { return "%s"; }"""
VERSION = re.search(r"project\(Adjoint VERSION (\S+)", (ROOT / "CMakeLists.txt").read_text())[1]
# A stand-in for Adjoint's own project, which takes minutes. It checks the options that setup.py and CMAKE_ARGS give.
PROJECT = """cmake_minimum_required(VERSION 3.25)
project(Small LANGUAGES CXX)
foreach(option IN ITEMS ADJOINT_BUILD_TESTS ADJOINT_BUILD_EXAMPLES ADJOINT_DATA ADJOINT_CUDA)
  if(NOT DEFINED ${option} OR ${option})
    message(FATAL_ERROR "${option} must be off")
  endif()
endforeach()
if(NOT CMAKE_BUILD_TYPE STREQUAL Release)
  message(FATAL_ERROR "the build type must be Release; got ${CMAKE_BUILD_TYPE}")
endif()
add_library(adjoint SHARED other.cpp)
"""


def run(*command, **environment):
    clean = {key: value for key, value in os.environ.items() if key not in ("ADJOINT_LIBRARY", "PYTHONPATH")}
    done = subprocess.run(command, env={**clean, **environment}, capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


@unittest.skipUnless(all(map(importlib.util.find_spec, NEEDED)), f"needs {', '.join(NEEDED)}")
class Package(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        # A build leaves files in its source folder.
        shutil.copytree(ROOT / "python", cls.folder / "python", ignore=shutil.ignore_patterns("__pycache__", "build"))
        (cls.folder / "ops" / "conv").mkdir(parents=True)
        shutil.copy(ROOT / "ops" / "conv" / "c_api.h", cls.folder / "ops" / "conv")
        cls.pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-cache-dir"]
        cls.offline = ["--no-index", "--no-deps"]
        code, output = cls.build(LIBRARY)
        assert code == 0, output
        (cls.wheel,) = (cls.folder / "wheels").iterdir()
        cls.check("-m", "venv", "--system-site-packages", "--without-pip", str(cls.folder / "venv"))
        cls.python = str(cls.folder / "venv" / "bin" / "python")
        code, output = run(*cls.pip, "--python", cls.python, "install", *cls.offline, str(cls.wheel))
        assert code == 0, output

    @classmethod
    def build(cls, library, wheels="wheels", **environment):
        options = ["--no-build-isolation", *cls.offline, "--wheel-dir", str(cls.folder / wheels)]
        environment.update({} if library is None else {"ADJOINT_LIBRARY": library})
        return run(*cls.pip, "wheel", *options, str(cls.folder / "python"), **environment)

    @classmethod
    def check(cls, *arguments, python=sys.executable, **environment):
        code, output = run(python, *arguments, **environment)
        assert code == 0, output
        return output

    def test_has_the_librarys_version(self):
        self.assertRegex(self.wheel.name, rf"^adjoint-{re.escape(VERSION)}-py3-none-linux_\w+\.whl$")
        program = "import adjoint, adjoint.library as l; print(adjoint.__version__, l.version())"
        self.assertEqual(self.check("-c", program, python=self.python).split(), [VERSION, VERSION])

    def test_brings_its_own_library_and_types(self):
        program = "import adjoint, pathlib; print(*sorted(p.name for p in pathlib.Path(adjoint.__file__).parent.iterdir()))"
        files = self.check("-c", program, python=self.python).split()
        self.assertLessEqual({"libadjoint.so", "py.typed", "torch"}, set(files))
        used = self.check("-c", "import adjoint.library as l; print(l.path())", python=self.python).strip()
        self.assertTrue(pathlib.Path(used).is_relative_to(self.folder / "venv"), used)

    @unittest.skipUnless(importlib.util.find_spec("torch"), "needs PyTorch")
    def test_computes(self):
        program = (
            "import torch, adjoint.torch as adj; x, w = torch.ones(1, 2, 3), torch.ones(2, 1, 4);"
            "print(adj.conv_transpose1d(x, w, stride=2).sum().item())"
        )
        self.assertEqual(float(self.check("-c", program, python=self.python).split()[-1]), 24.0)

    def test_has_what_its_extension_is_compiled_of(self):
        with zipfile.ZipFile(self.wheel) as wheel:
            sources = {f"adjoint/torch/{name}" for name in ("extension.cpp", "extension_memory.h", "extension_problem.h", "c_api.h")}
            self.assertLessEqual(sources, set(wheel.namelist()))

    def other_library(self, version):
        compiler = os.environ.get("CXX") or shutil.which("c++") or self.skipTest("needs a compiler")
        other, source = self.folder / f"other-{version}.so", self.folder / "other.cpp"
        source.write_text(OTHER % version)
        code, output = run(compiler, "-shared", "-fPIC", "-o", str(other), str(source))
        self.assertEqual(code, 0, output)
        return str(other)

    def test_refuses_a_library_of_another_version(self):
        code, output = run(self.python, "-c", "import adjoint.library", ADJOINT_LIBRARY=self.other_library("9.8.7"))
        self.assertNotEqual(code, 0)
        self.assertRegex(output, r"one version; got package \d+\.\d+\.\d+ and library 9\.8\.7")

    def test_refuses_an_older_library_of_its_version(self):
        code, output = run(self.python, "-c", "import adjoint.library", ADJOINT_LIBRARY=self.other_library(VERSION))
        self.assertNotEqual(code, 0)
        self.assertIn(f"ImportError: adjoint: package and shared library must be built from one tree; got package {VERSION} "
                      f"and an older library {VERSION} (", output)
        self.assertIn("undefined symbol: adjoint_conv", output)

    @unittest.skipUnless(shutil.which("cmake"), "needs CMake")
    def test_builds_the_library_with_cmake(self):
        (self.folder / "CMakeLists.txt").write_text(PROJECT)
        (self.folder / "other.cpp").write_text(OTHER % VERSION)
        code, output = self.build(None, "built", CMAKE_ARGS="-DADJOINT_CUDA=OFF")
        self.assertEqual(code, 0, output)
        (wheel,) = (self.folder / "built").iterdir()
        library = self.folder / "built" / "libadjoint.so"
        with zipfile.ZipFile(wheel) as file:
            library.write_bytes(file.read("adjoint/libadjoint.so"))
        program = f"import ctypes; f = ctypes.CDLL({str(library)!r}).adjoint_version; f.restype = ctypes.c_char_p; print(f())"
        self.assertIn(VERSION, self.check("-c", program))
        shutil.rmtree(self.folder / "python" / "build")
        code, output = self.build(None, "refused")
        self.assertNotEqual(code, 0)
        self.assertIn("ADJOINT_CUDA must be off", output)

    def test_refuses_a_file_that_is_no_library(self):
        code, output = run(self.python, "-c", "import adjoint.library", ADJOINT_LIBRARY=__file__)
        self.assertNotEqual(code, 0)
        self.assertIn("adjoint: the shared library must load; got", output)

    def test_build_without_the_named_library_is_an_error(self):
        code, output = self.build("/nowhere/libadjoint.so")
        self.assertNotEqual(code, 0)
        self.assertIn("adjoint: ADJOINT_LIBRARY must name the shared library; there is no /nowhere/libadjoint.so", output)


if __name__ == "__main__":
    unittest.main()
