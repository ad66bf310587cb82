#!/usr/bin/env python3
"""Milliseconds of whole training steps: the same C++ program written against Adjoint and against libtorch.

    bench/compare_steps.py [--rounds N] [--build DIR] [--adjoint PROGRAM] [--libtorch PROGRAM] [--device cpu]
                           [--out FILE] [OPTION...]

Builds both programs, each in its own folder below DIR, unless a program is given; libtorch is the installed PyTorch's,
or else the system's. Runs them in turn and prints tables of the medians over the rounds; bench/steps.h describes the
networks, and takes the options that this program does not know, such as --networks unet and --tiny.

A step runs as it is (plain) or as a CUDA graph. The first table has libtorch's quickest memory layout, and of its plain
steps the quicker of torch::optim::Adam and the fused update; the ratio is libtorch's time over that of Adjoint's
quicker layout. The program fails if the programs' losses differ: by more than 0.5 percent in the first step, or by
more than 5 percent in the last.
"""

import argparse
import os
import pathlib
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
PROGRAMS = {"adjoint": "steps", "libtorch": "steps_libtorch"}
LAYOUTS = ("contiguous", "channels_last")
STEPS = {"plain": ("plain", "fused"), "graph": ("graph",)}  # of the first table: the programs' modes
FIRST_TOLERANCE, LAST_TOLERANCE = 0.005, 0.05


def output(*command):
    try:
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""


def architecture():
    """This machine's GPU; Hopper's own instructions need its own architecture."""
    capability = output("nvidia-smi", "--query-gpu=compute_cap", "--format=csv,noheader").split("\n")[0].replace(".", "")
    return "90a-real" if capability == "90" else f"{capability}-real"


def build(name, folder, on_gpu):
    """The program's path. libtorch's folder has no kernels of Adjoint, and Adjoint's does not look for PyTorch."""
    options = ["-DADJOINT_BUILD_BENCH=ON", "-DADJOINT_BUILD_TESTS=OFF", "-DADJOINT_BUILD_EXAMPLES=OFF",
               "-DADJOINT_DATA=OFF", "-DCMAKE_BUILD_TYPE=Release"]
    if name == "libtorch":
        prefix = output("python3", "-c", "import torch; print(torch.utils.cmake_prefix_path)")
        options += ["-DADJOINT_CUDA=OFF"] + ([f"-DCMAKE_PREFIX_PATH={prefix}"] if prefix else [])
    else:
        options += ["-DCMAKE_DISABLE_FIND_PACKAGE_Torch=ON"]
        options += ["-DADJOINT_CUDA=ON", f"-DCMAKE_CUDA_ARCHITECTURES={architecture()}"] if on_gpu \
            else ["-DADJOINT_CUDA=OFF"]
    generator = ["-G", "Ninja"] if output("ninja", "--version") else []
    subprocess.run(["cmake", "-S", ROOT, "-B", folder, *generator, *options], check=True, stdout=sys.stderr)
    subprocess.run(["cmake", "--build", folder, "--target", PROGRAMS[name], "--parallel", str(os.cpu_count())],
                   check=True, stdout=sys.stderr)
    return folder / "bench" / f"bench_{PROGRAMS[name]}"


def run(program, options):
    """{(network, precision, layout, mode): (milliseconds, first loss, last loss, peak of memory in MB)}."""
    print(f"{program} {' '.join(options)}", file=sys.stderr, flush=True)
    rows = [line.split() for line in
            subprocess.run([program, *options], check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()]
    return {tuple(row[:4]): tuple(map(float, row[4:])) for row in rows}


def medians(samples):
    return {case: tuple(map(statistics.median, zip(*(s[case] for s in samples)))) for case in samples[0]}


def differing_losses(ours, theirs):
    """Lines about cases whose losses are not those of libtorch's plain step in the same precision."""
    lines = []
    for case, (_, *losses, _) in [*ours.items(), *theirs.items()]:
        reference = theirs.get((case[0], case[1], LAYOUTS[0], "plain"))
        if reference is None:
            continue
        for loss, wanted, tolerance in zip(losses, reference[1:3], (FIRST_TOLERANCE, LAST_TOLERANCE)):
            if not abs(loss - wanted) <= tolerance * abs(wanted):
                lines.append(f"{' '.join(case)}: loss {loss}, but libtorch's is {wanted}")
    return lines


def quickest(results, network, precision, layouts, modes):
    """(milliseconds, layout, mode), or None."""
    found = [(results[case][0], layout, mode) for layout in layouts for mode in modes
             if (case := (network, precision, layout, mode)) in results]
    return min(found, default=None)


def table(head, rows):
    yield f"| {' | '.join(head)} |"
    yield f"|{'---|' * len(head)}"
    yield from (f"| {' | '.join(row)} |" for row in rows)


def compared(ours, theirs):
    for network, precision in dict.fromkeys(case[:2] for case in ours):
        for step, modes in STEPS.items():
            of_torch = quickest(theirs, network, precision, LAYOUTS, modes)
            by_layout = [quickest(ours, network, precision, (layout,), modes) for layout in LAYOUTS]
            best = min((found for found in by_layout if found), default=None)
            if best is None:
                continue
            cells = [f"{found[0]:.3f}" if found else "" for found in by_layout]
            named = f"{of_torch[0]:.3f} ({of_torch[1]}, {of_torch[2]})" if of_torch else ""
            ratio = f"{of_torch[0] / best[0]:.2f}" if of_torch else ""
            yield network, precision, step, named, *cells, ratio


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3, help="times that each program runs (default 3)")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build" / "steps", help="the folder of the builds")
    parser.add_argument("--adjoint", type=pathlib.Path, help="a built bench_steps")
    parser.add_argument("--libtorch", type=pathlib.Path, help="a built bench_steps_libtorch")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--out", type=pathlib.Path, help="a file for the tables, too")
    arguments, options = parser.parse_known_args()

    given = {"adjoint": arguments.adjoint, "libtorch": arguments.libtorch}
    programs = {name: path or build(name, arguments.build / name, arguments.device == "cuda")
                for name, path in given.items()}
    samples = {name: [] for name in programs}
    for _ in range(arguments.rounds):
        for name, program in programs.items():
            samples[name].append(run(program, ["--device", arguments.device, *options]))
    ours, theirs = (medians(samples[name]) for name in PROGRAMS)

    lines = [*table(("network", "precision", "step", "libtorch's quickest", "Adjoint contiguous",
                     "Adjoint channels_last", "libtorch / Adjoint"), compared(ours, theirs)), ""]
    lines += table(("program", "network", "precision", "layout", "mode", "ms", "first loss", "last loss", "peak MB"),
                   ((name, *case, f"{ms:.3f}", f"{first:.5f}", f"{last:.5f}", f"{peak:.0f}")
                    for name, results in zip(PROGRAMS, (ours, theirs))
                    for case, (ms, first, last, peak) in results.items()))
    lines += ["", "milliseconds a step"]
    print("\n".join(lines))
    if arguments.out:
        arguments.out.write_text("\n".join(lines) + "\n")
    if wrong := differing_losses(ours, theirs):
        sys.exit("\n".join(wrong))


if __name__ == "__main__":
    main()
