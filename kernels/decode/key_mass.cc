// SPDX-License-Identifier: Apache-2.0
#include "kernels/decode/key_mass.h"

#include <cmath>
#include <limits>

#include "kernels/decode/group_queries.h"
#include "quant/base/aligned.h"
#include "quant/base/error.h"
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
                  .q_high = planes_.data(),
                  .q_low = planes_.data() + rows_ * inputs_,
                  .logits = logits_.data(),
                  .panel = panel_.data()}) {
    queries_.Load();
  }

  void AddTo(std::span<float> mass, KeyMass of) {
    ForParts([&](const Part& part, int64_t page) {
      for (size_t i = 0; i < rows_; ++i) SoftmaxOfPage(Logits(part, page, i), softmax_[i], p_.data());
    });
    ForParts([&](const Part& part, int64_t page) {
      for (size_t i = 0; i < rows_; ++i) {
        RunningSoftmax last{softmax_[i].max, 0};
        float* p = p_.data() + i * kPageTokens;
        SoftmaxOfPage(Logits(part, page, i), last, p);
        const float sum = softmax_[i].sum;
        for (int key = 0; key < kPageTokens; ++key) p[key] = sum > 0 ? p[key] / sum : 0.0f;
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
  PageLogits Logits(const Part& part, int64_t page, size_t i) const {
    return queries_.Logits(part, page, static_cast<int64_t>(i));
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
    for (const DecodeHeads::Output& output : group_.outputs) {
      if (output.slice > 0) continue;
      for (int64_t t = 0; t < s_.q.tokens; ++t) {
        float weight = P(group_.products[output.product[0]].row, t, key);
        if (output.product[1] != kNoMap)
          weight -= s_.lambda.At(t, output.head) * P(group_.products[output.product[1]].row, t, key);
        sum += std::abs(weight);
      }
    }
    return sum;
  }

  const DecodeSequence& s_;
  const Group& group_;
  size_t rows_, inputs_;
  std::vector<PanelFactor> keys_ = std::vector<PanelFactor>(rows_);
  AlignedBuffer<float> q_{rows_ * inputs_}, logits_{rows_ * kPageTokens}, p_{rows_ * kPageTokens};
  AlignedBuffer<float> panel_{s_.cache->KeysBeforeRotary() ? inputs_ * kPageTokens : 0};
  AlignedBuffer<int8_t> planes_{2 * rows_ * inputs_};
  std::vector<RunningSoftmax> softmax_{rows_, {-std::numeric_limits<float>::infinity(), 0.0f}};
  GroupQueries queries_;
};

}  // namespace

void AddKeyMass(KeyMass of, const DecodeHeads& table, const DecodeSequence& s, std::span<std::vector<float>> mass) {
  TARE_CHECK(std::ssize(mass) == std::ssize(table.groups()) && s.cache->shape() == table.shape());
  ParallelFor(table.groups().size(), [&](size_t g, int) { GroupMass(table, s, table.groups()[g]).AddTo(mass[g], of); });
}

}  // namespace tare
