#!/usr/bin/env python3
"""Makes the documents' tables and chart from the results of bench/compare_pytorch.py.

    bench/report.py [bench/results/pytorch_cuda.json] [--others bench/results/pytorch_cuda_others.json]

The script replaces the text between the lines "<!-- bench: begin -->" and "<!-- bench: end -->" in README.md (a
sentence and the chart) and in docs/performance.md (the table), and draws docs/images/pytorch_cuda.svg. From the
--others results it replaces the text between "<!-- others: begin -->" and "<!-- others: end -->" in
docs/performance.md, and writes the table bench/results/other_layers.md. It needs only Python.
"""

import argparse
import html
import json
import math
import pathlib
import textwrap

ROOT = pathlib.Path(__file__).resolve().parent.parent
TITLES = {"tf32": "TF32", "bfloat16": "bfloat16", "float16": "float16", "float32": "float32"}
PARTS = ("forward", "forward + backward")
ALL_PARTS = ("forward", "d input", "d weight", "forward + backward")


def by_case(record):
    """Returns {case: {precision: result}}, in the file's order."""
    cases = {}
    for result in record["results"]:
        cases.setdefault(result["case"], {})[result["precision"]] = result
    return cases


def times(value):
    return f"{value:.2f}x" if value < 9.995 else f"{value:.1f}x"


def cell(result, part):
    if result is None:
        return ""
    numbers = result["parts"][part]
    return f"{numbers['ms']['adjoint']:.3g} ms, {times(numbers['speedup']['pytorch'])}"


def mean_cell(record, precision, part):
    means = record["summary"][precision][part]
    return f"**{times(means['speedup'])}**, floor {means['fraction_of_floor']:.2f}"


def table(record):
    precisions = list(record["summary"])
    columns = [(precision, part) for precision in precisions for part in PARTS]
    lines = ["| layer | " + " | ".join(f"{TITLES[precision]} {part}" for precision, part in columns) + " |"]
    lines.append("|---|" + "---:|" * len(columns))
    for case, results in by_case(record).items():
        problem = next(iter(results.values()))["problem"]
        cells = [cell(results.get(precision), part) for precision, part in columns]
        lines.append(f"| {case}: {problem} | " + " | ".join(cells) + " |")
    lines.append("| geometric mean | " + " | ".join(mean_cell(record, *column) for column in columns) + " |")
    return "\n".join(lines)


def cudnn_version(number):
    """91900 -> 9.19.0"""
    return f"{number // 10000}.{number // 100 % 100}.{number % 100}"


def quicker_ways(record, precision, part):
    """Returns PyTorch's fastest way, for each layer in which it is faster than Adjoint."""
    speedups = [r["parts"][part]["speedup"] for r in record["results"] if r["precision"] == precision]
    return [min(s, key=s.get) for s in speedups if min(s.values()) < 1]


def ways_of(record):
    """Returns the names of PyTorch's ways that were run."""
    run = {way for r in record["results"] for way in r["parts"][PARTS[0]]["speedup"]}
    words = {"pytorch": "contiguous tensors", "channels_last": "channels_last", "flipped conv": "conv with a flipped filter",
             "compile": "torch.compile"}
    return [word for way, word in words.items() if way in run]


def beside_best(record):
    """Returns sentences on PyTorch's other ways (channels_last, flipped filters, torch.compile) and on missing runs."""
    ratios, plain, quicker, ways = [], [], [], set()
    for precision, parts in record["summary"].items():
        forward, both = (parts[part]["speedup_over_best"] for part in PARTS)
        if forward is None:
            plain.append(TITLES[precision])
        else:
            ratios.append(f"{TITLES[precision]} {times(forward)} and {times(both)}")
            of_parts = [quicker_ways(record, precision, part) for part in PARTS]
            if any(of_parts):
                quicker.append(f"in {TITLES[precision]} for {len(of_parts[0])} and {len(of_parts[1])}")
                ways.update(*of_parts)
    sentences = []
    if ratios:
        sentences.append(
            f"Against the fastest of PyTorch's ways for each layer ({', '.join(ways_of(record))}), the speedup forward and "
            f"with the gradients is {', '.join(ratios)}.")
    if quicker:
        sentences.append(f"That way is faster than Adjoint {', '.join(quicker)} layers ({', '.join(sorted(ways))}).")
    if plain:
        sentences.append(f"In {' and '.join(plain)} the run had no time to measure all of these ways for every layer.")
    return " ".join(sentences)


