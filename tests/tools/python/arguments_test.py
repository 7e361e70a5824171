# SPDX-License-Identifier: Apache-2.0
"""Arguments of wrong types are named, and so is the sequence of a batch that has a wrong value."""
import numpy as np
import tare
from attention_test import PLAN, arrays
from support import Case


class ArgumentsTest(Case):
    def test_what_is_not_of_its_type_is_named(self):
        q, k, v = arrays(20, 4, 4)
        self.refuses("q: got None, expected an array", tare.attention, None, k, v)
        self.refuses("k: got None, expected an array", tare.attention, q[None], None, v[None], layout="bhtd")
        self.refuses("x: got None, expected an array", tare.quantize, None, "int4/group64")
        self.refuses("layer_out.0: got None, expected an array", tare.measures, None)
        self.refuses("heads: got NoneType, expected a name or a table of heads", tare.attention, q, k, v, heads=None)
        for name, value, refusal in (("plan", 3, "got 3, expected text or None"),
                                     ("execution", None, "got None, expected text"),
                                     ("layout", 1, "got 1, expected text"),
                                     ("causal", 1, "got 1, expected True or False"),
                                     ("window", "a", "got str, expected a whole number below 2^31"),
                                     ("scale", "1", "got str, expected a number or None"),
                                     ("threads", 2**31, "got 2147483648, expected a whole number below 2^31")):
            self.refuses(f"{name}: {refusal}", tare.attention, q, k, v, **{name: value})
        for causal in True, False:
            self.assertTrue(np.array_equal(tare.attention(q, k, v, causal=np.bool_(causal)),
                                           tare.attention(q, k, v, causal=causal)))
        numpys = tare.attention(q, k, v, window=np.int64(3), scale=np.float32(0.5), threads=np.int32(1))
        self.assertTrue(np.array_equal(numpys, tare.attention(q, k, v, window=3, scale=0.5)))

    def test_a_site_that_attention_lacks_is_one_of_its_arguments(self):
        q, k, v = arrays(20, 4, 4)
        self.refuses("got layer_out, expected a site of attention of q, k and v, which has none", tare.attention, q, k,
                     v, plan="q=int8/token,layer_out=int8/token", execution="simulated")

    def test_what_attention_lacks_is_refused_under_either_execution(self):
        q, k, v = arrays(20, 4, 4)
        for how in "executed", "simulated":
            def refused(text, plan, how=how):
                self.refuses(text, tare.attention, q, k, v, plan=plan, execution=how)

            for site in "k", "v":
                refused(f"plan rule 'cache_{site}=int4/token': got cache_{site}, expected q, k, v, attn_logits, probs, "
                        f"difference or head_out; try {site}=int4/token", f"{PLAN},cache_{site}=int4/token")
            refused("plan rule 'k=int8/tensor+static': got +static, expected scales of the arrays themselves",
                    "k=int8/tensor+static")
            refused("plan: got no rules, expected some; try plan=None for float32", " ")
            refused("got 'keep', expected one of q k v attn_logits probs difference head_out\n", "keep=h2o/64")
            refused("expected '/' and one of tensor head token", "k=int4")
            refused("; try k=int4/token\n", "k=int4")

    def test_the_sequence_of_a_batch_is_named(self):
        q, k, v = arrays(20, 2, 2)
        for i, name in enumerate("qkv"):
            batch = [np.stack([x, x, x]) for x in (q, k, v)]
            batch[i][2, 4, 1, 3] = np.nan
            for options in {}, {"plan": PLAN}, {"plan": "attn_logits=int4/row", "execution": "simulated"}:
                self.refuses(f"sequence 2: attention {name}: got nan at token 4, head 1, channel 3", tare.attention,
                             *batch, layout="bthd", **options)

    def test_letters_are_those_of_files_too(self):
        q, k, v = arrays(20, 2, 2)
        for layout in "THC", "THD", "thc":
            self.assertTrue(np.array_equal(tare.attention(q, k, v, layout=layout), tare.attention(q, k, v)))
