#!/usr/bin/env python3
"""Compares Adjoint's operators with PyTorch's: milliseconds, and the share of the copy rate that each reaches.

    bench/compare_ops.py [--device cuda] [--dtypes float32,bfloat16] [--ops relu,sum] [--elements 268435456]
                         [--everyday] [--cpu-time] [--out FILE]

Both sides work on the same memory in one process and take turns, call by call. On a GPU each call finds a cold L2, and
times are medians of CUDA events. On the CPU both have two threads, and times are medians of the wall clock's. The bytes
that must move are those of operands and results, once each. A backward pass also moves the forward operands that its
formula reads. The program measures the copy rate in the same run. It first compares results and gradients with
PyTorch's, and fails if they differ.

The program needs PyTorch and build/bench/libbench_ops.so, or the library that ADJOINT_BENCH_OPS names. It writes a
table, --out, by default bench/results/ops_<device>.md.
"""

import argparse
import ctypes
import dataclasses
import datetime
import os
import pathlib
import statistics
import sys
import time
from typing import Callable

# PyTorch's idle threads would otherwise spin through the beginning of our turn, on the CPUs that it needs.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

ROOT = pathlib.Path(__file__).resolve().parent.parent

import torch
import torch.nn.functional as F

from compare_pytorch import commit, environment as cuda_environment, geometric_mean, milliseconds

# The goals of operators on a GPU: (least share of the copy rate, least ratio of PyTorch's time to ours).
GOALS = {
    "elementwise": (0.90, 0.95),
    "arithmetic": (0.0, 0.95),  # bound by instructions, not by memory
    "reduction": (0.85, 0.95),
    "moving": (0.80, 0.95),
    "listed": (0.0, 0.0),
}
# On a CPU no operator should be slower than PyTorch's.
CPU_GOAL = (0.0, 1.0)
# The operators that --everyday measures, forward.
EVERYDAY = ("relu leaky_relu silu gelu sigmoid tanh exp log erf sin pow_2.5 add mul snake sum_all softmax_last batch_norm "
            "pixel_shuffle bilinear_x2 cat_channels").split()
TOLERANCE = {torch.float32: 2e-4, torch.bfloat16: 2e-2}


@dataclasses.dataclass
class Case:
    name: str
    kind: str
    shapes: list  # of the operands, in elements of the dtype under test; or tensors' makers
    call: Callable
    backward: bool = False
    # Number of times that the largest of operands and results moves; None: each of them moves once.
    moves: float | None = None
    make: Callable | None = None


