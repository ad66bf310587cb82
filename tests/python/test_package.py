"""The wheel: built from a library that is there, installed in a venv of its own, and imported from it."""

import importlib.util
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
LIBRARY = os.environ["ADJOINT_LIBRARY"]
NEEDED = ("pip", "setuptools", "wheel", "venv")
OTHER = """extern "C" const char* adjoint_version() { return "9.8.7"; }"""


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
    def build(cls, library):
        options = ["--no-build-isolation", *cls.offline, "--wheel-dir", str(cls.folder / "wheels")]
        return run(*cls.pip, "wheel", *options, str(cls.folder / "python"), ADJOINT_LIBRARY=library)

    @classmethod
    def check(cls, *arguments, python=sys.executable, **environment):
        code, output = run(python, *arguments, **environment)
        assert code == 0, output
        return output

    def test_has_the_librarys_version(self):
        version = re.search(r"project\(Adjoint VERSION (\S+)", (ROOT / "CMakeLists.txt").read_text())[1]
        self.assertRegex(self.wheel.name, rf"^adjoint-{re.escape(version)}-py3-none-linux_\w+\.whl$")
        program = "import adjoint, adjoint.library as l; print(adjoint.__version__, l.version())"
        self.assertEqual(self.check("-c", program, python=self.python).split(), [version, version])

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

    def test_refuses_a_library_of_another_version(self):
        compiler = os.environ.get("CXX") or shutil.which("c++") or self.skipTest("needs a compiler")
        other = str(self.folder / "other.so")
        source = self.folder / "other.cpp"
        source.write_text(OTHER)
        code, output = run(compiler, "-shared", "-fPIC", "-o", other, str(source))
        self.assertEqual(code, 0, output)
        code, output = run(self.python, "-c", "import adjoint.library", ADJOINT_LIBRARY=other)
        self.assertNotEqual(code, 0)
        self.assertRegex(output, r"one version; got package \d+\.\d+\.\d+ and library 9\.8\.7")

    def test_refuses_a_file_that_is_no_library(self):
        code, output = run(self.python, "-c", "import adjoint.library", ADJOINT_LIBRARY=__file__)
        self.assertNotEqual(code, 0)
        self.assertIn("adjoint: the shared library must load; got", output)

    def test_build_without_the_named_library_is_an_error(self):
        code, output = self.build("/nowhere/libadjoint.so")
        self.assertNotEqual(code, 0)
        self.assertIn("adjoint: ADJOINT_LIBRARY must name the shared library; got '/nowhere/libadjoint.so'", output)


if __name__ == "__main__":
    unittest.main()
