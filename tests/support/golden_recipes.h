// SPDX-License-Identifier: Apache-2.0
// Golden codes, scales and outputs of recipes of the literature, and what a plan makes of the same heads: 32 channels,
// 133 tokens, a causal mask.
#pragma once

#include <cmath>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "experiments/model/layer_attention.h"
#include "quant/base/message.h"
#include "quant/file/safetensors.h"
#include "quant/observe/site_visitor.h"

namespace tare::golden_recipes {

inline constexpr int kTokens = 133, kWidth = 32;
inline constexpr size_t kOfHead = size_t{kTokens} * kWidth;

// With the sign in the highest of four bits.
inline double E2M1(uint8_t code) {
  constexpr double kValues[] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
  return (code >= 8 ? -1 : 1) * kValues[code % 8];
}

inline double E4M3(uint8_t code) {
  const int exponent = code >> 3 & 15, mantissa = code & 7;
  const double value = exponent == 0 ? std::ldexp(mantissa, -9) : std::ldexp(8 + mantissa, exponent - 10);
  return code >= 128 ? -value : value;
}

// Values of F32 and F16; codes of signed integers and, of U8, as they are.
inline std::vector<double> Golden(const std::string& name) {
  static const Safetensors file(TARE_SOURCE_DIR "/tests/data/formats/recipes.safetensors");
  const TensorView* const tensor = file.Find(name);
  if (tensor == nullptr) Fail("no {}", name);
  std::vector<double> values(tensor->elements());
  const auto* const bytes = reinterpret_cast<const uint8_t*>(tensor->bytes.data());
  for (size_t i = 0; i < values.size(); ++i) {
    if (tensor->dtype == DType::kU8) values[i] = bytes[i];
    if (tensor->dtype == DType::kI8) values[i] = static_cast<int8_t>(bytes[i]);
    if (tensor->dtype == DType::kF32 || tensor->dtype == DType::kF16)
      values[i] = FloatAt(tensor->dtype, tensor->bytes.data() + i * tensor->bytes.size() / values.size());
  }
  return values;
}

inline std::vector<float> Input(const std::string& name) {
  const std::vector<double> values = Golden(name);
  return {values.begin(), values.end()};
}

inline const std::vector<OutputHead> kTwoHeads{{.q1 = 0, .k1 = 0}, {.q1 = 1, .k1 = 1}};
inline constexpr float kLambda = 0.7f;

// What a plan makes of q, k and v, [head][token][channel], and the outputs of heads that share v.
struct Under : SiteVisitor {
  std::map<Site, std::vector<float>> rounded;
  std::vector<float> q = Input("q"), k, v = Input("v"), out;
  std::mutex mutex;

  explicit Under(const std::string& plan, std::vector<float> keys = Input("k"),
                 const std::vector<OutputHead>& table = kTwoHeads)
      : k(std::move(keys)), out(table.size() * kOfHead) {
    const AttentionProblem problem = Problem(table);
    SimulatedAttention run(Plan::Parse(plan), AttentionSites(problem, {0}));
    const std::vector<AttentionSequence> sequences{{.index = 0, .first_row = 0, .prefix = kTokens, .branches = {}}};
    SiteVisitor* self[] = {this};
    run.Run(problem, sequences, 0, self);
  }

  AttentionProblem Problem(const std::vector<OutputHead>& table) {
    const auto heads = [](const float* data, int n) {
      return HeadsView<const float>{data, kTokens, n, kWidth, kWidth, static_cast<int64_t>(kOfHead)};
    };
    return {.q = heads(q.data(), 2),
            .k = heads(k.data(), 2),
            .v = heads(v.data(), 1),
            .heads = table,
            .lambda = {.data = &kLambda},
            .mask = {},
            .scale = 1 / std::sqrt(static_cast<float>(kWidth)),
            .out = HeadsView<float>{out.data(), kTokens, static_cast<int>(table.size()), kWidth, kWidth,
                                    static_cast<int64_t>(kOfHead)}};
  }

