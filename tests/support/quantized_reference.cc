// SPDX-License-Identifier: Apache-2.0
#include "tests/support/quantized_reference.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "kernels/attention/exponentials.h"
#include "kernels/attention/row_block.h"
#include "quant/base/message.h"
#include "quant/format/round.h"
#include "tests/support/fixed_exp2.h"

namespace tare {
namespace quantized_reference {
namespace {

constexpr float kPerOctave = 1.0f / kExpUnitsPerOctave;

struct CodedRow {
  std::vector<int16_t> codes;
  float scale = 0;
};

// least: what the scale is made of where it exceeds the values.
CodedRow Coded(const float* x, int width, const float* mean, Format format, float least) {
  std::vector<float> values(x, x + width);
  for (int i = 0; mean != nullptr && i < width; ++i) values[i] -= mean[i];
  const Scale scale = ScaleFor(std::max(AbsMax(values), least), format);
  CodedRow row{{}, scale.scale};
  for (const float value : values) row.codes.push_back(static_cast<int16_t>(CodeOf(value, scale.inv, format)));
  return row;
}

// A row's exponentials relative to each tile's maximum.
struct Exponentials {
  std::vector<int> exps;   // [tiles * 64]
  std::vector<float> max;  // [tiles]
  std::vector<int> sums;   // [tiles] of exps
};

struct Row {
  const AttentionPlan& plan;
  const AttentionProblem& problem;
  int64_t t;
  int head_index;
  const OutputHead& head = problem.heads[head_index];
  KeyRange keys = problem.Keys(t);
  int64_t tiles = CeilDiv(problem.k.tokens, kTile), block_tiles = plan.block / kTile;
  mutable std::map<int, float> v_absmax = {};  // by V head, of those with one scale

  QuantizedRow Run() {
    QuantizedRow row{std::vector<float>(problem.out.width), {}};
    if (keys.begin == keys.end) return row;
    if (plan.order == AttentionPlan::Order::kEarly)
      Early(row);
    else
      Late(row);
    for (int slice = 0; plan.v_mean != nullptr && slice < head.VSlices(); ++slice) {
      for (int i = 0; i < problem.v.width; ++i)
        row.out[slice * problem.v.width + i] += (1.0f - Lambda()) * plan.v_mean[head.v[slice] * problem.v.width + i];
    }
    return row;
  }

  float Lambda() const { return head.Differential() ? problem.lambda.At(t, head_index) : 0.0f; }

  Exponentials Scores(int q_head, int k_head) const {
    const float* q_mean = plan.q_mean == nullptr ? nullptr : plan.q_mean + q_head * problem.q.width;
    const float q_least = plan.q_absmax == nullptr ? 0.0f : plan.q_absmax[q_head * problem.q.tokens + t];
    CodedRow q = Coded(problem.q.Row(t, q_head), problem.q.width, q_mean, plan.q, q_least);
    if (q_mean != nullptr && q.scale < kMeanOnlyScale) q = {std::vector<int16_t>(problem.q.width), 1};
    const float factor =
        std::max(q.scale * (problem.scale * (kLog2E * kExpUnitsPerOctave)), std::numeric_limits<float>::min());
    Exponentials e{std::vector<int>(tiles * kTile), std::vector<float>(tiles, -std::numeric_limits<float>::infinity()),
                   std::vector<int>(tiles)};
    std::vector<float> z(tiles * kTile);
    for (int64_t s = keys.begin; s < keys.end; ++s) {
      const float* mean = plan.k_mean == nullptr ? nullptr : plan.k_mean + k_head * problem.k.width;
      const float least = plan.k_absmax == nullptr ? 0.0f : plan.k_absmax[k_head * problem.k.tokens + s];
      const CodedRow k = Coded(problem.k.Row(s, k_head), problem.k.width, mean, plan.k, least);
      int sum = 0;
      for (int i = 0; i < problem.q.width; ++i) sum += q.codes[i] * k.codes[i];
      z[s] = static_cast<float>(sum) * k.scale;
      float bias = 0;
      for (int i = 0; q_mean != nullptr && i < problem.q.width; ++i)
        bias = std::fma(q_mean[i], static_cast<float>(k.codes[i]), bias);
      if (q_mean != nullptr) z[s] = std::fma(bias * k.scale, 1.0f / q.scale, z[s]);
      if (const float cap = CapOfRow(problem.softcap, factor); problem.softcap > 0) z[s] = cap * std::tanh(z[s] / cap);
    }
    if (plan.logits != Format::kF32) {
      LookUp(z, factor, e);
      return e;
    }
    for (int64_t tile = 0; tile < tiles; ++tile) {
      const int64_t begin = std::max(keys.begin, tile * kTile), end = std::min(keys.end, (tile + 1) * kTile);
      if (begin >= end) continue;
      const float max = *std::max_element(z.begin() + begin, z.begin() + end);
      for (int64_t s = begin; s < end; ++s) {
        const double units =
            std::min(double{max - z[s]} * factor, static_cast<double>(kExpLargest));  // exact in double
        e.exps[s] = FixedExp2(static_cast<int>(std::nearbyint(units)));
        e.sums[tile] += e.exps[s];
      }
      e.max[tile] = max * factor;
    }
    return e;
  }

