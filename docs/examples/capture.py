# SPDX-License-Identifier: Apache-2.0
"""Captures activations of a Hugging Face model for `tare stats --tensors` (docs/reference/captured.md)."""
import contextlib
import itertools

import torch
from safetensors.torch import save_file


class Capture:
    """What the layers of a Hugging Face model give and o_proj and down_proj read, by the names of sites."""

    def __init__(self, model):
        self.arrays = {}
        for i, layer in enumerate(model.model.layers):
            layer.register_forward_hook(lambda m, a, out, i=i: self.keep(f"layer_out.{i}", out))
            layer.self_attn.o_proj.register_forward_pre_hook(lambda m, a, i=i: self.keep(f"o_proj.in.{i}", a))
            layer.mlp.down_proj.register_forward_pre_hook(lambda m, a, i=i: self.keep(f"down_proj.in.{i}", a))

    def keep(self, name, x):
        self.arrays[name] = (x if torch.is_tensor(x) else x[0]).detach().contiguous().clone()

    @contextlib.contextmanager
    def attention(self):
        """Keeps q, k, v (with rotary positions) and the output of each call of PyTorch's attention, one a layer."""
        layers, attend = itertools.count(), torch.nn.functional.scaled_dot_product_attention

        def kept(q, k, v, *args, **how):
            i, out = next(layers), attend(q, k, v, *args, **how)
            for site, x in (("q", q), ("k", k), ("v", v), ("head_out", out)):
                self.keep(f"{site}.{i}", x)
            return out

        torch.nn.functional.scaled_dot_product_attention = kept
        try:
            yield
        finally:
            torch.nn.functional.scaled_dot_product_attention = attend

    def save(self, path, **others):
        save_file({**self.arrays, **others}, path)
