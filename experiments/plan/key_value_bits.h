// SPDX-License-Identifier: Apache-2.0
// What a plan's keys and values take, in bits per value, as a cache in its formats would hold them: codes, and what
// values share. f32 counts as the 16 bits of f16, and so does every scale, minimum and length that is f32 in a
// simulation, as caches of the literature hold them: rounding a scale to f16 moves a value by at most 2^-11 of it.
//
//   scale            16 bits, of MX and NVFP4 8; +zero as many bits as a code; +min and +mean 16
//   +outliers<p>     32 bits for each: its value and its place
//   +sketch          1 bit a channel, and 16 for the row's length
//   cache_k, cache_v scales, minima and zero points of 32 bits each, of group<N> and block<N>.channel 16, per channel
//                    one for a page of 64 tokens, as Tare's caches hold them; the page that is still in f32 counts
//                    nothing
//
// Where a cache has a rule, it decides, whatever a rule for `k` or `v` says. A scale per channel of `k` or `v`, head or
// tensor is shared by a whole text and counts nothing; +keep and the policies of caches count nothing either.
#pragma once

#include <optional>

#include <nlohmann/json_fwd.hpp>

#include "experiments/plan/model_sites.h"
#include "quant/plan/plan.h"

namespace tare {

// Bits of a code of this rule: of weights as files store it, of others those of an index into the format's values.
int CodeBits(const Rule& rule);

struct KeyValueBits {
  double keys = 16, values = 16;  // per value, the mean over layers and heads
};

// caches: the plan's rules for caches and those given beside it. Empty without a rule for keys or values, and where the
// width of heads is not known.
std::optional<KeyValueBits> KeyValueBitsOf(const Plan& plan, const Plan& caches, const ModelSites& model);

// {"key_bits", "value_bits"}; {} of none.
nlohmann::ordered_json ToJson(const std::optional<KeyValueBits>& bits);

}  // namespace tare
