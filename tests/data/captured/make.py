# SPDX-License-Identifier: Apache-2.0
# Makes the .npz files beside it: python3 make.py (numpy 2; the bytes of a ZIP archive carry no time that matters).
import numpy as np

x = np.arange(24, dtype=np.float32).reshape(2, 3, 4) - 11.5
arrays = {
    "layer_out.0": x,
    "layer_out.1": (x / 3).astype(np.float16),
    "layer_out.2": (x / 3).astype(np.float64),
    "input_ids": np.arange(6).reshape(2, 3),
    "attention_mask": np.array([[1, 1, 1], [1, 1, 0]], dtype=bool),
}
np.savez("stored.npz", **arrays)
np.savez_compressed("deflated.npz", **arrays)
np.savez("columns_first.npz", **{"layer_out.0": np.asfortranarray(x)})
np.savez("objects.npz", **{"layer_out.0": np.array([{"a": 1}], dtype=object)})
np.savez("big_endian.npz", **{"layer_out.0": x.astype(">f4")})
np.savez("record.npz", **{"layer_out.0": np.zeros(2, dtype=[("a", "<f4"), ("b", "<f4")])})
