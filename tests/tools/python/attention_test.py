# SPDX-License-Identifier: Apache-2.0
"""tare.attention against its formula in double, on arrays of every kind, and what it refuses."""
import ctypes
import gc
import subprocess
import sys
import threading

import numpy as np
import tare
from support import Case

PLAN = "q=int8/token,k=int8/token,probs=u8/block64,v=int8/block64.channel"


def arrays(tokens, q_heads, kv_heads, d=16, v_heads=None, seed=0):
    draw = np.random.default_rng(seed)
    shapes = (tokens, q_heads, d), (tokens, kv_heads, d), (tokens, v_heads or kv_heads, d)
    return [draw.standard_normal(shape, dtype=np.float32) for shape in shapes]


def one_map(q, k, v, causal=True, window=0):
    """softmax(q k / sqrt(d)) v in double, of one head."""
    T, S = len(q), len(k)
    s = q.astype(float) @ k.astype(float).T / np.sqrt(q.shape[1])
    back = np.arange(T)[:, None] + S - T - np.arange(S)  # how far before the query
    seen = (back >= 0) & ((back < window) | (window == 0)) if causal else np.ones((T, S), bool)
    p = np.exp(np.where(seen, s, -np.inf) - s.max())
    return p / p.sum(1, keepdims=True) @ v


class Foreign:
    """An array in the memory of a device that is not the CPU, as DLPack says it; never read."""

    class Tensor(ctypes.Structure):
        _fields_ = [("data", ctypes.c_void_p), ("device", ctypes.c_int32 * 2), ("ndim", ctypes.c_int32),
                    ("code", ctypes.c_uint8),
                    ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16), ("shape", ctypes.POINTER(ctypes.c_int64)),
                    ("strides", ctypes.POINTER(ctypes.c_int64)), ("offset", ctypes.c_uint64),
                    ("context", ctypes.c_void_p),
                    ("deleter", ctypes.c_void_p)]

    def __init__(self):
        self.shape = (ctypes.c_int64 * 3)(4, 2, 16)
        self.tensor = Foreign.Tensor(data=64, device=(2, 0), ndim=3, code=2, bits=32, lanes=1, shape=self.shape)

    def __dlpack_device__(self):
        return (2, 0)

    def __dlpack__(self, **_):
        make = ctypes.pythonapi.PyCapsule_New
        make.restype, make.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        return make(ctypes.addressof(self.tensor), b"dltensor", None)


class Bfloat16(Foreign):
    """Values in bfloat16, by truncation, in CPU memory."""

    def __init__(self, values):
        self.bits = (values.view(np.uint32) >> 16).astype(np.uint16)
        self.shape = (ctypes.c_int64 * 3)(*values.shape)
        self.tensor = Foreign.Tensor(data=self.bits.ctypes.data, device=(1, 0), ndim=3, code=4, bits=16, lanes=1,
                                     shape=self.shape)

    def __dlpack_device__(self):
        return (1, 0)

    def floats(self):
        return (self.bits.astype(np.uint32) << 16).view(np.float32)


