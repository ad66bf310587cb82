#!/usr/bin/env python3
"""Compares whole models under adjoint.torch with the same models in PyTorch: milliseconds of training and inference.

    bench/real_models.py [--device cuda] [--precisions float32,tf32,bfloat16] [--models dcgan,unet] [--compile]
                         [--fuse | --both] [--channels-last] [--only-where-faster] [--quick] [--out FILE]

The program makes each model twice with the same random weights: as PyTorch runs it, with cudnn.benchmark, and after
adjoint.torch.replace. With --both it makes a third, fused. The models take turns. Times are medians by the wall clock
until the GPU has finished, as a user sees them. A training step is forward, the mean square of the result, backward and
Adam's update. Inference is in eval mode without gradients. bfloat16 is torch.autocast's. The program compares the
results first, and fails if they differ.

SpeechT5HifiGan and the decoders of EnCodec and DAC come from transformers; if it is not installed, the program says so
and omits them. The other models are written below as in their papers. The program needs PyTorch, and the shared library
in ADJOINT_LIBRARY. It writes a table, --out, by default bench/results/real_models_<device>.md.
"""

import argparse
import contextlib
import datetime
import math
import pathlib
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "python"))

import torch
from torch import nn
from torch.nn import functional as F

import adjoint.torch as adj

# PyTorch's time over ours should reach these in geometric mean, and for every model.
GOALS = {"float32": (1.5, 1.0), "tf32": (1.4, 1.0), "bfloat16": (1.25, 1.0)}
COMPILED_GOAL = (1.0, 0.97)
# The allowed difference after some tens of layers, as a share of a result's largest element.
TOLERANCE = {"float32": 1e-3, "tf32": 3e-2, "bfloat16": 2e-1}


class Residual(nn.Module):
    def __init__(self, *layers):
        super().__init__()
        self.body = nn.Sequential(*layers)

    def forward(self, x):
        return x + self.body(x)


class Skip(nn.Module):
    """A level of a U-Net: the result of the level below is joined to its input."""

    def __init__(self, *layers):
        super().__init__()
        self.body = nn.Sequential(*layers)

    def forward(self, x):
        return torch.cat([x, self.body(x)], 1)