def run_text(record):
    """Returns the versions that ran on both sides, and the date."""
    return (f"PyTorch {record['pytorch']} with cuDNN {cudnn_version(record['cudnn'])} and `cudnn.benchmark`, contiguous tensors "
            f"(driver {record['driver']}, {record['date'][:10]}, at {record['commit']})")


def paragraph(sentences):
    return textwrap.fill(sentences, width=120, break_long_words=False, break_on_hyphens=False)


def list_of(words):
    return ", ".join(words[:-1]) + " and " + words[-1]


def readme_text(record):
    """Returns the README's sentence and its chart."""
    both = [(TITLES[precision], parts[PARTS[1]]) for precision, parts in record["summary"].items()]
    sentence = (f"On one {record['device']}, transposed convolution with its gradients is faster than PyTorch's plain call "
                "with cuDNN, in geometric mean over ten layers of real networks: "
                + list_of([f"{times(means['speedup'])} in {title}" for title, means in both]))
    if all(means["speedup_over_best"] is not None for _, means in both):
        sentence += (", and than the fastest of PyTorch's ways for each layer: "
                     + list_of([times(means["speedup_over_best"]) for _, means in both]))
    return "\n\n".join([paragraph(f"{sentence} ({record['date'][:10]}, at {record['commit']})."),
                        "![Speed beside PyTorch](docs/images/pytorch_cuda.svg)"])


def text(record):
    """Returns docs/performance.md's table, and the sentences around it."""
    paragraphs = [
        f"Cells give milliseconds on one {record['device']} and PyTorch's time divided by Adjoint's: {run_text(record)}. The "
        "floor is the time that moving the bytes or computing the products takes at rates measured in the same run; the "
        "means' second number is the floor divided by Adjoint's time. `bench/compare_pytorch.py` measures, and "
        "`bench/report.py` writes this table.",
        beside_best(record),
    ]
    over = record.get("float32_over_pytorch_tf32")
    if over:
        paragraphs.append(
            f"Adjoint's float32 keeps full accuracy. Forward it is {over[PARTS[0]]:.2f} times as fast as PyTorch's TF32, and "
            f"{over[PARTS[1]]:.2f} times with the gradients.")
    return "\n\n".join([table(record), *map(paragraph, paragraphs)])


def slower(record, precision):
    """Returns Adjoint's time over PyTorch's, forward and backward, for each layer in which Adjoint is slower."""
    speedups = [r["parts"][PARTS[1]]["speedup"]["pytorch"] for r in record["results"] if r["precision"] == precision]
    return [1 / s for s in speedups if s < 1]


def others_text(record):
    """Returns docs/performance.md's sentences on the other layers."""
    sentences = []
    for precision, means in record["summary"].items():
        longer = slower(record, precision)
        sentence = f"{TITLES[precision]} {list_of([times(means[part]['speedup']) for part in ALL_PARTS])}"
        if longer:
            layers = "1 layer is" if len(longer) == 1 else f"{len(longer)} layers are"
            sentence += f" ({layers} slower in total, {max(longer):.2f} times at most)"
        sentences.append(sentence)
    return paragraph(
        f"{len(by_case(record))} other layers come from KernelBench, published networks and odd shapes. The geometric means of "
        "the speedup over PyTorch's plain call, for the forward pass, the input gradient, the weight gradient and all three "
        f"together, are {'; '.join(sentences)}. [Each layer](../bench/results/other_layers.md) is listed (one "
        f"{record['device']}, {record['date'][:10]}, at {record['commit']}).")


