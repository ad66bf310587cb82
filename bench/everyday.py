#!/usr/bin/env python3
"""Compares everyday layers with times of PyTorch's that were measured before, by batch.

    bench/everyday.py PYTORCH.csv [CANDIDATES.tsv] [--worst 25]

PYTORCH.csv has a line for each layer, operator, arithmetic and batch, with the columns of bench/layers/everyday.csv,
operator ("forward", "input gradient", "weight gradient"), arithmetic and pytorch_us. CANDIDATES.tsv, by default
bench/results/candidates.tsv, is the output of bench_conv_candidates on the same kind of GPU. The script compares the
kernels that it marks as chosen, with a frozen filter too if the table has such times. It prints geometric means. Of the
layers for which PyTorch takes over 10 us, it prints how many are below 0.8 and 0.6 of PyTorch's speed, and the slowest.
"""

import argparse
import collections
import csv
import math
import pathlib

ROOT = pathlib.Path(__file__).resolve().parent.parent
LEAST_MICROSECONDS = 10.0
OPERATORS = {"forward": 0, "input gradient": 1, "weight gradient": 2}
KERNELS = {"conv": ("conv", "conv_transpose", "conv_weight"), "conv_transpose": ("conv_transpose", "conv", "conv_weight")}


def one(value):
    """Returns one spelling for "4x4" and "4", which are the same kernel, stride, padding or dilation."""
    parts = set(value.split("x"))
    return parts.pop() if len(parts) == 1 else value


def geometry(row):
    per_axis = tuple(one(row[name]) for name in ("kernel", "stride", "padding", "dilation"))
    return row["kind"], row["in_channels"], row["out_channels"], row["input"], row["groups"], *per_axis


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pytorch", type=pathlib.Path)
    parser.add_argument("candidates", nargs="?", type=pathlib.Path, default=ROOT / "bench/results/candidates.tsv")
    parser.add_argument("--worst", type=int, default=25, help="number of layers to list")
    arguments = parser.parse_args()
    with open(ROOT / "bench/layers/everyday.csv", newline="") as file:
        names = {geometry(row): row["name"] for row in csv.DictReader(file)}
    with open(arguments.candidates, newline="") as file:
        lines = [line for line in file if not line.startswith("#")]
    ours = {}
    for row in csv.DictReader(lines, delimiter="\t"):
        if row["chosen"]:
            microseconds = float(row["microseconds"])
            frozen = float(row["frozen"]) if row.get("frozen") else None
            ours[row["layer"], row["batch"], row["operator"], row["arithmetic"]] = row["kernel"], microseconds, frozen

    ratios, compared = collections.defaultdict(list), []
    with open(arguments.pytorch, newline="") as file:
        for row in csv.DictReader(file):
            operator, arithmetic, time = row["operator"], row["arithmetic"].lower(), float(row["pytorch_us"])
            problem = names[geometry(row)], row["batch"], KERNELS[row["kind"]][OPERATORS[operator]], arithmetic
            kernel, microseconds, frozen = ours[problem]
            ratios[arithmetic, int(row["batch"]), "all"].append(time / microseconds)
            ratios[arithmetic, int(row["batch"]), operator].append(time / microseconds)
            if frozen is not None:
                ratios[arithmetic, int(row["batch"]), f"{operator}, frozen"].append(time / frozen)
            if time > LEAST_MICROSECONDS:
                compared.append((time / microseconds, problem, operator, kernel, microseconds, time))
    for key, values in sorted(ratios.items()):
        mean = math.exp(sum(map(math.log, values)) / len(values))
        print(f"{key[0]:<9} batch {key[1]:>2} {key[2]:<22} {mean:.3f} of {len(values)}")
    slow = [sum(ratio < bound for ratio, *_ in compared) for bound in (0.8, 0.6)]
    print(f"of {len(compared)} that take PyTorch over {LEAST_MICROSECONDS:.0f} us, {slow[0]} below 0.8 and {slow[1]} below 0.6:")
    for ratio, problem, operator, kernel, microseconds, time in sorted(compared)[: arguments.worst]:
        print(f"{ratio:.2f}  {', '.join(problem)} ({operator}): {kernel} {microseconds:.1f} us, PyTorch {time:.1f} us")


if __name__ == "__main__":
    main()
