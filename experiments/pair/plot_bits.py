#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draws what few bits for attention logits cost, from the table.csv of a `tare sweep`: perplexity and needles found
against bits, one line per model and granularity. Needs Python's standard library alone.

usage: plot_bits.py table.csv > bits.svg"""
import csv
import sys

BITS = [16, 8, 6, 4]
MODELS = {"novels-standard": ("standard", "s"), "novels-differential": ("differential", "d")}
SCALES = {"row": "one scale per row", "tensor": "one scale per layer"}
PANELS = [("perplexity:heldout", "perplexity", "perplexity (lower is better)", 28, 36, 2, "{:.0f}"),
          ("choice:needles-4", "acc", "needles found, +/- one standard error", 0.4, 1.0, 0.2, "{:.0%}")]
WIDTH, HEIGHT, TOP, BOTTOM, LEFT, GAP, PLOT = 820, 350, 94, 312, 48, 68, 340

STYLE = """
  svg { font: 13px sans-serif } path { fill: none; stroke-width: 2 } .tensor { stroke-dasharray: 6 4 }
  .back { fill: #ffffff } text { fill: #24292f } .grid { stroke: #d0d7de }
  .s { stroke: #0969da } .d { stroke: #bc4c00 } circle { fill: #0969da } .mark { fill: #bc4c00 }
  @media (prefers-color-scheme: dark) {
    .back { fill: #0d1117 } text { fill: #e6edf3 } .grid { stroke: #30363d }
    .s { stroke: #58a6ff } .d { stroke: #f0883e } circle { fill: #58a6ff } .mark { fill: #f0883e } }"""


def read(name):
    """(task, figure, model, granularity) to {bits: (value, standard error)}; 16 bits have no granularity."""
    lines = {}
    with open(name, newline="") as f:
        for row in csv.DictReader(f):
            for scale in [row["granularity"]] if row["granularity"] else SCALES:
                key = row["task"], row["figure"], row["model"], scale
                lines.setdefault(key, {})[int(row["bits"])] = float(row["value"]), float(row["stderr"] or 0)
    return lines


def mark(kind, x, y):
    if kind == "s":
        return f'<circle class="s" cx="{x:.1f}" cy="{y:.1f}" r="4"/>'
    return f'<rect class="d mark" x="{x - 4:.1f}" y="{y - 4:.1f}" width="8" height="8"/>'


def panel(lines, left, task, figure, title, low, high, step, label):
    def x_of(bits):
        return left + 20 + BITS.index(bits) * (PLOT - 40) / (len(BITS) - 1)

    def y_of(value):
        return BOTTOM - (value - low) / (high - low) * (BOTTOM - TOP)

    yield f'<text x="{left}" y="{TOP - 16}" font-weight="bold">{title}</text>'
    for i in range(round((high - low) / step) + 1):
        y = y_of(low + i * step)
        yield f'<line class="grid" x1="{left}" x2="{left + PLOT}" y1="{y:.1f}" y2="{y:.1f}"/>'
        yield f'<text x="{left - 8}" y="{y + 4:.1f}" text-anchor="end">{label.format(low + i * step)}</text>'
    for bits in BITS:
        yield f'<text x="{x_of(bits):.1f}" y="{BOTTOM + 22}" text-anchor="middle">{bits} bits</text>'
    for model, (_, kind) in MODELS.items():
        for scale in SCALES:
            points = lines[task, figure, model, scale]
            place = [(x_of(bits), y_of(points[bits][0])) for bits in BITS]
            yield f'<path class="{kind} {scale}" d="M' + " L".join(f"{x:.1f} {y:.1f}" for x, y in place) + '"/>'
            for bits, (x, y) in zip(BITS, place):
                error = points[bits][1] * (BOTTOM - TOP) / (high - low)
                if error:
                    up = max(y - error, y_of(high))
                    yield f'<line class="{kind}" x1="{x:.1f}" x2="{x:.1f}" y1="{up:.1f}" y2="{y + error:.1f}"/>'
                yield mark(kind, x, y)


def legend():
    for y, (name, kind) in zip((20, 42), MODELS.values()):
        for x, (scale, words) in zip((LEFT, LEFT + 260), SCALES.items()):
            yield f'<path class="{kind} {scale}" d="M{x} {y} h34"/>' + mark(kind, x + 17, y)
            yield f'<text x="{x + 42}" y="{y + 4}">{name}, {words}</text>'


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    lines = read(sys.argv[1])
    print(f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" '
          'role="img" aria-label="Perplexity and needles found against bits of attention logits">')
    print(f"<style>{STYLE}</style>")
    print(f'<rect class="back" width="{WIDTH}" height="{HEIGHT}"/>')
    print("\n".join(legend()))
    for i, p in enumerate(PANELS):
        print("\n".join(panel(lines, LEFT + i * (PLOT + GAP), *p)))
    print("</svg>")


if __name__ == "__main__":
    main()
