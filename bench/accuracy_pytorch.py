#!/usr/bin/env python3
"""Compares the errors of the transposed-convolution trio on a GPU with PyTorch's in the same mode.

    bench/accuracy_pytorch.py [--precisions float32,tf32,bfloat16,float16] [--cases DCGAN,HiFi] [--others] [--share 8]

The oracle is PyTorch in float64 on the same operands, rounded once to the result's dtype. An error is given as a
multiple of u * sum of |terms|, where u is the precision's unit roundoff: 2^-24 for float32, 2^-11 for TF32 and float16,
2^-8 for bfloat16. Operands are normally distributed numbers, or their magnitudes: in sums of one sign, biased rounding
adds up, and shows in the mean of the signed errors.

The program needs PyTorch with CUDA, and the shared library in ADJOINT_LIBRARY or build/. It writes --out (JSON).
"""

import argparse
import dataclasses
import gc
import json
import pathlib
import sys

import torch
import torch.nn.functional as F

from compare_pytorch import DTYPES, PARTS, ROOT, adj, environment, geometric_mean, part_call, set_precision
import layers

UNIT_ROUNDOFF = {"float32": 2.0**-24, "tf32": 2.0**-11, "bfloat16": 2.0**-8, "float16": 2.0**-11}
SIGNS = ["either sign", "one sign"]


def value_of(part, function, tensors):
    result = part_call(part, function, tensors)()
    return (result if part == "forward" else result[0]).detach()


def exactly(part, function, tensors):
    """Returns `part` in float64, and the sum of its terms' magnitudes."""
    torch.backends.cudnn.benchmark = False  # trying every float64 kernel takes longer than the slowest one
    doubles = [t.double() for t in tensors]
    exact = value_of(part, function, doubles)
    magnitudes = value_of(part, function, [t.abs_() for t in doubles])
    torch.backends.cudnn.benchmark = True
    return exact, magnitudes


def errors(value, exact, scale):
    share = (value.double() - exact.to(value.dtype).double()).div_(scale)
    share.masked_fill_(scale == 0, 0)  # a sum without terms has no error
    return {"max": share.abs().amax().item(), "rms": share.square().mean().sqrt().item(), "mean": share.mean().item()}


def measure(layer, precision, sign, share):
    set_precision(precision)
    torch.manual_seed(0)
    layer = dataclasses.replace(layer, batch=max(layer.batch // share, 1))
    shapes = (layer.input_shape, layer.weight_shape, layer.output_shape)
    tensors = [torch.randn(shape, device="cuda", dtype=DTYPES[precision]) for shape in shapes]
    if sign == "one sign":
        tensors = [t.abs_() for t in tensors]
    ours, theirs = (
        lambda x, w, f=getattr(module, f"conv_transpose{layer.rank}d"): f(x, w, **layer.attributes) for module in (adj, F)
    )
    result = {"case": layer.name, "problem": layer.title, "precision": precision, "sign": sign, "parts": {}}
    for part in PARTS[:3]:
        exact, magnitudes = exactly(part, theirs, tensors)
        scale = magnitudes.mul_(UNIT_ROUNDOFF[precision])
        sides = (("adjoint", ours), ("pytorch", theirs))
        result["parts"][part] = {name: errors(value_of(part, f, tensors), exact, scale) for name, f in sides}
    return result


def summary(results, part):
    """Returns over the cases both sides' largest error, typical error and largest bias, and mean ratios."""
    rows = [r["parts"][part] for r in results]
    sides = {
        side: {
            "max": max(row[side]["max"] for row in rows),
            "rms": max(row[side]["rms"] for row in rows),
            "mean": max((row[side]["mean"] for row in rows), key=abs),
        }
        for side in ("adjoint", "pytorch")
    }
    both = [row for row in rows if row["adjoint"]["rms"] > 0 and row["pytorch"]["rms"] > 0]
    sides["rms_ratio"] = geometric_mean([row["adjoint"]["rms"] / row["pytorch"]["rms"] for row in both]) if both else None
    return sides


def print_result(result):
    cells = []
    for part in result["parts"].values():
        ours, theirs = part["adjoint"], part["pytorch"]
        cells.append(f"{ours['max']:9.2e} {theirs['max']:9.2e} {ours['rms']:9.2e} {theirs['rms']:9.2e}")
    print(f"{result['case']:<20}" + "  ".join(cells), flush=True)


def print_summary(means):
    print("\nover the cases: largest error, rms of the worst case, largest mean; rms ours / PyTorch's, geometric mean")
    for precision, signs in means.items():
        for sign, parts in signs.items():
            for part, s in parts.items():
                sides = ["{max:.2e} {rms:.2e} {mean:+.1e}".format(**s[side]) for side in ("adjoint", "pytorch")]
                ratio = f"{s['rms_ratio']:.2f}" if s["rms_ratio"] else "-"
                print(f"{precision:<9} {sign:<12} {part:<9} adjoint {sides[0]}  PyTorch {sides[1]}  {ratio}")


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--precisions", default="float32,tf32,bfloat16,float16")
    parser.add_argument("--cases", default="", help="only cases whose names contain one of these words")
    parser.add_argument("--others", action="store_true", help="the layers of layers/others.csv instead of the ten")
    parser.add_argument("--share", type=int, default=8, help="uses 1/share of each batch, because float64 is slow")
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "bench/results/accuracy_cuda.json")
    return parser.parse_args()


def main():
    arguments = parse_arguments()
    record = environment()
    print(", ".join(f"{name} {value}" for name, value in record.items()))
    chosen = layers.read("others" if arguments.others else "reported")
    chosen = [l for l in chosen if any(word.lower() in l.name.lower() for word in arguments.cases.split(","))]
    record["results"] = results = []
    record["summary"] = means = {}
    for precision in arguments.precisions.split(","):
        means[precision] = {}
        for sign in SIGNS:
            print(f"\n{precision + ', ' + sign:<20}" + "  ".join(f"{part:^39}" for part in PARTS[:3]))
            print(" " * 20 + "  ".join(["  max ours   PyTorch  rms ours   PyTorch"] * 3))
            chosen = []
            for layer in chosen:
                chosen.append(measure(layer, precision, sign, arguments.share))
                print_result(chosen[-1])
                gc.collect()
                torch.cuda.empty_cache()
            results += chosen
            means[precision][sign] = {part: summary(chosen, part) for part in PARTS[:3]}
    print_summary(means)
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    arguments.out.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    sys.exit(main())
