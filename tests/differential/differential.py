#!/usr/bin/env python3
"""Draws inputs for every case of the registry of operators, and compares results and gradients with PyTorch's.

    cmake --build --preset cpu --target differential_peer
    differential.py build/cpu/tests/differential/differential_peer --seconds 3600 --seed 2

    differential.py PEER [--seconds 60] [--seed 1] [--only REGEX] [--run N] [--verbose]

The table is the registry's own. A case's function in PyTorch is in tests/fixtures/operators/<family>.py, with examples,
and its call is in tests/support/operators/<family>.cpp under the same name. PEER is the program differential_peer.

A run draws a case, one of its examples, a dtype, new extents instead of the example's (0 and 1 among them), values and
layouts: contiguous, transposed, in steps, at an offset, expanded. Values are exact in every dtype, and PyTorch computes
in float64. A result may therefore differ from PyTorch's only by its own roundings, in 16 bits by one. Runs that PyTorch
rejects do not count. A run depends only on the seed and its number: --run N repeats one, and --verbose prints all of
it.

The program exits with 1 if a result, a gradient, a shape or a dtype differs, or if Adjoint rejects an example's own
extents, and with 77 if there is no PyTorch. known.py lists the differences that are not errors.
"""
import argparse
import collections
import math
import pathlib
import random
import re
import struct
import subprocess
import sys
import time
import types
import warnings

try:
    import torch
except ImportError:
    print("skipped: No module named 'torch' (Debian: python3-torch)")
    sys.exit(77)

from known import FIXED, KNOWN

warnings.filterwarnings("ignore")
TESTS = pathlib.Path(__file__).resolve().parent.parent
FIXTURES = TESTS / "fixtures" / "operators"
ELEMENTWISE_CASES = TESTS / "support" / "elementwise_cases.cpp"  # from which elementwise.py reads names
DTYPES = [torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.int32, torch.int64, torch.uint8,
          torch.bool]
FLOATING = DTYPES[:4]
TAKES = [FLOATING, FLOATING + DTYPES[4:7], FLOATING + DTYPES[4:]]  # by the values of testing::Takes
EXTENTS = [0, 1, 1, 2, 3, 4, 5, 7, 8, 16, 17, 33]
Case = collections.namedtuple("Case", "place name takes differentiable tolerance roundings examples edges")


class Ended(Exception):
    """The peer has ended."""


