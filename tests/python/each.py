#!/usr/bin/env python3
"""Runs every test in a separate process, and lists those that passed and failed, with a screen of reasons for each.

    tests/python/each.py [--jobs N] [--timeout SECONDS] [--lines N] [NAME...]

NAME is a module, class or test as unittest takes them, by default all that need PyTorch. The program divides the CPU's
cores among the jobs, because waiting threads spin: each test has that many threads, PyTorch's and Adjoint's, unless
OMP_NUM_THREADS or ADJOINT_NUM_THREADS is set. If a test ends its process, it runs once more under gdb or cuda-gdb, if
one is installed, to show the frames where it ended. For a failure, the program prints the message of each exception in
its chain and the end of the output. It needs the same as the tests: PyTorch, the shared library in ADJOINT_LIBRARY, and
for DLPack the bridge that is built with the tests, in ADJOINT_DLPACK_BRIDGE. On a machine with a GPU:

    cmake --preset default && cmake --build --preset default --target adjoint dlpack_bridge
    export PYTHONPATH=$PWD/python ADJOINT_LIBRARY=$PWD/build/default/libadjoint.so
    export ADJOINT_DLPACK_BRIDGE=$PWD/build/default/tests/python/libdlpack_bridge.so
    python3 -m adjoint.torch build
    python3 tests/python/each.py --jobs 4 --timeout 400
    ADJOINT_BACKEND=ctypes python3 tests/python/each.py --jobs 4 --timeout 400

First it prints the versions, the backend and the features of this PyTorch.
"""

import argparse
import concurrent.futures
import contextlib
import importlib
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1] / "python")]
MODULES = ["test_torch", "test_torch_arguments", "test_torch_layout", "test_torch_fuse", "test_torch_freeze",
           "test_torch_replace", "test_torch_trial", "test_torch_transforms", "test_torch_compile",
           "test_torch_distributed"] + ["test_dlpack"] * ("ADJOINT_DLPACK_BRIDGE" in os.environ)
FEATURES = ("compile", "export", "func", "library.register_fake", "library.register_autograd", "library.opcheck",
            "distributed.fsdp.fully_shard", "_inductor")


def names_of(suite):
    for test in suite:
        if isinstance(test, unittest.TestSuite):
            yield from names_of(test)
        else:
            yield test.id()


def about():
    """Returns the relevant environment: versions, the backend, PyTorch's features, the registered kernels' origin."""
    import torch
    import torch.distributed
    import adjoint.torch as adj

    device = torch.cuda.get_device_name() if torch.cuda.is_available() else "CPU"
    print(f"PyTorch {torch.__version__}, Python {sys.version.split()[0]}, {device}, adjoint's backend: {adj.backend()}")

    def has(name):
        place = torch
        for part in name.split("."):
            with contextlib.suppress(Exception):  # a submodule that this PyTorch cannot load is absent
                importlib.import_module(f"{place.__name__}.{part}")
            place = getattr(place, part, None)
        return place is not None

    print("has", *(f"torch.{name}: {'yes' if has(name) else 'no'};" for name in FEATURES))
    x, w = torch.randn(2, 6, 9), torch.randn(6, 2, 4)
    exact = torch.nn.functional.conv_transpose1d(x.double(), w.double())
    wrong = (torch.nn.functional.conv_transpose1d(x, w) - exact).abs().max().item()
    print(f"PyTorch's own conv_transpose1d in float32 on the CPU is off by {wrong:.1e}" + " (oneDNN?)" * (wrong > 1e-4))
    for operator in ("conv", "conv_transpose", "conv_weight"):
        kernels = torch._C._dispatch_dump(f"adjoint::{operator}").splitlines()
        keys = [re.split(r"[:\[(]", line)[0].strip() for line in kernels if "registered at" in line and ":" in line]
        print(f"adjoint::{operator} has kernels for", *sorted(set(keys) - {"debug", "name", "schema"}))


def cores():
    """Returns the number of cores that this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def run(command, timeout, threads):
    """Returns the exit status (None after a timeout), and all output."""
    numbers = dict.fromkeys(("OMP_NUM_THREADS", "ADJOINT_NUM_THREADS"), str(threads))
    environment = {**numbers, **os.environ, "PYTHONFAULTHANDLER": "1", "PYTHONUNBUFFERED": "1"}
    environment["PYTHONPATH"] = os.pathsep.join(sys.path[:2] + [os.environ.get("PYTHONPATH", "")])
    # The separate session lets processes that the test starts end with it.
    child = subprocess.Popen(command, cwd=HERE, env=environment, text=True, stdout=subprocess.PIPE,
                             stderr=subprocess.STDOUT, start_new_session=True)
    try:
        output = child.communicate(timeout=timeout)[0]
        return child.returncode, output
    except subprocess.TimeoutExpired:
        os.killpg(child.pid, signal.SIGKILL)
        return None, child.communicate()[0]


def one(name, timeout, threads):
    """Returns (verdict, seconds, output)."""
    begin = time.monotonic()
    command = [sys.executable, "-m", "unittest", "-v", name]
    status, output = run(command, timeout, threads)
    seconds = time.monotonic() - begin
    if status is None:
        return "TIME OVER", seconds, output
    if status < 0:
        debugger = shutil.which("gdb") or shutil.which("cuda-gdb")
        if debugger:
            batch = [debugger, "-batch", "-ex", "set confirm off", "-ex", "run", "-ex", "bt 25", "--args"]
            output += f"\n---- {debugger}:\n" + "\n".join(run(batch + command, timeout, threads)[1].splitlines()[-30:])
        return signal.Signals(-status).name, seconds, output
    if status != 0:
        return "FAILED", seconds, output
    return "skipped" if re.search(r"^OK \(skipped=", output, re.M) else "passed", seconds, output


def causes(output, lines):
    """Returns the head of each exception's message, and the end of the output, in `lines` lines."""
    every = [line for line in output.splitlines() if line.strip()]
    head = re.compile(r"[\w.]*(Error|Exception|Unsupported|Exit|Fatal Python)\b")
    heads = [i for i, line in enumerate(every) if head.match(line)]
    chosen = sorted({i + more for i in heads for more in range(4)} | set(range(len(every) - lines // 2, len(every))))
    return [every[i][:300] for i in chosen if 0 <= i < len(every)][-lines:]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", default=MODULES)
    parser.add_argument("--jobs", type=int, default=max(1, cores() // 2))
    parser.add_argument("--timeout", type=float, default=150, help="seconds for a test (default 150)")
    parser.add_argument("--lines", type=int, default=40, help="of a failure (default 40)")
    arguments = parser.parse_args()
    about()
    names = list(names_of(unittest.defaultTestLoader.loadTestsFromNames(arguments.names)))
    counts = {}
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        threads = max(1, cores() // arguments.jobs)
        results = {pool.submit(one, name, arguments.timeout, threads): name for name in names}
        for done in concurrent.futures.as_completed(results):
            verdict, seconds, output = done.result()
            counts[verdict] = counts.get(verdict, 0) + 1
            reasons = "; ".join(re.findall(r"skipped ['\"](.*)['\"]", output))
            print(f"{verdict:<9} {seconds:6.1f} s  {results[done]}" + f" ({reasons})" * bool(reasons), flush=True)
            if verdict not in ("passed", "skipped"):
                print(*(f"    | {line}" for line in causes(output, arguments.lines)), sep="\n", flush=True)
    print(", ".join(f"{count} {verdict}" for verdict, count in sorted(counts.items())))
    sys.exit(any(verdict not in ("passed", "skipped") for verdict in counts))


if __name__ == "__main__":
    main()
