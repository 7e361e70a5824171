# SPDX-License-Identifier: Apache-2.0
"""Arguments of wrong types are named, and so is the sequence of a batch that has a wrong value."""
import numpy as np
import tare
from attention_test import PLAN, arrays
from support import Case


class ArgumentsTest(Case):
    def test_what_is_not_of_its_type_is_named(self):
        q, k, v = arrays(20, 4, 4)
        self.refuses("q: got NoneType, expected an array", tare.attention, None, k, v)
        self.refuses("k: got NoneType, expected a numpy array or a PyTorch tensor by layout='bhtd'", tare.attention,
                     q[None], None, v[None], layout="bhtd")
        self.refuses("heads: got neither a name nor a table", tare.attention, q, k, v, heads=None)
        for name, value, refusal in (("plan", 3, "got 3, expected text or None"),
                                     ("execution", None, "got None, expected text"),
                                     ("layout", 1, "got 1, expected text"),
                                     ("causal", 1, "got 1, expected True or False"),
                                     ("window", "a", "got str, expected a whole number below 2^31"),
                                     ("scale", "1", "got str, expected a number or None"),
                                     ("threads", 2**31, "got 2147483648, expected a whole number below 2^31")):
            self.refuses(f"{name}: {refusal}", tare.attention, q, k, v, **{name: value})
        numpys = tare.attention(q, k, v, window=np.int64(3), scale=np.float32(0.5), threads=np.int32(1))
        self.assertTrue(np.array_equal(numpys, tare.attention(q, k, v, window=3, scale=0.5)))

    def test_a_site_that_attention_lacks_is_one_of_its_arguments(self):
        q, k, v = arrays(20, 4, 4)
        self.refuses("got layer_out, expected a site of attention of q, k and v, which has none", tare.attention, q, k,
                     v, plan="layer_out=int8/token", execution="simulated")

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