class Peer:
    def __init__(self, program):
        self.program = program
        self.start()

    def start(self):
        self.process = subprocess.Popen([self.program], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.rows = [(self.text(), self.number(), self.number() != 0, self.number("d"), self.number("d"))
                     for _ in range(self.number())]

    def take(self, count):
        data = self.process.stdout.read(count)
        if len(data) != count:
            raise Ended(f"the peer ended with {self.process.wait()}")
        return data

    def number(self, kind="q"):
        return struct.unpack("<" + kind, self.take(8))[0]

    def text(self):
        return self.take(self.number()).decode()

    def tensor(self):
        place = self.number()
        if place < 0:
            return None
        shape = [self.number() for _ in range(self.number())]
        count = math.prod(shape)
        empty = torch.empty(0, dtype=DTYPES[place])
        data = bytearray(self.take(count * empty.element_size()))
        return torch.frombuffer(data, dtype=DTYPES[place]).reshape(shape) if count else empty.reshape(shape)

    @staticmethod
    def packed(x):
        if x is None:
            return struct.pack("<q", -1)
        storage = torch.as_strided(x, (x.storage().size(),), (1,), 0)
        if x.dtype in (torch.bfloat16, torch.float16):
            storage = storage.view(torch.int16)
        numbers = [DTYPES.index(x.dtype), x.dim(), *x.shape, *x.stride(), x.storage_offset(), storage.numel()]
        return struct.pack(f"<{len(numbers)}q", *numbers) + storage.numpy().tobytes()

    def ask(self, case, inputs, weights):
        request = [struct.pack("<qq", case, len(inputs)), *map(self.packed, inputs),
                   struct.pack("<q", len(weights)), *map(self.packed, weights)]
        try:
            self.process.stdin.write(b"".join(request))
            self.process.stdin.flush()
            status = self.number()
            if status != 0:
                return status, self.text(), None
            return 0, [self.tensor() for _ in range(self.number())], [self.tensor() for _ in range(self.number())]
        except (Ended, BrokenPipeError):
            ended = self.process.wait()
            self.start()
            return 3, f"the peer ended with {ended}", None


def eighths(shape):
    generator = torch.Generator().manual_seed(1)
    return torch.randint(-16, 17, tuple(shape), generator=generator).double() / 8


def read_cases(rows, only):
    names, examples, edges = set(), collections.defaultdict(list), collections.defaultdict(list)

    def case(name, function, *of, edge=()):
        if isinstance(function, types.FunctionType):  # the function would see the last values of its file's loops
            function = types.FunctionType(function.__code__, dict(function.__globals__), function.__name__,
                                          function.__defaults__, function.__closure__)
        names.add(name)
        if of:
            examples[name] += [(function, one) for one in of]
        edges[name] += [(function, one) for one in edge]

    for path in sorted(FIXTURES.glob("*.py")):
        exec(compile(path.read_text(), str(path), "exec"),
             {"case": case, "ELEMENTWISE_CASES": ELEMENTWISE_CASES.read_text(), "torch": torch,
              "F": torch.nn.functional, "math": math, "inf": math.inf, "nan": math.nan,
              "eighths": eighths, "T": lambda values, dtype=torch.float64: torch.tensor(values, dtype=dtype)})
    alone = names ^ {row[0] for row in rows}
    assert not alone, f"cases that only the registry or only the fixtures have: {alone}"
    cases = [Case(place, *row, examples[row[0]], edges[row[0]]) for place, row in enumerate(rows)]
    return [c for c in cases if re.search(only, c.name)]


def new_extents(draw, inputs):
    """Returns the example with one of its extents replaced, in every shape that has it."""
    extents = sorted({n for x in inputs if isinstance(x, tuple) for n in x})
    if not extents or 0 in extents or draw.random() < 0.25:
        return inputs
    for _ in range(draw.choice([1, 1, 2])):
        old, new = draw.choice(extents), draw.choice(EXTENTS)
        changed = [tuple(new if n == old else n for n in x) if isinstance(x, tuple) else x for x in inputs]
        if all(math.prod(x) <= 20000 for x in changed if isinstance(x, tuple)):
            inputs = changed
    return inputs


def values(draw, x, dtype):
    """Returns new elements for an input of an example, which is a shape, or a tensor whose range they keep."""
    generator = torch.Generator().manual_seed(draw.getrandbits(62))
    shape = x if isinstance(x, tuple) else tuple(x.shape)
    count = math.prod(shape)
    if not isinstance(x, tuple):
        if not x.is_floating_point():
            return x.clone()
        if count > 1 and draw.random() < 0.7 and bool(x.isfinite().all()):  # between two of its elements
            low, high = (x.reshape(-1)[torch.randint(0, count, (count,), generator=generator)] for _ in range(2))
            share = torch.rand(count, generator=generator, dtype=torch.float64).mul(8).round() / 8
            between = (low + (high - low) * share).reshape(shape)
            x = torch.where(between.bfloat16().double() == between, between, x)
            return x.to(torch.bfloat16).to(dtype) if dtype in FLOATING else x.to(dtype)
        return x.to(dtype)
    if dtype not in FLOATING:
        low = -5 if dtype in (torch.int32, torch.int64) else 0
        return torch.randint(low, 2 if dtype == torch.bool else 6, shape, generator=generator).to(dtype)
    if draw.random() < 0.15:  # with ties and zeros
        return (torch.randint(-8, 9, shape, generator=generator).double() / 4).to(dtype)
    # The elements are distinct, as far as numbers with 8 bits of mantissa suffice.
    pool = torch.tensor([n for n in range(-255, 256) if n])
    chosen = torch.cat([pool[torch.randperm(len(pool), generator=generator)] for _ in range(count // len(pool) + 1)])
    scale = draw.choice([128] * 8 + [4, 16, 1024, 8192])
    return (chosen[:count].double() / scale).reshape(shape).to(dtype)


def laid_out(draw, x):
    """Returns the same elements in another layout; an expanded layout repeats the first ones along an axis."""
    kind = draw.choice(["contiguous", "contiguous", "transposed", "steps", "offset", "expanded"])
    if x.dim() == 0 or x.numel() == 0:
        kind = "contiguous"
    if kind == "transposed":
        order = draw.sample(range(x.dim()), x.dim())
        x = x.permute(order).contiguous().permute([order.index(axis) for axis in range(x.dim())])
    elif kind == "steps":
        axis = draw.randrange(x.dim())
        base = torch.full([2 * n if i == axis else n + 1 for i, n in enumerate(x.shape)], 1, dtype=x.dtype)
        if x.is_floating_point():
            base.fill_(math.nan)
        view = base[tuple(slice(1, None, 2) if i == axis else slice(0, n) for i, n in enumerate(x.shape))]
        x = view.copy_(x)
    elif kind == "offset":
        x = torch.cat([x.reshape(-1)[:1], x.reshape(-1)])[1:].view(x.shape)
    elif kind == "expanded":
        axis = draw.randrange(x.dim())
        x = x.narrow(axis, 0, 1).contiguous().expand(x.shape)
    return x, kind


def reference(case, function, inputs, wide, draw):
    """Returns PyTorch's results and gradients, and the weights of the results."""
    leaves = []
    for x in inputs:
        x = x.detach().clone(memory_format=torch.contiguous_format)
        leaves.append((x.double() if wide else x).requires_grad_(x.is_floating_point()) if x.is_floating_point() else x)
    results = function(*leaves)
    results = [results] if isinstance(results, torch.Tensor) else list(results)
    generator = torch.Generator().manual_seed(draw.getrandbits(62))
    weights = [torch.randint(-16, 17, tuple(r.shape), generator=generator).double() / 8 if r.requires_grad else None
               for r in results]
    parts = [(r * w.to(r.dtype)).sum() for r, w in zip(results, weights) if w is not None]
    gradients = [None] * len(leaves)
    floating = [i for i, x in enumerate(leaves) if x.requires_grad]
    if parts and floating:
        for i, g in zip(floating, torch.autograd.grad(sum(parts), [leaves[i] for i in floating], allow_unused=True)):
            gradients[i] = g
    return [r.detach() for r in results], gradients, weights


def difference(found, expected, dtype, tolerance, floating, once=0.0):
    """Returns a text on the error in `found`, or an empty text. With `once`, 16 bits must have one rounding of a number
    within `once` of the expected one."""
    if found.shape != expected.shape:
        return f"shape {tuple(found.shape)} for {tuple(expected.shape)}"
    wanted = dtype if floating and expected.is_floating_point() else expected.dtype
    if found.dtype == dtype and not dtype.is_floating_point and expected.is_floating_point():
        expected, wanted = expected.to(dtype), dtype  # scalars have the tensor's dtype
    if found.dtype != wanted:
        return f"{found.dtype} for {wanted}"
    a = found.double()
    e = expected.to(wanted).double() if wanted.is_floating_point else expected.double()
    if once and wanted in FLOATING[:2]:
        near = (a - expected.double()).abs() <= 0.51 * torch.finfo(wanted).eps * expected.double().abs() + once
    else:
        near = (a - e).abs() <= tolerance * (1 + e.abs())
    most = torch.finfo(wanted).max if wanted.is_floating_point else math.inf
    overflows = (a.abs() > most * (1 - tolerance)) & (e.abs() > most * (1 - tolerance)) & (a.sign() == e.sign())
    wrong = ~((a == e) | (a.isnan() & e.isnan()) | near | overflows)
    if not bool(wrong.any()):
        return ""
    at = int(wrong.reshape(-1).nonzero()[0])
    return (f"{int(wrong.sum())} of {wrong.numel()} elements, of {tuple(found.shape)}: got {a.reshape(-1)[at]:.17g}, "
            f"expected {e.reshape(-1)[at]:.17g} at {at}")


def run(peer, cases, seed, number, verbose):
    """Returns None if PyTorch rejects the call; else a text on the run, and a list of differences, which is usually
    empty. The list is None if Adjoint rejects extents for which the registry's call may not be defined."""
    draw = random.Random(f"{seed}/{number}")
    case = draw.choice(cases)
    edge = bool(case.edges) and (not case.examples or draw.random() < 0.1)
    function, inputs = draw.choice(case.edges if edge else case.examples)
    dtype = draw.choice(TAKES[case.takes])
    if edge and dtype not in FLOATING:
        dtype = torch.float64
    wide = dtype in FLOATING
    changed = inputs if edge or re.search(FIXED, case.name) else new_extents(draw, inputs)
    own_extents, inputs = changed is inputs, changed
    drawn, layouts = [], []
    for x in inputs:
        own = x.dtype if isinstance(x, torch.Tensor) and not x.is_floating_point() else dtype
        x = x.to(own) if edge and isinstance(x, torch.Tensor) else values(draw, x, own)
        x, kind = laid_out(draw, x)
        drawn.append(x)
        layouts.append(kind)
    what = (f"{case.name} in {str(dtype).removeprefix('torch.')}, "
            + " ".join(f"{tuple(x.shape)} {kind}" for x, kind in zip(drawn, layouts)) + (", edge" if edge else ""))
    if verbose:
        print(what, *drawn, sep="\n")
    try:
        results, gradients, weights = reference(case, function, drawn, wide, draw)
    except Exception as error:  # PyTorch has no type of its own for such errors
        if verbose:
            print("PyTorch refuses:", error)
        return None
    differentiable = wide and case.differentiable and not edge
    status, found, found_gradients = peer.ask(case.place, drawn, weights if differentiable else [])
    if verbose:
        print("PyTorch:", *results, *gradients, "Adjoint:", found, found_gradients, sep="\n")
    if status == 1 and not own_extents:
        return what, None
    if status != 0:
        return what, [("refused" if status == 1 else "failed") + f": {found}"]
    rounding = torch.finfo(dtype).eps * (0.5 if dtype in FLOATING[:2] else 1) if wide else 0  # 16 bits are rounded once
    # Sums that cancel have the rounding of their terms, products of at most two inputs; it grows like a random walk.
    finite = [x.abs()[x.isfinite()] for x in drawn if x.is_floating_point()]
    largest = max((float(x.max()) for x in finite if x.numel()), default=1.0)
    scale = max(1.0, largest) ** 2 * max(1.0, max(x.numel() for x in drawn) ** 0.5 / 4)
    tolerance = case.tolerance + case.roundings * rounding * scale
    wrong = [f"{len(found)} results for {len(results)}"] if len(found) != len(results) else []
    for i, (f, e) in enumerate(zip(found, results)):
        wrong += [f"result {i}: {text}"] if (text := difference(f, e, dtype, tolerance, wide, 1e-4 * scale)) else []
    in_range = all(bool((r.abs() < torch.finfo(torch.float32).max).all()) for r in results if r.is_floating_point())
    for i, (f, e) in enumerate(zip(found_gradients, gradients) if differentiable and in_range else ()):
        if e is None:
            continue
        if f is None:
            wrong += [f"gradient {i}: none"] if bool((e != 0).any()) else []
        elif text := difference(f, e, dtype, 10 * tolerance, True):
            wrong.append(f"gradient {i}: {text}")
    return what, wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("peer")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="")
    parser.add_argument("--run", type=int)
    parser.add_argument("--verbose", action="store_true")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    peer = Peer(arguments.peer)
    cases = read_cases(peer.rows, arguments.only)
    end = time.monotonic() + arguments.seconds
    counts, found, known = collections.Counter(), collections.defaultdict(list), collections.Counter()
    number = arguments.run or 0
    while True:
        outcome = run(peer, cases, arguments.seed, number, arguments.verbose)
        counts["PyTorch's refusals" if outcome is None else "Adjoint's" if outcome[1] is None else "compared"] += 1
        if outcome is not None and outcome[1]:
            what, wrong = outcome
            reason = next((key for key, test in KNOWN.items() if re.search(test, f"{what}: {wrong[0]}")), None)
            if reason is not None:
                known[reason] += 1
            else:
                found[what.split(" ")[0]].append((number, what, wrong))
        number += 1
        if arguments.run is not None or time.monotonic() > end:
            break
    for name, all_of_it in found.items():
        print(f"{name}: {len(all_of_it)} differences")
        for number_of, what, wrong in all_of_it[:3]:
            print(f"  --run {number_of}: {what}\n    " + "\n    ".join(wrong))
    print(f"seed {arguments.seed}, {number} runs of {len(cases)} cases, PyTorch {torch.__version__}: {dict(counts)}, "
          f"{sum(map(len, found.values()))} differ, {sum(known.values())} as known")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
