// SPDX-License-Identifier: Apache-2.0
// The input of a case of `tare bench decode`: seeded normal keys and values, made in parts from a pool of numbers, so
// that the cache is all the memory it needs; and one query per sequence.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/cache/kv_cache.h"
#include "kernels/decode/decode_heads.h"

namespace tare {

struct DecodeShape {
  std::string family = "v1";  // standard v1 v2
  int64_t n = 16384;          // keys of a sequence
  int d = 128;                // width of a head of q and k; of v too, but twice that in v1
  int heads = 8;              // of the output
  int kv_heads = 0;           // a divisor of heads, 0: as many
  int batch = 1;              // sequences
};

class DecodeInputs {
 public:
  // Throws Error for another name of a family, sizes below 1, and heads that kv_heads do not divide.
  DecodeInputs(const DecodeShape& shape, uint64_t seed);

  const DecodeHeads& table() const { return table_; }
  const std::vector<OutputHead>& heads() const { return heads_; }
  const float* lambda() const { return &lambda_; }
  HeadsView<const float> Query(int sequence) const;

  KvCache Cache(const CacheRules& rules, int sequence) const;

  // All of a sequence, dense: k [n][k heads][d], v [n][v heads][width].
  struct Dense {
    std::vector<float> k, v;
  };
  Dense AllTokens(int sequence) const;

  // In double and before any code, one output head of a sequence: [width of the output].
  std::vector<double> Exact(int sequence, int head) const;

 private:
  struct Tokens {
    HeadsView<const float> k, v;
  };
  Tokens Part(int sequence, int64_t part) const;

  DecodeShape shape_;
  std::vector<OutputHead> heads_;
  DecodeHeads table_;
  float lambda_ = 0.5f;
  std::vector<float> pool_;
};

}  // namespace tare
