#!/usr/bin/python3
"""Compares recurrent and attention layers on the CPU with PyTorch's in one run: milliseconds, and the speedup.

Both sides get the same number of threads and take turns, a few calls at a time, as in bench/compare_pytorch_cpu.py,
which has the same requirements. Each case reports the medians. "training" is forward and backward, with the gradients
of the input and of every parameter. Attention has four heads; an encoder layer has four times as many features between
its maps.

    bench/compare_sequences.py [--threads 2] [--rounds 15] [--calls 3] [--only NAME] [--cpu-time]
                               [--program build/cpu/bench/bench_sequences]

On a shared machine, --cpu-time with one thread compares the least CPU time. The script prints a table in Markdown.
"""
import argparse
import os
import pathlib
import statistics
import subprocess
import time

from compare_pytorch_cpu import load_torch

ROOT = pathlib.Path(__file__).resolve().parent.parent
CASES = [(layer, *sizes) for layer in ("rnn", "lstm", "gru", "attention", "encoder_layer")
         for sizes in ((64, 16, 256), (256, 4, 64))]


class PyTorch:
    def __init__(self, torch, layer, steps, batch, features):
        self.torch = torch
        self.layer = {"rnn": lambda: torch.nn.RNN(features, features), "lstm": lambda: torch.nn.LSTM(features, features),
                      "gru": lambda: torch.nn.GRU(features, features),
                      "attention": lambda: torch.nn.MultiheadAttention(features, 4),
                      "encoder_layer": lambda: torch.nn.TransformerEncoderLayer(features, 4, 4 * features, 0.0)}[layer]()
        self.attends = layer == "attention"
        self.x = torch.randn(steps, batch, features, requires_grad=True)
        self.gradient = torch.randn(steps, batch, features)

    def call(self):
        result = self.layer(self.x, self.x, self.x, need_weights=False) if self.attends else self.layer(self.x)
        return result[0] if isinstance(result, tuple) else result

    def once(self, part, clock):
        self.layer.zero_grad(set_to_none=True)
        self.x.grad = None
        start = clock()
        if part == "training":
            self.call().backward(self.gradient)
        else:
            with self.torch.no_grad():
                self.call()
        return (clock() - start) * 1e3

    def milliseconds(self, part, clock, calls):
        self.once(part, clock)
        return [self.once(part, clock) for _ in range(calls)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--calls", type=int, default=3, help="timed calls per side and round")
    parser.add_argument("--only", default="", help="layers whose name contains this")
    parser.add_argument("--program", default=ROOT / "build/cpu/bench/bench_sequences", type=pathlib.Path)
    parser.add_argument("--cpu-time", action="store_true", help="the least CPU time instead of the wall clock's median")
    arguments = parser.parse_args()
    name, clock, middle = ("cpu", time.process_time, min) if arguments.cpu_time else ("wall", time.perf_counter,
                                                                                      statistics.median)

    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # idle threads of PyTorch's would spin through our turn
    torch, blas = load_torch(arguments.threads)
    adjoint = subprocess.Popen([arguments.program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                               env={**os.environ, "ADJOINT_NUM_THREADS": str(arguments.threads)})
    print(f"PyTorch {torch.__version__} with {blas}, {arguments.threads} threads\n")
    print("| layer | steps, batch, features | part | Adjoint ms | PyTorch ms | PyTorch / Adjoint |")
    print("|---|---|---|---:|---:|---:|")
    for case in CASES:
        if arguments.only not in case[0]:
            continue
        for part in ("forward", "training"):
            pytorch, ours, theirs = PyTorch(torch, *case), [], []
            for _ in range(arguments.rounds):
                adjoint.stdin.write(" ".join(map(str, (*case, part, name, arguments.calls))) + "\n")
                adjoint.stdin.flush()
                ours += [float(word) for word in adjoint.stdout.readline().split()]
                theirs += pytorch.milliseconds(part, clock, arguments.calls)
            mine, other = middle(ours), middle(theirs)
            print(f"| {case[0]} | {case[1]}, {case[2]}, {case[3]} | {part} | {mine:.2f} | {other:.2f} | {other / mine:.2f} |",
                  flush=True)


if __name__ == "__main__":
    main()
