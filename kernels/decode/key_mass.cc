// SPDX-License-Identifier: Apache-2.0
// AddKeyMass of decode_attention.h.
#include "kernels/decode/decode_attention.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/attention/exponentials.h"
#include "kernels/decode/decode_work.h"
#include "quant/base/aligned.h"
#include "quant/base/message.h"
#include "quant/base/parallel.h"

namespace tare {
namespace {

using Group = DecodeHeads::Group;
using Part = KvCache::Part;

// One group: a pass over its keys for the softmaxes, and one for the probabilities.
class GroupMass {
 public:
  GroupMass(const DecodeHeads& table, const DecodeSequence& s, const Group& group)
      : s_(s),
        group_(group),
        rows_(static_cast<size_t>(std::ssize(group.rows) * s.q.tokens)),
        inputs_(static_cast<size_t>((table.shape().k_width + 15) / 16 * 16)),
        queries_(table, s, group,
                 {.keys = keys_.data(),
                  .q = q_.data(),
                  .q_factors = factors_.data(),
                  .logits = logits_.data(),
                  .panel = panel_.data()}) {
    queries_.Load();
    for (size_t i = 0; i < rows_ && !s.sinks.empty(); ++i) {
      const int q = group.rows[i / static_cast<size_t>(s.q.tokens)].q;
      softmax_[i] = {s.sinks[static_cast<size_t>(q)] * kLog2E, 1.0f};
    }
  }

  void AddTo(std::span<float> mass, KeyMass of) {
    ForParts([&](const Part& part, int64_t page) {
      for (size_t i = 0; i < rows_; ++i) {
        const SoftmaxSum part_sum = Exponentials(part, page, i);
        SoftmaxSum& all = softmax_[i];
        const float max = std::max(all.max, part_sum.max);
        all = {max, all.sum * RowExp2(all.max - max) + part_sum.sum * RowExp2(part_sum.max - max)};
      }
    });
    ForParts([&](const Part& part, int64_t page) {
      for (size_t i = 0; i < rows_; ++i) {
        const float below = Exponentials(part, page, i).max - softmax_[i].max;
        const float share = softmax_[i].sum > 0 ? RowExp2(below) / softmax_[i].sum : 0.0f;
        float* p = p_.data() + i * kPageTokens;
        for (int64_t key = part.keys.begin; key < part.keys.end; ++key) p[key] *= share;
      }
      for (int64_t key = part.keys.begin; key < part.keys.end; ++key)
        mass[static_cast<size_t>(page * kPageTokens + key)] += of == KeyMass::kMaps ? OfMaps(key) : OfDifference(key);
    });
  }

 private:
  template <typename Body>
  void ForParts(const Body& body) const {
    for (int64_t page = 0; page < s_.cache->Pages(); ++page) {
      for (const Part& part : s_.cache->Parts(page)) {
        if (part.keys.begin == part.keys.end) continue;
        queries_.Multiply(part, page);
        body(part, page);
      }
    }
  }
  // Row i's, of the part alone.
  SoftmaxSum Exponentials(const Part& part, int64_t page, size_t i) {
    return ExponentialsOfPart(queries_.Logits(part, page, static_cast<int64_t>(i)), p_.data() + i * kPageTokens);
  }
  float P(int row, int64_t query, int64_t key) const {
    return p_.data()[(row * s_.q.tokens + query) * kPageTokens + key];
  }

  float OfMaps(int64_t key) const {
    float sum = 0;
    for (size_t i = 0; i < rows_; ++i) sum += p_.data()[static_cast<int64_t>(i) * kPageTokens + key];
    return sum;
  }
  float OfDifference(int64_t key) const {
    float sum = 0;
    for (const DecodeHeads::Difference& difference : group_.differences) {
      for (int64_t t = 0; t < s_.q.tokens; ++t) {
        float weight = P(difference.row[0], t, key);
        if (difference.row[1] != kNoMap) weight -= s_.lambda.At(t, difference.head) * P(difference.row[1], t, key);
        sum += std::abs(weight);
      }
    }
    return sum;
  }

  const DecodeSequence& s_;
  const Group& group_;
  size_t rows_, inputs_;
  std::vector<PanelFactor> keys_ = std::vector<PanelFactor>(rows_);
  AlignedBuffer<float> q_{rows_ * inputs_}, factors_{rows_ * inputs_}, logits_{rows_ * kPageTokens},
      p_{rows_ * kPageTokens};
  AlignedBuffer<float> panel_{s_.cache->KeysBeforeRotary() ? inputs_ * kPageTokens : 0};
  std::vector<SoftmaxSum> softmax_{rows_, {-std::numeric_limits<float>::infinity(), 0.0f}};
  GroupQueries queries_;
};

}  // namespace

void AddKeyMass(KeyMass of, const DecodeHeads& table, const DecodeSequence& s, std::span<std::vector<float>> mass) {
  CheckSequence(table, 0, s);
  CheckEqual("key mass", "groups", std::ssize(mass), std::ssize(table.groups()));
  for (const std::vector<float>& group : mass) CheckRange("key mass", "tokens", std::ssize(group), s.cache->tokens());
  ParallelFor(table.groups().size(), [&](size_t g, int) { GroupMass(table, s, table.groups()[g]).AddTo(mass[g], of); });
}

}  // namespace tare