def dcgan():
    """Radford et al., 2016: 64 x 64 pictures."""
    layers = [nn.ConvTranspose2d(100, 512, 4, bias=False), nn.BatchNorm2d(512), nn.ReLU(True)]
    for c in (512, 256, 128):
        layers += [nn.ConvTranspose2d(c, c // 2, 4, 2, 1, bias=False), nn.BatchNorm2d(c // 2), nn.ReLU(True)]
    return nn.Sequential(*layers, nn.ConvTranspose2d(64, 3, 4, 2, 1), nn.Tanh())


def pix2pix():
    """Isola et al., 2017: the U-Net of 256 x 256 pictures, eight levels."""

    def level(outer, inner, below, norm=True):
        up = nn.ConvTranspose2d(inner if below is None else 2 * inner, outer, 4, 2, 1, bias=False)
        down = [nn.LeakyReLU(0.2), nn.Conv2d(outer, inner, 4, 2, 1, bias=False)]
        down += [nn.BatchNorm2d(inner)] if below is not None else []
        return Skip(*down, *([] if below is None else [below]), nn.ReLU(), up, nn.BatchNorm2d(outer))

    below = level(512, 512, None)
    for _ in range(3):
        below = level(512, 512, below)
    for outer, inner in ((256, 512), (128, 256), (64, 128)):
        below = level(outer, inner, below)
    return nn.Sequential(nn.Conv2d(3, 64, 4, 2, 1), below, nn.ReLU(), nn.ConvTranspose2d(128, 3, 4, 2, 1), nn.Tanh())


def cyclegan():
    """Zhu et al., 2017: nine residual blocks."""

    def conv(kind, inputs, outputs, kernel, **options):
        return [kind(inputs, outputs, kernel, **options), nn.InstanceNorm2d(outputs), nn.ReLU(True)]

    def block():
        first = conv(nn.Conv2d, 256, 256, 3, padding=1, padding_mode="reflect")
        return Residual(*first, *conv(nn.Conv2d, 256, 256, 3, padding=1, padding_mode="reflect")[:2])

    layers = conv(nn.Conv2d, 3, 64, 7, padding=3, padding_mode="reflect")
    for c in (64, 128):
        layers += conv(nn.Conv2d, c, 2 * c, 3, stride=2, padding=1)
    layers += [block() for _ in range(9)]
    for c in (256, 128):
        layers += conv(nn.ConvTranspose2d, c, c // 2, 3, stride=2, padding=1, output_padding=1)
    return nn.Sequential(*layers, nn.Conv2d(64, 3, 7, padding=3, padding_mode="reflect"), nn.Tanh())


def unet():
    """Ronneberger et al., 2015, with padding and BatchNorm, four levels."""

    def twice(inputs, outputs):
        pair = []
        for c in (inputs, outputs):
            pair += [nn.Conv2d(c, outputs, 3, padding=1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU(True)]
        return pair

    below = twice(512, 1024)
    for c in (512, 256, 128, 64):
        inside = nn.Sequential(nn.MaxPool2d(2), *below, nn.ConvTranspose2d(2 * c, c, 2, 2))
        below = [*twice(c // 2 if c > 64 else 3, c), Skip(inside), *twice(2 * c, c)]
    return nn.Sequential(*below, nn.Conv2d(64, 2, 1))


class HifiGan(nn.Module):
    """Kong et al., 2020, V1: 80 mel bands to sound, 256 samples a frame."""

    def __init__(self):
        super().__init__()
        norm = getattr(nn.utils.parametrizations, "weight_norm", nn.utils.weight_norm)

        def block(c, kernel):
            def conv(dilation):
                return norm(nn.Conv1d(c, c, kernel, padding=dilation * (kernel - 1) // 2, dilation=dilation))

            pairs = ((nn.LeakyReLU(0.1), conv(d), nn.LeakyReLU(0.1), conv(1)) for d in (1, 3, 5))
            return nn.Sequential(*(Residual(*pair) for pair in pairs))

        self.pre = norm(nn.Conv1d(80, 512, 7, padding=3))
        self.ups, self.blocks = nn.ModuleList(), nn.ModuleList()
        for i, (rate, kernel) in enumerate(((8, 16), (8, 16), (2, 4), (2, 4))):
            c = 512 >> i
            self.ups.append(norm(nn.ConvTranspose1d(c, c // 2, kernel, rate, (kernel - rate) // 2)))
            self.blocks.append(nn.ModuleList(block(c // 2, k) for k in (3, 7, 11)))
        self.post = norm(nn.Conv1d(32, 1, 7, padding=3))

    def forward(self, x):
        x = self.pre(x)
        for up, blocks in zip(self.ups, self.blocks):
            x = up(F.leaky_relu(x, 0.1))
            x = sum(block(x) for block in blocks) / len(blocks)
        return torch.tanh(self.post(F.leaky_relu(x)))


def speecht5():
    from transformers import SpeechT5HifiGan, SpeechT5HifiGanConfig

    return SpeechT5HifiGan(SpeechT5HifiGanConfig())


def encodec():
    from transformers import EncodecConfig, EncodecModel

    return EncodecModel(EncodecConfig()).decoder


def dac():
    from transformers import DacConfig, DacModel

    return DacModel(DacConfig()).decoder


# For each name: the model, the shape of its input, and the shape in a quick run.
MODELS = {
    "dcgan": (dcgan, (64, 100, 1, 1), (2, 100, 1, 1)),
    "pix2pix": (pix2pix, (4, 3, 256, 256), (1, 3, 256, 256)),
    "cyclegan": (cyclegan, (2, 3, 256, 256), (1, 3, 32, 32)),
    "unet": (unet, (4, 3, 256, 256), (1, 3, 32, 32)),
    "hifigan": (HifiGan, (16, 80, 32), (1, 80, 4)),
    "speecht5": (speecht5, (16, 128, 80), (1, 8, 80)),
    "encodec": (encodec, (8, 128, 150), (1, 128, 8)),
    "dac": (dac, (4, 1024, 87), (1, 1024, 4)),
}


def wait(device):
    if device == "cuda":
        torch.cuda.synchronize()


def milliseconds(calls, rounds, device):
    """Returns each call's median. `calls` is {name: function}; the calls take turns."""
    samples = {name: [] for name in calls}
    for round in range(rounds + 3):  # in the first, cudnn.benchmark and the like choose
        for name, call in calls.items():
            wait(device)
            begin = time.perf_counter()
            call()
            wait(device)
            if round >= 3:
                samples[name].append(1e3 * (time.perf_counter() - begin))
    return {name: statistics.median(times) for name, times in samples.items()}


def difference(mine, reference):
    return ((mine - reference).abs().max() / reference.abs().max().clamp(min=1e-30)).item()


def set_precision(precision):
    tf32 = precision == "tf32"
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = tf32
    adj.set_precision("tf32" if tf32 else "float32")


def measure(name, precision, arguments):
    """Returns rows of (way, what, Adjoint's ms, PyTorch's ms), and the difference between the results."""
    make, shape, quick_shape = MODELS[name]
    torch.manual_seed(0)
    x = torch.randn(quick_shape if arguments.quick else shape, device=arguments.device)
    sides = {side: make().to(arguments.device) for side in ("pytorch", *arguments.ways)}
    theirs = sides["pytorch"]
    if arguments.channels_last and x.dim() == 4:
        x = x.to(memory_format=torch.channels_last)
    for side, model in sides.items():
        model.load_state_dict(theirs.state_dict())
        if arguments.channels_last:
            model.to(memory_format=torch.channels_last)
        if side == "pytorch":
            continue
        report = adj.replace(model, only_where_faster=arguments.only_where_faster)
        if arguments.verbose:
            print(report)
        if side == "fused":
            adj.fuse(model)
    set_precision(precision)
    cast = contextlib.nullcontext
    if precision == "bfloat16":
        cast = lambda: torch.autocast(arguments.device, torch.bfloat16)

    def evaluated(model):
        with torch.no_grad(), cast():
            return model(x)

    outputs = {side: evaluated(model.eval()).float() for side, model in sides.items()}
    apart = max(difference(outputs[way], outputs["pytorch"]) for way in arguments.ways)
    calls, steps = {}, {}
    for side, model in sides.items():
        run = torch.compile(model) if arguments.compile else model
        adam = torch.optim.Adam(model.parameters(), lr=1e-6)

        def step(run=run, adam=adam):
            adam.zero_grad(set_to_none=True)
            with cast():
                loss = run(x).float().square().mean()
            loss.backward()
            adam.step()

        calls[side] = lambda run=run: evaluated(run)
        steps[side] = step
    rows = [("inference", milliseconds(calls, arguments.rounds, arguments.device))]
    for model in sides.values():
        model.train()
    rows.append(("training", milliseconds(steps, arguments.rounds, arguments.device)))
    return [(way, what, ms[way], ms["pytorch"]) for way in arguments.ways for what, ms in rows], apart


def environment(device):
    where = torch.cuda.get_device_name() if device == "cuda" else f"CPU, {torch.get_num_threads()} threads"
    commit = subprocess.run(
        ["git", "describe", "--always", "--dirty", "--abbrev=12"], cwd=ROOT, capture_output=True, text=True
    ).stdout.strip()
    commit = commit or "unknown"
    software = f"PyTorch {torch.__version__}, adjoint.torch through {adj.backend()}"
    return f"{where}, {datetime.date.today().isoformat()}, commit {commit}, {software}"


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--precisions", default="float32,tf32,bfloat16", help="comma-separated")
    parser.add_argument("--models", default=",".join(MODELS), help="comma-separated")
    parser.add_argument("--compile", action="store_true", help="torch.compile on both sides")
    fuse = parser.add_mutually_exclusive_group()
    fuse.add_argument("--fuse", action="store_true", help="also adjoint.torch.fuse")
    fuse.add_argument("--both", action="store_true", help="a table for fused models and one for unfused")
    parser.add_argument("--channels-last", action="store_true", help="models and pictures in channels_last")
    parser.add_argument("--only-where-faster", action="store_true", help="replace(only_where_faster=True)")
    parser.add_argument("--quick", action="store_true", help="small inputs, to try the program")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--verbose", action="store_true", help="print the replaced modules and the others")
    parser.add_argument("--out", type=pathlib.Path)
    arguments = parser.parse_args()
    arguments.ways = ["replaced", "fused"] if arguments.both else ["fused"] if arguments.fuse else ["replaced"]
    for given, known in ((arguments.precisions, GOALS), (arguments.models, MODELS)):
        if unknown := set(given.split(",")) - set(known):
            parser.error(f"must be of {', '.join(known)}; got {', '.join(sorted(unknown))}")
    return arguments


def table(title, rows, goal, behind):
    """Returns lines of rows (model, what, Adjoint's ms, PyTorch's ms). Appends the misses of goals to `behind`."""
    mean = math.exp(statistics.fmean(math.log(theirs / mine) for *_, mine, theirs in rows))
    least_mean, least = goal
    behind += [f"{title}: mean {mean:.2f}, goal {least_mean}"] if mean < least_mean else []
    behind += [f"{name} {what} {title}" for name, what, mine, theirs in rows if theirs / mine < least]
    lines = [f"## {title}", "", f"Geometric mean of PyTorch / ours: {mean:.2f}; the goal is {least_mean}.", ""]
    lines += ["| model | | ms | PyTorch, ms | PyTorch / ours |", "|---|---|---:|---:|---:|"]
    return lines + [f"| {n} | {what} | {a:.2f} | {b:.2f} | {b / a:.2f} |" for n, what, a, b in rows] + [""]


def main():
    arguments = parse_arguments()
    torch.backends.cudnn.benchmark = True
    about = environment(arguments.device)
    print(about)
    lines = ["# Models beside PyTorch's", "", f"`bench/real_models.py {' '.join(sys.argv[1:])}`, {about}.", ""]
    wrong, behind = [], []
    for precision in arguments.precisions.split(","):
        rows = []
        for name in arguments.models.split(","):
            try:
                measured, apart = measure(name, precision, arguments)
            except ImportError as error:
                print(f"{name}: left out, {error}")
                continue
            if not apart <= TOLERANCE[precision]:
                wrong.append(f"{name} {precision}: differs from PyTorch's by {apart:.1e}")
            for way, what, mine, theirs in measured:
                rows.append((way, name, what, mine, theirs))
                times = f"{mine:9.2f} {theirs:9.2f} {theirs / mine:6.2f}"
                print(f"{name:<10} {precision:<9} {way:<9} {what:<10} {times}", flush=True)
        goal = COMPILED_GOAL if arguments.compile else GOALS[precision]
        for way in arguments.ways if rows else ():
            lines += table(f"{precision}, {way}", [row for of, *row in rows if of == way], goal, behind)
    out = arguments.out or ROOT / f"bench/results/real_models_{arguments.device}.md"
    out.write_text("\n".join(lines))
    print(f"{len(behind)} behind their goal: {'; '.join(behind)}")
    if wrong:
        sys.exit("wrong:\n" + "\n".join(wrong))


if __name__ == "__main__":
    main()
