#!/usr/bin/env python3
"""Compares transposed convolution on one GPU with PyTorch's: milliseconds, speedup, and share of the floor.

    bench/compare_pytorch.py [--precisions tf32,bfloat16,float32] [--cases DCGAN,HiFi] [--others] [--quick] [--compile]
    bench/compare_pytorch.py --drawn 60 [--seed 32] [--wide] [--precisions tf32] --out drawn.json

The program times forward, forward + backward (the gradients of input and weight), and each gradient alone. It times
adjoint.torch, and PyTorch in the ways that people call it: contiguous tensors with cudnn.benchmark, channels_last
(tensors converted beforehand, 1-D tensors as rows of pictures), conv on flipped weights if the stride is 1, and with
--compile torch.compile. All sides take turns, call by call, on random data. Each call finds a cold L2. The host queues
a whole round while the GPU sleeps, so times are the GPU's alone; they are medians of CUDA events. The program measures
the host's time for a call separately, on a tiny problem.

With --drawn the layers are drawn at random, convolutions and transposed ones. Each is also timed as its user sees it:
calls one after another by the wall clock, until the GPU has finished them. That finds layers for which the host is
slower. With --wide sizes are drawn from wider ranges: --drawn 100 --seed 33 --wide are the layers of layers/wide.csv.

The floor is the larger of bytes / copy rate and FLOP / matrix rate, with both rates measured in the same run. It
assumes that each of the three operators moves input and output once, and that a product in float32 takes three TF32
products. The program compares results with PyTorch's, and fails if they differ.

The program needs PyTorch with CUDA, and the shared library in ADJOINT_LIBRARY or build/. It writes --out (JSON).
"""

import argparse
import datetime
import gc
import json
import math
import os
import pathlib
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "python"))

import torch
import torch.nn.functional as F

import adjoint.torch as adj
from adjoint import library
import layers

