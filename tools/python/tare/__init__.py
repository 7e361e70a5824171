# SPDX-License-Identifier: Apache-2.0
"""Low-bit quantization of Differential Transformers: attention in few bits on arrays of any library, tensors to codes
and back, statistics of any model, and what the command `tare` writes as numpy arrays and tables."""
from ._tare import Quantized, __version__, attention, dequantize, quantize
from .files import open

__all__ = ["Quantized", "__version__", "attention", "dequantize", "open", "quantize"]
