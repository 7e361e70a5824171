# SPDX-License-Identifier: Apache-2.0
"""attention, quantize, gptq, linear layers and measures: arrays as frameworks make them, for the compiled module."""
import re

from . import _tare
from .arguments import LAYOUTS, arranged, checked, layout_named, plain


SITES = "q k v attn_logits probs difference head_out"  # of attention


def _readable(x):
    """x, or a copy of what has gaps in its last dimension or odd addresses, which kernels cannot read."""
    if hasattr(x, "stride"):  # a PyTorch tensor's method
        return x if x.stride(-1) == 1 else x.contiguous()
    if hasattr(x, "flags") and hasattr(x, "strides") and (x.strides[-1] != x.itemsize or not x.flags.aligned):
        return x.copy()
    return x


def _fit(shapes, layout, heads, causal):
    """Whether attention takes arrays of these shapes."""
    q, k, v = (dict(zip(layout, shape)) for shape in shapes)
    if q["d"] != k["d"] or k["t"] != v["t"] or causal and q["t"] > k["t"]:
        return False
    try:
        return not isinstance(heads, str) or _tare.output_heads(heads, q["h"], k["h"], v["h"]) > 0
    except (ValueError, TypeError):  # TypeError: more than an int
        return False


def _cure(shapes, layout, heads, causal):
    """What makes arrays of these shapes fit that do not: "layout='htd'", "heads='v1'", or both; "" if nothing does."""
    if any(len(shape) != len(layout) for shape in shapes) or _fit(shapes, layout, heads, causal):
        return ""
    for family in [heads, "v1"] if isinstance(heads, str) else [heads]:
        for other in LAYOUTS:
            if len(other) != len(layout) or not _fit(shapes, other, family, causal):
                continue
            # In another layout as many queries as keys, or one: arrays of two layouts can look as if they fitted one.
            queries, keys = (shape[other.index("t")] for shape in shapes[:2])
            if other == layout or queries in (1, keys):
                new = [f"layout='{other}'"] * (other != layout) + [f"heads='{family}'"] * (family is not heads)
                return " and ".join(new)
    return ""


@checked
def attention(q, k, v, *, heads="standard", lambda_=None, plan: str | None = None, execution: str = "executed",
              layout: str = "thd", causal: bool = True, window: int = 0, scale: float | None = None, out=None,
              threads: int = 0):
    """Attention of standard and differential heads: softmax(scale q1 k1) V - lambda softmax(scale q2 k2) V.

    q [T, q heads, d], k [S, k heads, d], v [S, v heads, width]: float32, float16 or bfloat16 in CPU memory, of any
    library that speaks DLPack or the buffer protocol, in any strides. What is dense in its last dimension is not
    copied, except by simulated plans and +hadamard, and bfloat16 of ml_dtypes. T queries, S keys, T <= S if causal:
    query t sees keys up to t + S - T.

    heads    which heads of q, k and v belong together. A family: "standard" (as many maps as q heads), "v1" (maps 2h
             and 2h + 1 of q and of k), "diffllama" (map j with j + half, V of two slices side by side), "v2" (maps 2h
             and 2h + 1 of q over the same k and v).
             Or a table with one row per output head: (q1, k1, v) or (q1, k1, v, q2, k2), v an index or a pair.
    lambda_  weight of the second map: a number, or float32 [output heads], [T, output heads] or, with a batch,
             [B, T, output heads].
    plan     rules for the sites of attention; not cache_k, cache_v (tare.Cache) or +static. None: in float32.
    execution  "executed": on integer kernels, by rules for q, k, v, and probs or difference (and attn_logits);
             "simulated": rounded and computed in float32 as in a model, by any rules for q, k, v, attn_logits, probs,
             difference and head_out, with T = S.
    layout   the axes of q, k, v, out and the result: "thd", "htd", and with a batch "bthd" or, as in PyTorch, "bhtd".
             No scale spans two sequences. Sizes are all that is checked: where they fit with tokens and heads
             exchanged as well, a wrong layout goes unnoticed.
    causal   each query sees its own and earlier positions; window: only that many of them (0: all).
    scale    of the logits; None: 1 / sqrt(d).
    out      [T, output heads, slices * width], float32 or, except with simulated plans and +hadamard of v, 16 bits, in
             the layout, to write into, not overlapping the inputs; None: a new numpy array of float32.
    threads  0: all. Results are bit-identical on any number.

    Returns out, without the head norm and (1 - lambda_init) of V1. The GIL is released; calls of several threads take
    turns; Ctrl-C ends a call. Raises ValueError for invalid input, including NaN and infinities that a query
    sees and largest logits of 2^30 or more, and in a process that was forked after the first call."""
    layout = layout_named(layout, "q, k, v")
    if plan is not None and not plan.strip():
        raise ValueError("plan: got no rules, expected some; try plan=None for float32")
    arrays = [arranged(plain(x, name), name, layout) for x, name in ((q, "q"), (k, "k"), (v, "v"))]
    room = None if out is None else arranged(out, "out", layout)

    def one(arrays, lambda_, room, sequence=None):
        try:
            return _tare.attention(*map(_readable, arrays), heads=heads, lambda_=lambda_, plan=plan,
                                   execution=execution, causal=bool(causal), window=window, scale=scale, out=room,
                                   threads=threads)
        except ValueError as error:  # what an option of the program does, an argument does here
            text = re.sub("(this|a) (captured|one layer) model", "attention of q, k and v",
                          str(error).replace("simulating it", "execution='simulated'"))
            text = re.sub(r"expected one of weights linear_in [\w. ]*", f"expected one of {SITES}", text)
            if sequence is not None and re.search(" (token|query) ", text):
                text = f"sequence {sequence}: {text}"
            cure = _cure([list(getattr(x, "shape", ())) for x in (q, k, v)], layout, heads, causal)
            raise ValueError(text + (f"{', or' if '; try ' in text else '; try'} {cure}" if cure else "")) from None

    if "b" not in layout:
        made = one(arrays, lambda_, room)
        return out if out is not None else made if layout == "thd" else made.transpose(1, 0, 2)
    batches = [len(x) for x in arrays]
    if len(set(batches)) > 1 or batches[0] == 0:
        raise ValueError("q, k, v: got batches of {}, {} and {} sequences, expected equal ones".format(*batches))
    if room is not None and len(room) != batches[0]:
        raise ValueError(f"out: got {len(room)} sequences, expected {batches[0]}")
    if getattr(lambda_, "ndim", 0) > 3:
        raise ValueError(f"lambda_: got shape {list(lambda_.shape)}, expected a number, [output heads], [T, output "
                         "heads] or [B, T, output heads]")
    of_each = getattr(lambda_, "ndim", 0) == 3
    if of_each and len(lambda_) != batches[0]:
        raise ValueError(f"lambda_: got {len(lambda_)} sequences, expected {batches[0]}")
    made = [one([x[b] for x in arrays], lambda_[b] if of_each else lambda_, None if room is None else room[b], b)
            for b in range(batches[0])]
    if out is not None:
        return out
    import numpy  # takes a tenth of a second
    return numpy.stack([x if layout == "bthd" else x.transpose(1, 0, 2) for x in made])


