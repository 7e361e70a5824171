# SPDX-License-Identifier: Apache-2.0
"""Calls of the Python module with arrays of any shape, stride, type and value, with files that are damaged or cut while
they are open, in forked children, in threads, and in what the garbage collector runs. A call may raise what it says it
raises; figures without a plan are those of the formula, or near. What else happens ends the process: exit code 3.

usage: python_calls.py SEED FOLDER [CALLS]      FOLDER has q.h5 (quantized) and s0.h5 (statistics); what is made goes to
                                                FOLDER/out"""
import gc
import os
import pathlib
import random
import signal
import sys
import threading
import traceback

import numpy as np
import tare

REFUSALS = ValueError, MemoryError, TypeError, BufferError, KeyError
SIZES = [0, 1, 2, 3, 4, 5, 8, 16, 17, 31, 64, 65]
TYPES = ["float32"] * 20 + ["float64", "float16", "int8", "uint64", "bool", "complex64", ">f4", "object", "U3", "M8[s]"]
VALUES = [0, 1, -1, 1e-45, 1e-20, 1e4, 3e38, -3e38, np.nan, np.inf, -np.inf, 2**24 + 1]
PLANS = ["q=int8/token,k=int8/token,probs=u8/block64,v=int8/block64.channel",
         "q=int8/token,k=int8/token,difference=int8/block256,v=int8/block256.channel", "attn_logits=int6/row", "q=",
         "int4", "q=int8/token,k=int8/token,probs=f32", "weights=int8", "", "\0"]
CACHES = ["cache_k=int4/token,cache_v=int4/token", "", "cache_k=int2/channel+min,cache_v=int3/group32", "cache_v=bf16",
          "cache_k=int8/block32.channel+hadamard,first=3,last=5,skip=0.1",
          "cache_k=int8/token+full,cache_v=int6/channel+zero,last=70"]
NO_CACHES = ["cache_k=int4/token+prerotary", "keep=h2o/4", "cache_k=mxint8", "first=-1", "\0"]
RULES = ["int8/channel", "int4/group16", "int4/group64+mse", "int8/tensor", "mxfp4", "nf4/group64", "nvfp4",
         "linear_in=int8/token", "int2/group0", "int4/group999999999999", "weights=int4,q=int8", "", "=", "fp8"]


class Finding(Exception):
    """What must not be."""


def array(draw, shape):
    """Of the shape: dense, or a view with gaps, backwards, broadcast, off its alignment, read-only."""
    kind = draw.choice(TYPES)
    generator = np.random.default_rng(draw.getrandbits(32))
    scale = draw.choice([1, 1, 1, 1, 1e-30, 1e9, 1e19])
    with np.errstate(all="ignore"):
        made = (generator.standard_normal([2 * n for n in shape]) * scale).astype(kind)
        made = made[tuple(slice(None, n) if draw.random() < 0.8 else slice(None, 2 * n, 2) for n in shape)]
        made = made if draw.random() < 0.3 else made.copy()
        if made.size and made.dtype.kind in "fiu" and draw.random() < 0.15:
            made[tuple(draw.randrange(n) for n in shape)] = np.array(draw.choice(VALUES)).astype(kind)
    way = draw.randrange(12)
    if way == 0 and made.ndim > 0:
        made = made[::-1]
    elif way == 1 and made.ndim > 1:
        made = made.swapaxes(0, 1)
    elif way == 2:
        made.flags.writeable = False
    elif way == 3:
        axis = draw.randrange(made.ndim) if made.ndim else 0
        wide = [draw.choice([0, 1, 2**16, 2**32 + 1, 2**40]) if i == axis else n for i, n in enumerate(made.shape)]
        strides = [0 if i == axis else s for i, s in enumerate(made.strides)]
        made = np.lib.stride_tricks.as_strided(made, wide, strides) if made.size else made
    elif way == 4 and kind == "float32":
        room = np.zeros(made.nbytes + 1, np.uint8)
        room = room[1:].view(kind).reshape(made.shape)
        room[...] = made
        made = room
    return made


