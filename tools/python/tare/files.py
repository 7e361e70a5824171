# SPDX-License-Identifier: Apache-2.0
"""Opens what the command writes: statistics files and quantized checkpoints (HDF5), and folders of sweeps (JSON)."""
import collections.abc
import csv
import errno
import json
import os
import pathlib

from . import _tare
from .arguments import checked

STATISTICS = "tare.stats.file/2"
CHECKPOINTS = "tare.quantized/1", "tare.quantized/2", "tare.quantized/3", "tare.quantized/4", \
    "tare.quantized/5", "tare.quantized/6"
SWEEP = "tare.sweep/3"
OTHER_FOLDERS = {"attribution.json": "attribute", "search.json": "search"}  # by their result


class Missing(ValueError, KeyError):
    """What was asked for, and what there is."""

    __str__ = ValueError.__str__


class Measures(dict):
    """A site's datasets by name; asking for another one raises an error that lists them."""

    def __init__(self, site, arrays):
        super().__init__(arrays)
        self._site = site

    def __missing__(self, name):
        raise Missing(f"{name}: got no such dataset of {self._site}, expected one of {' '.join(self)}")

    def __reduce__(self):
        return Measures, (self._site, dict(self))


def _frame(columns):
    try:
        import pandas
    except ImportError:
        raise ValueError("DataFrames: got no pandas, expected it beside numpy; try installing "
                         "python3-pandas, or use the arrays themselves") from None
    return pandas.DataFrame(columns)


def _value(text):
    """The text as a number if it is one; None if it is empty."""
    try:
        return float(text) if text else None
    except ValueError:
        return text


class Named(collections.abc.Mapping):
    """What `_names()` lists, by name: for `in`, len() and loops."""

    def __contains__(self, name):
        return name in self._names()

    def __iter__(self):
        return iter(self._names())

    def __len__(self):
        return len(self._names())

    __hash__, __eq__ = object.__hash__, object.__eq__  # no look into the arrays


class Opened(Named):
    """A file: what is pickled is its path, and it is opened again."""

    def __repr__(self):
        return f"<tare.{type(self).__name__} {str(self._path)!r}: {' '.join(self)}>"

    def __reduce__(self):
        return type(self), (self._path,)


class Sites(Named):
    """The sites of a statistics file: `sites["attn_logits"]` is a site's datasets by name, numpy arrays of what the
    file held when it was opened; one row per layer, head and map. Each is checked against its SHA-256 on first
    use."""

    def __init__(self, file, prefix):
        self._file, self._prefix = file, prefix
        names = [name.removeprefix(prefix) for name in file.names() if name.startswith(prefix)]
        self.sites = sorted({name.split("/")[0] for name in names if name.count("/") == 1})

    def _names(self):
        return self.sites

    def __getitem__(self, site):
        """{dataset: array} of the site; R rows: layer, head, map, absmax, kurtosis [R], channel_absmax [R, C], ..."""
        if site not in self.sites:
            raise Missing(f"{site}: got no such site, expected one of {' '.join(self.sites)}")
        group = f"{self._prefix}{site}/"
        return Measures(site, {name.removeprefix(group): self._file.array(name) for name in self._file.names()
                               if name.startswith(group)})

    def frame(self, site):
        """The figures of a site as a DataFrame, one row per layer, head and map; -1, -1, 0: does not apply."""
        arrays = self[site]
        rows = len(arrays["layer"])
        figures = {name: values for name, values in arrays.items()
                   if values.shape == (rows,) and not name.startswith("histogram")}
        return _frame({"site": [site] * rows, **figures})


class StatisticsFile(Opened, Sites):
    """A statistics file (docs/reference/statistics-file.md) of all positions: `file["attn_logits"]`.
    `file.rest["attn_logits"]` is the same without the first `file.skip_first` positions of every sequence; if none are
    skipped it has no sites."""

    def __init__(self, path):
        self._path = path
        self._file = _tare.File(str(path))
        units = self._file.array("units")
        if not (units == 1).all():
            raise ValueError(f"{path}: got {int(units.sum())} of {len(units)} batches, expected all: it is a "
                             "shard, or an unfinished job; try "
                             "tare stats merge with all shards, or the same tare stats again")
        self.job = {key: self._file.text("", key) for key in self._file.text("", "job").split()}
        self.formats = [name for name in self._file.text("", "formats").split(",") if name]
        self.tokens = self._file.number("", "tokens")
        self.skip_first = self._file.number("", "skip_first")
        super().__init__(self._file, "")
        self.rest = Sites(self._file, "rest/")


