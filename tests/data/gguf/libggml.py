# SPDX-License-Identifier: Apache-2.0
"""libggml's own rounding, for the scripts that make files of this folder."""
import ctypes

import gguf
import numpy as np


def rounder(path):
    """The function (kind, x) -> bytes [rows, bytes of a row] of the library at this path; x: float32 [rows, columns]."""
    library = ctypes.CDLL(path)
    library.ggml_quantize_chunk.restype = ctypes.c_size_t

    def rounded(kind, x):
        out = np.zeros(gguf.quant_shape_to_byte_shape(x.shape, kind), np.uint8)
        library.ggml_quantize_chunk(int(kind), x.ctypes.data_as(ctypes.c_void_p), out.ctypes.data_as(ctypes.c_void_p),
                                    ctypes.c_int64(0), ctypes.c_int64(len(x)), ctypes.c_int64(x.shape[1]), None)
        return out

    return rounded