  bool Wants(Site site, std::optional<int>) const override {
    return site == Site::kQ || site == Site::kK || site == Site::kV;
  }
  void Visit(const SiteBlock& block, int) override {
    const std::lock_guard lock(mutex);
    std::vector<float>& values = rounded[block.site];
    values.resize(std::max(values.size(), kOfHead * static_cast<size_t>(*block.head + 1)));
    for (int64_t r = 0; r < block.rows; ++r)
      std::ranges::copy(block.Row(r), values.begin() + *block.head * static_cast<int64_t>(kOfHead) + r * kWidth);
  }
};

// The index of a value's scale.
using ScaleAt = std::function<size_t(size_t head, size_t token, size_t channel)>;

struct Codes {
  std::string of;  // "sage1.k": codes, scales, and a mean or a minimum
  bool fp8 = false;
  bool fp4 = false;  // and scales in E4M3
  ScaleAt scale;
  std::string added = "";   // "mean" per head and channel, "min" or "zero" beside each scale
  double factor = 1;        // of the scales
  double tolerance = 0.01;  // in steps
  size_t tokens = kTokens;  // the first ones
};

// How many values are not code * scale (+ mean or minimum) of the golden codes, to a hundredth of the smallest step.
inline int Differences(const Under& recipe, Site site, const Codes& golden) {
  const std::vector<float>& got = recipe.rounded.at(site);
  const std::vector<double> codes = Golden(golden.of + "_codes"), scales = Golden(golden.of + "_scale");
  const std::vector<double> added = golden.added.empty()
                                        ? std::vector<double>()
                                        : Golden(golden.of.substr(0, golden.of.find('.') + 2) + "_" + golden.added);
  int different = 0;
  for (size_t i = 0; i < codes.size(); ++i) {
    const size_t head = i / kWidth / golden.tokens, token = i / kWidth % golden.tokens, channel = i % kWidth;
    const size_t at = golden.scale(head, token, channel);
    const double scale = golden.fp4 ? E4M3(static_cast<uint8_t>(scales[at])) : scales[at] * golden.factor;
    const double code = golden.fp8   ? E4M3(static_cast<uint8_t>(codes[i]))
                        : golden.fp4 ? E2M1(static_cast<uint8_t>(codes[i]))
                                     : codes[i];
    const double value = code * scale + (golden.added == "mean"   ? added[head * kWidth + channel]
                                         : golden.added == "min"  ? added[at]
                                         : golden.added == "zero" ? -added[at] * scale
                                                                  : 0.0);
    const double step = golden.fp8 ? scale * 0x1p-9 : golden.fp4 ? scale / 2 : scale;
    different += !(std::fabs(got[head * kOfHead + token * kWidth + channel] - value) <=
                   golden.tolerance * step + 1e-6 * std::fabs(value));
  }
  return different;
}

// The root of the mean square of what differs, in that of the golden values; 0 for zeros.
inline double RelativeTo(const std::vector<double>& golden, const std::vector<float>& got) {
  double error = 0, size = 0;
  for (size_t i = 0; i < golden.size(); ++i) {
    error += (got[i] - golden[i]) * (got[i] - golden[i]);
    size += golden[i] * golden[i];
  }
  return error == 0 ? 0 : std::sqrt(error / size);
}

// The places of scales.
inline size_t OfAll(size_t, size_t, size_t) { return 0; }
inline size_t OfHead(size_t head, size_t, size_t) { return head; }
inline size_t OfToken(size_t head, size_t token, size_t) { return head * kTokens + token; }
inline size_t OfChannel(size_t, size_t, size_t channel) { return channel; }
template <size_t n>
size_t OfTokens(size_t head, size_t token, size_t) {
  return head * ((kTokens + n - 1) / n) + token / n;
}
inline size_t By8(size_t head, size_t token, size_t) { return head * 37 + token / 32 * 8 + token % 8; }
inline size_t By4x2(size_t head, size_t token, size_t) { return head * 11 + token / 64 * 4 + token % 8 / 2; }

}  // namespace tare::golden_recipes
