// SPDX-License-Identifier: Apache-2.0
// Presets of the literature against codes, scales and outputs of the public code that they are named after
// (quant/plan/presets.h), made by other implementations in PyTorch, which agree with that code bit for bit where it
// runs on a CPU: heads of 32 channels, 133 tokens, a causal mask. Inputs are hostile: a key of 60, constant keys, a
// query and keys of zeros, subnormals of f16. Codes and scales are exact but for the numbers given here: values at a
// tie, which public code rounds away from 0, and next to one, where it divides and Tare multiplies. Outputs differ by
// less than 0.1 %, or by what the running maximum of public kernels changes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "experiments/model/layer_attention.h"
#include "experiments/plan/resolved_plan.h"
#include "quant/base/aligned.h"
#include "quant/base/message.h"
#include "quant/file/safetensors.h"
#include "quant/observe/site_visitor.h"
#include "quant/plan/presets.h"
#include "tests/support/simulated_plan.h"

namespace tare::recipes_test {
namespace {

constexpr int kTokens = 133, kWidth = 32;
constexpr size_t kOfHead = size_t{kTokens} * kWidth;

double E4M3(uint8_t code) {
  const int exponent = code >> 3 & 15, mantissa = code & 7;
  const double value = exponent == 0 ? std::ldexp(mantissa, -9) : std::ldexp(8 + mantissa, exponent - 10);
  return code >= 128 ? -value : value;
}

// Values of F32 and F16; codes of signed integers and, of U8, as they are.
std::vector<double> Golden(const std::string& name) {
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

std::vector<float> Input(const std::string& name) {
  const std::vector<double> values = Golden(name);
  return {values.begin(), values.end()};
}

const std::vector<OutputHead> kTwoHeads{{.q1 = 0, .k1 = 0}, {.q1 = 1, .k1 = 1}};
constexpr float kLambda = 0.7f;

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
  ScaleAt scale;
  std::string added = "";   // "mean" per head and channel, "min" beside each scale
  double factor = 1;        // of the scales
  double tolerance = 0.01;  // in steps
  size_t tokens = kTokens;  // the first ones
};

// How many values are not code * scale (+ mean or minimum) of the golden codes, to a hundredth of the smallest step.
int Differences(const Under& recipe, Site site, const Codes& golden) {
  const std::vector<float>& got = recipe.rounded.at(site);
  const std::vector<double> codes = Golden(golden.of + "_codes"), scales = Golden(golden.of + "_scale");
  const std::vector<double> added = golden.added.empty()
                                        ? std::vector<double>()
                                        : Golden(golden.of.substr(0, golden.of.find('.') + 2) + "_" + golden.added);
  int different = 0;
  for (size_t i = 0; i < codes.size(); ++i) {
    const size_t head = i / kWidth / golden.tokens, token = i / kWidth % golden.tokens, channel = i % kWidth;
    const size_t at = golden.scale(head, token, channel);
    const double scale = scales[at] * golden.factor;
    const double code = golden.fp8 ? E4M3(static_cast<uint8_t>(codes[i])) : codes[i];
    const double value = code * scale + (golden.added == "mean"  ? added[head * kWidth + channel]
                                         : golden.added == "min" ? added[at]
                                                                 : 0.0);
    const double step = golden.fp8 ? scale * 0x1p-9 : scale;
    different += !(std::fabs(got[head * kOfHead + token * kWidth + channel] - value) <=
                   golden.tolerance * step + 1e-6 * std::fabs(value));
  }
  return different;
}

// The root of the mean square of what differs, in that of the golden values; 0 for zeros.
double RelativeTo(const std::vector<double>& golden, const std::vector<float>& got) {
  double error = 0, size = 0;
  for (size_t i = 0; i < golden.size(); ++i) {
    error += (got[i] - golden[i]) * (got[i] - golden[i]);
    size += golden[i] * golden[i];
  }
  return error == 0 ? 0 : std::sqrt(error / size);
}

// The places of scales.
size_t OfAll(size_t, size_t, size_t) { return 0; }
size_t OfHead(size_t head, size_t, size_t) { return head; }
size_t OfToken(size_t head, size_t token, size_t) { return head * kTokens + token; }
size_t OfChannel(size_t, size_t, size_t channel) { return channel; }
template <size_t n>
size_t OfTokens(size_t head, size_t token, size_t) {
  return head * ((kTokens + n - 1) / n) + token / n;
}
size_t By8(size_t head, size_t token, size_t) { return head * 37 + token / 32 * 8 + token % 8; }
size_t By4x2(size_t head, size_t token, size_t) { return head * 11 + token / 64 * 4 + token % 8 / 2; }

// One scale per head; 133 keys are one tile of that kernel, so its maximum is final.
TEST(Recipes, Fa3) {
  const Under recipe("fa3-fp8");
  EXPECT_EQ(Differences(recipe, Site::kQ, {.of = "fa3-fp8.q", .fp8 = true, .scale = OfHead}), 0);
  EXPECT_EQ(Differences(recipe, Site::kK, {.of = "fa3-fp8.k", .fp8 = true, .scale = OfHead}), 0);
  EXPECT_EQ(Differences(recipe, Site::kV, {.of = "fa3-fp8.v", .fp8 = true, .scale = OfAll}), 0);
  EXPECT_LT(RelativeTo(Golden("fa3-fp8.o"), recipe.out), 2e-6);
}

// The golden scales of q are of logits in powers of two.
TEST(Recipes, Sage1) {
  const Under recipe("sage1");
  const double logits = std::sqrt(kWidth) / 1.44269504;
  EXPECT_EQ(Differences(recipe, Site::kQ, {.of = "sage1.q", .scale = OfTokens<128>, .factor = logits}), 0);
  EXPECT_EQ(Differences(recipe, Site::kK, {.of = "sage1.k", .scale = OfTokens<64>, .added = "mean"}), 0);
  EXPECT_LT(RelativeTo(Golden("sage1.o"), recipe.out), 2e-4);  // probabilities in f16 there
}

TEST(Recipes, Sage2) {
  const Under recipe("sage2");
  EXPECT_EQ(Differences(recipe, Site::kQ, {.of = "sage2.q", .scale = By8}), 3);
  EXPECT_EQ(Differences(recipe, Site::kK, {.of = "sage2.k", .scale = By4x2, .added = "mean"}), 1);
  EXPECT_EQ(Differences(recipe, Site::kV, {.of = "sage2.v", .fp8 = true, .scale = OfChannel}), 1);
  EXPECT_LT(RelativeTo(Golden("sage2.o"), recipe.out), 1e-3);
  const Under plusplus("sage2pp");
  EXPECT_EQ(Differences(plusplus, Site::kV, {.of = "sage2pp.v", .fp8 = true, .scale = OfChannel}), 0);
  const Under warps("q=int8/tokens32,k=int8/tokens64+smoothall");  // its CUDA kernels
  EXPECT_EQ(Differences(warps, Site::kQ, {.of = "sage2.q_warp", .scale = OfTokens<32>}), 0);
  EXPECT_EQ(Differences(warps, Site::kK, {.of = "sage2.k_block", .scale = OfTokens<64>, .added = "mean"}), 0);
}

// Tiles of 64 keys there: their maximum moves the output by less than 1 % of the recipe's own error.
TEST(Recipes, IntFlash) {
  const Under recipe("int-flash"), exact("f32");
  EXPECT_EQ(Differences(recipe, Site::kQ, {.of = "int-flash.q", .scale = OfToken}), 0);
  EXPECT_EQ(Differences(recipe, Site::kK, {.of = "int-flash.k", .scale = OfToken}), 0);
  EXPECT_EQ(Differences(recipe, Site::kV, {.of = "int-flash.v", .scale = OfAll}), 0);
  const std::vector<double> golden = Golden("int-flash.o");
  EXPECT_LT(RelativeTo(golden, recipe.out), 0.01 * RelativeTo(golden, exact.out));

  Under executed("f32");
  ExecutedMemory memory;
  const ExecutedSequence sequence(ExecutedPlanOfText("here", "int-flash", 2), executed.Problem(kTwoHeads), memory);
  AlignedBuffer<std::byte> workspace(sequence.WorkspaceBytes());
  sequence.Run(workspace.span());
  const double apart = RelativeTo(golden, executed.out), own = RelativeTo(golden, exact.out);
  RecordProperty("share_of_error", std::to_string(apart / own));
  EXPECT_LT(apart, 0.25 * own);  // codes next to a tie, as the kernels' exponential is within 4e-4
}

// Late: each map is a head of its own, and v is rounded once.
TEST(Recipes, ADifferentialHeadIsTheDifferenceOfItsMaps) {
  for (const char* name : {"sage1", "sage2", "fa3-fp8", "int-flash", "kivi4"}) {
    const Under heads(name), maps(name, Input("k"), {{.q1 = 0, .k1 = 0, .q2 = 1, .k2 = 1}});
    EXPECT_EQ(maps.rounded, heads.rounded) << name;
    std::vector<double> difference(heads.out.begin(), heads.out.begin() + kOfHead);
    for (size_t i = 0; i < kOfHead; ++i) difference[i] -= double{kLambda} * heads.out[kOfHead + i];
    EXPECT_LT(RelativeTo(difference, maps.out), 2e-6) << name;
  }
}

// KIVI leaves the newest tokens, which have no codes here.
TEST(Recipes, Kivi) {
  const Under recipe("kivi2");
  const auto by_channel = [](size_t head, size_t token, size_t channel) {
    return head * 128 + channel * 4 + token / 32;
  };
  EXPECT_EQ(Differences(recipe, Site::kK, {.of = "kivi2.k", .scale = by_channel, .added = "min", .tokens = 128}), 0);
  EXPECT_EQ(Differences(recipe, Site::kV, {.of = "kivi2.v", .scale = OfToken, .added = "min", .tokens = 101}), 0);
}

TEST(Recipes, VllmFp8) {
  const Under recipe("vllm-fp8");
  EXPECT_EQ(Differences(recipe, Site::kK, {.of = "vllm-fp8.k", .fp8 = true, .scale = OfAll}), 0);
  EXPECT_EQ(Differences(recipe, Site::kV, {.of = "vllm-fp8.v", .fp8 = true, .scale = OfAll}), 0);
}

// Rows times the golden rotation, or back.
std::vector<float> Turned(const std::vector<float>& x, bool back) {
  static const std::vector<double> rotation = Golden("turboquant3.rotation");
  std::vector<float> y(x.size());
  for (size_t i = 0; i < x.size(); ++i) {
    double sum = 0;
    for (size_t c = 0, to = i % kWidth; c < kWidth; ++c)
      sum += x[i - to + c] * rotation[back ? to * kWidth + c : c * kWidth + to];
    y[i] = static_cast<float>(sum);
  }
  return y;
}

// Minima and scales of values are f16 there. A code at a midpoint that is not exactly ours makes a row differ.
TEST(Recipes, TurboQuant) {
  const Under recipe("turboquant3"), rotated("k=normal3/token", Turned(Input("k"), false));
  EXPECT_EQ(Differences(recipe, Site::kV, {.of = "turboquant3.v", .scale = OfToken, .added = "min", .tolerance = 0.1}),
            1);
  const std::vector<float> k = Turned(rotated.rounded.at(Site::kK), true);
  const std::vector<double> golden = Golden("turboquant3.k");
  int rows = 0;
  for (size_t row = 0; row < 2 * kTokens; ++row) {
    const auto at = static_cast<std::ptrdiff_t>(row * kWidth);
    const std::vector<double> one(golden.begin() + at, golden.begin() + at + kWidth);
    rows += RelativeTo(one, {k.begin() + at, k.begin() + at + kWidth}) > 0.01;
  }
  EXPECT_EQ(rows, 4);
}

const ModelConfig kLlama{.family = "llama", .layers = 1, .heads = 2, .kv_heads = 2};

// The mean of all tokens is 20.
TEST(Recipes, SmoothingOfAllTokensAndTheValueOfTheLargest) {
  constexpr int kRows = 128;
  std::vector<float> values(kRows);
  for (int r = 0; r < kRows; ++r) values[r] = (r < 64 ? 10.0f : 30.0f) + (r % 2 == 0 ? 4.0f : -4.0f);
  const std::vector<float> before = values;
  SimulatedPlan quantizer("v=int4/channel+smoothall+top2", kLlama);
  const SiteBlock block{
      .site = Site::kV, .layer = 0, .head = 0, .rows = kRows, .first_columns = 1, .values = values.data(), .stride = 1};
  quantizer.Visit(block, 0);
  for (int r = 0; r < kRows; ++r)  // 14 is 2 steps of 7, 6 is 1
    EXPECT_EQ(values[r], 20.0f + (before[r] > 20 ? 1 : -1) * (std::fabs(before[r] - 20) == 14 ? 14.0f : 7.0f)) << r;
}

// Where a scale spans heads, it is that of what is left of each.
TEST(Recipes, SmoothingComesBeforeAScaleOfManyHeads) {
  std::vector<float> a{101, 99}, b{53, 47};
  SimulatedPlan quantizer("k=int4/tensor+smoothall", kLlama);
  const auto block = [](std::vector<float>& values, int head) {
    return SiteBlock{.site = Site::kK,
                     .layer = 0,
                     .head = head,
                     .map = 1,
                     .rows = 2,
                     .first_columns = 1,
                     .values = values.data(),
                     .stride = 1};
  };
  EXPECT_TRUE(quantizer.NeedsSurvey(Site::kK, 0));
  for (int head = 0; head < 2; ++head) quantizer.Survey(block(head == 0 ? a : b, head), 0);
  for (int head = 0; head < 2; ++head) quantizer.Visit(block(head == 0 ? a : b, head), 0);
  EXPECT_THAT(b, testing::ElementsAre(53, 47));
  EXPECT_FLOAT_EQ(a[0], 100 + 2 * 3.0f / 7);
}

}  // namespace
}  // namespace tare::recipes_test
