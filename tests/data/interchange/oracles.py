# SPDX-License-Identifier: Apache-2.0
"""Functions of the tools' own sources, taken out of files whose other imports are not needed here. SOURCES holds
checkouts: compressed-tensors-0.12 and compressed-tensors-0.18 (52792be and ac8e2ba of vllm-project/compressed-tensors),
gptqmodel (ModelCloud/GPTQModel f4c327a), auto-round (intel/auto-round b9f3d00), autoawq (casper-hansen/AutoAWQ
88e4c76), bitsandbytes (bitsandbytes-foundation/bitsandbytes 95f9af3)."""
import ast
import math
import os
import types
from concurrent.futures import ThreadPoolExecutor
from typing import Literal, Optional, Union

import numpy as np
import torch
import transformers
from torch import nn

SOURCES = os.environ["SOURCES"]


def take(path, names, **more):
    """A namespace with the functions, classes and constants of those names."""
    with open(os.path.join(SOURCES, path), encoding="utf-8") as file:
        tree = ast.parse(file.read())
    wanted = []
    for node in ast.walk(tree):
        name = getattr(node, "name", None)
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            name = node.targets[0].id
        if name in names:
            if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
                node.decorator_list = [d for d in node.decorator_list if ast.unparse(d) in ("staticmethod", "classmethod")]
            wanted.append(node)
    found = {getattr(n, "name", None) or n.targets[0].id for n in wanted}
    assert found == set(names), (path, set(names) - found)
    future = ast.parse("from __future__ import annotations").body
    space = dict(torch=torch, t=torch, np=np, nn=nn, math=math, os=os, transformers=transformers, Literal=Literal,
                 ceil=math.ceil, Optional=Optional, Union=Union, ThreadPoolExecutor=ThreadPoolExecutor, **more)
    exec(compile(ast.Module(future + wanted, []), path, "exec"), space)
    return types.SimpleNamespace(**{name: space[name] for name in names}), space


class Strategy:
    BLOCK, GROUP, TENSOR_GROUP = "block", "group", "tensor_group"


_old, _ = take("compressed-tensors-0.12/src/compressed_tensors/compressors/quantized_compressors/pack_quantized.py",
               ["pack_to_int32", "unpack_from_int32"])
_new, _ = take("compressed-tensors-0.18/src/compressed_tensors/compressors/pack_quantized/helpers.py",
               ["pack_to_int32", "unpack_from_int32"])
PACKING = {"0.12.2": _old, "0.18.0": _new}
fp4, _ = take("compressed-tensors-0.18/src/compressed_tensors/compressors/nvfp4/helpers.py",
              ["pack_fp4_to_uint8", "unpack_fp4_from_uint8", "kE2M1ToFloat"],
              ImplBackend=None)
mx, _ = take("compressed-tensors-0.18/src/compressed_tensors/compressors/mx_utils.py", ["decompress_mx_scale"])
_pad, _ = take("compressed-tensors-0.18/src/compressed_tensors/quantization/utils/helpers.py",
               ["maybe_pad_tensor_for_block_quant", "calculate_block_padding"])
ct, _ = take("compressed-tensors-0.18/src/compressed_tensors/quantization/lifecycle/forward_helpers.py",
             ["_apply_quantize_op", "_process_block", "_process_group", "_dequantize"], QuantizationStrategy=Strategy,
             maybe_pad_tensor_for_block_quant=_pad.maybe_pad_tensor_for_block_quant)


def ct_dequantize(codes, scale, zero=None, strategy="channel", group_size=None, block_structure=None, g_idx=None,
                  global_scale=None):
    """compressed-tensors' own, by the strategy of the configuration, with scales in f32."""
    args = types.SimpleNamespace(strategy=strategy, group_size=group_size, block_structure=block_structure)
    common = (codes, scale.float(), zero, args)
    limits = (None, None, torch.float32, False, True)
    if strategy == "block":
        return ct._process_block(*common, *limits, global_scale)
    if strategy in ("group", "tensor_group"):
        return ct._process_group(*common, *limits, g_idx, global_scale)
    return ct._apply_quantize_op(codes, scale.float(), zero, None, None, args, torch.float32, False, True, global_scale)


class _Log:
    def __getattr__(self, _):
        return self

    def __call__(self, *_, **__):
        pass


class _NoConv:
    pass


