// SPDX-License-Identifier: Apache-2.0
// One map's softmax, carried on by a page: from the products of a query with 64 keys to their exponentials against the
// largest logit so far. Logits are in octaves, log2(e) times nats; every step rounds alike on every instruction set.
//
//   s[i]  = products[i] (key_scales[i]) factor                      for begin <= i < end, the others are not seen
//   m'    = max(m, max s)
//   p[i]  = 2^(s[i] - m')                                           0 for what is not seen
//   l'    = l 2^(m - m') + sum p                                    in one order, whatever the vectors' width
#pragma once

namespace tare {

struct RunningSoftmax {
  float max = 0;  // m, octaves; of nothing seen -inf
  float sum = 0;  // l
};

struct PageLogits {
  const float* products = nullptr;    // [64], aligned to 64 bytes
  const float* key_scales = nullptr;  // [64], likewise; null: 1
  float factor = 1;
  int begin = 0, end = 0;  // keys seen, in 0 .. 64
};

// Writes p [64], aligned to 64 bytes. Returns 2^(m - m'), what the map's output so far is to be multiplied by.
float SoftmaxOfPage(const PageLogits& logits, RunningSoftmax& state, float* p);

// y[i] *= factor, n a multiple of 16, aligned to 64 bytes.
void Rescale(float* y, float factor, int n);

}  // namespace tare