def others_table(record):
    """Returns a document with every layer's times and ratios."""
    lines = ["# Other layers beside PyTorch", "",
             paragraph("`bench/compare_pytorch.py --others --quick` measured these layers, and `bench/report.py` made the "
                       "tables. Cells give milliseconds, medians of 5, and PyTorch's time divided by Adjoint's. They ran "
                       f"on one {record['device']} beside {run_text(record)}.")]
    for precision, means in record["summary"].items():
        lines += ["", f"## {TITLES[precision]}", ""]
        lines += ["| layer | " + " | ".join(ALL_PARTS) + " |", "|---|" + "---:|" * len(ALL_PARTS)]
        for result in record["results"]:
            if result["precision"] == precision:
                cells = [cell(result, part) for part in ALL_PARTS]
                lines.append(f"| {result['case']}: {result['problem']} | " + " | ".join(cells) + " |")
        cells = [f"**{times(means[part]['speedup'])}**" for part in ALL_PARTS]
        lines.append("| geometric mean | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def replace(path, name, text):
    """Replaces the lines between the begin and end markers of `name` by `text`."""
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    before, found, rest = path.read_text().partition(begin + "\n")
    _, closed, after = rest.partition(end)
    if not found or not closed:
        raise SystemExit(f"bench/report.py: {path} has no lines {begin} and {end}")
    path.write_text(f"{before}{begin}\n{text}\n{end}{after}")


class Svg:
    """A drawing on a white background, which is readable on any page."""

    def __init__(self, width, height):
        self.size = (width, height)
        self.parts = [f'<rect width="{width}" height="{height}" fill="#ffffff"/>']

    def rect(self, x, y, width, height, fill):
        self.parts.append(f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" fill="{fill}"/>')

    def line(self, x, y0, y1, colour):
        self.parts.append(f'<line x1="{x:.1f}" y1="{y0:.1f}" x2="{x:.1f}" y2="{y1:.1f}" stroke="{colour}"/>')

    def text(self, x, y, string, anchor="start", colour="#1f2328", weight="normal"):
        self.parts.append(
            f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{colour}" font-weight="{weight}">{html.escape(string)}</text>'
        )

    def __str__(self):
        width, height = self.size
        style = 'font-family="Helvetica, Arial, sans-serif" font-size="12"'
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" {style}>\n'
            + "\n".join(self.parts) + "\n</svg>\n"
        )


COLOURS = {"tf32": "#1f6feb", "bfloat16": "#2da44e", "float16": "#bf8700", "float32": "#8250df"}
BAR, GAP, LEFT, WIDTH, TOP = 11, 12, 130, 780, 64


def chart(record):
    """Draws bars: PyTorch's time over ours, forward + backward, on a logarithmic axis."""
    precisions = list(record["summary"])
    rows = [(case, {p: r["parts"][PARTS[1]]["speedup"]["pytorch"] for p, r in results.items()})
            for case, results in by_case(record).items()]
    rows.append(("geometric mean", {p: record["summary"][p][PARTS[1]]["speedup"] for p in precisions}))
    values = [value for _, row in rows for value in row.values()]
    low, high = min(0.5, *values), max(4.0, *values) * 1.15
    row_height = BAR * len(precisions) + GAP
    height = TOP + row_height * len(rows) + 8
    svg = Svg(WIDTH, height)
    place = lambda value: LEFT + (WIDTH - LEFT - 24) * math.log(value / low) / math.log(high / low)
    svg.text(12, 20, f"Transposed convolution, forward + backward: PyTorch's time / Adjoint's, {record['device']}", weight="bold")
    for i, precision in enumerate(precisions):
        svg.rect(LEFT + 110 * i, 30, 10, 10, COLOURS[precision])
        svg.text(LEFT + 110 * i + 15, 39, TITLES[precision])
    for tick in (0.25, 0.5, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32):
        if low <= tick <= high:
            svg.line(place(tick), TOP - 6, height - 8, "#57606a" if tick == 1 else "#d8dee4")
            svg.text(place(tick), TOP - 10, f"{tick:g}x", "middle", "#57606a")
    for index, (case, row) in enumerate(rows):
        y = TOP + index * row_height + GAP / 2
        svg.text(LEFT - 8, y + (row_height - GAP) / 2 + 4, case, "end", weight="bold" if index + 1 == len(rows) else "normal")
        for i, precision in enumerate(precisions):
            if precision in row:
                value = row[precision]
                begin, end = sorted((place(1), place(value)))
                svg.rect(begin, y + i * BAR, max(end - begin, 1), BAR - 2, COLOURS[precision])
                svg.text(end + 4, y + i * BAR + 9, times(value), colour="#57606a")
    return str(svg)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", nargs="?", type=pathlib.Path, default=ROOT / "bench/results/pytorch_cuda.json")
    parser.add_argument("--others", type=pathlib.Path, default=ROOT / "bench/results/pytorch_cuda_others.json")
    parser.add_argument("--readme", type=pathlib.Path, default=ROOT / "README.md")
    parser.add_argument("--performance", type=pathlib.Path, default=ROOT / "docs/performance.md")
    parser.add_argument("--chart", type=pathlib.Path, default=ROOT / "docs/images/pytorch_cuda.svg")
    arguments = parser.parse_args()
    record, others = (json.loads(path.read_text()) for path in (arguments.results, arguments.others))
    replace(arguments.readme, "bench", readme_text(record))
    replace(arguments.performance, "bench", text(record))
    replace(arguments.performance, "others", others_text(others))
    (ROOT / "bench/results/other_layers.md").write_text(others_table(others))
    arguments.chart.parent.mkdir(parents=True, exist_ok=True)
    arguments.chart.write_text(chart(record))


if __name__ == "__main__":
    main()
