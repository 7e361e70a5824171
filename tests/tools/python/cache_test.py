# SPDX-License-Identifier: Apache-2.0
"""tare.Cache against attention in double over keys and values that numpy rounds, and what it refuses."""
import subprocess
import sys

import numpy as np
import tare
from attention_test import arrays, one_map
from support import Case

BOUND = 5e-4  # of decoding beside codes, times 1 + the largest |logit|, of the outputs' magnitudes: decode_attention.h


def rounded(x, largest):
    """Codes of -largest to largest, one scale per token and head, as values."""
    scale = np.abs(x).max(-1, keepdims=True) / np.float32(largest)
    return np.rint(x / scale) * scale


class CacheTest(Case):
    def near(self, got, expected, logits=5):
        self.assertEqual((got.dtype, got.shape), (np.float32, expected.shape))
        self.assertLess(np.abs(got - expected).max(), BOUND * (1 + logits) * np.linalg.norm(expected, axis=-1).max())

    def test_tokens_that_come_in_parts_are_attended_to_as_rounded(self):
        q, k, v = arrays(150, 4, 2)
        sizes = []
        for plan, of_k, of_v in (None, k, v), ("cache_k=int4/token,cache_v=int8/token", rounded(k, 7), rounded(v, 127)):
            cache = tare.Cache(2, 16, plan=plan, threads=2)
            for begin, end in (0, 100), (100, 101), (101, 150):
                cache.append(k[begin:end], v[begin:end])
            self.assertEqual(len(cache), 150)
            sizes.append(cache.nbytes)
            for mask in {}, {"window": 5}:
                out = cache.decode(q[-3:], **mask)
                for h in range(4):
                    self.near(out[:, h], one_map(q[-3:, h], of_k[:, h // 2], of_v[:, h // 2], **mask))
        self.assertLess(sizes[1], sizes[0] / 3)
        self.assertEqual(cache.decode(q[:0]).shape, (0, 4, 16))
        self.assertTrue(np.array_equal(tare.Cache(2, 16, plan="").nbytes, tare.Cache(2, 16, plan=None).nbytes))
        heads_first = tare.Cache(2, 16, plan=plan, layout="htd")
        heads_first.append(k.transpose(1, 0, 2), v.transpose(1, 0, 2))
        turned = heads_first.fork().decode(q[-3:].transpose(1, 0, 2))
        self.assertTrue(np.array_equal(turned.transpose(1, 0, 2), cache.decode(q[-3:])))
        turned = np.ascontiguousarray(q[-3:].transpose(1, 0, 2)).transpose(1, 0, 2)
        self.assertTrue(np.array_equal(cache.decode(turned[:, :, ::-1][:, :, ::-1]), cache.decode(q[-3:])))
        self.assertFalse(np.array_equal(cache.decode(q[-3:], scale=1.0), cache.decode(q[-3:])))

    def test_differential_heads(self):
        q, k, _ = arrays(90, 4, 4)
        wide = np.random.default_rng(2).standard_normal((90, 2, 32), dtype=np.float32)
        cache = tare.Cache(4, 16, v_heads=2, v_width=32)
        cache.append(k, wide)
        lambdas = np.float32([0.5, 0.25])
        out = cache.decode(q[-2:], heads="v1", lambda_=lambdas)
        p = lambda i, h: one_map(q[-2:, i], rounded(k, 7)[:, i], rounded(wide, 7)[:, h])
        for h in range(2):
            self.near(out[:, h], p(2 * h, h) - lambdas[h] * p(2 * h + 1, h))
        self.refuses("lambda_: got none, expected the weight of the second map", cache.decode, q[-2:], heads="v1")
        table = cache.decode(q[-2:], heads=[(0, 0, 0), (3, 3, 1)])
        self.near(table[:, 1], p(3, 1))

    def test_a_fork_goes_its_own_way(self):
        q, k, v = arrays(40, 2, 2)
        cache = tare.Cache(2, 16)
        cache.append(k[:30], v[:30])
        before = cache.decode(q[29:30])
        fork = cache.fork()
        fork.append(k[30:], v[30:])
        self.assertEqual((len(cache), len(fork)), (30, 40))
        self.assertTrue(np.array_equal(cache.decode(q[29:30]), before))
        whole = tare.Cache(2, 16)
        whole.append(k, v)
        self.assertTrue(np.array_equal(fork.decode(q[-5:]), whole.decode(q[-5:])))

    def test_refusals(self):
        q, k, v = arrays(10, 2, 2)
        self.refuses("expected cache_k, cache_v, first, last or skip;", tare.Cache, 2, 16, plan="q=int8/token")
        self.refuses("got keep, expected all keys", tare.Cache, 2, 16, plan="cache_k=int4/token,keep=h2o/64")
        self.refuses("keys before rotary: got no rotary", tare.Cache, 2, 16, plan="cache_k=int4/token+prerotary")
        self.refuses("heads", tare.Cache, 0, 16)
        self.refuses("heads: got None, expected a whole number below 2^31", tare.Cache, None, 16)
        self.refuses("plan: got 3, expected text or None", tare.Cache, 2, 16, plan=3)
        self.refuses("layout: got 'bthd' for a cache, expected one of thd htd: a cache takes one sequence",
                     tare.Cache, 2, 16, layout="bthd")
        cache = tare.Cache(2, 16)
        self.refuses("q: got 1 queries over 0 tokens, expected those of the last tokens", cache.decode, q[:1])
        self.refuses("k: got 3 tokens of 1 heads of width 16, expected 3 of 2 of width 16", cache.append, k[:3, :1],
                     v[:3])
        turned = [x.transpose(1, 0, 2) for x in (k, v)]
        self.refuses("expected 2 of 2 of width 16; try tare.Cache(..., layout='htd')", cache.append, *turned)
        self.refuses("; try tare.Cache(..., layout='thd')", tare.Cache(2, 16, layout="htd").append, k, v)
        self.refuses("v: got 2 tokens", cache.append, k[:3], v[:2])
        self.refuses("k: got float64, expected float32", cache.append, k.astype(float), v)
        self.refuses("k: got shape [2, 16], expected [tokens, heads, width] by layout='thd'; try x[None] with",
                     cache.append, k[0], v[0])
        self.refuses("k: got shape [1, 10, 2, 16], expected [tokens, heads, width] by layout='thd'; try one sequence,",
                     cache.append, k[None], v)
        self.refuses("v: got None, expected an array", cache.append, k, None)
        self.refuses("window: got None, expected a whole number", cache.decode, q, window=None)
        bad = v.copy()
        bad[7, 1, 3] = np.nan
        self.refuses("v: token 7, head 1: got NaN or infinity", cache.append, k, bad)
        self.assertEqual(len(cache), 0)
        cache.append(k, v)
        self.refuses("expected 1 of 2 of width 16", cache.decode, q[:1, :, :8])
        self.refuses("got 3 over 2 key/value heads, expected a multiple", cache.decode, np.ones((1, 3, 16), np.float32))
        self.refuses("lambda_: got shape [3]", cache.decode, q[:1], heads=[(0, 0, 0, 1, 1)],
                     lambda_=np.ones(3, np.float32))
        self.refuses("lambda_: got one, but these heads have no second map", cache.decode, q[:1], lambda_=0.5)
        self.refuses("scale: got -1", cache.decode, q[:1], scale=-1.0)
        self.refuses("window: got -1", cache.decode, q[:1], window=-1)
        self.refuses("threads: got -1", tare.Cache(2, 16, threads=-1).append, k, v)

    def test_ctrl_c_ends_a_call(self):
        script = """
import signal, threading, time, numpy as np, tare
one = np.ones((1, 8, 64), np.float32)
cache = tare.Cache(8, 64, plan="cache_k=int2/token,cache_v=int2/token", threads=1)
def press():
    time.sleep(0.3)
    global pressed
    pressed = time.monotonic()
    signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
def many(tokens):
    return np.broadcast_to(one, (tokens, 8, 64))
for call in lambda: cache.append(many(1 << 19), many(1 << 19)), lambda: cache.decode(many(4096)):
    threading.Thread(target=press).start()
    try:
        call()
        print("no interrupt")
    except KeyboardInterrupt:
        print("late" if time.monotonic() - pressed > 5 else "heard")
    if len(cache) < 100000:
        cache.append(many(100000), many(100000))
print(len(cache) % 64 in (0, 100000 % 64), cache.decode(one).shape)
"""
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=300)
        self.assertEqual((done.stdout, done.stderr), ("heard\nheard\nTrue (1, 8, 64)\n", ""))