class QuantizedCheckpoint(Opened):
    """A quantized checkpoint (docs/reference/quantized-checkpoint.md): `file[name]` is a tensor's values in float32;
    `quantized(name)` is its codes and scales. It takes as much memory as the file, and stays as it was when it was
    opened."""

    def __init__(self, path):
        self._path = path
        self._file = _tare.Checkpoint(str(path))
        self.provenance = self._file.provenance()
        self.matrices = self._file.matrices()
        self.tensors = self._file.tensors()

    def _names(self):
        return self.matrices + self.tensors

    def __getitem__(self, name):
        if name not in self:
            raise Missing(f"{name}: got no such tensor, expected one of {' '.join(self)}")
        return self._file.quantized(name).dequantize() if name in self.matrices else self._file.tensor(name)

    def quantized(self, name):
        return self._file.quantized(name)

    def frame(self):
        """One row per quantized matrix, as a pandas DataFrame: name, format, group, hadamard, out, in, bytes."""
        found = {name: self._file.quantized(name) for name in self.matrices}
        return _frame({"name": list(found), "format": [q.format for q in found.values()],
                       "group": [q.group for q in found.values()],
                       "hadamard": [q.hadamard for q in found.values()],
                       "out": [q.shape[0] for q in found.values()], "in": [q.shape[1] for q in found.values()],
                       "bytes": [q.nbytes for q in found.values()]})


class Sweep:
    """A folder that `tare sweep` or `compare` made: `cells` of table.json, and `rows`, one per cell and figure."""

    def __init__(self, path):
        self._folder = pathlib.Path(path)
        table = self._folder / "table.json"
        try:
            found = json.loads(table.read_text())
        except FileNotFoundError:
            for result, command in OTHER_FOLDERS.items():
                if (self._folder / result).exists():
                    raise ValueError(f"{path}: got the folder of tare {command}, expected that of tare sweep or "
                                     "compare; try "
                                     f"json.load(open({str(self._folder / result)!r}))") from None
            raise ValueError(f"{table}: got no such file, expected the folder of a finished sweep; try the same "
                             "tare sweep "
                             "again, which resumes where it stopped") from None
        except (ValueError, RecursionError) as error:
            raise ValueError(f"{table}: got no JSON ({error}), expected what tare sweep writes; try the same "
                             "tare sweep again") from None
        schema = found.get("schema") if isinstance(found, dict) else None
        if schema != SWEEP:
            raise ValueError(f"{table}: got schema {schema!r}, expected {SWEEP!r}; try the same tare sweep "
                             "again, which keeps the finished runs")
        self.cells = found.get("cells")
        if not isinstance(self.cells, list):
            raise ValueError(f"{table}: got no list of cells, expected what tare sweep writes; try the same tare sweep "
                             "again")

    @property
    def rows(self):
        """[{model, task, site, bits, plan, figure, value, stderr, ...}], as in table.csv; None: does not apply."""
        with (self._folder / "table.csv").open(newline="") as lines:
            return [{key: _value(text) for key, text in row.items()} for row in csv.DictReader(lines)]

    def frame(self):
        """The rows as a pandas DataFrame."""
        return _frame(self.rows)


@checked
def open(path: str | os.PathLike):
    """What the command wrote: a StatisticsFile, a QuantizedCheckpoint or a Sweep (of a folder). ValueError for a file
    of another schema."""
    if not pathlib.Path(path).exists():
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
    if pathlib.Path(path).is_dir():
        return Sweep(path)
    if pathlib.Path(path).suffix in (".json", ".jsonl"):
        raise ValueError(f"{path}: got a JSON file, expected HDF5 or the folder of a sweep; try "
                         f"json.load(open({str(path)!r}))")
    if pathlib.Path(path).suffix in (".npz", ".npy", ".safetensors"):
        raise ValueError(f"{path}: got arrays, expected HDF5 that tare wrote or the folder of a sweep; try "
                         f"{'safetensors.numpy.load_file' if str(path).endswith('rs') else 'numpy.load'}"
                         f"({str(path)!r}), or its statistics by tare.Statistics")
    schema = _tare.schema(str(path))
    if schema == STATISTICS:
        return StatisticsFile(path)
    if schema in CHECKPOINTS:
        return QuantizedCheckpoint(path)
    raise ValueError(f"{path}: got schema '{schema}', expected one of {STATISTICS} {' '.join(CHECKPOINTS)}; try "
                     "the version of Tare that "
                     "wrote it, or write it again with this one")