  // Quantized logits: score_stage.h's formulas.
  void LookUp(const std::vector<float>& z, float factor, Exponentials& e) const {
    const float qmax = static_cast<float>(Info(plan.logits).max_code);
    const float absmax = AbsMax({z.begin() + keys.begin, z.begin() + keys.end});
    const bool zero = absmax < kSmallestAbsmax;
    const float inv = zero ? 0.0f : qmax / absmax, step = zero ? 0.0f : absmax / qmax * factor;
    for (int64_t tile = 0; tile < tiles; ++tile) {
      const int64_t begin = std::max(keys.begin, tile * kTile), end = std::min(keys.end, (tile + 1) * kTile);
      std::vector<int> codes;
      for (int64_t s = begin; s < end; ++s) codes.push_back(static_cast<int>(std::nearbyint(double{inv} * z[s])));
      if (codes.empty()) continue;
      const int largest = *std::ranges::max_element(codes);
      for (int64_t s = begin; s < end; ++s) {
        const float units = static_cast<float>(largest - codes[s - begin]) * step;
        e.exps[s] = FixedExp2(static_cast<int>(std::min(std::nearbyint(units), static_cast<float>(kExpLargest))));
        e.sums[tile] += e.exps[s];
      }
      e.max[tile] = static_cast<float>(largest) * step;
    }
  }

  float SinkUnits(int q_head) const { return problem.Sink(q_head) * (kLog2E * kExpUnitsPerOctave); }

  // What 1 of an exponential is worth in the softmax, by tile.
  std::vector<float> Weights(const Exponentials& e, float sink, float lambda) const {
    const float largest = std::max(sink, *std::ranges::max_element(e.max));
    std::vector<float> w(tiles);
    float sum = 0;
    for (int64_t tile = 0; tile < tiles; ++tile) {
      w[tile] = RowExp2((e.max[tile] - largest) * kPerOctave);
      sum += w[tile] * static_cast<float>(e.sums[tile]);
    }
    sum += RowExp2((sink - largest) * kPerOctave) * static_cast<float>(kExpLargest);
    for (float& x : w) x *= lambda / sum;
    return w;
  }

  // V's codes of a block's column, and their scale.
  CodedRow Column(int v_head, int column, int64_t block) const {
    const auto values = [&](int64_t begin, int64_t end, int of_column) {
      std::vector<float> x;
      for (int64_t s = begin; s < std::min(end, problem.v.tokens); ++s)
        x.push_back(problem.v.Row(s, v_head)[of_column] -
                    (plan.v_mean == nullptr ? 0.0f : plan.v_mean[v_head * problem.v.width + of_column]));
      return x;
    };
    const std::vector<float> x = values(block * plan.block, (block + 1) * plan.block, column);
    float absmax = AbsMax(x);
    if (plan.v_scale == AttentionPlan::ValueScale::kSequence) absmax = AbsMax(values(0, problem.v.tokens, column));
    if (plan.v_scale == AttentionPlan::ValueScale::kHead) {
      const auto [of_head, is_new] = v_absmax.emplace(v_head, 0.0f);
      for (int i = 0; is_new && i < problem.v.width; ++i)
        of_head->second = std::max(of_head->second, AbsMax(values(0, problem.v.tokens, i)));
      absmax = of_head->second;
    }
    const Scale scale = ScaleFor(absmax, plan.v);
    CodedRow row{{}, scale.scale};
    for (const float value : x) row.codes.push_back(static_cast<int16_t>(CodeOf(value, scale.inv, plan.v)));
    return row;
  }

  // out += row_scale * v_scale * sum over the block's keys of codes * v; codes begin at the block's first key.
  void AddBlock(int64_t block, const std::vector<int>& codes, float row_scale, std::vector<float>& out) const {
    for (int slice = 0; slice < head.VSlices(); ++slice) {
      for (int i = 0; i < problem.v.width; ++i) {
        const CodedRow v = Column(head.v[slice], i, block);
        int sum = 0;
        for (size_t s = 0; s < v.codes.size(); ++s) sum += codes[s] * v.codes[s];
        out[slice * problem.v.width + i] += static_cast<float>(sum) * (v.scale * row_scale);
      }
    }
  }

  std::vector<int> Slice(const std::vector<int>& x, int64_t block) const {
    std::vector<int> part(plan.block);
    for (int64_t s = 0; s < plan.block && block * plan.block + s < tiles * kTile; ++s)
      part[s] = x[block * plan.block + s];
    return part;
  }

  int64_t Blocks() const { return CeilDiv(tiles, block_tiles); }

  // With a zero point, codes here are differences from it, which is all that the sum needs; that bytes stay 0 .. qmax
  // is for the kernel's tests.
  Scale StepOfDifference(int smallest, int largest) const {
    if (Info(plan.probs).min_code == 0)
      return ZeroPointScaleFor(static_cast<float>(smallest), static_cast<float>(largest), plan.probs).scale;
    return ScaleFor(static_cast<float>(std::max(largest, -smallest)), plan.probs);
  }