DTYPES = {"tf32": torch.float32, "float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
# The differences from PyTorch's result that rounding explains, over the largest element.
TOLERANCE = {"tf32": 5e-3, "float32": 1e-4, "bfloat16": 3e-2, "float16": 5e-3}
PARTS = ["forward", "d input", "d weight", "forward + backward"]
USERS_PARTS = ("forward", "forward + backward")
USERS_GOAL = 0.95  # share of the speedup by the GPU's clock that large layers keep by the user's clock


def set_precision(precision):
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = precision == "tf32"
    adj.set_precision("tf32" if precision == "tf32" else "float32")


def milliseconds(calls, repeats):
    """Returns each call's median. `calls` is {name: function}; the calls take turns."""
    cold = torch.empty(48 << 20, device="cuda")  # four times the L2; it is only read, and needs no write-back
    total = torch.empty((), device="cuda")
    samples = {name: [] for name in calls}

    def round_of_calls():
        events = {}
        for name, call in calls.items():
            torch.sum(cold, dim=0, out=total)
            pair = [torch.cuda.Event(enable_timing=True) for _ in range(2)]
            pair[0].record()
            call()
            pair[1].record()
            events[name] = pair
        return events

    for _ in range(2):  # in the first, cudnn.benchmark chooses
        round_of_calls()
        torch.cuda.synchronize()
    begin = time.perf_counter()
    round_of_calls()
    host_seconds = time.perf_counter() - begin
    torch.cuda.synchronize()
    for _ in range(repeats):
        torch.cuda._sleep(int(2.5e9 * host_seconds))
        events = round_of_calls()
        torch.cuda.synchronize()
        for name, (first, last) in events.items():
            samples[name].append(first.elapsed_time(last))
    return {name: statistics.median(times) for name, times in samples.items()}


def flipped_conv(layer):
    """Returns conv_transpose as a convolution, or None if it is not equal to one."""
    a = layer.attributes
    padding = tuple(d * (k - 1) - p for k, p, d in zip(layer.kernel, a["padding"], a["dilation"]))
    if any(s != 1 for s in a["stride"]) or any(a["output_padding"]) or min(padding) < 0:
        return None
    conv = F.conv1d if layer.rank == 1 else F.conv2d

    def call(x, w):
        w = w.flip(tuple(range(2, w.dim()))).unflatten(0, (layer.groups, -1)).transpose(1, 2).flatten(0, 1)
        return conv(x, w, None, 1, padding, a["dilation"], layer.groups)

    return call


def as_pictures(layer):
    """Returns conv_transpose2d for both ranks, because channels_last has two spatial axes."""
    a = layer.attributes
    if layer.rank == 1:
        units = {"stride": 1, "padding": 0, "output_padding": 0, "dilation": 1}
        a = {**a, **{name: (unit, *a[name]) for name, unit in units.items()}}
    return lambda x, w: F.conv_transpose2d(x, w, **a)


def channels_last(tensor):
    tensor = tensor.unsqueeze(2) if tensor.dim() == 3 else tensor
    return tensor.contiguous(memory_format=torch.channels_last_3d if tensor.dim() == 5 else torch.channels_last)


def peers(layer, tensors, arguments):
    """Returns {name: (function, its tensors)}; "adjoint" and "pytorch" are always there."""
    rank = layer.rank
    attributes = layer.attributes
    name = f"conv_transpose{rank}d" if layer.transposed else f"conv{rank}d"
    ours, theirs = getattr(adj, name), getattr(F, name)
    plain = lambda x, w: theirs(x, w, **attributes)
    result = {"adjoint": (lambda x, w: ours(x, w, **attributes), tensors), "pytorch": (plain, tensors)}
    if arguments.quick or arguments.drawn or arguments.spent():
        return result
    result["channels_last"] = (as_pictures(layer), [channels_last(t) for t in tensors])
    if flipped_conv(layer):
        result["flipped conv"] = (flipped_conv(layer), tensors)
    if arguments.compile:
        torch._dynamo.reset()
        result["compile"] = (torch.compile(plain), tensors)
    return result


def part_call(part, function, tensors):
    """Returns a function that calls `part` once. Preparations, such as a recorded forward, happen here."""
    x, w, dy = tensors
    if part == "forward":
        return lambda: function(x, w)
    x = x.detach().requires_grad_(part != "d weight")
    w = w.detach().requires_grad_(part != "d input")
    wanted = [t for t in (x, w) if t.requires_grad]
    if part == "forward + backward":
        return lambda: torch.autograd.grad(function(x, w), wanted, dy)
    y = function(x, w)
    return lambda: torch.autograd.grad(y, wanted, dy, retain_graph=True)


def difference(layer, sides):
    """Returns the largest difference over result and gradients, each as a share of the largest element."""
    worst = 0.0
    for part in PARTS[:3]:
        ours, theirs = (part_call(part, *sides[name])() for name in ("adjoint", "pytorch"))
        if part != "forward":
            ours, theirs = ours[0], theirs[0]
        share = (ours - theirs).abs_().amax().item() / theirs.abs().amax().item()
        worst = max(worst, share if math.isfinite(share) else math.inf)
    return worst


def users_milliseconds(calls, repeats):
    """Returns each call's median by the wall clock. Rounds of a few calls take turns."""

    def round_of(call, count):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        for _ in range(count):
            call()
        torch.cuda.synchronize()
        return (time.perf_counter() - begin) / count * 1e3

    counts = {name: 1 + int(5 / max(round_of(call, 3), 1e-3)) for name, call in calls.items()}  # about 5 ms
    samples = {name: [] for name in calls}
    for _ in range(repeats):
        for name, call in calls.items():
            samples[name].append(round_of(call, counts[name]))
    return {name: statistics.median(times) for name, times in samples.items()}


def measure_rates(precisions):
    """Returns a copy's bytes per second, and a matrix product's FLOP per second in each precision."""
    source, target = (torch.empty(1 << 28, device="cuda") for _ in range(2))
    rates = {"copy": 2 * 4 * source.numel() / milliseconds({"": lambda: target.copy_(source)}, 10)[""] * 1e3}
    size = 8192
    for precision in {"tf32", *precisions} - {"float32"}:
        set_precision(precision)
        a, b = (torch.randn(size, size, device="cuda", dtype=DTYPES[precision]) for _ in range(2))
        rates[precision] = 2 * size**3 / milliseconds({"": lambda: torch.mm(a, b)}, 10)[""] * 1e3
    rates["float32"] = rates["tf32"] / 3
    return rates


def floor_ms(layer, precision, rates):
    nbytes = layer.elements * DTYPES[precision].itemsize
    return 1e3 * max(nbytes / rates["copy"], layer.flop / rates[precision])


def measure(layer, precision, rates, arguments):
    set_precision(precision)
    torch.manual_seed(0)
    shapes = (layer.input_shape, layer.weight_shape, layer.output_shape)
    tensors = [torch.randn(shape, device="cuda", dtype=DTYPES[precision]) for shape in shapes]
    sides = peers(layer, tensors, arguments)
    result = {"case": layer.name, "problem": layer.title, "precision": precision, "difference": difference(layer, sides)}
    result["parts"] = {}
    for part in PARTS:
        calls = {name: part_call(part, *side) for name, side in sides.items()}
        ms = milliseconds(calls, arguments.repeats)
        floor = floor_ms(layer, precision, rates) * (3 if part == PARTS[3] else 1)
        ours = ms["adjoint"]
        result["parts"][part] = {
            "ms": ms,
            "floor_ms": floor,
            "fraction_of_floor": floor / ours,
            "speedup": {name: t / ours for name, t in ms.items() if name != "adjoint"},
        }
        if arguments.drawn and part in USERS_PARTS:
            result["parts"][part]["users_ms"] = users_milliseconds(calls, arguments.repeats)
    return result


def host_microseconds():
    """Returns the host's time for a call: a tiny problem, without waiting for the GPU."""
    x, w = (torch.randn(shape, device="cuda") for shape in ((1, 4, 8, 8), (4, 4, 3, 3)))
    result = {}
    for name, function in (("adjoint", adj.conv_transpose2d), ("pytorch", F.conv_transpose2d)):
        dy = torch.randn_like(function(x, w))
        for part in (PARTS[0], PARTS[3]):
            call = part_call(part, function, (x, w, dy))
            for count in (20, 50):  # fewer than the launches that the driver queues
                torch.cuda.synchronize()
                begin = time.perf_counter()
                for _ in range(count):
                    call()
                seconds = time.perf_counter() - begin
            result[f"{name}, {part}"] = seconds / count * 1e6
    return result


def output_of(*command):
    try:
        return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def commit():
    return os.environ.get("ADJOINT_COMMIT") or output_of("git", "describe", "--always", "--dirty", "--abbrev=12")


def environment():
    return {
        "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "commit": commit(),
        "device": torch.cuda.get_device_name(),
        "multiprocessors": torch.cuda.get_device_properties(0).multi_processor_count,
        "driver": output_of("nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader").split("\n")[0],
        "pytorch": torch.__version__,
        "cuda": torch.version.cuda,
        "cudnn": torch.backends.cudnn.version(),
        "adjoint": library.version(),
        "backend": adj.backend(),
    }


def geometric_mean(values):
    return math.exp(statistics.fmean(map(math.log, values)))


def print_row(name, cells):
    print(f"{name:<20}" + "".join(f"{ours:>9} {speedup:>6} {best:>6} {floor:>5} " for ours, speedup, best, floor in cells),
          flush=True)


def over_best(part):
    """Returns the time of PyTorch's fastest way over ours; None if only its plain call was run (--quick, --budget)."""
    return min(part["speedup"].values()) if len(part["speedup"]) > 1 else None


def ratio(value):
    return "" if value is None else f"{value:.2f}x"


def print_result(result):
    cells = []
    for part in result["parts"].values():
        cells.append((f"{part['ms']['adjoint']:.3f}", ratio(part["speedup"]["pytorch"]), ratio(over_best(part)),
                      f"{part['fraction_of_floor']:.2f}"))
    print_row(result["case"], cells)


def summary(results):
    """Returns geometric means over the cases of one precision, and the least speedup.

    The speedup over PyTorch's best is None unless every case has it.
    """
    means = {}
    for part in PARTS:
        parts = [result["parts"][part] for result in results]
        speedups = [p["speedup"]["pytorch"] for p in parts]
        best = [over_best(p) for p in parts]
        means[part] = {
            "speedup": geometric_mean(speedups),
            "least_speedup": min(speedups),
            "speedup_over_best": None if None in best else geometric_mean(best),
            "fraction_of_floor": geometric_mean([p["fraction_of_floor"] for p in parts]),
        }
    return means


def print_summary(means):
    print_row("geometric mean", [("", ratio(m["speedup"]), ratio(m["speedup_over_best"]), f"{m['fraction_of_floor']:.2f}")
                                 for m in means.values()])
    print_row("least", [("", ratio(m["least_speedup"]), "", "") for m in means.values()])


def print_users(results):
    """Prints speedups by the user's clock and by the GPU's, for one precision, and the layers slower than PyTorch."""
    for part in USERS_PARTS:
        rows = [(r["case"], r["problem"], r["parts"][part]) for r in results]
        users = [p["users_ms"]["pytorch"] / p["users_ms"]["adjoint"] for *_, p in rows]
        large = [(p["users_ms"]["pytorch"] / p["users_ms"]["adjoint"], p["speedup"]["pytorch"]) for *_, p in rows
                 if p["ms"]["pytorch"] > 0.1]
        line = f"{part}, by the user's clock: {geometric_mean(users):.2f}x, least {min(users):.2f}x"
        kept = 1.0
        if large:
            by_user, by_gpu = (geometric_mean(ratios) for ratios in zip(*large))
            kept = by_user / by_gpu
            line += f"; {len(large)} layers above 100 us: {by_user:.2f}x, by the GPU's alone {by_gpu:.2f}x"
        print(line)
        if part == USERS_PARTS[-1]:
            slower = sum(ratio_of_times < 1 for ratio_of_times in users)
            verdict = "met" if slower == 0 and kept >= USERS_GOAL else "missed"
            print(f"  the goal is {verdict}: {slower} of {len(users)} layers are slower than PyTorch (goal 0); above "
                  f"100 us they keep {kept:.3f} of the speedup by the GPU's clock (goal {USERS_GOAL})")
        for (case, problem, p), ratio_of_times in zip(rows, users):
            if ratio_of_times < 1:
                ms = p["users_ms"]
                print(f"  slower: {case}, {problem}: {1e3 * ms['adjoint']:.0f} us, PyTorch {1e3 * ms['pytorch']:.0f} us, "
                      f"{ratio_of_times:.2f}x; by the GPU's clock {p['speedup']['pytorch']:.2f}x")


def against_tf32(results):
    """Returns our float32's speedup over PyTorch's TF32, in geometric mean by part, or None if one was not run."""
    by = {(r["case"], r["precision"]): r["parts"] for r in results}
    shared = [case for case, precision in by if precision == "float32" and (case, "tf32") in by]
    if not shared:
        return None
    return {part: geometric_mean([by[c, "tf32"][part]["ms"]["pytorch"] / by[c, "float32"][part]["ms"]["adjoint"]
                                  for c in shared]) for part in PARTS}


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--precisions", default="tf32,bfloat16,float32", help=f"of {', '.join(DTYPES)}")
    parser.add_argument("--cases", default="", help="only layers whose names contain one of these words")
    parser.add_argument("--others", action="store_true", help="the layers of layers/others.csv instead of the ten")
    parser.add_argument("--drawn", type=int, default=0, metavar="COUNT", help="random layers instead of the ten")
    parser.add_argument("--seed", type=int, default=32, help="the seed of --drawn (default 32)")
    parser.add_argument("--wide", action="store_true", help="--drawn with larger kernels and strides, and more channels")
    parser.add_argument("--quick", action="store_true", help="5 repeats, and only PyTorch's plain call")
    parser.add_argument("--compile", action="store_true", help="also torch.compile, which takes minutes")
    parser.add_argument("--budget", type=float, default=140, help="seconds, after which only PyTorch's plain call runs")
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "bench/results/pytorch_cuda.json")
    arguments = parser.parse_args()
    arguments.precisions = arguments.precisions.split(",")
    if unknown := set(arguments.precisions) - set(DTYPES):
        parser.error(f"no such precision: {', '.join(unknown)}")
    arguments.repeats = 5 if arguments.quick else 21
    begin = time.monotonic()
    arguments.spent = lambda: time.monotonic() - begin > arguments.budget
    return arguments


