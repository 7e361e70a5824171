// SPDX-License-Identifier: Apache-2.0
// A group's queries (decode_heads.h) beside a sequence's cache: their products with the keys of a page, which are read
// once for all of them. Rows count times T, query within row.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/decode/decode_attention.h"
#include "kernels/decode/page_softmax.h"
#include "kernels/decode/panel_product.h"

namespace tare {

class GroupQueries {
 public:
  // Aligned to 64. inputs: of keys, up to a multiple of 16.
  struct Memory {
    PanelFactor* keys;       // [rows]
    float* q;                // [rows][inputs], then as planes
    int8_t *q_high, *q_low;  // [rows][inputs]
    float* logits;           // [rows][64]
    float* panel;            // [inputs][64], of keys before rotary; else not read
  };

  GroupQueries(const DecodeHeads& table, const DecodeSequence& s, const DecodeHeads::Group& group, const Memory& memory)
      : table_(table), s_(s), group_(group), x_(memory), inputs_((table.shape().k_width + 15) / 16 * 16) {}

  int64_t Rows() const { return std::ssize(group_.rows) * s_.q.tokens; }
  // Queries into memory, where Multiply finds them.
  void Load() const;
  // Their products with a part's keys.
  void Multiply(const KvCache::Part& part, int64_t page) const;
  // Row i's logits, of those of the part's keys that its query sees.
  PartLogits Logits(const KvCache::Part& part, int64_t page, int64_t i) const;

 private:
  void LoadPlanes(int64_t i, const float* weights) const;
  KeyRange Visible(const KvCache::Part& part, int64_t page, int64_t query) const;
  void WeighQueries(const KvCache::Part& part, int head, int run, std::span<PanelFactor> factors) const;
  void MultiplyTurned(const KvCache::Part& part, int64_t page, int head, std::span<const PanelFactor> factors) const;

  const DecodeHeads& table_;
  const DecodeSequence& s_;
  const DecodeHeads::Group& group_;
  Memory x_;
  int inputs_;
};

}  // namespace tare
