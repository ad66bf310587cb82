#!/usr/bin/env python3
"""Compares scaled_dot_product_attention on a GPU with PyTorch's quickest backend: times, peak memory and errors.

    bench/compare_attention.py [--dtypes bfloat16,tf32] [--heads 16] [--extents 64,128] [--lengths 1024,4096]
                               [--repeats 9] [--no-composed] [--out FILE]

Both sides work on the same memory and take turns, as in bench/compare_ops.py, which has the same requirements. Times are
medians of CUDA events. The time of the backward pass is that of both passes less that of the forward pass. For PyTorch
each pass is the quickest among its backends. Rates count 4 * batch * heads * length^2 * extent operations forward, 2.5
times as many backward, and half with a causal mask. The composed form is Adjoint's own, of several operators; it also
returns its weights. Peak memory is of both passes, beyond the operands. Errors are norms of the difference from float64
beside the norm of the result and of the three gradients, of two heads. The program writes a table in Markdown.
"""

import argparse
import ctypes
import pathlib
import sys

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention as attention

from compare_ops import Library
from compare_pytorch import environment, milliseconds

BACKENDS = {"flash": SDPBackend.FLASH_ATTENTION, "efficient": SDPBackend.EFFICIENT_ATTENTION,
            "cudnn": SDPBackend.CUDNN_ATTENTION}
DTYPES = {"bfloat16": torch.bfloat16, "float16": torch.float16, "tf32": torch.float32}


def theirs(backend, tensors, causal, slopes=None):
    """PyTorch's call: forward, or both passes."""

    def call():
        with sdpa_kernel(backend), torch.set_grad_enabled(slopes is not None):
            result = attention(*tensors, is_causal=causal)
            return [result] if slopes is None else [result.detach(), *torch.autograd.grad(result, tensors, slopes)]

    return call


def working(tensors, causal):
    """The backends that support these operands."""
    found = {}
    for name, backend in BACKENDS.items():
        try:
            theirs(backend, tensors, causal)()
            found[name] = backend
        except RuntimeError:
            pass
    return found


def exact(tensors, causal, slopes):
    wide = [t.detach().double().requires_grad_() for t in tensors]
    scores = wide[0] @ wide[1].transpose(-2, -1) / wide[0].shape[-1] ** 0.5
    if causal:
        scores = scores.masked_fill(~torch.ones_like(scores, dtype=torch.bool).tril(), float("-inf"))
    result = scores.softmax(-1) @ wide[2]
    return [result.detach(), *torch.autograd.grad(result, wide, slopes.double())]


def errors(results, expected):
    return [((r.double() - e).norm() / e.norm()).item() for r, e in zip(results, expected)]


def read_all(read, like):
    counts = [t.numel() for t in like]
    assert len(set(counts)) == 1
    return [values.to(like[0].device).view_as(t) for values, t in zip(read(counts), like)]


def measured_errors(library, name, backends, dtype, length, extent, causal):
    tensors = [torch.randn(1, 2, length, extent, device="cuda", dtype=dtype, requires_grad=True) for _ in range(3)]
    slopes = torch.randn_like(tensors[0])
    expected = exact(tensors, causal, slopes)
    ours = []
    for grad_output in (None, slopes):
        run, read, release = library.bind(name, tensors, grad_output)
        run()
        torch.cuda.synchronize()
        ours += read_all(read, expected[:1] if grad_output is None else expected[1:])
        release()
    others = {key: errors(theirs(b, tensors, causal, slopes)(), expected) for key, b in backends.items()}
    least = [min(values) for values in zip(*others.values())]
    return errors(ours, expected), least


def peak_of(call):
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    results = call()
    torch.cuda.synchronize()
    del results
    return torch.cuda.max_memory_allocated() - before


