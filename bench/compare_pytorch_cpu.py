#!/usr/bin/python3
"""Compares convolutions on the CPU with PyTorch's in one run: milliseconds, and the speedup.

Both sides get the same number of threads and take turns, a few calls at a time, so other work on the machine disturbs
both alike. Each case reports the medians. "forward + backward" computes the result and the gradients of input and
weight.

    bench/compare_pytorch_cpu.py [--threads 2] [--rounds 15] [--isa avx2] [--only NAME] [--volumes]
                                 [--program build/bench/bench_conv_cpu]

The cases are transposed convolutions of signals and images, or, with --volumes, the layers of bench/layers/volumes.csv
with one example and at most 2e10 FLOP.

The script needs Debian's python3-torch and libopenblas0-pthread (PyTorch is slow with the reference BLAS), and the
program from a build with -DADJOINT_BUILD_BENCH=ON. It writes bench/results/pytorch_cpu.json (--out).
"""

import argparse
import dataclasses
import json
import math
import os
import pathlib
import statistics
import subprocess
import time

import layers
from layers import Layer

ROOT = pathlib.Path(__file__).resolve().parent.parent
PARTS = {"forward": "forward", "both": "forward + backward"}


CASES = [
    Layer("128_128_k3", 1, 128, 128, (8192,), (3,)),
    Layer("32_64_k5_d3", 1, 32, 64, (16384,), (5,), dilation=(3,)),
    Layer("32_32_k3x7", 1, 32, 32, (128, 128), (3, 7), padding=(1, 3)),
    Layer("dcgan_512_256_k4_s2", 4, 512, 256, (8, 8), (4, 4), (2, 2), (1, 1)),
    Layer("unet_256_128_k2_s2", 1, 256, 128, (64, 64), (2, 2), (2, 2)),
    Layer("fsrcnn_56_1_k9_s3", 1, 56, 1, (96, 96), (9, 9), (3, 3), (4, 4), (2, 2)),
    Layer("hifigan_128_64_k4_s2", 1, 128, 64, (8192,), (4,), (2,), (1,)),
    Layer("depthwise_128_k4_s2", 1, 128, 128, (64, 64), (4, 4), (2, 2), (1, 1), groups=128),
]


def volumes():
    """Returns the layers of volumes.csv that a CPU computes in a second, with one example."""
    most = 2e10
    single = (dataclasses.replace(layer, name=layer.name.replace(" ", "_"), batch=1) for layer in layers.read("volumes"))
    return [layer for layer in single if layer.flop <= most]


def request(layer, part, calls):
    """Returns the program's request for a case; a 1-D layer has a height of 1."""
    height = max(2 - layer.rank, 0)
    a = layer.attributes
    units = [(layer.input, 1), (layer.kernel, 1), (a["stride"], 1), (a["padding"], 0),
             (a.get("output_padding", (0,) * layer.rank), 0), (a["dilation"], 1)]
    sizes = [size for values, unit in units for size in (*(unit,) * height, *values)]
    kind = "conv_transpose" if layer.transposed else "conv"
    words = [kind, layer.name, max(layer.rank, 2), layer.batch, layer.in_channels, layer.out_channels, layer.groups, *sizes, part, calls]
    return " ".join(map(str, words))


class Adjoint:
    def __init__(self, program, threads, isa):
        environment = {**os.environ, "ADJOINT_NUM_THREADS": str(threads)}
        if isa:
            environment["ADJOINT_CPU_ISA"] = isa
        self.process = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)

    def milliseconds(self, case, part, calls):
        self.process.stdin.write(request(case, part, calls) + "\n")
        self.process.stdin.flush()
        return [float(word) for word in self.process.stdout.readline().split()]


class PyTorch:
    def __init__(self, torch, case):
        self.torch = torch
        self.x = torch.randn(case.input_shape, requires_grad=True)
        self.w = torch.randn(case.weight_shape, requires_grad=True)
        kind = "conv_transpose" if case.transposed else "conv"
        function = getattr(torch.nn.functional, f"{kind}{case.rank}d")
        self.call = lambda: function(self.x, self.w, **case.attributes)
        self.gradient = torch.randn_like(self.call())

    def once(self, part):
        start = time.perf_counter()
        if part == "forward":
            with self.torch.no_grad():
                self.call()
        else:
            self.torch.autograd.grad(self.call(), (self.x, self.w), self.gradient)
        return (time.perf_counter() - start) * 1e3

    def milliseconds(self, part, calls):
        self.once(part)
        return [self.once(part) for _ in range(calls)]


def load_torch(threads):
    """Returns PyTorch and the name of its BLAS. The threads are OpenMP's and the BLAS's, which it counts on loading."""
    os.environ["OPENBLAS_NUM_THREADS"] = str(threads)
    import torch
    torch.set_num_threads(threads)
    maps = pathlib.Path("/proc/self/maps").read_text().split()
    blas = {pathlib.Path(word).name for word in maps if "/" in word and "blas" in pathlib.Path(word).name.lower()}
    return torch, ", ".join(sorted(blas))


def compare(torch, case, part, adjoint, rounds, calls):
    pytorch = PyTorch(torch, case)
    ours, theirs = [], []
    for _ in range(rounds):
        ours += adjoint.milliseconds(case, part, calls)
        theirs += pytorch.milliseconds(part, calls)
    return {"case": case.name, "part": PARTS[part], "adjoint_ms": statistics.median(ours), "adjoint_min_ms": min(ours),
            "pytorch_ms": statistics.median(theirs), "pytorch_min_ms": min(theirs),
            "speedup": statistics.median(theirs) / statistics.median(ours)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--calls", type=int, default=3, help="timed calls per side and round")
    parser.add_argument("--isa", help="Adjoint's instruction set (baseline, avx2 or avx512) instead of the best")
    parser.add_argument("--only", default="", help="cases whose name contains this")
    parser.add_argument("--volumes", action="store_true", help="layers of volumes.csv instead of the usual cases")
    parser.add_argument("--program", default=ROOT / "build/bench/bench_conv_cpu", type=pathlib.Path)
    parser.add_argument("--out", default=ROOT / "bench/results/pytorch_cpu.json", type=pathlib.Path)
    arguments = parser.parse_args()

    torch, blas = load_torch(arguments.threads)
    print(f"PyTorch {torch.__version__} with {blas}, {arguments.threads} threads")
    if "openblas" not in blas:
        print("PyTorch uses no OpenBLAS: the comparison flatters Adjoint; run scripts/setup bench")
    adjoint = Adjoint(arguments.program, arguments.threads, arguments.isa)
    print(f"{'case':<22} {'part':<19} {'Adjoint ms':>10} {'PyTorch ms':>10} {'speedup':>8}")
    results = []
    for part in PARTS:
        chosen = [case for case in (volumes() if arguments.volumes else CASES) if arguments.only in case.name]
        for case in chosen:
            result = compare(torch, case, part, adjoint, arguments.rounds, arguments.calls)
            results.append(result)
            print(f"{case.name:<22} {result['part']:<19} {result['adjoint_ms']:>10.3f} {result['pytorch_ms']:>10.3f} "
                  f"{result['speedup']:>8.2f}", flush=True)
        speedups = [result["speedup"] for result in results[-len(chosen):]]
        print(f"{'geometric mean':<22} {PARTS[part]:<19} {'':>10} {'':>10} {math.exp(statistics.fmean(map(math.log, speedups))):>8.2f}")
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    record = {"threads": arguments.threads, "pytorch": torch.__version__, "blas": blas, "isa": arguments.isa or "best", "results": results}
    arguments.out.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
