// SPDX-License-Identifier: Apache-2.0
// Softmax maps over pages of 64 keys in two passes. The first keeps for each part of a page (kernels/cache/kv_cache.h)
//
//   s[i]  = products[i] (key_scales[i]) factor       octaves, log2(e) times nats; -inf for what is not seen
//   s[i]  = cap tanh(s[i] / cap)                     of what has a soft cap
//   m     = max s,   p[i] = 2^(s[i] - m),   l = sum p
//
// from which come the map's largest logit M = max m and its sum L = sum of l 2^(m - M) over its parts. Then a part's
// share of the map is 2^(m - M) / L, and the second pass takes a difference of two maps from both: no exponential is
// computed twice, and no part waits for another. Every step rounds alike on every instruction set.
#pragma once

#include <cstdint>

#include "kernels/attention/heads.h"

namespace tare {

struct PartLogits {
  const float* products = nullptr;    // [64], aligned to 64 bytes
  const float* key_scales = nullptr;  // [64], likewise; null: 1
  float factor = 1;
  float cap = 0;        // in octaves; 0: none
  KeyRange keys, seen;  // of the part, and those that the query sees, in 0 .. 64
};

// The largest logit of one part or several, -inf where no key is seen, and the sum of the exponentials.
struct SoftmaxSum {
  float max, sum;
};

// Writes p of the part's keys, aligned to 64 bytes, 0 where they are not seen; other keys stay as they were.
SoftmaxSum ExponentialsOfPart(const PartLogits& logits, float* p);

inline constexpr int64_t kMapsAtOnce = 16;

// M of 16 maps and 1 / L, of maps that see nothing 0. max, sum: of part i and map j at i * stride + j. A share,
// 2^(max - M) / L, takes the place of each sum.
void TotalsOfMaps(const float* max, float* sum, int64_t parts, int64_t stride, float* total_max, float* inverse);

// A map's p in a page, with its weight.
struct PageMap {
  const float* p = nullptr;  // [64], aligned to 64 bytes; null: no map
  float weight = 0;
};

// d [64], 64-aligned: first.weight first.p - second.weight second.p for the part's keys, else 0. Returns sum |d|.
float DifferenceOfPart(const PageMap& first, const PageMap& second, const KeyRange& keys, float* d);

}  // namespace tare