def cases(n):
    """Returns the cases. n: elements of the largest tensor, a power of two and at least 2^20."""
    rows, line = n >> 10, [n >> 10, 1024]
    image = [max(n >> 22, 1), 64, 256, 256]
    small = [max(n >> 24, 1), 64, 256, 256]  # an upsampling by two makes it an image
    half = [max(n >> 23, 1), 64, 256, 256]
    channel = [64]
    flat, two, three = [[n]], [[n], [n]], [[n], [n], [n]]

    def positive(x):
        return x.abs_().add_(0.1)

    def within(x):
        return x.clamp_(-0.99, 0.99)

    def away_from_zero(x):
        return x.abs_().add_(0.5)

    table = []

    def unary(kind, names, make=None, module=torch):
        for name in names.split():
            table.append(Case(name, kind, flat, getattr(module, name), make=make))

    unary("elementwise", "abs square floor ceil trunc round sign")
    unary("elementwise", "relu relu6 leaky_relu elu selu silu softplus logsigmoid softsign mish hardswish hardsigmoid "
          "hardtanh gelu", module=F)
    table.append(Case("gelu_tanh", "elementwise", flat, lambda x: F.gelu(x, approximate="tanh")))
    unary("elementwise", "sigmoid tanh exp expm1 erf sin cos nan_to_num")
    unary("elementwise", "log log1p log2 sqrt rsqrt reciprocal", make=positive)
    unary("arithmetic", "tan sinh cosh atan")
    unary("arithmetic", "asin acos", make=within)
    table += [
        Case("isnan", "elementwise", flat, torch.isnan),
        Case("logical_not", "elementwise", flat, torch.logical_not),
        Case("add_scalar", "elementwise", flat, lambda x: x + 2.0),
        Case("clamp", "elementwise", flat, lambda x: x.clamp(-0.5, 0.5)),
        Case("pow_2.5", "arithmetic", flat, lambda x: x**2.5, make=positive),
        Case("add", "elementwise", two, torch.add),
        Case("mul", "elementwise", two, torch.mul),
        Case("div", "elementwise", two, torch.div, make=away_from_zero),
        Case("minimum", "elementwise", two, torch.minimum),
        Case("maximum", "elementwise", two, torch.maximum),
        Case("less", "elementwise", two, torch.lt),
        Case("lerp", "elementwise", two, lambda a, b: torch.lerp(a, b, 0.3)),
        Case("where", "elementwise", [torch.bool, [n], [n]], torch.where),
        Case("masked_fill", "elementwise", [[n], torch.bool], lambda x, m: x.masked_fill(m, 0.5)),
        Case("add_channel", "elementwise", [image, channel], lambda x, b: x + b[:, None, None]),
        Case("prelu", "elementwise", [image, channel], F.prelu),
        Case("snake", "elementwise", [image, channel],
             lambda x, a: x + (a[:, None, None] * x).sin().square() / a[:, None, None], make=away_from_zero),
        Case("glu", "elementwise", [line], F.glu),
        Case("pow", "arithmetic", two, torch.pow, make=positive),
        Case("atan2", "arithmetic", two, torch.atan2),
        Case("fmod", "arithmetic", two, torch.fmod, make=away_from_zero),
        Case("remainder", "arithmetic", two, torch.remainder, make=away_from_zero),
        Case("relu", "elementwise", flat, F.relu, True, 5),
        Case("gelu", "elementwise", flat, F.gelu, True, 5),
        Case("silu", "elementwise", flat, F.silu, True, 5),
        Case("mul", "elementwise", two, torch.mul, True, 8),
    ]
    reduce_cases = {
        "all": (flat, lambda f: f),
        "last": ([line], lambda f: lambda x: f(x, dim=-1)),
        "nhw": ([image], lambda f: lambda x: f(x, dim=(0, 2, 3))),
        "channels": ([image], lambda f: lambda x: f(x, dim=1)),
        "first": ([[1024, rows]], lambda f: lambda x: f(x, dim=0)),
    }
    for names, f in (("sum_all sum_last sum_nhw sum_channels sum_first", torch.sum), ("mean_all", torch.mean),
                     ("var_all var_last var_nhw", torch.var), ("amax_all amax_last", torch.amax),
                     ("argmax_last argmax_channels", torch.argmax), ("prod_last", torch.prod),
                     ("norm_all norm_last", torch.linalg.vector_norm), ("any_last", torch.any),
                     ("logsumexp_last", torch.logsumexp)):
        for name in names.split():
            shapes, over = reduce_cases[name.rsplit("_", 1)[1]]
            table.append(Case(name, "reduction", shapes, over(f)))
    table += [
        Case("max_last", "reduction", [line], lambda x: x.max(-1).values),
        Case("sum_all", "reduction", flat, torch.sum, True, 2),
        Case("mse_loss", "reduction", two, F.mse_loss),
        Case("mse_loss", "listed", two, F.mse_loss, True, 6),
        Case("l1_loss", "reduction", two, F.l1_loss),
        Case("smooth_l1_loss", "reduction", two, F.smooth_l1_loss),
        Case("binary_cross_entropy_with_logits", "listed", two, F.binary_cross_entropy_with_logits),
        Case("cross_entropy", "listed", [image, (64, [image[0], 256, 256])], F.cross_entropy),
        Case("cross_entropy", "listed", [image, (64, [image[0], 256, 256])], F.cross_entropy, True, 2),
        Case("softmax_last", "moving", [line], lambda x: x.softmax(-1)),
        Case("softmax_last", "moving", [line], lambda x: x.softmax(-1), True, 5),
        Case("softmax_channels", "moving", [image], lambda x: x.softmax(1)),
        Case("softmax_channels", "moving", [image], lambda x: x.softmax(1), True, 5),
        Case("log_softmax_last", "moving", [line], lambda x: x.log_softmax(-1)),
        Case("cumsum_last", "listed", [line], lambda x: x.cumsum(-1)),
        Case("cumsum_first", "listed", [[1024, rows]], lambda x: x.cumsum(0)),
    ]
    # A normalisation reads its input twice if a group does not fit a block; forward and backward: 3 + 5.
    groups = lambda x, w, b: F.group_norm(x, 32, w, b)
    norms = (
        ("batch_norm", [image, channel, channel], lambda x, w, b: F.batch_norm(x, None, None, w, b, True), 3, 8),
        ("batch_norm_relu", [image, channel, channel], lambda x, w, b: F.batch_norm(x, None, None, w, b, True).relu(), 3, 8),
        ("group_norm", [image, channel, channel], groups, 3, 8),
        ("instance_norm", [image, channel, channel], lambda x, w, b: F.instance_norm(x, weight=w, bias=b), 3, 8),
        ("layer_norm", [line, [1024], [1024]], lambda x, w, b: F.layer_norm(x, [1024], w, b), 2, 5),
        ("rms_norm", [line, [1024]], lambda x, w: F.rms_norm(x, [1024], w, 1e-5), 2, 5),
    )
    for name, shapes, call, forward, both in norms:
        table += [Case(name, "moving", shapes, call, moves=forward), Case(name, "moving", shapes, call, True, both)]
    grid = [small[0] * 4, 256, 256, 2]
    table += [
        Case("cat_channels", "moving", [half, half], lambda a, b: torch.cat([a, b], 1)),
        Case("stack", "moving", [half, half], lambda a, b: torch.stack([a, b])),
        Case("pad_zeros", "moving", [image], lambda x: F.pad(x, [1] * 4)),
        Case("pad_reflect", "moving", [image], lambda x: F.pad(x, [1] * 4, mode="reflect")),
        Case("pad_reflect", "moving", [image], lambda x: F.pad(x, [1] * 4, mode="reflect"), True, 4),
        Case("transpose_last", "moving", [image], lambda x: x.transpose(-2, -1).contiguous()),
        Case("to_channels_last", "moving", [image], lambda x: x.permute(0, 2, 3, 1).contiguous()),
        Case("from_channels_last", "moving", [[image[0], 256, 256, 64]], lambda x: x.permute(0, 3, 1, 2).contiguous()),
        Case("flip", "moving", [image], lambda x: x.flip(-1)),
        Case("roll", "moving", [image], lambda x: x.roll(3, -1)),
        Case("repeat", "moving", [half], lambda x: x.repeat(2, 1, 1, 1)),
        Case("pixel_shuffle", "moving", [image], lambda x: F.pixel_shuffle(x, 2)),
        Case("pixel_unshuffle", "moving", [image], lambda x: F.pixel_unshuffle(x, 2)),
        Case("pixel_shuffle", "moving", [image], lambda x: F.pixel_shuffle(x, 2), True, 4),
        Case("bilinear_half", "moving", [image], lambda x: F.interpolate(x, scale_factor=0.5, mode="bilinear")),
        Case("max_pool_2", "moving", [image], lambda x: F.max_pool2d(x, 2)),
        Case("max_pool_2", "moving", [image], lambda x: F.max_pool2d(x, 2), True, 2.5),
        Case("max_pool_3_2", "moving", [image], lambda x: F.max_pool2d(x, 3, 2, 1)),
        Case("max_pool_3_2", "moving", [image], lambda x: F.max_pool2d(x, 3, 2, 1), True, 2.5),
        Case("avg_pool_2", "moving", [image], lambda x: F.avg_pool2d(x, 2)),
        Case("avg_pool_2", "moving", [image], lambda x: F.avg_pool2d(x, 2), True, 2.5),
        Case("avg_pool_3_2", "moving", [image], lambda x: F.avg_pool2d(x, 3, 2, 1)),
        Case("global_avg_pool", "moving", [image], lambda x: F.adaptive_avg_pool2d(x, 1)),
        Case("unfold_3", "listed", [[max(n >> 25, 1), 64, 256, 256]], lambda x: F.unfold(x, 3, padding=1)),
        Case("grid_sample", "listed", [[grid[0], 64, 256, 256], grid], lambda x, g: F.grid_sample(x, g, align_corners=False),
             make=within),
        Case("index_select", "listed", [line, (rows, [rows])], lambda x, i: x.index_select(0, i)),
        Case("gather_last", "listed", [line, (1024, line)], lambda x, i: x.gather(-1, i)),
        Case("embedding", "listed", [[rows // 4, 256], (rows // 4, [rows * 4])], lambda w, i: F.embedding(i, w)),
    ]
    for name, mode in (("nearest_x2", "nearest"), ("bilinear_x2", "bilinear"), ("bicubic_x2", "bicubic")):
        up = lambda x, mode=mode: F.interpolate(x, scale_factor=2, mode=mode)
        table += [Case(name, "moving", [small], up), Case(name, "moving", [small], up, True, 2.5)]
    return table


def environment(device):
    if device == "cuda":
        return cuda_environment()
    torch.set_num_threads(2)
    model = next(line for line in open("/proc/cpuinfo") if line.startswith("model name")).split(":")[1].strip()
    return {"date": datetime.date.today().isoformat(), "commit": commit(), "device": f"{model}, 2 threads",
            "pytorch": torch.__version__}


class Operand(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("rank", ctypes.c_int64), ("extents", ctypes.c_int64 * 8),
                ("dtype", ctypes.c_int), ("requires_grad", ctypes.c_int), ("on_cuda", ctypes.c_int)]


class Library:
    def __init__(self):
        path = os.environ.get("ADJOINT_BENCH_OPS") or ROOT / "build/bench/libbench_ops.so"
        self.c = ctypes.CDLL(str(path))
        self.c.bench_last_error.restype = self.c.bench_dtype.restype = ctypes.c_char_p
        self.c.bench_bind.restype = ctypes.c_void_p
        self.c.bench_bind.argtypes = [ctypes.c_char_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p]
        self.c.bench_release.argtypes = [ctypes.c_void_p]
        self.c.bench_run.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
        self.c.bench_read.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64]
        self.dtypes = {self.c.bench_dtype(i).decode(): i for i in range(8)}

    def operand(self, tensor):
        assert tensor.is_contiguous()
        shape = (ctypes.c_int64 * 8)(*tensor.shape)
        return Operand(tensor.data_ptr(), tensor.dim(), shape, self.dtypes[str(tensor.dtype).removeprefix("torch.")],
                       int(tensor.requires_grad), int(tensor.is_cuda))

    def check(self, failed):
        if failed:
            raise RuntimeError(self.c.bench_last_error().decode())

    def bind(self, name, tensors, grad_output):
        """Returns three functions: the call, one that reads its results' first elements, and one that releases it."""
        operands = (Operand * len(tensors))(*map(self.operand, tensors))
        grad = None if grad_output is None else ctypes.byref(self.operand(grad_output))
        bound = self.c.bench_bind(name.encode(), operands, len(tensors), grad)
        self.check(bound is None)
        stream = torch.cuda.current_stream().cuda_stream if tensors[0].is_cuda else None

        def read(elements):
            values = torch.empty(sum(elements), dtype=torch.float64)
            self.check(self.c.bench_read(bound, values.data_ptr(), max(elements)))
            return values.split(elements)

        return lambda: self.check(self.c.bench_run(bound, stream)), read, lambda: self.c.bench_release(bound)


def cpu_milliseconds(calls, repeats):
    """The counterpart of compare_pytorch.milliseconds."""
    return {name: statistics.median(times) for name, times in timed(calls, repeats, time.perf_counter).items()}


def least_cpu_milliseconds(calls, repeats):
    """Returns each call's least CPU time of all threads."""
    return {name: min(times) for name, times in timed(calls, repeats, time.process_time).items()}


def timed(calls, repeats, clock):
    """Returns the milliseconds of each call. Calls take turns, and the first two turns only warm up."""
    samples = {name: [] for name in calls}
    for _ in range(repeats + 2):
        for name, call in calls.items():
            begin = clock()
            call()
            samples[name].append(1e3 * (clock() - begin))
    return {name: times[2:] for name, times in samples.items()}


TIMERS = {"cuda": milliseconds, "cpu": cpu_milliseconds}


def make_tensors(case, dtype, n, device):
    tensors = []
    for shape in case.shapes:
        if shape is torch.bool:
            tensors.append(torch.rand(n, device=device) < 0.5)
        elif isinstance(shape, tuple):
            tensors.append(torch.randint(shape[0], shape[1], device=device))
        else:
            tensor = torch.randn(shape, device=device, dtype=dtype)
            tensors.append(case.make(tensor) if case.make else tensor)
    if case.backward:
        for tensor in tensors:
            tensor.requires_grad_(tensor.is_floating_point())
    return tensors


def measure(library, case, dtype, n, repeats, device):
    torch.manual_seed(0)
    tensors = make_tensors(case, dtype, n, device)
    grad_output = None
    theirs = lambda: case.call(*tensors)
    if case.backward:
        grad_output = torch.randn_like(theirs()).contiguous()
        wanted = [t for t in tensors if t.requires_grad]
        theirs = lambda: torch.autograd.grad(case.call(*tensors), wanted, grad_output)
    ours, read, release = library.bind(case.name, tensors, grad_output)
    with torch.set_grad_enabled(case.backward):
        expected = theirs()
        expected = list(expected) if isinstance(expected, tuple) else [expected]
        ours()
        if device == "cuda":
            torch.cuda.synchronize()
        firsts = read([min(t.numel(), 100000) for t in expected])
        difference = 0.0
        for first, e in zip(firsts, expected):
            e = e.reshape(-1)[: first.numel()].double().cpu()
            difference = max(difference, ((first - e).abs().max() / e.abs().max().clamp(min=1e-30)).item())
        moved = case.moves
        if moved is None:
            nbytes = sum(t.numel() * t.element_size() for t in [*tensors, *expected])
        else:
            floats = [t for t in (*tensors, *expected, grad_output) if t is not None and t.is_floating_point()]
            nbytes = moved * max(t.numel() * t.element_size() for t in floats)
        del expected
        ms = TIMERS[device]({"adjoint": ours, "pytorch": theirs}, repeats)
    release()
    return {"case": case, "dtype": dtype, "difference": difference, "bytes": nbytes, **ms}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=TIMERS, default="cuda")
    parser.add_argument("--dtypes", default="float32,bfloat16")
    parser.add_argument("--ops", default="", help="only operators whose names contain one of these words")
    parser.add_argument("--everyday", action="store_true", help="twenty operators, forward")
    parser.add_argument("--cpu-time", action="store_true",
                        help="on the CPU, on a shared machine: the least CPU time instead of the wall clock's median")
    parser.add_argument("--elements", type=int, help="of the largest tensor, a power of two (2^28, on the CPU 2^22)")
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--out", type=pathlib.Path)
    arguments = parser.parse_args()
    device = arguments.device
    if arguments.cpu_time:
        TIMERS["cpu"] = least_cpu_milliseconds
    n = arguments.elements or (1 << 28 if device == "cuda" else 1 << 22)
    record = environment(device)
    print(", ".join(f"{name} {value}" for name, value in record.items()))
    library = Library()
    source, target = (torch.zeros(n, device=device) for _ in range(2))
    rate = 8 * n / TIMERS[device]({"": lambda: target.copy_(source)}, 21)[""] * 1e3
    del source, target
    print(f"copy: {rate / 1e12:.2f} TB/s")

    wrong, rows, behind = [], [], []
    for dtype in (getattr(torch, name) for name in arguments.dtypes.split(",")):
        title = str(dtype).removeprefix("torch.")
        for case in cases(n):
            if arguments.everyday and (case.backward or case.name not in EVERYDAY):
                continue
            if not any(word in case.name for word in arguments.ops.split(",")):
                continue
            what = f"{case.name}{', with gradients' if case.backward else ''}"
            try:
                r = measure(library, case, dtype, n, arguments.repeats, device)
            except (RuntimeError, AttributeError) as error:
                wrong.append(f"{what} {title}: {error}")
                print("WRONG", wrong[-1], flush=True)
                continue
            finally:
                if device == "cuda":
                    torch.cuda.empty_cache()
            share = r["bytes"] / rate / r["adjoint"] * 1e3
            speedup = r["pytorch"] / r["adjoint"]
            least_share, least_speedup = goal_of(case.kind, device)
            missed = share < least_share or speedup < least_speedup
            if r["difference"] > TOLERANCE[dtype]:
                wrong.append(f"{what} {title}: differs from PyTorch's by {r['difference']:.1e}")
            if missed:
                behind.append(f"{what} {title}")
            rows.append((case.kind, what, title, f"{r['adjoint']:.3f}", f"{r['pytorch']:.3f}", f"{speedup:.2f}",
                         f"{share:.2f}", "behind" if missed else ""))
            print(f"{what:<40} {title:<9} {r['adjoint']:8.3f} {r['pytorch']:8.3f} {speedup:6.2f} {share:6.2f} "
                  f"{'behind' if missed else '':<7} {r['difference']:.1e}", flush=True)
    write(arguments.out or ROOT / f"bench/results/ops_{device}.md", record, rate, n, rows, device)
    print(f"{len(rows)} measured, {len(behind)} behind their goal: {'; '.join(behind)}")
    if wrong:
        sys.exit("wrong:\n" + "\n".join(wrong))


def goal_of(kind, device):
    return CPU_GOAL if device == "cpu" and kind != "listed" else GOALS[kind]


def write(path, record, rate, n, rows, device):
    lines = ["# Operators beside PyTorch's", "",
             f"`bench/compare_ops.py {' '.join(sys.argv[1:])}`, {record['device']}, {record['date'][:10]}, commit {record['commit']}, PyTorch "
             f"{record['pytorch']}; the largest tensor of a call has {n} elements. The copy rate of this run is "
             f"{rate / 1e12:.2f} TB/s; the share is of it, by the bytes that must move.", ""]
    for kind in GOALS:
        share, speedup = goal_of(kind, device)
        of_kind = [row for row in rows if row[0] == kind]
        if not of_kind:
            continue
        goal = f"share {share:.2f} and " if share else ""
        goal += f"PyTorch's time over ours {speedup:.2f}" if speedup else "none, they are listed"
        lines += [f"## {kind.capitalize()}", "", f"Goal: {goal}. Geometric mean of PyTorch / ours: "
                  f"{geometric_mean([float(row[5]) for row in of_kind]):.2f}.", "",
                  "| operator | dtype | ms | PyTorch, ms | PyTorch / ours | share | |", "|---|---|---:|---:|---:|---:|---|"]
        lines += ["| " + " | ".join(row[1:]) + " |" for row in of_kind] + [""]
    path.write_text("\n".join(lines))


if __name__ == "__main__":
    main()