  void Early(QuantizedRow& row) const {
    const Exponentials first = Scores(head.q1, head.k1), second = Scores(head.q2, head.k2);
    const std::vector<float> w1 = Weights(first, SinkUnits(head.q1), 1.0f),
                             w2 = Weights(second, SinkUnits(head.q2), Lambda());
    row.codes.assign(tiles * kTile, 0);
    for (int64_t block = 0; block < Blocks(); ++block) {
      const int64_t begin = block * block_tiles, end = std::min(tiles, begin + block_tiles);
      float bound = 0;
      for (int64_t tile = begin; tile < end; ++tile)
        bound = std::max(bound, std::max(w2[tile], w1[tile] - std::min(w2[tile], 0.0f)));
      const float per_weight = bound >= kSmallestAbsmax ? static_cast<float>(kExpLargest) / bound : 0.0f;
      std::vector<int> difference(plan.block);
      int largest = 0, smallest = 0;
      for (int64_t s = begin * kTile; s < end * kTile; ++s) {
        const auto part = [&](const Exponentials& e, const std::vector<float>& w) {
          const int a = static_cast<int>(std::nearbyint(w[s / kTile] * per_weight));
          return (e.exps[s] * a + 16384) >> 15;
        };
        difference[s - begin * kTile] = part(first, w1) - part(second, w2);
        largest = std::max(largest, difference[s - begin * kTile]);
        smallest = std::min(smallest, difference[s - begin * kTile]);
      }
      const Scale step = StepOfDifference(smallest, largest);
      for (size_t i = 0; i < difference.size(); ++i) {
        difference[i] = static_cast<int>(std::nearbyint(double{step.inv} * difference[i]));
        if (begin * kTile + i < row.codes.size()) row.codes[begin * kTile + i] = difference[i];
      }
      AddBlock(block, difference, bound * (32768.0f / kExpLargest) * step.scale, row.out);
    }
  }

  void Late(QuantizedRow& row) const {
    for (int map = 0; map < head.Maps(); ++map) {
      const Exponentials e = map == 0 ? Scores(head.q1, head.k1) : Scores(head.q2, head.k2);
      std::vector<float> out(problem.out.width);
      float reference = -std::numeric_limits<float>::infinity(), norm = 0;
      std::vector<int> all(tiles * kTile);
      for (int64_t block = 0; block < Blocks(); ++block) {
        const int64_t begin = block * block_tiles, end = std::min(tiles, begin + block_tiles);
        const bool of_row = plan.prob_scale == AttentionPlan::ProbScale::kRow;
        const float largest =
            *std::max_element(e.max.begin() + (of_row ? 0 : begin), of_row ? e.max.end() : e.max.begin() + end);
        if (!(largest > -std::numeric_limits<float>::infinity())) continue;
        std::vector<int> codes = Slice(e.exps, block);
        int sum = 0;
        float before_rounding = 0;
        for (int64_t s = begin * kTile; s < end * kTile; ++s) {
          const float factor = RowExp2((e.max[s / kTile] - largest) * kPerOctave) * (plan.LargestProb() / kExpLargest);
          int& code = codes[s - begin * kTile];
          code = static_cast<int>(std::nearbyint(double{factor} * code));
          sum += code;
          all[s] = code;
          if (s % kTile == 0) before_rounding += factor * static_cast<float>(e.sums[s / kTile]);
        }
        if (largest - reference > 60.0f * kExpUnitsPerOctave) {
          const float shrink = RowExp2((reference - largest) * kPerOctave);
          norm *= shrink;
          for (float& x : out) x *= shrink;
          reference = largest;
        }
        const float scale = RowExp2((largest - reference) * kPerOctave);
        norm += scale * (plan.unnormalized ? before_rounding : static_cast<float>(sum));
        AddBlock(block, codes, scale, out);
      }
      row.codes.insert(row.codes.end(), all.begin(), all.end());
      // A code of qmax is worth 2^reference; the sink, beside it, 2^sink.
      const float above = (SinkUnits(head.Q(map)) - reference) * kPerOctave;
      const float codes = RowExp2(std::min(-above, 0.0f));
      const float total = norm * codes + RowExp2(std::min(above, 0.0f)) * plan.LargestProb();
      for (int i = 0; i < problem.out.width; ++i)
        row.out[i] = map == 0 ? out[i] * (codes / total) : row.out[i] - out[i] * (Lambda() * codes / total);
    }
  }
};

}  // namespace
}  // namespace quantized_reference

QuantizedRow QuantizedReferenceRow(const AttentionPlan& plan, const AttentionProblem& problem, int64_t t, int head) {
  CheckProblem(problem);
  CheckF32("quantized reference", problem);
  CheckPlan(plan, problem);
  CheckRange("quantized reference", "query", t, 0, problem.q.tokens - 1);
  CheckRange("quantized reference", "head", head, 0, problem.out.heads - 1);
  return quantized_reference::Row{plan, problem, t, head}.Run();
}

}  // namespace tare
