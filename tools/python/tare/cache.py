# SPDX-License-Identifier: Apache-2.0
"""A key/value cache of few bits, and attention over it."""
from . import _tare
from .arguments import OF_ONE, arranged, checked, layout_named, plain
from .kernels import _readable


class Cache:
    """Keys and values of one sequence in one layer, rounded by a plan as they come, and attention of the newest tokens
    over all of them:

        cache = tare.Cache(8, 128, plan="cache_k=int4/token,cache_v=int4/token")
        cache.append(k, v)       # [tokens, heads, width], of a prompt or of the next token
        out = cache.decode(q)    # [T, q heads, width], of the last T tokens -> [T, output heads, width]

    heads, width      of keys, up to 65,536 and 1,024. v_heads, v_width: of values; None: as of keys.
    plan     rules for cache_k and cache_v, with first=, last= and skip= (docs/guides/kv-cache.md); without a rule keys
             or values stay in float32, as with None. Selectors of layers are read as in layer 0. A page
             of 64 tokens with one of first= or last= is in float32 as well, 8 bytes per key and value channel a token.
    layout   the axes of k, v, q and the result: "thd", as above, or "htd".
    threads  0: all. Results are bit-identical on any number.

    len(cache) is its tokens, `nbytes` the size of its pages, with those that forks share. Arrays are float32 in CPU
    memory, in any strides. The GIL is released; calls of several threads take turns; Ctrl-C ends a call. Raises
    ValueError for invalid rules, shapes and values, including NaN and infinities."""

    @checked
    def __init__(self, heads: int, width: int, *, v_heads: int | None = None, v_width: int | None = None,
                 plan: str | None = "cache_k=int4/token,cache_v=int4/token", layout: str = "thd", threads: int = 0):
        self._layout = layout_named(layout, "a cache", OF_ONE)
        self._scale = max(width, 1) ** -0.5
        self._heads = heads, width
        try:
            self._cache = _tare.Cache(heads, width, heads if v_heads is None else v_heads,
                                      width if v_width is None else v_width, plan or "", threads)
        except ValueError as error:  # keep= is of a model's run
            raise ValueError(str(error).replace("last, keep or skip", "last or skip")) from None

    def _of_kernels(self, x, name):
        return _readable(arranged(plain(x, name), name, self._layout, OF_ONE))

    def _in_layout(self, out):
        return out if self._layout == "thd" else out.transpose(1, 0, 2)

    def append(self, k, v):
        """Adds tokens: k [n, heads, width], v [n, v_heads, v_width]. Nothing is added of invalid ones; of those that
        Ctrl-C interrupts, perhaps some, by 64."""
        keys, values = self._of_kernels(k, "k"), self._of_kernels(v, "v")
        try:
            self._cache.append(keys, values)
        except ValueError as error:
            shape = tuple(getattr(keys, "shape", ()))
            turned = len(shape) == 3 and (shape[0], shape[2]) == self._heads != (shape[1], shape[2])
            other = "htd" if self._layout == "thd" else "thd"
            raise ValueError(f"{error}; try tare.Cache(..., layout='{other}')" if turned else str(error)) from None

    @checked
    def decode(self, q, *, heads="standard", lambda_=None, window: int = 0, scale: float | None = None):
        """Attention of the last T tokens, each over the keys up to its own: q [T, q heads, width] -> float32 [T, output
        heads, slices * v_width]. heads, lambda_, window and scale (above 0): as of tare.attention. Its result over what
        the cache holds, within 5e-4 (1 + the largest |logit|) of |P1 V| + |lambda P2 V|."""
        return self._in_layout(self._cache.decode(self._of_kernels(q, "q"), heads, lambda_, window,
                                                  self._scale if scale is None else scale))

    def fork(self) -> "Cache":
        """A copy, which shares memory with this one until either is written to."""
        copy = object.__new__(Cache)
        copy._cache, copy._scale = self._cache.fork(), self._scale
        copy._layout, copy._heads = self._layout, self._heads
        return copy

    def __len__(self) -> int:
        return self._cache.tokens()

    @property
    def nbytes(self) -> int:
        return self._cache.bytes()
