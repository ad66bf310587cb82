#!/usr/bin/env python3
"""Compares convolutions of channels_last tensors on one GPU with cuDNN's: speedup, and share of the floor.

    bench/channels_last.py [--layers everyday] [--batches 4,16] [--precisions bfloat16,tf32] [--cases vgg] [--out FILE]

The program runs the 2-D and 3-D layers of bench/layers/<layers>.csv, and times forward, input gradient and weight
gradient each alone. Both sides get images and gradients in channels_last. PyTorch gets its filter in it too;
adjoint.torch gets its filter as its modules keep it after to(memory_format=torch.channels_last), or as --filter says.
PyTorch also gets volumes in the contiguous format, and its quicker one counts. The sides take turns in one process, call
by call, with a cold L2 and cudnn.benchmark. Times are medians of the GPU's time. compare_pytorch.py, whose functions
this program uses, describes the floor. The program compares results with PyTorch's, and fails if they differ.

Layers without a batch of their own run at each of --batches. The program needs PyTorch with CUDA, and the shared
library in ADJOINT_LIBRARY or build/. It writes --out, by default bench/results/channels_last.md.
"""

import argparse
import collections
import dataclasses
import pathlib
import sys
import types

import torch
import torch.nn.functional as F

from compare_pytorch import DTYPES, PARTS, ROOT, TOLERANCE, channels_last, difference, environment, floor_ms
from compare_pytorch import geometric_mean, measure_rates, milliseconds, part_call, set_precision

import adjoint.torch as adj
from adjoint.torch.modules import may_stay_in_channels_last
import layers

OPERATORS = PARTS[:3]
LEAST_MS = 0.01  # a layer counts as slower only if cuDNN takes longer
LARGE_FLOOR_MS, LARGE_CHANNELS = 0.05, 64


def filter_of(layer, w, choice):
    """Returns the filter as adjoint.torch's modules keep it ("held"), or in the chosen format."""
    module = types.SimpleNamespace(groups=layer.groups, in_channels=layer.in_channels, out_channels=layer.out_channels)
    held = choice == "held" and may_stay_in_channels_last(module, w)
    return channels_last(w) if held or choice == "channels_last" else w


def measure(layer, precision, rates, repeats, filter_choice):
    """Returns {operator: (our time, cuDNN's, the floor)} in ms, and the largest difference of a result."""
    torch.manual_seed(0)
    shapes = (layer.input_shape, layer.weight_shape, layer.output_shape)
    x, w, dy = (torch.randn(shape, device="cuda", dtype=DTYPES[precision]) for shape in shapes)
    name = f"conv_transpose{layer.rank}d" if layer.transposed else f"conv{layer.rank}d"
    ours, theirs = getattr(adj, name), getattr(F, name)
    call = lambda x, w: theirs(x, w, **layer.attributes)
    sides = {"contiguous": (call, (x, w, dy))} if layer.rank == 3 else {}
    x, dy = channels_last(x), channels_last(dy)
    sides["adjoint"] = lambda x, w: ours(x, w, **layer.attributes), (x, filter_of(layer, w, filter_choice), dy)
    sides["pytorch"] = call, (x, channels_last(w), dy)
    times = {}
    for part in OPERATORS:
        ms = milliseconds({side: part_call(part, *what) for side, what in sides.items()}, repeats)
        mine = ms.pop("adjoint")
        times[part] = mine, min(ms.values()), floor_ms(layer, precision, rates)
    return times, difference(layer, sides)


def read_layers(arguments):
    for layer in layers.read(arguments.layers):
        if layer.rank > 1 and any(word in layer.name for word in arguments.cases.split(",")):
            for batch in [layer.batch] if layer.batch else arguments.batches:
                yield dataclasses.replace(layer, batch=batch)