def measure(library, dtype, batch, heads, length, extent, causal, arguments):
    suffix = "_causal" if causal else ""
    tensors = [torch.randn(batch, heads, length, extent, device="cuda", dtype=dtype, requires_grad=True)
               for _ in range(3)]
    slopes = torch.randn_like(tensors[0])
    backends = working(tensors, causal)
    calls, releases = {}, []
    for form in ("attention", *(("composed_attention",) if arguments.composed else ())):
        for grad_output in (None, slopes):
            run, _, release = library.bind(form + suffix, tensors, grad_output)
            calls[form, grad_output is not None] = run
            releases.append(release)
    for name, backend in backends.items():
        calls[name, False] = theirs(backend, tensors, causal)
        calls[name, True] = theirs(backend, tensors, causal, slopes)
    ms = milliseconds(calls, arguments.repeats)
    for release in releases:
        release()
    passes = {name: (ms[name, False], ms[name, True] - ms[name, False]) for name, both in ms if both}

    operands = (type(library.operand(slopes)) * 3)(*map(library.operand, tensors))
    bound = library.c.bench_bind(f"attention{suffix}".encode(), operands, 3, ctypes.byref(library.operand(slopes)))
    peak = library.c.bench_peak_bytes(bound, torch.cuda.current_stream().cuda_stream)
    library.c.bench_release(bound)
    their_peak = min(peak_of(theirs(backend, tensors, causal, slopes)) for backend in backends.values())
    return passes, peak, their_peak, backends


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dtypes", default="bfloat16,tf32")
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--heads", type=int, default=16)
    parser.add_argument("--extents", default="64,128")
    parser.add_argument("--lengths", default="1024,4096")
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--no-composed", dest="composed", action="store_false")
    parser.add_argument("--out", type=pathlib.Path)
    arguments = parser.parse_args()
    torch.manual_seed(0)
    library = Library()
    library.c.bench_peak_bytes.restype = ctypes.c_int64
    library.c.bench_peak_bytes.argtypes = [ctypes.c_void_p, ctypes.c_void_p]

    lines = [", ".join(f"{key} {value}" for key, value in environment().items()), "",
             "| dtype | length, extent | causal | pass | Adjoint ms | TFLOP/s | PyTorch ms | backend | PyTorch / Adjoint "
             "| composed / Adjoint | peak MiB | PyTorch's | errors | PyTorch's least |",
             "|---|---|---|---|---:|---:|---:|---|---:|---:|---:|---:|---|---|"]
    print("\n".join(lines), flush=True)
    for name in arguments.dtypes.split(","):
        tf32 = name == "tf32"
        library.c.bench_set_tf32(int(tf32))
        torch.backends.cuda.matmul.allow_tf32 = tf32
        for extent in map(int, arguments.extents.split(",")):
            for length in map(int, arguments.lengths.split(",")):
                for causal in (False, True):
                    passes, peak, their_peak, backends = measure(
                        library, DTYPES[name], arguments.batch, arguments.heads, length, extent, causal, arguments)
                    ours, least = measured_errors(library, "attention" + ("_causal" if causal else ""), backends,
                                                  DTYPES[name], length, extent, causal)
                    for i, part in enumerate(("forward", "backward")):
                        best = min(backends, key=lambda b: passes[b][i])
                        operations = 4 * arguments.batch * arguments.heads * length**2 * extent
                        operations *= (1, 2.5)[i] * (0.5 if causal else 1)
                        mine, other = passes["attention"][i], passes[best][i]
                        composed = f"{passes['composed_attention'][i] / mine:.1f}" if arguments.composed else ""
                        memory = ("", "") if i == 0 else (f"{peak / 2**20:.0f}", f"{their_peak / 2**20:.0f}")
                        these = slice(0, 1) if i == 0 else slice(1, 4)
                        words = [", ".join(f"{e:.2e}" for e in part_errors[these]) for part_errors in (ours, least)]
                        lines.append(f"| {name} | {length}, {extent} | {'yes' if causal else 'no'} | {part} | {mine:.3f} "
                                     f"| {operations / mine * 1e-9:.0f} | {other:.3f} | {best} | {other / mine:.2f} "
                                     f"| {composed} | {memory[0]} | {memory[1]} | {words[0]} | {words[1]} |")
                        print(lines[-1], flush=True)
                    torch.cuda.empty_cache()
    if arguments.out:
        arguments.out.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    sys.exit(main())