def main():
    arguments = parse_arguments()
    torch.backends.cudnn.benchmark = True
    record = environment()
    print(", ".join(f"{name} {value}" for name, value in record.items()))
    record["rates"] = rates = measure_rates(arguments.precisions)
    print("rates: copy {:.2f} TB/s, ".format(rates["copy"] / 1e12)
          + ", ".join(f"{name} {rate / 1e12:.0f} TFLOP/s" for name, rate in rates.items() if name != "copy"))
    record["host_microseconds"] = host_microseconds()
    print("host, us a call: " + "; ".join(f"{name} {us:.0f}" for name, us in record["host_microseconds"].items()))
    if arguments.drawn:
        draw = layers.drawn_wide if arguments.wide else layers.drawn
        record["seed"], record["wide"], chosen = arguments.seed, arguments.wide, draw(arguments.seed, arguments.drawn)
    else:
        chosen = layers.read("others" if arguments.others else "reported")
    chosen = [l for l in chosen if any(word.lower() in l.name.lower() for word in arguments.cases.split(","))]
    record["results"] = results = []
    record["summary"] = {}
    for precision in arguments.precisions:
        print(f"\n{precision:<20}" + "".join(f"{part:^30}" for part in PARTS))
        print_row("", [("ms", "speed", "best", "floor")] * len(PARTS))
        for layer in chosen:
            results.append(measure(layer, precision, rates, arguments))
            print_result(results[-1])
            gc.collect()
            torch.cuda.empty_cache()
        record["summary"][precision] = summary([r for r in results if r["precision"] == precision])
        print_summary(record["summary"][precision])
        if arguments.drawn:
            print_users([r for r in results if r["precision"] == precision])
        record["float32_over_pytorch_tf32"] = against_tf32(results)
        # Written after every precision, to keep the results of a run that is cut short.
        arguments.out.parent.mkdir(parents=True, exist_ok=True)
        arguments.out.write_text(json.dumps(record, indent=1) + "\n")
    if record["float32_over_pytorch_tf32"]:
        print("\nfloat32 here over PyTorch's TF32: "
              + ", ".join(f"{part} {ratio:.2f}x" for part, ratio in record["float32_over_pytorch_tf32"].items()))
    print("speed: PyTorch's time / ours; best: its fastest way / ours, empty if only its plain call was run; "
          "floor: floor / ours")
    wrong = [r for r in results if not r["difference"] <= TOLERANCE[r["precision"]]]
    for r in wrong:
        print(f"DIFFERS from PyTorch: {r['case']}, {r['precision']}: {r['difference']:.2e} of the largest element")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
