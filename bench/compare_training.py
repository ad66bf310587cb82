#!/usr/bin/env python3
"""Compares training steps of the example programs' networks in Adjoint and in PyTorch, on the same weights and batches.

    bench/compare_training.py [--device cuda] [--precisions tf32,bf16] [--cases fsrcnn,dcgan] [--compile] [--seconds S]
                              [--tiny] [--out FILE]

Both sides train in one process and take turns, some dozens of milliseconds each. Adjoint's steps run plainly and
through GraphedStep. PyTorch's steps run plainly (cudnn.benchmark, contiguous, fused Adam), in channels_last, as one
CUDA graph of the whole step, and with --compile through torch.compile, by default and with mode="reduce-overhead".
Times are medians over rounds of the wall clock's milliseconds per step. The host's time for a replayed step, and the
peak bytes of tensors in a step, are measured separately.

First, both sides take 200 steps from the same weights, in float32 and in the measured precision. The program fails if
one of our first 10 losses differs from the reference by more than 1e-3 of it, or the mean of the last 50 by more than 2
percent, and if the difference is also more than twice the largest among PyTorch's own runs: contiguous and in
channels_last, and in float32 with cuDNN's kernels, with its deterministic kernels, and without cuDNN. The reference is
PyTorch in float32, or in float64 for a pair of networks. Pairs multiply every rounding: float32's losses are 0.001 to
0.005 from float64's after 10 steps, with PyTorch's kernels and with ours.

After --seconds (default 420) the program compiles no further networks. It needs PyTorch, Adjoint's shared library as
bench/compare_ops.py does, and build/bench/libbench_training.so, or the library that ADJOINT_BENCH_TRAINING names. It
writes a table, --out, by default bench/results/training.md on a GPU. --tiny tries the program with small batches and
few steps.
"""

import argparse
import contextlib
import ctypes
import dataclasses
import gc
import json
import math
import os
import pathlib
import statistics
import struct
import sys
import tempfile
import time
from typing import Callable

ROOT = pathlib.Path(__file__).resolve().parent.parent

import torch
import torch.nn.functional as F
from torch import nn

from compare_ops import environment

# The share of PyTorch eager's time that a graphed step may take at most.
GOALS = {"fsrcnn 16 x 32 x 32": 0.25, "dcgan 16": 0.35, "fsrcnn 64 x 96 x 96": 0.5, "dcgan_plain 128": 0.5,
         "hifigan_v1 16 x 32": 0.5}
# The programs' networks at their own batches, and goals for PyTorch eager's time over ours: in the mean, for each.
PROGRAMS = ("super_resolution", "gan", "vocoder", "segmentation", "autoencoder", "diffusion", "text")
PROGRAMS_GOALS, LEAST_GOAL = {"tf32": 1.8, "bf16": 1.7}, 1.1
LEAST_GOALS = {"diffusion": 1.3, "text": 0.9}  # instead of LEAST_GOAL
HOST_GOAL = 0.030  # ms
FIRST, LAST, BATCHES = 10, 50, 8
FIRST_TOLERANCE, LAST_TOLERANCE = 1e-3, 0.02


# ---- Networks, with the names that the example programs' parameters have.

class SuperResolution(nn.Module):
    def __init__(self, features=32, layers=3):
        super().__init__()
        body = [nn.Conv2d(1, features, 5, padding=2), nn.PReLU(features)]
        for _ in range(layers):
            body += [nn.Conv2d(features, features, 3, padding=1), nn.PReLU(features)]
        self.body = nn.Sequential(*body)
        self.up = nn.ConvTranspose2d(features, 1, 6, 2, 2)

    def forward(self, low):
        enlarged = F.interpolate(low, scale_factor=2, mode="bicubic", antialias=True)
        return enlarged + self.up(self.body(low))


class Fsrcnn(nn.Module):
    def __init__(self, scale=3, d=56, s=12, m=4):
        super().__init__()
        self.first_part = nn.Sequential(nn.Conv2d(1, d, 5, padding=2), nn.PReLU(d))
        middle = [nn.Conv2d(d, s, 1), nn.PReLU(s)]
        for _ in range(m):
            middle += [nn.Conv2d(s, s, 3, padding=1), nn.PReLU(s)]
        self.mid_part = nn.Sequential(*middle, nn.Conv2d(s, d, 1), nn.PReLU(d))
        self.last_part = nn.ConvTranspose2d(d, 1, 9, scale, 4, output_padding=scale - 1)

    def forward(self, low):
        return self.last_part(self.mid_part(self.first_part(low)))


