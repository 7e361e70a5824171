# SPDX-License-Identifier: Apache-2.0
"""Low-bit quantization of Differential Transformers: low-bit attention on arrays of any library, tensors to codes and
back, statistics of any model, and the files of the command `tare` as numpy arrays and tables."""
from ._tare import Quantized
from ._tare import version as __version__  # stubs leave out what begins with _
from .cache import Cache
from .files import open
from .kernels import Linear, attention, dequantize, gptq, measures, quantize

TYPE_CHECKING = False  # a type checker takes it for True, as typing's
if TYPE_CHECKING:
    from .program import run
    from .statistics import Statistics


def __getattr__(name):
    if name == "Statistics":  # imported on first use: numpy takes a tenth of a second, subprocess less
        from .statistics import Statistics
        return Statistics
    if name == "run":
        from .program import run
        return run
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__():
    return __all__


__all__ = ["Cache", "Linear", "Quantized", "Statistics", "__version__", "attention", "dequantize", "gptq", "measures",
           "open", "quantize", "run"]
