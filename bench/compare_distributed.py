#!/usr/bin/env python3
"""Compares Adjoint's data-parallel training with PyTorch's DistributedDataParallel, on the GPUs of this host.

    bench/compare_distributed.py [--ranks N] [--rounds R] [--ctas 0,4,8,16] [--networks gan,wide] [--alone] [--strong]
                                 [--markdown] [--program build/cuda/bench/bench_distributed]

The program starts bench_distributed and this file's other half (`--pytorch`, through the same mpirun) in turns. For
each network and precision it prints medians over rounds: milliseconds of a step on each GPU alone and through
DataParallel or DistributedDataParallel, the efficiency (the former divided by the latter), and the share of the
gradients' sum that a step hides. Rows marked "captured" time steps as CUDA graphs; DistributedDataParallel has none.
The last lines are the geometric mean and the least of the efficiencies. --ctas runs every network once for each bound
on the thread blocks that NCCL may take beside the sweep (DataParallelOptions::max_ctas; 0: NCCL's choice; -1:
DataParallel's). With --strong the GPUs share the batch that one has alone. The efficiency is then the time alone,
divided by the time together and by the number of GPUs.
"""

import argparse
import json
import math
import os
import pathlib
import statistics
import subprocess
import sys
import time

BOUNDS = {-1: "DataParallel's", 0: "NCCL's"}  # on thread blocks; other bounds are numbers

ROOT = pathlib.Path(__file__).resolve().parent.parent


def cases():
    """Returns the compare_training.Case of each network in bench/distributed.cpp."""
    import torch
    import compare_training
    from torch import nn

    def wide():
        return {"net": nn.Sequential(*(layer for _ in range(11)
                                       for layer in (nn.Conv2d(1024, 1024, 3, padding=1), nn.ReLU())))}

    return [*(case for case in compare_training.cases(False) if case.network in compare_training.PROGRAMS),
            compare_training.Case("wide", "wide", wide, lambda: (torch.randn(32, 1024, 16, 16),),
                                  lambda net, x: net(x).float().square().mean())]


def time_ms(kinds, calls=20, rounds=9):
    """Returns, for each kind, the median over rounds of the slowest rank's milliseconds per call. Kinds take turns."""
    import torch
    times = [[] for _ in kinds]
    for round_ in range(-1, rounds):
        for kind, into in zip(kinds, times):
            torch.cuda.synchronize()
            torch.distributed.barrier()
            torch.cuda.synchronize()
            begin = time.perf_counter()
            for _ in range(calls):
                kind()
            torch.cuda.synchronize()
            slowest = torch.tensor([(time.perf_counter() - begin) * 1e3 / calls], device="cuda")
            torch.distributed.all_reduce(slowest, torch.distributed.ReduceOp.MAX)
            if round_ >= 0:
                into.append(slowest.item())
    return [statistics.median(of_kind) for of_kind in times]