class Generator(nn.Module):
    def __init__(self, features=32, latent=64):
        super().__init__()
        layers = [nn.ConvTranspose2d(latent, 4 * features, 4, bias=False), nn.BatchNorm2d(4 * features), nn.ReLU()]
        for channels in (4 * features, 2 * features):
            layers += [nn.ConvTranspose2d(channels, channels // 2, 4, 2, 1, bias=False), nn.BatchNorm2d(channels // 2),
                       nn.ReLU()]
        self.main = nn.Sequential(*layers, nn.ConvTranspose2d(features, 3, 4, 2, 1), nn.Tanh())
        first_weights(self)

    def forward(self, noise):
        return self.main(noise[:, :, None, None])


class Discriminator(nn.Module):
    def __init__(self, normalised, features=32):
        super().__init__()
        layers = [nn.Conv2d(3, features, 4, 2, 1), nn.LeakyReLU(0.2)]
        for channels in (features, 2 * features):
            layers.append(nn.Conv2d(channels, 2 * channels, 4, 2, 1, bias=not normalised))
            layers += [nn.BatchNorm2d(2 * channels)] if normalised else []
            layers.append(nn.LeakyReLU(0.2))
        self.main = nn.Sequential(*layers, nn.Conv2d(4 * features, 1, 4))
        if normalised:
            first_weights(self)

    def forward(self, pictures):
        return self.main(pictures).flatten()


def first_weights(module):
    for layer in module.modules():
        if isinstance(layer, (nn.Conv2d, nn.ConvTranspose2d)):
            nn.init.normal_(layer.weight, 0.0, 0.02)


weight_norm = getattr(nn.utils.parametrizations, "weight_norm", nn.utils.weight_norm)


class ResBlock(nn.Module):
    def __init__(self, channels, kernel, dilations):
        super().__init__()
        conv = lambda dilation: weight_norm(
            nn.Conv1d(channels, channels, kernel, padding=dilation * (kernel - 1) // 2, dilation=dilation))
        self.convs1 = nn.ModuleList([conv(dilation) for dilation in dilations])
        self.convs2 = nn.ModuleList([conv(1) for _ in dilations])

    def forward(self, x):
        for first, second in zip(self.convs1, self.convs2):
            x = x + second(F.leaky_relu(first(F.leaky_relu(x, 0.1)), 0.1))
        return x


class HifiGan(nn.Module):
    def __init__(self, channels, clock=0):
        super().__init__()
        self.conv_pre = weight_norm(nn.Conv1d(80 + clock, channels, 7, padding=3))
        angles = torch.outer(torch.arange(1, clock // 2 + 1), torch.arange(clock)) * (2.0 * math.pi / max(clock, 1))
        self.register_buffer("clock", torch.cat((angles.cos(), angles.sin())) if clock else None, persistent=False)
        self.ups, self.resblocks = nn.ModuleList(), nn.ModuleList()
        for rate in (8, 8, 2, 2):
            self.ups.append(weight_norm(nn.ConvTranspose1d(channels, channels // 2, 2 * rate, rate, rate // 2)))
            channels //= 2
            self.resblocks.extend(ResBlock(channels, kernel, (1, 3, 5)) for kernel in (3, 7, 11))
        self.conv_post = weight_norm(nn.Conv1d(channels, 1, 7, padding=3))

    def forward(self, mel):
        x = (mel + 5.0) / 3.0
        if self.clock is not None:  # concatenated to the bands; it repeats after as many frames as it has channels
            turns = -(-mel.shape[2] // self.clock.shape[1])
            x = torch.cat((x, self.clock.repeat(1, turns)[:, :mel.shape[2]].expand(len(x), -1, -1)), 1)
        x = self.conv_pre(x)
        for i, up in enumerate(self.ups):
            x = up(F.leaky_relu(x, 0.1))
            first, second, third = self.resblocks[3 * i:3 * i + 3]
            x = (first(x) + second(x) + third(x)) / 3
        return torch.tanh(self.conv_post(F.leaky_relu(x, 0.1)))


class UNet(nn.Module):
    def __init__(self, classes=5, features=16, depth=3):
        super().__init__()

        def double_conv(of, to):
            layers = []
            for channels in (of, to):
                layers += [nn.Conv2d(channels, to, 3, padding=1, bias=False), nn.BatchNorm2d(to), nn.ReLU()]
            return nn.Sequential(*layers)

        widths = [features << level for level in range(depth + 1)]
        self.down = nn.ModuleList([double_conv(of, to) for of, to in zip([3, *widths], widths)])
        falling = list(zip(widths[::-1], widths[-2::-1]))
        self.ups = nn.ModuleList([nn.ConvTranspose2d(of, to, 2, 2) for of, to in falling])
        self.up_convs = nn.ModuleList([double_conv(of, to) for of, to in falling])
        self.out = nn.Conv2d(features, classes, 1)

    def forward(self, x):
        skips = []
        for level, convs in enumerate(self.down):
            x = convs(F.max_pool2d(x, 2) if level else x)
            skips.append(x)
        for up, convs, skip in zip(self.ups, self.up_convs, skips[-2::-1]):
            x = convs(torch.cat((skip, up(x)), 1))
        return self.out(x)


class Vae(nn.Module):
    def __init__(self, latent=32, features=32, least=4):
        super().__init__()
        widths = [features, 2 * features, 4 * features]
        layers = []
        for of, to in zip([3, *widths], widths):
            layers += [nn.Conv2d(of, to, 4, 2, 1, bias=False), nn.BatchNorm2d(to), nn.ReLU()]
        deep = widths[-1] * least * least
        self.encoder = nn.Sequential(*layers, nn.Flatten(), nn.Linear(deep, 2 * latent))
        layers = [nn.Linear(latent, deep), nn.Unflatten(1, (widths[-1], least, least))]
        for of, to in zip(widths[::-1], widths[-2::-1]):
            layers += [nn.BatchNorm2d(of), nn.ReLU(), nn.ConvTranspose2d(of, to, 4, 2, 1, bias=False)]
        self.decoder = nn.Sequential(*layers, nn.BatchNorm2d(features), nn.ReLU(),
                                     nn.ConvTranspose2d(features, 3, 4, 2, 1))

    def forward(self, pictures, noise):
        mean, log_variance = widened(self.encoder(pictures)).chunk(2, 1)
        return widened(self.decoder(mean + noise * (0.5 * log_variance).exp())), mean, log_variance


def vae_loss(net, pictures, noise):
    made, mean, log_variance = net(pictures, noise)
    divergence = 0.5 * (mean.square() + log_variance.exp() - log_variance - 1.0)
    return 0.5 * F.mse_loss(made, pictures).log() + divergence.sum(1).mean() / pictures[0].numel()


class Residual(nn.Module):
    def __init__(self, of, to, time):
        super().__init__()
        self.norm1, self.norm2 = group_norm(of), group_norm(to)
        self.conv1, self.conv2 = nn.Conv2d(of, to, 3, padding=1), nn.Conv2d(to, to, 3, padding=1)
        self.time = nn.Linear(time, to)
        self.shortcut = nn.Sequential(*([nn.Conv2d(of, to, 1)] if of != to else []))

    def forward(self, x, time):
        y = self.conv1(F.silu(self.norm1(x))) + self.time(time)[:, :, None, None]
        return self.shortcut(x) + self.conv2(F.silu(self.norm2(y)))


def group_norm(channels):
    return nn.GroupNorm(channels // 8, channels)


def composed_attention(query, key, value, is_causal):
    scores = query @ key.transpose(2, 3) / math.sqrt(query.shape[3])
    if is_causal:
        scores = scores + torch.full(scores.shape[2:], -math.inf, device=scores.device).triu(1)
    return scores.softmax(3) @ value


def attended(qkv, heads, is_causal=False):
    """Returns the attention's result (N, L, width) for queries, keys and values (N, L, 3 width)."""
    attention = getattr(F, "scaled_dot_product_attention", composed_attention)  # PyTorch 2 has it
    query, key, value = (part.unflatten(2, (heads, -1)).transpose(1, 2) for part in qkv.chunk(3, 2))
    return attention(query, key, value, is_causal=is_causal).transpose(1, 2).flatten(2)


class SelfAttention(nn.Module):
    def __init__(self, channels, heads):
        super().__init__()
        self.heads, self.norm = heads, group_norm(channels)
        self.qkv, self.out = nn.Conv2d(channels, 3 * channels, 1), nn.Conv2d(channels, channels, 1)

    def forward(self, x):
        # The quick kernels need adjacent features.
        qkv = self.qkv(self.norm(x)).flatten(2).transpose(1, 2).contiguous()
        return x + self.out(attended(qkv, self.heads).transpose(1, 2).reshape(x.shape))


class Denoiser(nn.Module):
    """Returns the velocity that it finds in noisy pictures, and the true one.

    Its convolutions do not begin as zeros, unlike the program's, so that each block takes part in the first losses.
    """

    def __init__(self, features=64, heads=4):
        super().__init__()
        time, widths = 4 * features, [features, 2 * features, 4 * features]
        self.time = nn.Sequential(nn.Linear(features, time), nn.SiLU(), nn.Linear(time, time))
        self.add_module("in", nn.Conv2d(3, features, 3, padding=1))
        self.down = nn.ModuleList([Residual(of, to, time) for of, to in zip([features, *widths], widths)])
        self.halve = nn.ModuleList([nn.Conv2d(width, width, 3, 2, 1) for width in widths[:-1]])
        self.attention = SelfAttention(widths[-1], heads)
        self.middle = nn.ModuleList([Residual(widths[-1], widths[-1], time) for _ in range(2)])
        falling = list(zip(widths[::-1], widths[-2::-1]))
        self._modules["double"] = nn.ModuleList([nn.ConvTranspose2d(of, to, 4, 2, 1) for of, to in falling])
        self.up = nn.ModuleList([Residual(of, to, time) for of, to in falling])
        self.out = nn.Sequential(group_norm(features), nn.SiLU(), nn.Conv2d(features, 3, 3, padding=1))
        half = features // 2
        self.register_buffer("rates", torch.exp(torch.arange(half) * (-math.log(1e4) / half)), persistent=False)
        left = (torch.arange(1001, dtype=torch.float64) / 1000 + 0.008).mul(math.pi / 2 / 1.008).cos().square()
        share = (1.0 - (1.0 - left[1:] / left[:-1]).clamp(max=0.999)).cumprod(0)
        self.register_buffer("factors", torch.stack((share, 1.0 - share)).sqrt().float(), persistent=False)

    def forward(self, pictures, noise, times):
        signal, spread = self.factors[:, times, None, None, None]
        angles = times[:, None] * self.rates
        time = F.silu(self.time(torch.cat((angles.sin(), angles.cos()), 1)))  # as each block needs it
        x = self.down[0](getattr(self, "in")(signal * pictures + spread * noise), time)
        skips = []
        for halve, block in zip(self.halve, self.down[1:]):
            skips.append(x)
            x = block(halve(x), time)
        x = self.middle[1](self.attention(self.middle[0](x, time)), time)
        for double, block in zip(self._modules["double"], self.up):  # nn.Module has a method double()
            x = block(torch.cat((skips.pop(), double(x)), 1), time)
        return widened(self.out(x)), signal * noise - spread * pictures


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads, self.norm1, self.norm2 = heads, nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        x = x + self.out(attended(self.qkv(self.norm1(x)), self.heads, is_causal=True))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class Gpt(nn.Module):
    """The program's transformer without dropout."""

    def __init__(self, layers=6, heads=6, width=384, context=256):
        super().__init__()
        self.embedding = nn.Embedding(256, width)
        self.positions = nn.Parameter(torch.empty(context, width))
        self.blocks = nn.ModuleList([Block(width, heads) for _ in range(layers)])
        self.norm = nn.LayerNorm(width)
        for weight in (self.embedding.weight, self.positions):
            nn.init.normal_(weight, 0.0, 0.02)

    def forward(self, text):
        x = self.embedding(text) + self.positions[:text.shape[1]]
        for block in self.blocks:
            x = block(x)
        return F.linear(self.norm(x), self.embedding.weight)


def widened(tensor):
    """Returns the tensor in at least float32, under autocast too."""
    return tensor.to(torch.promote_types(tensor.dtype, torch.float32))


# ---- Cases.

@dataclasses.dataclass
class Case:
    name: str
    network: str  # as in bench/training.cpp
    make: Callable  # returns {name: module}
    batch: Callable  # returns tensors
    loss: Callable = None  # (net, *batch); None for a pair, which has its own step
    lr: float = 1e-4
    betas: tuple = (0.9, 0.999)


def smooth(n, channels, extent):
    """Returns pictures in [0, 1] with features of four pixels."""
    coarse = torch.rand(n, channels, max(2, extent // 4), max(2, extent // 4))
    return F.interpolate(coarse, size=(extent, extent), mode="bicubic").clamp_(0.0, 1.0)


def pair(n, extent, scale):
    high = smooth(n, 1, extent * scale)
    return F.interpolate(high, size=(extent, extent), mode="bilinear", antialias=True), high


def labelled(n, extent):
    pictures = smooth(n, 3, extent)
    return pictures, (5.0 * pictures.mean(1)).long().clamp(max=4)


def spoken(n, frames):
    mel = F.interpolate(torch.randn(n, 80, max(2, frames // 4)) * 2.0 - 5.0, size=frames, mode="linear")
    sound = F.interpolate(torch.randn(n, 1, frames * 16), size=frames * 256, mode="linear")
    return mel, 0.5 * torch.tanh(sound)


def written(n, length):
    """Returns texts whose next byte is one of four."""
    return (torch.randint(4, (n, length + 1)).cumsum(1) % 256,)


def cases(tiny):
    """Returns every network at each of its sizes."""
    def pick(large, small):
        return small if tiny else large

    def sized(name, n, *rest):
        return name + " " + " x ".join(map(str, (n, *rest)))

    mse = lambda net, x, y: F.mse_loss(net(x), y)
    l1 = lambda net, mel, sound: F.l1_loss(widened(net(mel)), sound)
    all_cases = []

    def add(network, make, batch, sizes, loss=None, **more):
        sizes = sizes[:1] if tiny else sizes
        for size in sizes:
            all_cases.append(Case(sized(network, *size), network, make, lambda size=size: batch(*size), loss, **more))

    add("super_resolution", lambda: {"net": SuperResolution()}, lambda n, e, _: pair(n, e, 2),
        pick([(16, 32, 32)], [(2, 8, 8)]), mse)
    add("fsrcnn", lambda: {"net": Fsrcnn()}, lambda n, e, _: pair(n, e, 3),
        pick([(16, 32, 32), (64, 96, 96)], [(2, 8, 8)]), mse)
    for network, normalised, features, sizes in (("gan", True, 64, [(64,)]), ("dcgan", True, 32, [(16,), (128,)]),
                                                 ("dcgan_plain", False, 32, [(16,), (128,)])):
        add(network,
            lambda normalised=normalised, features=features: {"generator": Generator(features),
                                                              "discriminator": Discriminator(normalised, features)},
            lambda n: (2.0 * smooth(n, 3, 32) - 1.0, torch.randn(2 * n, 64)), pick(sizes, [(16,)]),
            lr=2e-4, betas=(0.5, 0.999))
    for network, channels, clock, size in (("vocoder", 512, 8, (8, 64)), ("hifigan_v1", 512, 0, (16, 32)),
                                           ("hifigan_v2", 128, 0, (16, 32))):
        if tiny and channels > 128:
            continue
        add(network, lambda channels=channels, clock=clock: {"net": HifiGan(channels, clock)}, spoken,
            pick([size], [(1, 4)]), l1, betas=(0.8, 0.99))
    add("segmentation", lambda: {"net": UNet()}, lambda n, e, _: labelled(n, e), pick([(16, 96, 96)], [(2, 16, 16)]),
        lambda net, x, y: F.cross_entropy(net(x), y))
    add("autoencoder", lambda: {"net": Vae()}, lambda n: (2.0 * smooth(n, 3, 32) - 1.0, torch.randn(n, 32)),
        pick([(64,)], [(4,)]), vae_loss)
    add("diffusion", lambda: {"net": Denoiser()},
        lambda n, e, _: (2.0 * smooth(n, 3, e) - 1.0, torch.randn(n, 3, e, e), torch.randint(1000, (n,))),
        pick([(128, 32, 32)], [(2, 8, 8)]), lambda net, *batch: F.mse_loss(*net(*batch)))
    add("text", lambda: {"net": Gpt()}, written, pick([(64, 256)], [(2, 16)]),
        lambda net, text: F.cross_entropy(widened(net(text[:, :-1])).flatten(0, 1), text[:, 1:].flatten()))
    return all_cases


# ---- PyTorch's side.

class Theirs:
    """PyTorch's training from `state`, {module: its state}; `way` names the way to call the step."""

    def __init__(self, case, state, batches, precision, device, way="eager"):
        self.case, self.device, self.way, self.count = case, device, way, 0
        self.modules = {name: module.to(device) for name, module in case.make().items()}
        for name, module in self.modules.items():
            module.load_state_dict(state[name])
        self.batches = [[tensor.to(device) for tensor in batch] for batch in batches]
        if precision == "float64":
            self.modules = {name: module.double() for name, module in self.modules.items()}
            self.batches = [[tensor.double() if tensor.is_floating_point() else tensor for tensor in batch]
                            for batch in self.batches]
        if way == "channels_last":
            self.modules = {name: module.to(memory_format=torch.channels_last)
                            for name, module in self.modules.items()}
            self.batches = [[as_channels_last(tensor) for tensor in batch] for batch in self.batches]
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = precision != "float32"
        fused = {"fused": True, "capturable": way == "cuda graph"} if device == "cuda" else {}
        self.adams = {name: torch.optim.Adam(module.parameters(), lr=case.lr, betas=case.betas, **fused)
                      for name, module in self.modules.items()}
        self.autocast = lambda: (torch.autocast(device, torch.bfloat16) if precision == "bf16"
                                 else contextlib.nullcontext())
        compile_ = lambda f: f
        if way in ("compile", "reduce-overhead"):
            mode = {"mode": way} if way == "reduce-overhead" else {}
            compile_ = lambda f: torch.compile(f, **mode)
        self.calls = {name: compile_(module) for name, module in self.modules.items()}
        self.loss = compile_(case.loss) if case.loss else None
        if way == "ddp":
            # A broadcast of buffers between the discriminator's two calls would make the backward pass fail.
            self.calls = {name: nn.parallel.DistributedDataParallel(module, gradient_as_bucket_view=True,
                                                                    broadcast_buffers=name != "discriminator")
                          for name, module in self.modules.items()}
        # torch.compile gets the loss, with the network in it. DistributedDataParallel is a separate module.
        self.net = self.calls.get("net") if way == "ddp" else self.modules.get("net")
        self.step = self.step_of_one if case.loss else self.step_of_pair
        if way == "cuda graph":
            self.capture()

    def minimise(self, name, loss):
        with self.autocast():
            value = loss()
        value.backward()
        self.adams[name].step()
        self.adams[name].zero_grad(set_to_none=True)
        return value.detach()

    def step_of_one(self, batch):
        return [self.minimise("net", lambda: self.loss(self.net, *batch))]

    def step_of_pair(self, batch):
        real, noise = batch
        n = real.shape[0]
        generator, discriminator = self.calls["generator"], self.calls["discriminator"]
        with torch.no_grad():
            fake = generator(noise[:n])
            if self.way == "reduce-overhead":
                fake = fake.clone()  # the next call of the same graph overwrites it
        of = lambda pictures: widened(discriminator(pictures))
        of_d = lambda: F.softplus(-of(real)).mean() + F.softplus(of(fake)).mean()
        loss_d = self.minimise("discriminator", of_d)
        if self.way == "ddp":
            discriminator = self.modules["discriminator"]  # no rank needs the sum of its gradients here
        self.modules["discriminator"].requires_grad_(False)
        loss_g = self.minimise("generator", lambda: F.softplus(-of(generator(noise[n:]))).mean())
        self.modules["discriminator"].requires_grad_(True)
        return [loss_g, loss_d]

    def capture(self):
        """Captures the whole step, from a static batch, as one CUDA graph."""
        step = self.step
        self.static = [tensor.clone() for tensor in self.batches[0]]
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(3):
                step(self.static)
        torch.cuda.current_stream().wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            losses = step(self.static)

        def replay(batch):
            for static, tensor in zip(self.static, batch):
                static.copy_(tensor)
            graph.replay()
            return losses

        self.graph, self.step = graph, replay

    def next(self):
        if self.way == "reduce-overhead":
            torch.compiler.cudagraph_mark_step_begin()
        self.count += 1
        return self.step(self.batches[(self.count - 1) % len(self.batches)])

    def synchronize(self):
        if self.device == "cuda":
            torch.cuda.synchronize()

    def run(self, steps):
        self.synchronize()
        begin = time.perf_counter()
        for _ in range(steps):
            self.next()
        self.synchronize()
        return 1e3 * (time.perf_counter() - begin) / steps

    def host(self, steps):
        times = []
        for _ in range(steps):
            self.synchronize()
            begin = time.perf_counter()
            self.next()
            times.append(1e3 * (time.perf_counter() - begin))
        self.synchronize()
        return statistics.median(times)

    def losses(self, steps):
        return [[loss.item() for loss in self.next()] for _ in range(steps)]

    def peak(self, steps):
        if self.device != "cuda":
            return 0
        torch.cuda.reset_peak_memory_stats()
        self.run(steps)
        return torch.cuda.max_memory_allocated()


def as_channels_last(tensor):
    return tensor.contiguous(memory_format=torch.channels_last) if tensor.dim() == 4 else tensor


# ---- Adjoint's side.

class Library:
    def __init__(self):
        path = os.environ.get("ADJOINT_BENCH_TRAINING") or ROOT / "build/bench/libbench_training.so"
        self.c = ctypes.CDLL(str(path))
        self.c.bench_last_error.restype = ctypes.c_char_p
        self.c.bench_make.restype = ctypes.c_void_p
        self.c.bench_make.argtypes = [ctypes.c_char_p] * 3 + [ctypes.c_int] * 2
        self.c.bench_release.argtypes = [ctypes.c_void_p]
        for name in ("bench_run", "bench_host", "bench_losses", "bench_peak"):
            getattr(self.c, name).argtypes = [ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p]

    def check(self, failed):
        if failed:
            raise RuntimeError(self.c.bench_last_error().decode())


class Ours:
    def __init__(self, library, case, file, precision, device, graphed):
        self.library, self.per_step = library, 1 if case.loss else 2
        self.handle = library.c.bench_make(case.network.encode(), str(file).encode(), precision.encode(),
                                           int(device == "cuda"), int(graphed))
        library.check(not self.handle)

    def close(self):
        if self.handle:
            self.library.c.bench_release(self.handle)
        self.handle = None

    def number(self, function, steps, type_=ctypes.c_double):
        value = type_()
        self.library.check(getattr(self.library.c, function)(self.handle, steps, ctypes.byref(value)))
        return value.value

    def run(self, steps):
        return self.number("bench_run", steps)

    def host(self, steps):
        return self.number("bench_host", steps)

    def peak(self, steps):
        return self.number("bench_peak", steps, ctypes.c_int64)

    def losses(self, steps):
        values = (ctypes.c_double * (steps * self.per_step))()
        self.library.check(self.library.c.bench_losses(self.handle, steps, values))
        return [list(values[i:i + self.per_step]) for i in range(0, len(values), self.per_step)]


def write_safetensors(path, tensors):
    """Writes the format: a header's length, the header as JSON, the elements."""
    dtypes = {torch.float32: "F32", torch.int64: "I64"}
    header, parts, at = {}, [], 0
    for name, tensor in tensors.items():
        data = tensor.detach().cpu().contiguous().numpy().tobytes()
        header[name] = {"dtype": dtypes[tensor.dtype], "shape": list(tensor.shape),
                        "data_offsets": [at, at + len(data)]}
        parts.append(data)
        at += len(data)
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + b"".join(parts))


# ---- Measuring.

WAYS = {"cuda": ["eager", "channels_last", "cuda graph"], "cpu": ["eager"]}
COMPILED = ["compile", "reduce-overhead"]


def compare_losses(actual, expected):
    """Returns the largest relative differences of one of the first losses, and of the mean of the last ones."""
    share = lambda a, e: abs(a - e) / abs(e) if math.isfinite(a) and e else math.inf
    first = max(share(a, e) for row in zip(actual[:FIRST], expected[:FIRST]) for a, e in zip(*row))
    means = [[statistics.fmean(losses) for losses in zip(*side[-LAST:])] for side in (actual, expected)]
    return first, max(share(a, e) for a, e in zip(*means))


def clean(device):
    gc.collect()
    if device == "cuda":
        torch.cuda.synchronize()
        torch._C._cuda_clearCublasWorkspaces()  # it counts in a step's memory, on both sides
        torch.cuda.empty_cache()


def reference_losses(library, case, state, batches, file, device, steps):
    """Returns the reference's losses, and those in float32: ours, PyTorch's, and PyTorch's by other kernels.

    The other kernels add in another order.
    """
    ours = Ours(library, case, file, "float32", device, False)
    try:
        float32 = {"ours": ours.losses(steps)}
    finally:
        ours.close()
    theirs = lambda: Theirs(case, state, batches, "float32", device).losses(steps)
    float32["theirs"] = theirs()
    with torch.backends.cudnn.flags(enabled=False):
        float32["without cuDNN"] = theirs()
    with torch.backends.cudnn.flags(enabled=True, deterministic=True):
        float32["deterministic"] = theirs()
    reference = float32["theirs"] if case.loss else Theirs(case, state, batches, "float64", device).losses(steps)
    return reference, float32


def measure(library, case, precision, arguments, folder):
    device, steps = arguments.device, 20 if arguments.tiny else 200
    torch.manual_seed(0)
    state = {name: module.state_dict() for name, module in case.make().items()}
    batches = [case.batch() for _ in range(BATCHES)]
    file = folder / "case.safetensors"
    tensors = {f"{name}.{key}": value for name, of in state.items() for key, value in of.items()}
    for i, batch in enumerate(batches):
        tensors.update({f"batch.{i}.{j}": tensor for j, tensor in enumerate(batch)})
    write_safetensors(file, tensors)
    ways = WAYS[device] + (COMPILED if arguments.compile else [])
    if case.network.startswith(("hifigan", "text")):
        ways = [way for way in ways if way != "channels_last"]  # its tensors have one spatial axis, or none

    result, sides, losses = {"case": case.name, "precision": precision, "peak": {}, "skipped": []}, {}, {}
    reference, float32 = reference_losses(library, case, state, batches, file, device, steps)
    try:
        for name in ("adjoint", "graphed", *ways):
            clean(device)
            try:
                if name in ("adjoint", "graphed"):
                    sides[name] = Ours(library, case, file, precision, device, name == "graphed")
                else:
                    before = torch.cuda.memory_allocated() if device == "cuda" else 0
                    if name in COMPILED:
                        if arguments.spent():
                            result["skipped"].append(name)
                            continue
                        torch._dynamo.reset()
                    sides[name] = Theirs(case, state, batches, precision, device, name)
                if name in ("adjoint", "graphed", "eager", "channels_last"):
                    losses[name] = sides[name].losses(steps)
                else:
                    sides[name].run(5)
                if name in ("adjoint", "graphed"):
                    result["peak"][name] = sides[name].peak(4)
                elif name == "eager":
                    result["peak"][name] = sides[name].peak(4) - before
            except Exception as error:  # PyTorch does not support this way here
                if name in ("adjoint", "graphed", "eager"):
                    raise
                sides.pop(name, None)
                result["skipped"].append(f"{name} ({str(error).splitlines()[0][:100]})")
        of = {name: compare_losses(found, reference) for name, found in {**losses, **float32}.items()}
        own = lambda *names: [max(shares) for shares in zip(*(of[name] for name in names if name in of))]
        result["differences"] = {name: (of[name], own("eager", "channels_last")) for name in ("adjoint", "graphed")}
        result["differences"]["in float32"] = (of["ours"], own("theirs", "without cuDNN", "deterministic"))
        turn_ms = 5.0 if arguments.tiny else 40.0
        calls = {name: max(2, min(100, round(turn_ms / side.run(2)))) for name, side in sides.items()}
        times = {name: [] for name in sides}
        for _ in range(3 if arguments.tiny else 9):
            for name, side in sides.items():
                times[name].append(side.run(calls[name]))
        result["ms"] = {name: statistics.median(of) for name, of in times.items()}
        result["host_ms"] = {name: side.host(5 if arguments.tiny else 50) for name, side in sides.items()}
    finally:
        for side in sides.values():
            if isinstance(side, Ours):
                side.close()
        sides.clear()
        clean(device)
    return result


def row_of(result):
    ms, peak, host = result["ms"], result["peak"], result["host_ms"]
    best = min((time, name) for name, time in ms.items() if name not in ("adjoint", "graphed"))
    share = ms["graphed"] / ms["eager"]
    goal = GOALS.get(result["case"])
    megabytes = lambda name: f"{peak[name] / 1e6:.0f}" if peak.get(name) else ""

    def of_losses(i):
        (ours, _), (graphed, own), full = (result["differences"][of] for of in ("adjoint", "graphed", "in float32"))
        return f"{max(ours[i], graphed[i]):.0e} ({own[i]:.0e}), {full[0][i]:.0e} ({full[1][i]:.0e})"

    return [result["case"], result["precision"], f"{ms['adjoint']:.3f}", f"{ms['graphed']:.3f}",
            *(f"{ms[way]:.3f}" if way in ms else "" for way in WAYS["cuda"] + COMPILED),
            f"{share:.2f}" + (f" (goal {goal})" if goal else ""), f"{ms['graphed'] / best[0]:.2f} ({best[1]})",
            f"{1e3 * host['graphed']:.0f}", f"{1e3 * host['adjoint']:.0f}", f"{1e3 * host['eager']:.0f}",
            megabytes("adjoint"), megabytes("graphed"), megabytes("eager"), of_losses(0), of_losses(1)]


COLUMNS = ["network", "precision", "Adjoint, ms", "graphed, ms", "PyTorch, ms", "channels_last", "CUDA graph", "compile",
           "reduce-overhead", "graphed / PyTorch", "graphed / PyTorch's best", "host, graphed, us", "host, Adjoint, us",
           "host, PyTorch, us", "peak, Adjoint, MB", "peak, graphed, MB", "peak, PyTorch, MB", "first 10 losses",
           "last 50"]


def table(rows):
    lines = ["| " + " | ".join(COLUMNS) + " |", "|---|---|" + "---:|" * (len(COLUMNS) - 2)]
    return lines + ["| " + " | ".join(row) + " |" for row in rows]


def write(path, record, rows, means, behind, skipped):
    lines = ["# Training steps beside PyTorch's", "",
             f"`bench/compare_training.py {' '.join(sys.argv[1:])}`, {record['device']}, {record['date'][:10]}, commit "
             f"{record['commit']}, PyTorch {record['pytorch']}.", "",
             "Both sides train in one process, in turns, the same network on the same batches; milliseconds are medians",
             "of a step. \"Graphed\" is `GraphedStep`; PyTorch has `cudnn.benchmark` and the fused Adam. The host's time is",
             "that of a call while the GPU has nothing to do. Peaks are of tensors' bytes in a step, weights, optimiser,",
             "cuBLAS's workspace and eight batches included. The last columns are the largest relative differences from",
             "the losses of PyTorch in float32, of a pair of networks in float64: of the first 10 and of the mean of the",
             "last 50 of 200, in the row's precision and in float32, and in brackets the farthest of PyTorch's own.", "",
             *table(rows), "",
             *means, ""]
    if behind:
        lines += ["Behind its goal: " + "; ".join(behind) + ".", ""]
    if skipped:
        lines += ["Left out: " + "; ".join(skipped) + ".", ""]
    path.write_text("\n".join(lines))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=WAYS, default="cuda")
    parser.add_argument("--precisions", default="tf32,bf16", help="of tf32, bf16 and float32")
    parser.add_argument("--cases", default="", help="only these networks, named as in the table, with or without sizes")
    parser.add_argument("--compile", action="store_true", help="also torch.compile, which takes minutes")
    parser.add_argument("--seconds", type=float, default=420.0, help="the time after which nothing more is compiled")
    parser.add_argument("--tiny", action="store_true", help="small batches and few steps")
    parser.add_argument("--out", type=pathlib.Path)
    arguments = parser.parse_args()
    began = time.monotonic()
    arguments.spent = lambda: time.monotonic() - began > arguments.seconds
    torch.backends.cudnn.benchmark = True
    record = environment(arguments.device)
    print(", ".join(f"{name} {value}" for name, value in record.items()))
    library, rows, means, behind, skipped, wrong = Library(), [], [], [], [], []
    with tempfile.TemporaryDirectory() as folder:
        for precision in arguments.precisions.split(","):
            shares = []
            for case in cases(arguments.tiny):
                if arguments.cases and not {case.name, case.network} & set(arguments.cases.split(",")):
                    continue
                what = f"{case.name} {precision}"
                try:
                    result = measure(library, case, precision, arguments, pathlib.Path(folder))
                except Exception as error:  # the other cases still run
                    wrong.append(f"{what}: {error}")
                    print("WRONG", wrong[-1], flush=True)
                    continue
                rows.append(row_of(result))
                skipped += [f"{what} {name}" for name in result["skipped"]]
                for name, (found, own) in result["differences"].items():
                    allowed = [max(least, 2 * of) for least, of in zip((FIRST_TOLERANCE, LAST_TOLERANCE), own)]
                    if any(share > most for share, most in zip(found, allowed)):
                        wrong.append(f"{what} {name}: losses differ by {found[0]:.1e} (first {FIRST}), {found[1]:.1e} "
                                     f"(last {LAST}) from the reference's; PyTorch's own by {own[0]:.1e} and {own[1]:.1e}")
                share = result["ms"]["graphed"] / result["ms"]["eager"]
                if precision == "tf32" and share > GOALS.get(case.name, math.inf):
                    behind.append(f"{what} takes {share:.2f} of PyTorch's time")
                if arguments.device == "cuda" and result["host_ms"]["graphed"] > HOST_GOAL:
                    behind.append(f"{what} takes the host {1e3 * result['host_ms']['graphed']:.0f} us")
                for name in ("adjoint", "graphed"):
                    if result["peak"][name] > result["peak"]["eager"] > 0:
                        behind.append(f"{what} holds more than PyTorch ({name})")
                if case.network in PROGRAMS:
                    ms = result["ms"]
                    shares.append({"graphed": ms["eager"] / ms["graphed"], "as it is": ms["eager"] / ms["adjoint"]})
                    goal = LEAST_GOALS.get(case.network, LEAST_GOAL)
                    behind += [f"{what} takes {ms['adjoint'] / ms[way]:.2f} of PyTorch's time ({way})"
                               for way, least in (("eager", goal), ("compile", 1.0))
                               if way in ms and ms[way] < least * ms["adjoint"]]
                print(f"{time.monotonic() - began:4.0f} s  " + "  ".join(rows[-1]), flush=True)
            for way in shares[0] if shares else ():
                mean = statistics.geometric_mean(share[way] for share in shares)
                least = min(share[way] for share in shares)
                means.append(f"A step of the {len(shares)} programs' networks, {way}, in {precision}: {mean:.2f} times as fast "
                             f"as PyTorch eager's in geometric mean, {least:.2f} at least; goal "
                             f"{PROGRAMS_GOALS.get(precision, 1.0)} and {LEAST_GOAL}"
                             + "".join(f", {goal} for {name}" for name, goal in LEAST_GOALS.items()) + ".")
    out = arguments.out or (ROOT / "bench/results/training.md" if arguments.device == "cuda" else None)
    if out:
        write(out, record, rows, means, behind, skipped)
    print("\n" + "\n".join([*table(rows), *means]))
    for title, lines in (("behind", behind), ("left out", skipped)):
        print("\n".join(f"{title}: {line}" for line in lines))
    if wrong:
        sys.exit("wrong:\n" + "\n".join(wrong))


if __name__ == "__main__":
    main()
