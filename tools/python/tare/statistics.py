# SPDX-License-Identifier: Apache-2.0
"""Statistics of any model, collected while it runs."""
import json
import os
import pathlib
import tempfile

import numpy

from . import _tare
from .arguments import arranged, checked, layout_named
from .files import StatisticsFile
from .files import open as open_file

BY_HEADS = "q", "k", "v", "head_out"


def _array(x, where):
    """x as a numpy array, in f32 if numpy does not have its type."""
    if x is None:
        raise ValueError(f"{where}: got None, expected an array")
    if hasattr(x, "detach"):  # a PyTorch tensor
        x = x.detach().cpu()
        x = (x.float() if str(x.dtype) == "torch.bfloat16" else x).numpy()
    if not isinstance(x, numpy.ndarray):
        raise ValueError(f"{where}: got {type(x).__name__}, expected a numpy array or a PyTorch tensor; try "
                         "numpy.asarray(x)")
    return x


def _is_statistics(path):
    try:
        return isinstance(open_file(path), StatisticsFile)
    except ValueError:
        return False


def _first(x):
    return x[0] if isinstance(x, (tuple, list)) else x


class Statistics:
    """Collects arrays by site and layer into the statistics file that `tare stats --tensors` writes, byte for byte:

        with tare.Statistics("S.h5") as statistics:
            for i, layer in enumerate(model.model.layers):
                layer.register_forward_hook(statistics.hook("layer_out", i))
            for ids in batches:
                model(ids)

    The file is written when the block ends, and not at all if it ends with an exception; it replaces an earlier one
    of statistics, and no other file. Sites are those of plans,
    axes those of docs/reference/captured.md: [B,T,C], attention maps [B,H,T,S]; `layout` says those by heads. A
    batch ends when a site and layer come again; it is then added to the statistics, so memory holds the arrays of
    one batch only.

    name       name of the model, for tables; None: the file's name
    layout     of q, k, v and head_out, as of tare.attention; required there: no shape tells tokens from heads
    axes       {site: {"axes": "BTHD", "maps": "interleaved", ...}} in place of layout: both only where they agree
    sites, formats, calibrate  as in tare stats: "layer_out,attn_logits", "int8/row,int4/group64", "int8"
    skip_first positions that the second set of statistics, `rest`, leaves out; static scales use all positions
    """

    @checked
    def __init__(self, path: str | os.PathLike, *, name: str | None = None, layout: str | None = None,
                 axes: dict | None = None, sites: str = "", formats: str = "", calibrate: str = "",
                 skip_first: int = 1, threads: int = 0):
        self._layout = None if layout is None else layout_named(layout, "arrays by heads")
        self._path = pathlib.Path(path)
        self._options = {"name": name or self._path.stem, "sites": sites, "formats": formats, "calibrate": calibrate,
                         "skip_first": skip_first, "threads": threads}
        self._axes = axes
        for site in BY_HEADS if layout is not None else ():
            of_site = (axes or {}).get(site, {})
            given = of_site.get("axes", layout) if isinstance(of_site, dict) else layout  # the program refuses others
            if str(given).lower().replace("c", "d") != self._layout:
                raise ValueError(f"axes: got {given!r} for {site} and layout={layout!r}, expected the same, or one of "
                                 "the two; try without layout")
        self._stream = None

    def __enter__(self):
        if not self._path.parent.is_dir():
            raise ValueError(f"{self._path}: got no folder {self._path.parent}, expected one to write into")
        if self._path.exists() and not _is_statistics(self._path):
            raise ValueError(f"{self._path}: got a file that no statistics are in, expected none or an earlier one of "
                             "its own; try another name")
        with tempfile.TemporaryDirectory() as folder:
            axes = pathlib.Path(folder) / "axes.json"
            if self._axes is not None:
                axes.write_text(json.dumps(self._axes))
            try:
                self._stream = _tare.Stream(axes="" if self._axes is None else str(axes), **self._options)
            except ValueError as error:
                raise ValueError(str(error).replace(str(axes), "axes")) from None
        self._empty = True
        return self

    def __exit__(self, kind, *_):
        stream, self._stream = self._stream, None
        if kind is None:
            if self._empty:
                raise ValueError(f"{self._path}: got no arrays, expected some; try feed(site, layer, array)")
            stream.finish(str(self._path))

    @checked
    def feed(self, site: str, layer: int | None, array):
        """Adds a site's array for all sequences of a batch; layer is None for a site outside the layers. Also takes
        "input_ids" and "attention_mask" [B,T], which identify the run and exclude padding."""
        name = site if layer is None else f"{site}.{layer}"
        if self._stream is None:
            raise ValueError(f"{name}: got an array outside the block, expected `with "
                             "tare.Statistics(path) as s:` around it")
        array = _array(array, name)
        if site in BY_HEADS and "axes" not in (self._axes or {}).get(site, {}):
            array = arranged(array, name, layout_named(self._layout, site)).swapaxes(-3, -2)  # files: heads first
        self._stream.feed(name, numpy.ascontiguousarray(array))
        self._empty = False

    def hook(self, site, layer=None):
        """For register_forward_hook: feeds the module's output (the first of several)."""
        return lambda module, arguments, output: self.feed(site, layer, _first(output))

    def pre_hook(self, site, layer=None):
        """For register_forward_pre_hook: feeds the module's input (the first of several)."""
        return lambda module, arguments: self.feed(site, layer, _first(arguments))