def table(results, precision):
    """Returns the lines of a Markdown table: geometric means of cuDNN's time over ours, by kind and batch."""
    groups = collections.defaultdict(list)
    for layer, times in results:
        groups["conv_transpose" if layer.transposed else "conv", layer.batch].append(times)
    yield f"| {precision} | layers | " + " | ".join(OPERATORS) + " |"
    yield "|---|---:|" + "---:|" * len(OPERATORS)
    for (kind, batch), group in sorted(groups.items()):
        means = [geometric_mean([times[part][1] / times[part][0] for times in group]) for part in OPERATORS]
        yield f"| {kind}, batch {batch} | {len(group)} | " + " | ".join(f"{mean:.2f}" for mean in means) + " |"


def layer_table(results):
    """Returns the lines of a table of all layers: our time in us, and cuDNN's over it."""
    yield "| layer | " + " | ".join(OPERATORS) + " |"
    yield "|---|" + "---:|" * len(OPERATORS)
    for layer, times in results:
        cells = [f"{1e3 * ours:.1f} ({theirs / ours:.2f})" for ours, theirs, _ in times.values()]
        kind = "conv_transpose" if layer.transposed else "conv"
        yield f"| {layer.name}: {kind} {layer.title} | " + " | ".join(cells) + " |"


def remarks(results):
    """Returns lines: the number of timings slower than cuDNN's, large layers' share of the floor, the slowest ones."""
    timings = [(times[part][1] / times[part][0], part, layer, times[part]) for layer, times in results
               for part in OPERATORS if times[part][1] > LEAST_MS]
    for part in OPERATORS:
        ratios = [ratio for ratio, operator, *_ in timings if operator == part]
        shares = [floor / ours for _, operator, layer, (ours, _, floor) in timings if operator == part
                  and floor > LARGE_FLOOR_MS and min(layer.in_channels, layer.out_channels) >= LARGE_CHANNELS]
        line = f"{part}: of {len(ratios)} timings where cuDNN takes over 10 us {sum(r < 0.95 for r in ratios)} are below 0.95"
        line += f" and {sum(r < 0.8 for r in ratios)} below 0.8 of its speed"
        yield line + (f"; share of the floor, {len(shares)} large layers: {geometric_mean(shares):.2f}" if shares else "")
    for ratio, part, layer, (ours, theirs, floor) in sorted(timings, key=lambda t: t[0])[:12]:
        yield (f"- {ratio:.2f} {part} of {layer.name}, {layer.title}: {1e3 * ours:.1f} us, cuDNN {1e3 * theirs:.1f}, "
               f"floor {1e3 * floor:.1f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--layers", default="everyday", help="a table of bench/layers")
    parser.add_argument("--batches", type=lambda text: [int(each) for each in text.split(",")], default=[4, 16])
    parser.add_argument("--precisions", default="bfloat16,tf32")
    parser.add_argument("--cases", default="", help="only layers whose names contain one of these words")
    parser.add_argument("--repeats", type=int, default=11)
    parser.add_argument("--filter", choices=("held", "channels_last", "contiguous"), default="held", help="Adjoint's")
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "bench/results/channels_last.md")
    arguments = parser.parse_args()
    torch.backends.cudnn.benchmark = True
    where = environment()
    lines = ["# Convolutions of channels_last tensors", "",
             f"cuDNN's time over Adjoint's, geometric means: {where['device']}, {where['date'][:10]}, commit "
             f"{where['commit']}, PyTorch {where['pytorch']}, cuDNN {where['cudnn']}; layers of `{arguments.layers}.csv`, "
             f"both sides in channels_last. `bench/channels_last.py` describes the method.", ""]
    precisions = arguments.precisions.split(",")
    rates = measure_rates(precisions)
    wrong = 0
    for precision in precisions:
        set_precision(precision)
        results = []
        for layer in read_layers(arguments):
            times, error = measure(layer, precision, rates, arguments.repeats, arguments.filter)
            results.append((layer, times))
            if not error < TOLERANCE[precision]:
                wrong += 1
                print(f"wrong: {precision}, {layer.name}, {layer.title}: {error:.1e}")
        summary = [*table(results, precision), "", *remarks(results), ""]
        print("\n".join(summary), flush=True)
        lines += [*summary, "Microseconds, and in brackets cuDNN's time over ours:", "", *layer_table(results), ""]
        arguments.out.write_text("\n".join(lines).rstrip() + "\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