class AttentionTest(Case):
    def near(self, got, expected, most=1e-5):
        self.assertLess(np.abs(got - expected).max(), most)

    def test_standard_heads_and_masks(self):
        q, k, v = arrays(70, 4, 2)
        for mask in {}, {"causal": False}, {"window": 5}:
            out = tare.attention(q, k, v, threads=2, **mask)
            self.assertEqual((out.dtype, out.shape), (np.float32, (70, 4, 16)))
            for h in range(4):
                self.near(out[:, h], one_map(q[:, h], k[:, h // 2], v[:, h // 2], **mask))

    def test_fewer_queries_than_keys_see_what_is_before_them(self):
        q, k, v = arrays(70, 1, 1)
        self.near(tare.attention(q[-3:], k, v), tare.attention(q, k, v)[-3:])

    def test_families_of_differential_heads(self):
        q, k, v = arrays(40, 4, 4)
        p = lambda i, j, value: one_map(q[:, i], k[:, j], value)
        wide = np.concatenate([v[:, 0], v[:, 1]], axis=1)
        slices = np.concatenate([v[:, 0], v[:, 2]], axis=1)
        v1 = tare.attention(q, k, v[:, :2], heads="v1", lambda_=0.5)
        self.near(v1[:, 1], p(2, 2, v[:, 1]) - 0.5 * p(3, 3, v[:, 1]))
        v2 = tare.attention(q, k[:, :2], v[:, :2], heads="v2", lambda_=np.float32([0.5, 0.25]))
        self.near(v2[:, 1], p(2, 1, v[:, 1]) - 0.25 * p(3, 1, v[:, 1]))
        lambdas = np.linspace(0, 1, 80, dtype=np.float32).reshape(40, 2)
        diffllama = tare.attention(q, k, v, heads="diffllama", lambda_=lambdas)
        self.assertEqual(diffllama.shape, (40, 2, 32))
        self.near(diffllama[:, 0], p(0, 0, slices) - lambdas[:, :1] * p(2, 2, slices))
        table = tare.attention(q, k, v, heads=[(0, 1, (0, 1)), (3, 2, (0, 1), 1, 0)], lambda_=0.5)
        self.near(table[:, 0], p(0, 1, wide))
        self.near(table[:, 1], p(3, 2, wide) - 0.5 * p(1, 0, wide))

    def test_plans_run_in_integers_the_same_on_any_number_of_threads(self):
        q, k, v = arrays(200, 4, 4)
        exact, one = tare.attention(q, k, v), tare.attention(q, k, v, plan=PLAN, threads=1)
        error = np.linalg.norm(one - exact) / np.linalg.norm(exact)
        self.assertTrue(1e-4 < error < 0.03, error)
        self.assertTrue(np.array_equal(one, tare.attention(q, k, v, plan=PLAN, threads=3)))

    def test_strides_and_read_only_arrays_are_no_copies_and_no_matter(self):
        q, k, v = arrays(50, 2, 2)
        expected = tare.attention(q, k, v)
        turned = np.ascontiguousarray(q.transpose(1, 0, 2)).transpose(1, 0, 2)  # as a PyTorch [H, T, d] lies
        reversed_in_memory = np.ascontiguousarray(k[::-1])[::-1]
        v.flags.writeable = False
        self.assertTrue(np.array_equal(tare.attention(turned, reversed_in_memory, v), expected))

    def test_layouts_batches_strides_and_16_bits(self):
        q, k, v = ([np.stack(pair) for pair in zip(arrays(30, 4, 2), arrays(30, 4, 2, seed=1))])
        expected = np.stack([tare.attention(*one, plan=PLAN) for one in zip(q, k, v)])
        self.assertTrue(np.array_equal(tare.attention(q, k, v, plan=PLAN, layout="bthd"), expected))
        turned = [np.ascontiguousarray(x.transpose(0, 2, 1, 3)) for x in (q, k, v)]
        out = np.zeros((2, 4, 30, 16), np.float32)
        self.assertIs(tare.attention(*turned, plan=PLAN, layout="bhtd", out=out), out)
        self.assertTrue(np.array_equal(out.transpose(0, 2, 1, 3), expected))
        one = tare.attention(*[x[1] for x in turned], plan=PLAN, layout="htd")
        self.assertTrue(np.array_equal(one, out[1]))
        wide = np.zeros((2, 30, 2, 32), np.float32)
        wide[..., ::2] = v
        self.assertTrue(np.array_equal(tare.attention(q, k, wide[..., ::2], plan=PLAN, layout="bthd"), expected))
        halves = [x.astype(np.float16) for x in (q, k, v)]
        self.assertTrue(np.array_equal(
            tare.attention(*halves, layout="bthd"),
            tare.attention(*[x.astype(np.float32) for x in halves], layout="bthd")))
        lambdas = np.linspace(0, 1, 120, dtype=np.float32).reshape(2, 30, 2)
        both = tare.attention(q, np.repeat(k, 2, 2), np.repeat(v, 2, 2), heads="diffllama", lambda_=lambdas,
                              layout="bthd")
        self.assertTrue(np.array_equal(both[1], tare.attention(
            q[1], np.repeat(k[1], 2, 1), np.repeat(v[1], 2, 1), heads="diffllama", lambda_=lambdas[1])))

    def test_sixteen_bits_in_and_out(self):
        wide = [x.astype(np.float16).astype(np.float32) for x in arrays(40, 2, 2)]
        halves = [x.astype(np.float16) for x in wide]
        of_logits, of_values = PLAN.replace("int8/token", "int8/token+hadamard"), PLAN + "+hadamard"
        for plan in None, PLAN, PLAN.replace("int8/token", "int8/token+smooth"), of_logits, of_values:
            expected = tare.attention(*wide, plan=plan)
            self.assertTrue(np.array_equal(tare.attention(*halves, plan=plan), expected), plan)
            room = np.zeros((40, 2, 16), np.float16)
            if plan == of_values:
                self.refuses("attention out, +hadamard of v: got 16-bit floats", tare.attention, *halves, plan=plan,
                             out=room)
                continue
            self.assertIs(tare.attention(*halves, plan=plan, out=room), room)
            self.assertTrue(np.array_equal(room, expected.astype(np.float16)), plan)
        how = {"plan": "attn_logits=int4/row", "execution": "simulated"}
        self.assertTrue(np.array_equal(tare.attention(*halves, **how), tare.attention(*wide, **how)))
        brains = [Bfloat16(x) for x in wide]
        expected = tare.attention(*[x.floats() for x in brains], plan=PLAN)
        self.assertTrue(np.array_equal(tare.attention(*brains, plan=PLAN), expected))
        room = Bfloat16(np.zeros_like(expected))
        tare.attention(*brains, plan=PLAN, out=room)
        self.assertTrue((np.abs(room.floats() - expected) <= 2**-8 * np.abs(expected)).all())  # half a step
        self.assertGreater(np.abs(room.floats()).max(), 0)
        halves[1][7, 1, 5] = np.nan
        self.refuses("attention k: got nan at token 7, head 1, channel 5", tare.attention, *halves)

    def test_a_simulated_plan_is_rounded_as_it_says(self):
        q, k, v = arrays(40, 2, 2)
        out = tare.attention(q, k, v, plan="attn_logits=int4/row", execution="simulated")
        for h in range(2):
            s = q[:, h].astype(float) @ k[:, h].astype(float).T / 4
            s[np.triu_indices(40, 1)] = 0
            step = np.abs(s).max(1, keepdims=True) / 7
            p = np.tril(np.exp(np.rint(s / step) * step))
            self.near(out[:, h], p / p.sum(1, keepdims=True) @ v[:, h], 1e-5)
        simulated, executed = (tare.attention(q, k, v, plan=PLAN, execution=how) for how in ("simulated", "executed"))
        rounded = lambda x, axis: np.rint(x / np.abs(x).max(axis, keepdims=True) * 127) * np.abs(x).max(
            axis, keepdims=True) / 127
        for h in range(2):
            s = rounded(q[:, h].astype(float), 1) @ rounded(k[:, h].astype(float), 1).T / 4
            s[np.triu_indices(40, 1)] = -np.inf
            codes = np.rint(np.exp(s - s.max(1, keepdims=True)) * 255)
            self.near(simulated[:, h], codes / codes.sum(1, keepdims=True) @ rounded(v[:, h].astype(float), 0), 1e-5)
        plans = np.linalg.norm(simulated - tare.attention(q, k, v))
        self.assertLess(np.linalg.norm(simulated - executed), 0.2 * plans)  # single codes fall to a neighbour
        self.near(tare.attention(q, k, v, execution="simulated"), tare.attention(q, k, v))

    def test_ctrl_c_ends_a_call(self):
        script = """
import signal, threading, time, numpy as np, tare
x = np.ones((40000, 8, 64), np.float32)
def press():
    time.sleep(0.5)
    global pressed
    pressed = time.monotonic()
    signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
for plan in None, "attn_logits=int4/row":
    threading.Thread(target=press).start()
    try:
        tare.attention(x, x, x, plan=plan, execution="simulated", threads=1)
        print("no interrupt")
    except KeyboardInterrupt:
        print("late" if time.monotonic() - pressed > 5 else "heard")  # of a minute; 5: on a busy machine
print(tare.attention(x[:2], x[:2], x[:2]).shape, signal.getsignal(signal.SIGINT) is signal.default_int_handler)
"""
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=300)
        self.assertEqual((done.stdout, done.stderr), ("heard\nheard\n(2, 8, 64) True\n", ""))

    def test_out_is_written_where_it_lies(self):
        q, k, v = arrays(50, 2, 2)
        room = np.full((50, 3, 16), 7, np.float32)
        out = room[:, :2]
        self.assertIs(tare.attention(q, k, v, out=out), out)
        self.assertTrue(np.array_equal(room[:, :2], tare.attention(q, k, v)))
        self.assertTrue((room[:, 2] == 7).all())

    def test_threads_of_python_take_turns(self):
        q, k, v = arrays(300, 4, 4)
        expected, results = tare.attention(q, k, v, plan=PLAN), [None] * 6

        def work(i):
            results[i] = tare.attention(q, k, v, plan=PLAN, threads=1 + i % 3)

        threads = [threading.Thread(target=work, args=(i,)) for i in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for result in results:
            self.assertTrue(np.array_equal(result, expected))

    def test_nothing_is_kept_of_arrays_after_success_or_refusal(self):
        q, k, v = arrays(20, 2, 2)
        before = [sys.getrefcount(x) for x in (q, k, v)]
        lambda_ = np.ones(1, np.float32)
        out = tare.attention(q, k, v[:, :1], heads="v1", lambda_=lambda_)
        self.refuses("lambda_: got none", tare.attention, q, k, v[:, :1], heads="v1")
        gc.collect()
        self.assertEqual([sys.getrefcount(x) for x in (q, k, v)], before)
        self.assertEqual(sys.getrefcount(lambda_), 2)
        self.assertEqual(sys.getrefcount(out), 2)

    def test_wrong_arrays_are_named(self):
        q, k, v = arrays(20, 2, 2)
        self.refuses("q: got float64, expected float32, float16 or bfloat16", tare.attention, q.astype(float), k, v)
        self.refuses("q: got ndarray of >f4, expected an array of numbers", tare.attention, q.astype(">f4"), k, v)
        self.refuses("k: got int32, expected float32", tare.attention, q, k.astype(np.int32), v)
        self.refuses("out: got a stride of 2 in the last dimension", tare.attention, q, k, v,
                     out=np.zeros((20, 2, 32), np.float32)[:, :, ::2])
        self.refuses("q: got shape [2, 16], expected [tokens, heads, width] by layout='thd'; try x[None] wi",
                     tare.attention, q[0], k, v)
        self.refuses("q: got shape [1, 20, 2, 16], expected [tokens, heads, width] by layout='thd'; try layout='bthd' "
                     "for [batch, tokens, heads, width] or layout='bhtd' for [batch, heads, tokens, width]",
                     tare.attention, q[None], k, v)
        self.refuses("v: got shape [20, 2, 16], expected [batch, tokens, heads, width] by layout='bthd'; try layout='t",
                     tare.attention, q[None], k[None], v, layout="bthd")
        self.refuses("out: got float64, expected float32", tare.attention, q, k, v, out=np.zeros((20, 2, 16)))
        self.refuses("attention out, simulated: got 16-bit floats", tare.attention, q, k, v,
                     plan="attn_logits=int4/row", execution="simulated", out=np.zeros((20, 2, 16), np.float16))
        self.refuses("attention out: got memory that v lies in", tare.attention, q, k, v, out=v)
        self.refuses("layout: got 'bhdt' for q, k, v, expected one of thd htd bthd bhtd", tare.attention, q, k, v,
                     layout="bhdt")
        self.refuses("got batches of 2, 1 and 1 sequences", tare.attention, np.stack([q, q]), k[None], v[None],
                     layout="bthd")
        self.refuses("q: got list, expected an array", tare.attention, [1.0], k, v)
        self.refuses("q: got an array on device type 2, expected CPU memory (1)", tare.attention, Foreign(), k, v)
        self.refuses("got 20 tokens of k and 10 of v", tare.attention, q, k, v[:10])
        self.refuses("q of width 16 and k of width 8", tare.attention, q, np.ascontiguousarray(k[:, :, :8]), v)
        room = np.zeros(q.nbytes + 1, np.uint8)[1:].view(np.float32).reshape(q.shape)
        room[:] = q
        self.assertTrue(np.array_equal(tare.attention(room, k, v), tare.attention(q, k, v)))
        self.refuses("out: got values at an address", tare.attention, q, k, v, out=room)
        q[3, 1, 5] = np.nan
        self.refuses("got nan at token 3, head 1, channel 5", tare.attention, q, k, v, plan=PLAN)
        self.refuses("attention q: got nan at token 3, head 1, channel 5", tare.attention, q, k, v,
                     plan="attn_logits=int4/row", execution="simulated")
        for i, name in enumerate("qkv"):
            for value in np.nan, np.inf, -np.inf:
                given = arrays(8, 2, 2)
                given[0][7, 1, 3] = -1 if value == -np.inf else 1  # an infinite key's logit is not -infinity
                given[i][7, 1, 3] = value
                self.refuses(f"{name}: got {value} at token 7, head 1, channel 3", tare.attention, *given)

    def test_logits_beyond_the_exponential_are_refused(self):
        one = np.zeros((3, 1, 4), np.float32)
        one[:, 0, 0] = 1
        v = np.arange(12, dtype=np.float32).reshape(3, 1, 4)
        k = one * np.array([0, 1, 2**29], np.float32)[:, None, None]
        self.near(tare.attention(one, k, v, causal=False, scale=1.0), v[[2, 2, 2]])
        refused = "attention logits: got 2^30 or more in magnitude, or an overflow, of query"
        self.refuses(refused, tare.attention, one, 2 * k, v, scale=1.0)
        self.refuses(refused, tare.attention, -one, 2 * k[2:], v[2:], causal=False, scale=1.0)
        self.near(tare.attention(one, 2 * k, v, causal=False, scale=-1.0), v[[0, 0, 0]] + 4 * 0.119203)  # 0 is largest
        self.refuses(refused, tare.attention, one * np.float32(1e25), one * np.float32(1e25), v, scale=1e-30)
        self.near(tare.attention(one * 0, k, v, causal=False, scale=3e38), v.mean(0, keepdims=True)[[0, 0, 0]])
        self.refuses(refused, tare.attention, one, 3 * k, v, scale=1.0, plan=PLAN)
        self.near(tare.attention(one * np.float32(1e15), one, v, causal=False, scale=1e-15),
                  tare.attention(one, one, v, causal=False, scale=1.0))

    def test_broadcast_dimensions_are_not_cut_to_their_low_bits(self):
        x = np.ones((2, 1, 8), np.float32)
        wide = np.lib.stride_tricks.as_strided
        self.refuses("q: got 4294967297 heads of width 8, expected at most 65536 of 1024", tare.attention,
                     wide(x, (2, 2**32 + 1, 8), (32, 0, 4)), x, x)
        self.refuses("k: got 1 heads of width 4294967304, expected", tare.attention, x,
                     np.lib.stride_tricks.as_strided(x, (2, 1, 2**32 + 8), (0, 0, 4)), x)
        self.refuses("v: got 9223372036854775 tokens of 1 heads of width 8, expected at most", tare.attention, x, x,
                     wide(x, (9223372036854775, 1, 8), (0, 0, 4)))

    def test_a_layout_or_heads_that_fit_are_named_where_those_given_do_not(self):
        turned = lambda arrays: [x.transpose(1, 0, 2) for x in arrays]
        grouped, v1 = arrays(40, 8, 2), arrays(40, 8, 8, v_heads=4)
        self.refuses("causal: got 8 queries over 2 keys, so that the first see none, expected at most as many; try "
                     "causal=False, or layout='htd'", tare.attention, *turned(grouped))
        self.refuses("; try causal=False, or layout='bthd'", tare.attention, *[x[None] for x in grouped],
                     layout="bhtd")
        self.refuses("got 1 over 40 key/value heads, expected a multiple; try layout='thd'", tare.attention,
                     grouped[0][-1:], *grouped[1:], layout="htd")
        self.refuses("got 8 heads of k and 4 of v, expected 1 of k for each of v; try heads='v1'", tare.attention, *v1)
        self.refuses("got 8 tokens of k and 4 of v, expected the same; try layout='htd' and heads='v1'",
                     tare.attention, *turned(v1))
        self.refuses("expected 2 of k for each of v; try layout='htd'", tare.attention, *turned(v1), heads="v1",
                     lambda_=0.5)
        for q, *kv in (grouped[0], *turned(grouped[1:2]), grouped[2]), (grouped[0], *turned(grouped[1:])):
            with self.assertRaisesRegex(ValueError, "^(?!.*layout=)"):  # none is right
                tare.attention(q, *kv)

    def test_wrong_questions_are_named(self):
        q, k, v = arrays(20, 4, 4)
        self.refuses("heads: got 'v3', expected standard, v1, v2, diffllama", tare.attention, q, k, v, heads="v3")
        self.refuses("got 4 heads of k and 4 of v, expected 2 of k", tare.attention, q, k, v, heads="v1", lambda_=1)
        self.refuses("lambda_: got one, but these heads have no second map; try heads='v1'", tare.attention, q, k, v,
                     lambda_=0.5)
        self.refuses("got 20 tokens of k and 19 of v, expected the same", tare.attention, q, k, v[:19])
        self.refuses("row 0: got q1 9, expected 0 to 3", tare.attention, q, k, v, heads=[(9, 0, 0)])
        self.refuses("row 1: got 2 entries", tare.attention, q, k, v, heads=[(0, 0, 0), (1, 1)])
        self.refuses("heads: got an empty table", tare.attention, q, k, v, heads=[])
        self.refuses("heads: got int, expected a name or a table of heads", tare.attention, q, k, v, heads=3)
        self.refuses("lambda_: got none, expected the weight of the second map, which these heads have; try "
                     "lambda_=0.8",
                     tare.attention, q, k, v, heads="diffllama")
        self.refuses("lambda_: got shape [3], expected a number, [2] or [20, 2]", tare.attention, q, k, v,
                     heads="diffllama",
                     lambda_=np.ones(3, np.float32))
        self.refuses("lambda_: got float64, expected float32; try lambda_.astype('float32'), or lambda_.float()",
                     tare.attention, q, k, v, heads="diffllama", lambda_=np.ones(2))
        self.refuses("plan, column 3: got 'int7'", tare.attention, q, k, v, plan="q=int7/token")
        self.refuses("plan 'weights=int8/channel': got no rule for attention", tare.attention, q, k, v,
                     plan="weights=int8/channel")
        self.refuses("plan rule 'q=int8/token': got probs in f32", tare.attention, q, k, v,
                     plan="q=int8/token,k=int8/token")
        self.refuses("got q in f32 in layer 0, expected all four, as q=int8/token,k=int8/token,probs=u8/block64,",
                     tare.attention, q, k, v, plan="attn_logits=int4/row")
        self.refuses("execution: got 'exact', expected executed or simulated", tare.attention, q, k, v, plan=PLAN,
                     execution="exact")
        self.refuses("got 3 queries over 20 keys", tare.attention, q[:3], k, v, plan="q=int8/token",
                     execution="simulated")
        self.refuses("got no rule for attention, expected q, k, v", tare.attention, q, k, v,
                     plan="weights=int8/channel", execution="simulated")
        self.refuses("window: got 4 without causal", tare.attention, q, k, v, causal=False, window=4)
        self.refuses("threads: got -1", tare.attention, q, k, v, threads=-1)
        self.refuses("out: got shape [20, 3, 16], expected [20, 4, 16]", tare.attention, q, k, v,
                     out=np.empty((20, 3, 16), np.float32))
        sealed = np.empty((20, 4, 16), np.float32)
        sealed.flags.writeable = False
        self.refuses("out: got a read-only array", tare.attention, q, k, v, out=sealed)

    def test_what_a_table_raises_is_raised(self):
        class Row(tuple):
            def __getitem__(self, index):
                raise KeyError("mine")

        q, k, v = arrays(4, 1, 1)
        with self.assertRaises(KeyError):
            tare.attention(q, k, v, heads=[Row((0, 0, 0))])

    def test_a_child_forked_after_a_call_is_refused_and_does_not_hang(self):
        # In a process of its own, for this one has threads.
        script = """
import os, signal, numpy as np, tare
x = np.ones((300, 4, 16), np.float32)
def child(call):
    pid = os.fork()
    if pid == 0:
        signal.alarm(20)
        try:
            call()
            os._exit(0)
        except ValueError as error:
            os._exit(3 if "spawn" in str(error) else 4)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
call = lambda: tare.attention(x, x, x, threads=2)
before = child(call)
call()
print(before, child(call))
"""
        done = subprocess.run([sys.executable, "-W", "ignore", "-c", script], capture_output=True, text=True)
        self.assertEqual((done.stdout, done.stderr), ("0 3\n", ""))