def run_pytorch(strong, networks):
    import torch
    from compare_training import Theirs
    rank, world = int(os.environ["OMPI_COMM_WORLD_RANK"]), int(os.environ["OMPI_COMM_WORLD_SIZE"])
    torch.cuda.set_device(int(os.environ["OMPI_COMM_WORLD_LOCAL_RANK"]))
    torch.distributed.init_process_group("nccl", rank=rank, world_size=world)
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
    torch.backends.cudnn.benchmark = True
    for case in cases():
        if networks and case.network not in networks:
            continue
        state = {name: module.state_dict() for name, module in case.make().items()}
        whole = case.batch()
        part = [tensor[:len(tensor) // world].contiguous() if strong else tensor for tensor in whole]
        parameters = sum(p.numel() for module in case.make().values() for p in module.parameters())
        gradients = torch.zeros(parameters, device="cuda")
        for precision in ("tf32", "bf16"):
            alone = Theirs(case, state, [whole], precision, "cuda")
            together = Theirs(case, state, [part], precision, "cuda", "ddp")
            ms = time_ms([alone.next, together.next, lambda: torch.distributed.all_reduce(gradients)])
            if rank == 0:
                print(json.dumps({"case": case.network, "precision": precision, "parameters": parameters,
                                  "alone_ms": ms[0], "together_ms": ms[1], "sum_ms": ms[2]}), flush=True)
    torch.distributed.destroy_process_group()


def launch(ranks, command):
    """Returns {(case, precision, bound on thread blocks or bytes): line} for one run under mpirun."""
    environment = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
                       MASTER_ADDR="127.0.0.1", MASTER_PORT="29511", NCCL_NVLS_ENABLE="0")
    out = subprocess.run(["mpirun", "-n", str(ranks), "--bind-to", "none", *command], check=True, text=True,
                         stdout=subprocess.PIPE, env=environment).stdout
    lines = [json.loads(line) for line in out.splitlines() if line.startswith("{")]
    return {(line["case"], line.get("precision", ""), line.get("max_ctas", line.get("bytes"))): line for line in lines}


def median_of(runs, key):
    return {name: statistics.median(run[key][name] for run in runs)
            for name, value in runs[0][key].items() if not isinstance(value, str)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, default=2, help="processes, and GPUs (default 2)")
    parser.add_argument("--rounds", type=int, default=3, help="times that each side runs (default 3)")
    parser.add_argument("--program", type=pathlib.Path, default=ROOT / "build/cuda/bench/bench_distributed")
    parser.add_argument("--ctas", default="-1", help="bounds to try, with commas (default -1)")
    parser.add_argument("--networks", help="only these networks, without sums, with commas")
    parser.add_argument("--alone", action="store_true", help="without PyTorch")
    parser.add_argument("--strong", action="store_true", help="one batch for all GPUs, not one for each")
    parser.add_argument("--markdown", action="store_true", help="print a table for bench/results/distributed.md")
    parser.add_argument("--pytorch", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.pytorch:
        return run_pytorch(args.strong, args.networks and args.networks.split(","))
    ours, theirs = [], []
    both = (["--strong"] if args.strong else []) + ([f"--networks={args.networks}"] if args.networks else [])
    for _ in range(args.rounds):
        ours.append(launch(args.ranks, [args.program, f"--ctas={args.ctas}", *both]))
        if not args.alone:
            theirs.append(launch(args.ranks, [sys.executable, __file__, "--pytorch", *both]))
    for key in ours[0]:
        if key[0] == "all_reduce":
            total = median_of(ours, key)
            # Each GPU of a ring sends, and receives, this share of the bytes.
            rate = 2 * (args.ranks - 1) / args.ranks * key[2] / total["ms"] / 1e6
            share = f", {total['bare_ms'] / total['ms']:.1%} of a bare ncclAllReduce's speed" if total["bare_ms"] else ""
            print(f"all_reduce of {key[2] >> 20} MiB: {total['ms']:.3f} ms, {rate:.0f} GB/s{share}")
    print()
    columns = ["network", "precision", "step", "thread blocks", "alone, ms", "together, ms", "efficiency", "hidden",
               "PyTorch alone, ms", "DDP, ms", "efficiency", "hidden"]
    separator = " | " if args.markdown else "\t"
    edge = "| " if args.markdown else ""

    def print_row(row):
        print(edge + separator.join(row) + edge[::-1])

    def cells(line, prefix=""):
        alone, together = line[prefix + "alone_ms"], line[prefix + "together_ms"] * (args.ranks if args.strong else 1)
        hidden = max(0.0, 1 - max(0.0, together - alone) / line["sum_ms"])
        return [f"{alone:.3f}", f"{line[prefix + 'together_ms']:.3f}", f"{alone / together:.3f}",
                "" if args.strong else f"{hidden:.0%}"]

    print_row(columns)
    if args.markdown:
        print("|---|---|---|" + "---:|" * (len(columns) - 3))
    efficiencies = {}  # {(step, thread blocks): the efficiency of each network and precision}
    for key in ours[0]:
        if key[0] == "all_reduce":
            continue
        line = median_of(ours, key)
        peer = cells(median_of(theirs, (*key[:2], None))) if theirs else [""] * 4
        steps = [("eager", "", peer)] + ([] if args.strong else [("captured", "captured_", [""] * 4)])
        for step, prefix, beside in steps:
            own = cells(line, prefix)
            print_row([key[0], key[1], step, BOUNDS.get(key[2], str(key[2])), *own, *beside])
            efficiencies.setdefault((step, key[2]), []).append(float(own[2]))
    print()
    for (step, ctas), values in efficiencies.items():
        mean = math.exp(statistics.fmean(map(math.log, values)))
        print(f"{step}, {BOUNDS.get(ctas, ctas)} thread blocks: efficiency {mean:.3f} in geometric mean, "
              f"{min(values):.3f} at least")
    return 0


if __name__ == "__main__":
    sys.exit(main())
