// SPDX-License-Identifier: Apache-2.0
// The input of a case of `tare bench decode`: one query per sequence, and seeded normal keys and values, made in parts
// from a pool of numbers, so that it needs no memory besides the cache.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/cache/kv_cache.h"
#include "kernels/decode/decode_heads.h"

namespace tare {

struct DecodeShape {
  std::string family = "v1";  // standard v1 v2
  int64_t n = 16384;          // keys per sequence
  int d = 128;                // head width of q and k, and of v; in v1, v is twice as wide
  int heads = 8;              // output heads
  int kv_heads = 0;           // a divisor of heads; 0: the same number
  int batch = 1;              // sequences

  friend bool operator==(const DecodeShape&, const DecodeShape&) = default;
};

class DecodeInputs {
 public:
  // Throws Error for an unknown family, sizes below 1, and heads that kv_heads does not divide.
  DecodeInputs(const DecodeShape& shape, uint64_t seed);

  const DecodeHeads& table() const { return table_; }
  const std::vector<OutputHead>& heads() const { return heads_; }
  const float* lambda() const { return &lambda_; }
  HeadsView<const float> Query(int sequence) const;

  KvCache Cache(const CacheRules& rules, int sequence) const;

  // All keys and values of a sequence, dense: k [n][k heads][d], v [n][v heads][width].
  struct Dense {
    std::vector<float> k, v;
  };
  Dense AllTokens(int sequence) const;

  // One output head of a sequence, computed in double from unquantized values: [width of the output].
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
