// SPDX-License-Identifier: Apache-2.0
#include "experiments/bench/attention_inputs.h"

#include <algorithm>
#include <iterator>
#include <random>

#include "experiments/plan/resolved_plan.h"
#include "experiments/plan/simulated/simulated_quantizer.h"
#include "kernels/attention/float/fused_attention.h"
#include "quant/base/integers.h"
#include "quant/base/message.h"
#include "quant/base/parallel.h"
#include "quant/format/round.h"

namespace tare {
namespace {

constexpr int64_t kMostRows = 256;

// Query row t alone, as a problem with the keys that it sees.
AttentionProblem OneRow(const AttentionProblem& p, int64_t t, float* out) {
  AttentionProblem one = PartOf(p, {t, t + 1}, p.Keys(t));
  one.mask.kind = Mask::Kind::kFull;
  one.out.data = out;
  return one;
}

// ---- Codes of the baselines in int8

// 255 softmax of a query's logits over the keys that it sees.
std::vector<double> Probabilities(const int8_t* q, const StaticTensor& k, int head, KeyRange keys, double scale) {
  std::vector<double> row;
  for (int64_t s = keys.begin; s < keys.end; ++s) {
    int dot = 0;
    for (int i = 0; i < k.x.width; ++i) dot += q[i] * k.Row(s, head)[i];
    row.push_back(dot * scale);
  }
  const double largest = *std::ranges::max_element(row);
  double sum = 0;
  for (double& x : row) sum += x = std::exp(x - largest);
  for (double& x : row) x *= 255 / sum;
  return row;
}

struct Bounded {
  double value = 0, bound = 0;
};

// sum_s round(probs[s]) v[s], with the codes of v `stride` apart. A f32 softmax is right to the share 2^-15 (logits
// below 64 with two roundings of 2^-24, the exponential's) and 2^-24 per term of its sum: nearer to a tie, either code.
Bounded TimesV(const std::vector<double>& probs, const int8_t* v, int64_t stride) {
  const double error = 0x1p-15 + static_cast<double>(probs.size()) * 0x1p-24;
  Bounded sum;
  for (size_t s = 0; s < probs.size(); ++s) {
    const double p = probs[s], code = v[static_cast<int64_t>(s) * stride];
    sum.value += std::nearbyint(p) * code;
    if (std::abs(p - std::floor(p) - 0.5) <= p * error) sum.bound += std::abs(code);
  }
  return sum;
}

}  // namespace

FamilyHeads::FamilyHeads(const char* where, const std::string& family, int heads, int kv_heads, int d)
    : v(kv_heads == 0 ? heads : kv_heads) {
  const bool standard = family == "standard", v1 = family == "v1";
  if (!standard && !v1 && family != "v2") Fail("{}, family: got '{}', expected standard, v1 or v2", where, family);
  if (v < 1 || heads % v != 0) Fail("{}: got {} key/value heads, expected a divisor of {} heads", where, v, heads);
  table = standard ? StandardHeads(heads, v) : v1 ? V1Heads(heads, v) : V2Heads(heads, v);
  q = standard ? heads : 2 * heads, k = v1 ? 2 * v : v, v_width = v1 ? 2 * d : d;
}

AttentionInputs::AttentionInputs(const AttentionCase& c) : lambda_(c.lambda) {
  if (c.captured != nullptr) {
    problem_ = PartOf(*c.captured, {0, c.n}, {0, c.n});
  } else {
    Make(c);
  }
  const int heads = static_cast<int>(problem_.heads.size()),
            width = problem_.heads.front().VSlices() * problem_.v.width;
  out_.Reset(static_cast<size_t>(c.n) * heads * width);
  std::fill_n(out_.data(), out_.size(), 0.0f);
  problem_.out = DenseHeads(out_.data(), c.n, heads, width);
}

void AttentionInputs::Make(const AttentionCase& c) {
  if (c.mask != "causal" && c.mask != "full") Fail("bench attention, mask: got '{}', expected causal or full", c.mask);
  const Mask mask{c.mask == "full" ? Mask::Kind::kFull : Mask::Kind::kCausal};
  const int64_t keys = c.keys == 0 ? c.n : c.keys;
  if (c.n < 1 || c.d < 1 || c.heads < 1)
    Fail("bench attention: got n {}, d {}, heads {}; expected at least 1 of each", c.n, c.d, c.heads);
  const FamilyHeads of("bench attention", c.family, c.heads, c.kv_heads, c.d);
  if (keys < 1 || (mask.kind != Mask::Kind::kFull && keys < c.n))
    Fail(
        "bench attention: got {} keys for {} queries, expected at least as many under a causal mask, and one under a "
        "full",
        keys, c.n);
  heads_ = of.table;
  std::mt19937_64 random(c.seed);
  std::normal_distribution<float> normal;
  const auto fill = [&](std::vector<float>& x, int64_t tokens, int count, int size) {
    x.resize(static_cast<size_t>(tokens) * count * size);
    for (float& value : x) value = normal(random);
    return DenseHeads<const float>(x.data(), tokens, count, size);
  };
  problem_ = {.q = fill(q_, c.n, of.q, c.d),
              .k = fill(k_, keys, of.k, c.d),
              .v = fill(v_, keys, of.v, of.v_width),
              .heads = heads_,
              .lambda = {&lambda_, 0, 0},
              .mask = mask,
              .scale = 1.0f / std::sqrt(static_cast<float>(c.d))};
  Shape(c.data);
}

void AttentionInputs::Shape(const std::string& data) {
  if (data != "gaussian" && data != "sink" && data != "vbias" && data != "diffuse")
    Fail("bench attention, data: got '{}', expected gaussian, sink, vbias or diffuse", data);
  const int d = problem_.q.width;
  const auto width = static_cast<size_t>(d);
  if (data == "diffuse") {
    for (float& x : q_) x *= 0.1f;
  } else if (data != "gaussian") {
    // Queries share 0.5 in every channel, key 0 has 16 / sqrt(d): d * 0.5 * 16 / d = 8 nats, without outliers.
    for (float& x : q_) x += 0.5f;
    for (size_t i = 0; i < problem_.k.heads * width; ++i) k_[i] += 16.0f / std::sqrt(static_cast<float>(d));
  }
  if (data == "vbias") {
    for (float& x : v_) x += 2.0f;
  }
}

double AttentionInputs::LeastOperations() const {
  const double of_pair = 2.0 * problem_.q.width * problem_.heads.front().Maps() + 2.0 * problem_.out.width;
  return of_pair * static_cast<double>(CountPairs(problem_));
}

AttentionInputs::Errors AttentionInputs::ErrorsOfOut() const {
  const int64_t n = problem_.q.tokens, step = CeilDiv(n, kMostRows);
  const int width = problem_.out.width;
  std::vector<float> unused(static_cast<size_t>(problem_.out.heads) * width);
  for (int64_t t = want_.empty() ? step - 1 : n; t < n; t += step) {
    const AttentionProblem one = OneRow(problem_, t, unused.data());
    std::ranges::copy(ReferenceAttentionDouble(one), std::back_inserter(want_));
    std::ranges::copy(ReferenceMagnitudes(one), std::back_inserter(magnitudes_));
  }
  OutputSums all;
  double worst = 0;
  const double* want = want_.data();
  for (int64_t t = step - 1, head = 0; t < n; t += step) {
    for (int h = 0; h < problem_.out.heads; ++h, want += width) {
      OutputSums row;
      for (int i = 0; i < width; ++i) {
        row.Add(problem_.out.Row(t, h)[i], want[i]);
        all.Add(problem_.out.Row(t, h)[i], want[i]);
      }
      worst = std::max(worst, std::sqrt(row.error) / std::max(std::sqrt(row.want), 0.01 * magnitudes_[head++]));
    }
  }
  return {all.Relative(), worst, all.product / std::sqrt(all.got * all.want)};
}

AttentionInputs::Errors FloorErrors(const AttentionInputs& inputs, const std::string& plan) {
  AttentionProblem p = inputs.problem();
  ModelSites layer{.family = "one layer", .layers = 1, .maps = 2, .tied_head = false, .heads = {}, .weights = {}};
  for (const Site site : kAttentionSites) layer.heads[site].resize(static_cast<size_t>(p.q.heads));
  const ResolvedPlan resolved(Plan::Parse(plan), layer, Carrying::kSimulated);
  SimulatedQuantizer quantizer(resolved);
  const auto coded = [&](HeadsView<const float>& x, Site site) {
    std::vector<float> values(x.data, x.data + x.tokens * x.token_stride);
    for (int head = 0; head < x.heads; ++head) {
      const SiteBlock block{.site = site,
                            .layer = 0,
                            .head = head,
                            .rows = x.tokens,
                            .first_columns = x.width,
                            .values = values.data() + head * x.head_stride,
                            .stride = x.token_stride};
      if (resolved.NeedsSurvey(site)) quantizer.Survey(block, 0);
      quantizer.Visit(block, 0);
    }
    x.data = values.data();
    return values;
  };
  const std::vector<float> q = coded(p.q, Site::kQ), k = coded(p.k, Site::kK), v = coded(p.v, Site::kV);
  AlignedBuffer<std::byte> workspace(FusedWorkspaceBytes(p));
  FusedAttention(p, workspace.span());
  return inputs.ErrorsOfOut();
}

StaticTensor::StaticTensor(HeadsView<const float> dense)
    : x(dense), codes(static_cast<size_t>(x.tokens) * x.heads * x.width) {
  const auto [least, most] = std::minmax_element(x.data, x.data + codes.size());
  scale = ScaleFor(std::max(-*least, *most), Format::kInt8).scale;
}

void StaticTensor::Write(int zero) {
  const size_t row = static_cast<size_t>(x.heads) * x.width;
  ParallelFor(static_cast<size_t>(x.tokens), [&](size_t t, int) {
    for (size_t i = t * row; i < (t + 1) * row; ++i)
      codes[i] = static_cast<int8_t>(CodeOf(x.data[i], 1 / scale, Format::kInt8) + zero);
  });
}

void CheckStaticAttention(const AttentionProblem& p, const char* what, float out_scale, int64_t rows) {
  StaticTensor q(p.q), k(p.k), v(p.v);
  for (StaticTensor* x : {&q, &k, &v}) x->Write();
  const double logit = double{p.scale} * q.scale * k.scale, unit = double{v.scale} / 255;
  const int64_t step = CeilDiv(p.q.tokens, rows);
  for (int64_t t = step - 1; t < p.q.tokens; t += step) {
    const KeyRange keys = p.Keys(t);
    for (int h = 0; h < p.out.heads; ++h) {
      const OutputHead& head = p.heads[h];
      std::vector<Bounded> want(p.out.width);
      for (int map = 0; map < head.Maps(); ++map) {
        const double weight = map == 0 ? 1 : -double{p.lambda.At(t, h)};
        const std::vector<double> probs = Probabilities(q.Row(t, head.Q(map)), k, head.K(map), keys, logit);
        for (int i = 0; i < p.out.width; ++i) {
          const int8_t* column = v.Row(keys.begin, head.v[i / p.v.width]) + i % p.v.width;
          auto [value, bound] = TimesV(probs, column, int64_t{p.v.heads} * p.v.width);
          value *= unit;
          if (out_scale > 0) value = std::clamp(value, -128.0 * out_scale, 127.0 * out_scale);
          want[i].value += weight * value;
          want[i].bound += std::abs(weight) * (bound * unit + out_scale / 2 + 0x1p-20 * std::abs(value));
        }
      }
      for (int i = 0; i < p.out.width; ++i) {
        const double got = p.out.Row(t, h)[i], most = want[i].bound + 0x1p-20 * out_scale;
        if (!(std::abs(got - want[i].value) <= most))
          Fail("{}, row {}, head {}, channel {}: got {}, expected {} within {}; nothing was timed", what, t, h, i, got,
               want[i].value, most);
      }
    }
  }
}

}  // namespace tare