def formula(q, k, v, table, lambda_, causal, window, scale):
    """In double, of dense arrays."""
    q, k, v = (np.asarray(x, float) for x in (q, k, v))
    T, S = len(q), len(k)
    back = np.arange(T)[:, None] + S - T - np.arange(S)
    seen = (back >= 0) & ((back < window) | (window == 0)) if causal else np.ones((T, S), bool)
    outs = []
    for row in table:
        maps = []
        for q_head, k_head in (row[:2], row[3:])[:len(row) // 2]:
            s = np.where(seen, scale * q[:, q_head] @ k[:, k_head].T, -np.inf)
            p = np.exp(s - np.where(seen.any(1), s.max(1, initial=-np.inf), 0)[:, None])
            maps.append(p / np.maximum(p.sum(1, keepdims=True), 1e-300))
        outs.append((maps[0] - (lambda_ * maps[1] if len(maps) > 1 else 0)) @ v[:, row[2]])
    return np.stack(outs, 1)


def attention(draw, folder):
    heads, width = draw.choice([1, 2, 4]), draw.choice([1, 4, 8, 16, 16, 33, 1024, 1025])
    T, S = draw.choice(SIZES), draw.choice(SIZES)
    S = T if draw.random() < 0.5 else S
    q, k = array(draw, (T, heads, width)), array(draw, (S, heads, width if draw.random() < 0.95 else 3))
    v = array(draw, (S if draw.random() < 0.95 else T, heads, draw.choice([1, 8, width])))
    most = heads if draw.random() < 0.95 else draw.choice([-1, 2**31, 2**63, 9])
    row = lambda: tuple(draw.randint(min(0, most), max(0, most - 1)) for _ in range(draw.choice([3, 5])))
    table = [row() for _ in range(draw.choice([1, 1, 2, 5]))]
    family = draw.choice(["standard", "v1", "v2", "diffllama", "", None])
    how = {"causal": draw.random() < 0.7, "window": draw.choice([0, 0, 0, 1, 7, -1, 2**62]),
           "scale": draw.choice([0.125, 1.0, 0.0, -1.0, 1e30, 1e-40, float("nan")]),
           "lambda_": draw.choice([0.5, -2.0, None, float("inf"), array(draw, (len(table),)),
                                   array(draw, (T, len(table)))]),
           "threads": draw.choice([0, 1, 2, 3, -1, 10**6])}
    if draw.random() < 0.3:
        how["plan"] = draw.choice(PLANS)
    if draw.random() < 0.2:
        how["out"] = array(draw, (T, len(table), v.shape[2]))
    if draw.random() < 0.3:
        return tare.attention(q, k, v, heads=family, **how)
    out = tare.attention(q, k, v, heads=table, **how)
    lambda_ = how["lambda_"]
    if how.get("plan") or not isinstance(lambda_, (float, type(None))) or lambda_ == float("inf"):
        return None
    small = all(x.size < 1e6 and np.abs(x).max(initial=0) < 1e3 for x in (q, k, v))
    if not small or abs(how["scale"]) > 1:
        return None  # f32 cannot be near
    expected = formula(q, k, v, table, lambda_, how["causal"], how["window"], how["scale"])
    if out.shape != expected.shape:
        raise Finding(f"got shape {out.shape}, expected {expected.shape}")
    error = np.abs(out - expected).max(initial=0)
    if not error <= 1e-4 * (1 + np.abs(v).max(initial=0)) * (1 + np.abs(q).max(initial=0) * np.abs(k).max(initial=0)):
        raise Finding(f"got figures {error} from the formula's: {q.shape} {k.shape} {v.shape} {table} {how}")


def quantize(draw, folder):
    values = array(draw, [draw.choice(SIZES + [128]) for _ in range(draw.choice([0, 1, 2, 2, 2, 3]))])
    made = tare.quantize(values, draw.choice(RULES), threads=draw.choice([0, 1, 2]))
    back = made.dequantize()
    if back.shape != values.shape or not np.isfinite(back).all():
        raise Finding(f"got {back.shape}, finite {np.isfinite(back).all()} of {values.shape} {values.dtype}")
    return str(made), made.codes.sum(), made.scales.sum(), made.nbytes


def cache(draw, folder):
    heads, width = draw.choice([1, 2, 4]), draw.choice([1, 8, 16, 16, 64, 128])
    v_heads, v_width = draw.choice([heads, heads, (heads + 1) // 2]), draw.choice([1, 16, 64, 65])
    made = tare.Cache(heads, width, v_heads=v_heads, v_width=v_width,
                      plan=draw.choice(CACHES if draw.random() < 0.9 else NO_CACHES), threads=draw.choice([0, 1, 2, 3]))
    for _ in range(1 + draw.randrange(6)):
        tokens, before, small = draw.choice(SIZES), len(made), draw.random() < 0.5
        try:
            if small:
                made.append(*[np.float32(draw.random()) * np.ones((tokens, *shape), np.float32)
                              for shape in ((heads, width), (v_heads, v_width))])
            else:
                k, v = array(draw, (tokens, heads, width)), array(draw, (tokens, v_heads, v_width))
                made.append(k[:4096], v[:4096])  # of a broadcast array all would be copied
        except REFUSALS:
            if len(made) != before:
                raise Finding(f"got {len(made)} tokens after a refusal, expected {before}") from None
        other = made.fork()
        made, other = (other, made) if draw.random() < 0.3 else (made, other)
        q = array(draw, (draw.choice([1, 1, 2, tokens]), heads * draw.choice([1, 1, 2]), width))
        families = ["standard"] * 4 + ["v1", "v2", "diffllama", [(0, 0, 0), (0, 0, 0, 0, 0)]]
        try:
            out = made.decode(q, heads=draw.choice(families), window=draw.choice([0, 0, 3, -1, 2**62]),
                              lambda_=draw.choice([0.5, 0.5, None, float("nan"), array(draw, (heads,))]),
                              scale=draw.choice([None, None, 1.0, 1e-30, 1e30]))
        except REFUSALS:
            continue
        if np.isnan(out).any():
            raise Finding(f"got NaN of {len(made)} tokens, {heads} heads of width {width}")
        del other


def everything(file):
    """All arrays of an open file."""
    if isinstance(file, tare.files.StatisticsFile):
        return [np.array(x) for site in file.sites for x in file[site].values()]
    quantized = [file.quantized(name) for name in file.matrices]
    return [np.array(x) for q in quantized for x in (q.codes, q.scales)] + [file[name] for name in file.tensors]


def files(draw, folder):
    whole = (folder / draw.choice(["q.h5", "s0.h5"])).read_bytes()
    path = folder / "out" / f"{os.getpid()}-{threading.get_ident()}.h5"
    path.write_bytes(whole)
    expected = None
    try:
        expected = everything(open_any(path))
        damaged = bytearray(whole)
        for _ in range(draw.choice([0, 0, 1, 5])):
            damaged[draw.randrange(len(damaged))] = draw.randrange(256)
        path.write_bytes(damaged)
        file = open_any(path)
        os.truncate(path, draw.choice([0, 1, 100, draw.randrange(len(whole)), 2 * len(whole)]))
        for _ in range(2):
            try:
                got = everything(file)
            except REFUSALS:
                continue
            if len(got) != len(expected) or not all(
                    a.shape == b.shape and np.array_equal(a, b, equal_nan=a.dtype.kind == "f")
                    for a, b in zip(got, expected)):
                raise Finding(f"got other figures of {path}")
    finally:
        path.unlink()


def open_any(path):
    """As tare.open, but of a shard's file too."""
    schema = tare._tare.schema(str(path))
    if schema.startswith("tare.quantized"):
        return tare.files.QuantizedCheckpoint(path)
    file = tare.files.StatisticsFile.__new__(tare.files.StatisticsFile)
    tare.files.Sites.__init__(file, tare._tare.File(str(path)), "")
    return file


def statistics(draw, folder):
    path = folder / "out" / f"{os.getpid()}-{threading.get_ident()}-made.h5"
    sites = ["layer_out", "attn_logits", "linear_in", "none", "input_ids", "attention_mask", "q", ""]
    try:
        with tare.Statistics(path, formats=draw.choice(["", "int8/row", "int4/group3", "x"])) as made:
            for _ in range(draw.randrange(5)):
                shape = [draw.choice(SIZES[:8]) for _ in range(draw.choice([1, 2, 3, 3, 4]))]
                made.feed(draw.choice(sites), draw.choice([0, 1, 0, None, -1, 2**40]), array(draw, shape))
    finally:
        path.unlink(missing_ok=True)


def fork(draw, folder):
    """Of what this process did before, a child may do none or all, but it ends."""
    pid = os.fork()
    if pid == 0:
        signal.alarm(60)
        try:
            draw.choice([attention, cache, quantize, files, statistics])(draw, folder)
        except REFUSALS:
            pass
        except BaseException:
            os._exit(3)
        os._exit(0)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if code != 0:
        raise Finding(f"a child ended with {code}")


class Loop:
    """Garbage that makes a call of its own when it is collected."""

    def __init__(self, call):
        self.loop, self.call = self, call

    def __del__(self):
        try:
            self.call()
        except REFUSALS:
            pass


def threads(draw, folder):
    calls = [draw.choice([attention, cache, quantize, files, statistics]) for _ in range(3)]
    draws = [random.Random(draw.getrandbits(32)) for _ in calls]
    found = []

    def run(call, own):
        for _ in range(3):
            Loop(lambda: quantize(own, folder))
            try:
                call(own, folder)
            except REFUSALS:
                pass
            except BaseException as error:
                found.append(error)

    gc.set_threshold(20)
    workers = [threading.Thread(target=run, args=pair) for pair in zip(calls[1:], draws[1:])]
    for worker in workers:
        worker.start()
    run(calls[0], draws[0])
    for worker in workers:
        worker.join()
    gc.set_threshold(700)
    if found:
        raise found[0]


def main(seed, folder, calls=30):
    draw, folder = random.Random(int(seed)), pathlib.Path(folder)
    for number in range(int(calls)):
        call = draw.choice([attention] * 6 + [cache] * 4 + [quantize] * 4 + [statistics] * 2 + [files, fork, threads])
        try:
            call(draw, folder)
        except REFUSALS:
            pass
        except BaseException:
            print(f"python_calls: seed {seed}, call {number}, {call.__name__}", file=sys.stderr)
            traceback.print_exc()
            os._exit(3)


if __name__ == "__main__":
    main(*sys.argv[1:])
