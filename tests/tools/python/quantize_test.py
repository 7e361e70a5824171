# SPDX-License-Identifier: Apache-2.0
"""tare.quantize and dequantize: the formula of quant/format/round.h, layouts and refusals."""
import gc
import sys

import numpy as np
import tare
from support import Case


class QuantizeTest(Case):
    def setUp(self):
        super().setUp()
        self.x = np.random.default_rng(0).standard_normal((6, 128), dtype=np.float32)

    def test_rotated_rows_are_rotated_back(self):
        plain, rotated = tare.quantize(self.x, "int8/channel"), tare.quantize(self.x, "int8/channel+hadamard64")
        self.assertEqual((plain.hadamard, rotated.hadamard), (None, 64))
        self.assertFalse(np.array_equal(rotated.codes, plain.codes))
        for made in plain, rotated:
            error = made.dequantize() - self.x
            self.assertLess(np.linalg.norm(error), 0.02 * np.linalg.norm(self.x))

    def test_the_formula(self):
        for rule, group, largest in ("int8/channel", 128, 127), ("int4/group64", 64, 7), (
                "linear_in=int8/token", 128, 127):
            groups = self.x.reshape(6, -1, group)
            absmax = np.abs(groups).max(-1, keepdims=True)
            codes = np.rint(groups * (np.float32(largest) / absmax)).clip(-largest, largest)
            expected = (codes * (absmax / np.float32(largest))).reshape(6, 128)
            quantized = tare.quantize(self.x, rule, threads=2)
            self.assertTrue(np.array_equal(tare.dequantize(quantized), expected), rule)
            self.assertTrue(np.array_equal(quantized.scales, absmax[..., 0] / np.float32(largest)), rule)
        whole = tare.quantize(self.x, "int8/tensor")
        self.assertEqual(len(np.unique(whole.scales)), 1)

    def test_gptq_loses_less_on_inputs_that_hang_together(self):
        random = np.random.default_rng(2)
        mix, own = random.standard_normal((8, 128), dtype=np.float32), random.standard_normal((512, 128))
        inputs = (random.standard_normal((512, 8), dtype=np.float32) @ mix + own).astype(np.float32)
        hessian = inputs.T @ inputs

        def error(made):
            return np.linalg.norm(inputs @ (made.dequantize() - self.x).T)

        for rule in "int4/group64", "int4/channel":
            gptq = tare.gptq(self.x, hessian, rule, threads=2)
            self.assertEqual((gptq.shape, gptq.format), ((6, 128), "int4"))
            self.assertLess(error(gptq), 0.8 * error(tare.quantize(self.x, rule)))
        plain = tare.gptq(self.x, np.eye(128, dtype=np.float32), "int4/group64")  # nothing to make up for
        self.assertTrue(np.array_equal(plain.codes, tare.quantize(self.x, "int4/group64").codes))
        self.refuses("hessian: got shape [64, 64], or gaps, expected row-major [128, 128]", tare.gptq, self.x,
                     hessian[:64, :64].copy(), "int4/group64")
        self.refuses("hessian", tare.gptq, self.x, -hessian, "int4/group64")
        for rule in "int4/tensor", "int4/group64+hadamard", "mxfp4":
            self.refuses("expected integers with a scale per channel or group", tare.gptq, self.x, hessian, rule)

    def test_linear_multiplies_codes(self):
        weight = tare.quantize(self.x, "int4/group64")
        x = np.random.default_rng(3).standard_normal((9, 128), dtype=np.float32)
        for activations, rule in ("int8", "int8/token"), ("int4", "int4/token"):
            linear = tare.Linear(weight, activations=activations, threads=2)
            exact = tare.quantize(x, rule).dequantize() @ weight.dequantize().T
            self.assertLess(np.abs(linear(x) - exact).max(), 1e-4)
            self.assertEqual(linear(x[:1]).shape, (1, 6))
            self.assertEqual(linear(x[:0]).shape, (0, 6))
        self.refuses("x: got shape [9, 64], or gaps, expected row-major [tokens, 128]", linear, x[:, :64].copy())
        self.refuses("x: got float64, expected float32", linear, x.astype(float))
        self.refuses("activations: got 'none'", tare.Linear, weight, activations="none")
        rotated = tare.quantize(self.x, "int4/group64+hadamard")
        self.refuses("expected integers in groups of a multiple of 16", tare.Linear, rotated)
        x[3, 5] = np.nan
        self.refuses("row 3", linear, x)

    def test_formats_of_activations_need_no_site(self):
        for rule, same in ("int4/token", "linear_in=int4/token"), ("int6/row", "int6/channel"), (
                "int8/block64", "int8/group64"):
            self.assertTrue(np.array_equal(tare.quantize(self.x, rule).dequantize(),
                                           tare.quantize(self.x, same).dequantize()), rule)
        shares = np.abs(self.x)
        for rule in "u8/row", "probs=u8/row":
            scale = shares.max(1, keepdims=True) / np.float32(255)
            codes = np.rint(shares * (np.float32(255) / shares.max(1, keepdims=True)))
            quantized = tare.quantize(shares, rule)
            self.assertTrue(np.array_equal(quantized.codes, codes.astype(np.uint8)), rule)
            self.assertTrue(np.array_equal(quantized.dequantize(), codes * scale), rule)
        four = tare.quantize(shares, "u4/block64")
        self.assertEqual((four.format, four.group, four.codes.shape), ("u4", 64, (6, 64)))
        self.refuses("got a value below 0 in row 0, expected none for unsigned codes", tare.quantize, self.x, "u8/row")
        self.refuses("difference=u8/row': got a zero point", tare.quantize, shares, "difference=u8/row")
        self.refuses("rule 'int4/nothing': got 'nothing', expected", tare.quantize, self.x, "int4/nothing")

    def test_codes_lie_as_in_files(self):
        quantized = tare.quantize(self.x, "int8/channel")
        self.assertTrue(np.array_equal(quantized.codes.view(np.int8), np.rint(self.x / quantized.scales)))
        four = tare.quantize(self.x, "int4/group64")
        self.assertEqual((four.codes.shape, four.codes.dtype), ((6, 64), np.uint8))
        low = (four.codes[0, :32] & 15).astype(np.float32) - 8
        self.assertTrue(np.array_equal(low * four.scales[0, 0], four.dequantize()[0, :32]))

    def test_shapes_types_and_names(self):
        deep = tare.quantize(self.x.reshape(2, 3, 128), "mxfp4")
        self.assertEqual((deep.shape, deep.format, deep.group, deep.nbytes), ((2, 3, 128), "mxfp4", 32, 6 * (64 + 4)))
        self.assertEqual(deep.dequantize().shape, (2, 3, 128))
        self.assertEqual(deep.scales.shape, (6, 4))
        self.assertIn("mxfp4 [2, 3, 128] groups of 32", repr(deep))
        half = self.x.astype(np.float16)
        self.assertTrue(np.array_equal(tare.quantize(half, "nf4/group64").dequantize(),
                                       tare.quantize(half.astype(np.float32), "nf4/group64").dequantize()))

    def test_views_keep_what_they_show(self):
        quantized = tare.quantize(self.x, "int8/channel")
        before = sys.getrefcount(quantized)
        codes = quantized.codes
        self.assertEqual(sys.getrefcount(quantized), before + 1)
        self.assertFalse(codes.flags.writeable)
        copy = codes.copy()
        del quantized
        gc.collect()
        self.assertTrue(np.array_equal(codes, copy))

    def test_refusals(self):
        self.refuses("expected row-major values", tare.quantize, self.x.T, "int8/channel")
        self.refuses("x: got float64, expected float32, float16 or bfloat16", tare.quantize, self.x.astype(float),
                     "int8/channel")
        self.refuses("x: got shape [0, 128]", tare.quantize, self.x[:0], "int8/channel")
        self.refuses("groups of 60 in rows of 128 weights, expected a divisor", tare.quantize, self.x, "int4/group60")
        self.refuses("x: got datetime64 of datetime64[s], expected an array of numbers", tare.quantize,
                     self.x.astype("M8[s]")[0, 0], "int8/channel")  # whose buffer has no strides
        self.refuses("got 'int5', expected one of", tare.quantize, self.x, "int5/channel")
        self.refuses("rule: got None, expected text", tare.quantize, self.x, None)
        self.refuses("x: got None, expected an array", tare.quantize, None, "int4/channel")
        self.refuses("x: got None, expected an array", tare.gptq, None, None, "int4/channel")
        self.refuses("damping: got None, expected a number", tare.gptq, self.x, None, "int4/channel", damping=None)
        self.refuses("weight: got None, expected a tare.Quantized", tare.Linear, None)
        self.refuses("codes: got None, expected a tare.Quantized", tare.dequantize, None)
        self.refuses("path: got None, expected text or a path", tare.open, None)
        self.refuses("command: got None, expected text", tare.run, None)
        self.refuses("expected one rule with a format", tare.quantize, self.x,
                     "weights=int8/channel,weights=int4/channel")
        self.refuses("expected one rule with a format", tare.quantize, self.x, "weights=f32")
        self.refuses("got one scale per head, expected scales along the last dimension", tare.quantize, self.x,
                     "q=int8/head")
        self.refuses("got +static, expected no option but +mse and +hadamard", tare.quantize, self.x,
                     "linear_in=int8/token+static")
        bad = self.x.copy()
        bad[4, 7] = np.inf
        self.refuses("weights, row 4: got inf at 7", tare.quantize, bad, "int8/channel")