@checked
def quantize(x, rule: str, *, threads: int = 0) -> _tare.Quantized:
    """Quantizes values to codes and scales, each to the nearest code, by a rule of a plan.

    x     float32, float16 or bfloat16 [..., n] in CPU memory, row-major; scales are along the last dimension.
    rule  format/granularity as plans have it for weights [out, in], "int4/group64", "int8/channel" (a scale per row),
          "int8/tensor", "mxfp4", "nf4/group64+mse", "int4/group32+zero"; or for activations, "int4/token", "int8/row",
          "int4/block64", "u8/row" (values from 0); or with a site: "linear_in=int8/token", "probs=u8/block64" (before
          the division by the codes' sum).
    threads  0: all.

    Returns a Quantized. Raises ValueError for NaN and infinities, and for a rule that does not apply."""
    x, refusal = plain(x, "x"), ""
    for site in [""] if "=" in rule else ["weights=", "linear_in=", "probs=", "difference="]:
        try:
            return _tare.quantize(x, site + rule, threads=threads)
        except ValueError as error:
            if not site or not str(error).startswith("plan, column"):
                raise
            refusal = refusal or str(error)
    what = re.split("\n|; try", refusal.split(": ", 1)[1])[0]  # of weights, without the site, which is not the user's
    raise ValueError(f"rule '{rule}': {what}; try int4/group64, int8/token, or a site and = before it")


@checked
def gptq(x, hessian, rule: str, *, damping: float = 0.01, threads: int = 0) -> _tare.Quantized:
    """Quantizes a weight by GPTQ (arXiv 2210.17323), so that its outputs on calibration inputs change little.

    x        the weight [out, in], as in tare.quantize.
    hessian  float32 [in, in]: the sum of X^T X over calibration inputs X [tokens, in]; its upper triangle is read.
    rule     of integers with a scale per channel or group: "int4/group64", "int4/channel+mse".
    damping  added to the diagonal, times its mean.

    Inputs are rounded by falling mean square. Raises ValueError for what is not finite, not positive definite, and for
    other rules."""
    return _tare.gptq(plain(x, "x"), plain(hessian, "hessian"), rule if "=" in rule else "weights=" + rule,
                      damping=damping, threads=threads)


@checked
def dequantize(codes: _tare.Quantized, *, threads: int = 0):
    """The values that the codes stand for, float32 in the original shape; threads 0: all."""
    return codes.dequantize(threads=threads)


class Linear(_tare.Linear):
    __doc__ = _tare.Linear.__doc__

    @checked
    def __init__(self, weight: _tare.Quantized, *, activations: str = "int8", threads: int = 0):
        super().__init__(weight, activations=activations, threads=threads)


@checked
def measures(x, site: str = "layer_out", *, layout: str | None = None, **options) -> dict:
    """The measures of one array, by the names of the statistics file: {"absmax": [...], "kurtosis": [...], ...}.

    x     values with the axes of the site (docs/reference/captured.md): [B, T, C], attention maps [B, H, T, S].
    site  of plans; it says which measures there are. Each has a value per head and map.
    layout  of q, k, v and head_out, and options: those of tare.Statistics, which copies x."""
    import os
    import tempfile

    from .files import open as open_file
    from .statistics import Statistics
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "measures.h5")
        with Statistics(path, layout=layout, **options) as statistics:
            statistics.feed(site, None if site in ("embed", "final_norm", "lm_head.in") else 0, x)
        return open_file(path)[site]