_pack, _ = take("gptqmodel/gptqmodel/nn_modules/qlinear/__init__.py", ["pack_block"], _ConvNd=_NoConv,
                env_flag=lambda name: name == "GPTQMODEL_DISABLE_PACK_EXT", log=_Log())
gptqmodel, _space = take("gptqmodel/gptqmodel/utils/model_dequant.py",
                         ["unpack_rows", "unpack_cols", "pack_cols", "_unpack_cols_3bit", "_unpack_rows_3bit",
                          "_pack_cols_3bit", "_require_int32_words_for_3bit", "_shift_gptq_qzeros",
                          "_correct_gptq_v1_qzeros", "_revert_gptq_v1_qzeros_correction"], PLANAR_BITS=(5, 6, 7))
_convert, _ = take("gptqmodel/gptqmodel/utils/model.py",
                   ["convert_gptq_v1_to_v2_format_module", "convert_gptq_v2_to_v1_format_module"],
                   BaseQuantLinear=object, log=_Log(), **{k: _space[k] for k in ("_correct_gptq_v1_qzeros",
                                                                                "_revert_gptq_v1_qzeros_correction")})


class Gptq(nn.Module):
    """As much of GPTQModel's layer as its own functions use."""

    def __init__(self, bits):
        super().__init__()
        self.bits, self.maxq, self.planar = bits, 2**bits - 1, False
        self.pack_dtype, self.pack_dtype_bits, self.bias = torch.int32, 32, None
        self.pack_np_math_dtype, self.pack_np_dtype = np.uint32, np.int32

    def qzero_format(self, format=None):
        pass

    def pack(self, weight, scales, zeros, g_idx):
        layer = nn.Linear(weight.shape[1], weight.shape[0], bias=False)
        layer.weight.data = weight
        _pack.pack_block(self, layer, scales, zeros, g_idx)

    def store_less_one(self):
        _convert.convert_gptq_v2_to_v1_format_module(self, self)

    def load_less_one(self):
        _convert.convert_gptq_v1_to_v2_format_module(self, self.bits, torch.int32)

    def dequantized(self):
        codes = gptqmodel.unpack_rows(self.qweight, self.bits).float()
        zeros = gptqmodel.unpack_cols(self.qzeros, self.bits).float()
        g = self.g_idx.long()
        return ((codes - zeros[g]) * self.scales.float()[g]).T.contiguous()


_wf, _ = take("auto-round/auto_round_extension/torch/qlinear_torch.py",
              ["get_wf_3bits_tensor", "_DEVICE_WF_3BITS_TENSORS", "_wf_3bits"])


def _auto_round(path):
    module, _ = take(path, ["QuantLinear"], get_packing_device=lambda device: "cpu",
                     get_wf_3bits_tensor=_wf.get_wf_3bits_tensor)
    return module.QuantLinear


AUTO_ROUND = {"auto_round": _auto_round("auto-round/auto_round_extension/torch/qlinear_torch.py"),
              "auto_round:auto_gptq": _auto_round("auto-round/auto_round_extension/torch/qlinear_torch_zp.py")}


def auto_round_dequantized(layer):
    """What the layer's own product makes of the identity, scales in f32: sums of one value and zeros."""
    layer.scales = layer.scales.float()
    layer.device = "cpu"
    return layer(torch.eye(layer.infeatures)).T.contiguous()


awq_packing, _awq_space = take("autoawq/awq/utils/packing_utils.py",
                               ["AWQ_ORDER", "AWQ_REVERSE_ORDER", "unpack_awq", "reverse_awq_order", "dequantize_gemm"])
awq, _ = take("autoawq/awq/modules/linear/gemm.py", ["WQLinear_GEMM"], get_best_device=lambda: "cpu")
auto_round_awq, _ = take("auto-round/auto_round/export/export_to_awq/utils.py", ["WQLinear_GEMM"],
                         get_packing_device=lambda device: "cpu", get_best_device=lambda: "cpu")

mlx, _ = take("auto-round/auto_round/export/export_to_mlx/export.py", ["_pack_weight_mlx"])
bnb, _ = take("bitsandbytes/bitsandbytes/backends/default/ops.py",
              ["_dequantize_blockwise_compute", "_dequantize_4bit_compute"], prod=math.prod)
bnb_tables, _ = take("bitsandbytes/bitsandbytes/backends/utils.py", ["_NF4_QUANT_TABLE", "_FP4_QUANT_TABLE"])
bnb_maps, _ = take("bitsandbytes/bitsandbytes/functional.py", ["create_dynamic_map"])
