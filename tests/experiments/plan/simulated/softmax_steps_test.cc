// SPDX-License-Identifier: Apache-2.0
// Steps of the softmax in 16 bits against another implementation, and in real passes of one map and two against loops
// in double of their own. softmax.safetensors was made in PyTorch after the code of Model-Optimizer's pull request
// 1635, which was read and not run.
#include "experiments/plan/simulated/softmax_steps.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "experiments/model/attention/float_attention.h"
#include "experiments/model/plan_run.h"
#include "quant/base/message.h"
#include "quant/file/safetensors.h"
#include "tests/support/call.h"
#include "tests/support/golden.h"
#include "tests/support/logits.h"
#include "tests/support/random_quantized.h"
#include "tests/support/simulated_plan.h"
#include "tests/support/site_recorder.h"

namespace tare::softmax_steps_test {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

SoftmaxSteps StepsOf(const std::string& options) {
  return Plan::Parse("probs=f32" + options).rules().front().options.softmax;
}

std::vector<float> Read(const Safetensors& file, const std::string& name) {
  const TensorView& tensor = *file.Find(name);
  std::vector<float> values(tensor.elements());
  std::memcpy(values.data(), tensor.bytes.data(), tensor.bytes.size());
  return values;
}

TEST(SoftmaxSteps, AreOptionsOfProbs) {
  const char* const kPlan = "probs=f32+diff.bf16rz+exp.f16,probs[m2]=nvfp4+unnormalized+rescale.bf16+sum.f16rz";
  EXPECT_EQ(Plan::Parse(kPlan).canonical(), kPlan);
  EXPECT_EQ(Plan::Parse("probs=f32 + sum.bf16 + exp.f16rz + diff.f16").canonical(),
            "probs=f32+diff.f16+exp.f16rz+sum.bf16");
  for (const auto& [text, says] :
       {std::pair{"probs=f32+unnormalized",
                  "column 11: got 'unnormalized', expected one of diff exp rescale sum, as f32 rounds nothing"},
        {"probs=f32+keep4", "column 11: got 'keep4', expected one of diff exp rescale sum, as f32 rounds nothing"},
        {"probs=f32+diff", "column 11: got 'diff', expected diff once, as diff.f16, diff.bf16, diff.f16rz or"},
        {"probs=f32+exp.f32", "column 11: got 'exp.f32', expected exp once, as exp.f16"},
        {"probs=f32+sum.f16+sum.bf16", "column 19: got 'sum.bf16', expected sum once"},
        {"attn_logits=int8/row+diff.f16", "column 22: got 'diff.f16', expected one of maxshift sink keep"}})
    EXPECT_THAT(Call([&] { Plan::Parse(text); }), ThrowsMessage<Error>(HasSubstr(says))) << text;
}

// 133 keys: two tiles and a short one. Rows of equal logits, of one far above the others, of nearly equal ones, and two
// whose maximum stands in the second tile.
TEST(SoftmaxSteps, HaveTheOutputsOfAnotherImplementation) {
  const Safetensors golden(TARE_SOURCE_DIR "/tests/data/formats/softmax.safetensors");
  const std::vector<float> scores = Read(golden, "scores_log2"), v = Read(golden, "v");
  constexpr int kKeys = 133, kWidth = 16, kRows = 5;
  std::vector<std::pair<std::string, std::string>> cases{{"mixed_fp16", "+diff.f16+exp.f16+rescale.f16"}};
  for (const std::string half : {"f16", "bf16", "f16rz", "bf16rz"}) {
    const std::string theirs = (half[0] == 'f' ? "fp16" : "bf16") + std::string(half.ends_with("rz") ? "_rz" : "");
    for (const auto& [step, ours] : {std::pair{"diff", "+diff."}, {"exp2", "+exp."}, {"acc", "+sum."}})
      cases.emplace_back(theirs + "_" + step, ours + half);
    cases.emplace_back(theirs + "_all", Formatted("+diff.{0}+exp.{0}+sum.{0}", half));
  }
  for (const auto& [theirs, ours] : cases) {
    const std::vector<float> expected = Read(golden, "o_" + theirs + "_f32");
    for (int r = 0; r < kRows; ++r) {
      std::vector<float> p(scores.begin() + r * kKeys, scores.begin() + (r + 1) * kKeys);
      SoftmaxInTiles(StepsOf(ours), 0, p);
      for (int i = 0; i < kWidth; ++i) {
        double sum = 0, size = 0;
        for (int s = 0; s < kKeys; ++s) {
          sum += double{p[s]} * v[s * kWidth + i];
          size += std::abs(double{p[s]} * v[s * kWidth + i]);
        }
        // Their sums are f32: 64 products a tile, three tiles, and as many of l.
        EXPECT_NEAR(expected[r * kWidth + i], sum, 140 * 0x1p-24 * size) << theirs << " row " << r;
      }
    }
  }
}

// What 16 bits hold, by their definition.
double Half(double x, const std::string& half) {
  if (half.empty() || x == 0) return x;
  const bool f16 = half.starts_with("f16");
  const int least = f16 ? -14 : -126, digits = f16 ? 10 : 7;
  const double step = std::ldexp(1.0, std::max(std::ilogb(x), least) - digits);
  const double steps = half.ends_with("rz") ? std::trunc(x / step) : std::nearbyint(x / step);
  return steps * step;
}

TEST(SoftmaxSteps, RoundAsTheirDefinitionSays) {
  const std::pair<HalfRounding, std::string> kAll[] = {{HalfRounding::kF16, "f16"},
                                                       {HalfRounding::kBf16, "bf16"},
                                                       {HalfRounding::kF16TowardZero, "f16rz"},
                                                       {HalfRounding::kBf16TowardZero, "bf16rz"}};
  for (const auto& [rounding, half] : kAll) {
    for (float x : RandomNormal(3000, 4)) {
      for (const int power : {-40, -24, -15, -14, -8, 0, 9}) {
        const float value = std::ldexp(x, power);
        EXPECT_EQ(double{RoundedToHalf(value, rounding)}, Half(value, half)) << half << ' ' << value;
      }
    }
  }
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(RoundedToHalf(-1e6f, HalfRounding::kF16), -kInfinity);
  EXPECT_EQ(RoundedToHalf(-1e6f, HalfRounding::kF16TowardZero), -65504.0f);
  EXPECT_EQ(RoundedToHalf(kInfinity, HalfRounding::kF16TowardZero), kInfinity);
  EXPECT_EQ(RoundedToHalf(0x1.8p-24f, HalfRounding::kF16), 0x1p-23f);  // a tie
  EXPECT_EQ(RoundedToHalf(0x1.8p-24f, HalfRounding::kF16TowardZero), 0x1p-24f);
}

// Which step of a map rounds to what.
struct Steps {
  std::string diff, exp, rescale, sum;
};

// Row t of a map from its logits: all of it in double but for what is f32 in a kernel, where that moves a rounding.
std::vector<double> Reference(const Row& logits, int64_t first, const Steps& steps) {
  std::vector<double> p;
  double max = -INFINITY, sum = 0;
  for (size_t begin = 0; begin < logits.size();) {
    size_t end = begin;
    double largest = max;
    do {
      largest = std::max(largest, double{logits[end++] * 1.44269504f});
    } while (end < logits.size() && (static_cast<size_t>(first) + end) % 64 != 0);
    const double factor =
        begin == 0 ? 0 : Half(std::exp2(Half(static_cast<float>(max - largest), steps.rescale)), steps.rescale);
    for (double& earlier : p) earlier *= factor;
    float of_tile = 0;
    for (; begin < end; ++begin) {
      const double below = static_cast<float>(double{logits[begin] * 1.44269504f} - largest);
      p.push_back(Half(static_cast<float>(std::exp2(Half(below, steps.diff))), steps.exp));
      of_tile += static_cast<float>(p.back());
    }
    sum = sum * factor + Half(of_tile, steps.sum);
    max = largest;
  }
  for (double& x : p) x /= sum;
  return p;
}

constexpr int kTokens = 150, kWidth = 8;

// One attention head of one map or two, whose plan the recorder stands behind.
struct Attention {
  explicit Attention(int maps)
      : heads{{.q1 = 0, .k1 = 0, .q2 = maps == 2 ? 1 : kNoMap, .k2 = maps == 2 ? 1 : kNoMap, .v = {0, kNoMap}}},
        q(RandomNormal(kTokens * 2 * kWidth, 1)),
        k(RandomNormal(kTokens * 2 * kWidth, 2)),
        v(RandomNormal(kTokens * kWidth, 3)),
        out(kTokens * kWidth) {}

  void Run(const std::string& plan, Mask mask = {}) {
    const bool two = heads[0].Differential();
    SimulatedPlan quantizer(
        plan, {.family = two ? "diffllama" : "llama", .layers = 1, .heads = two ? 2 : 1, .kv_heads = two ? 2 : 1});
    seen.sites.clear();
    SiteVisitor* const visitors[] = {&quantizer, &seen};
    quantizer.BeginBatch(1);
    const AttentionSequence sequences[] = {{.prefix = kTokens, .branches = {}}};
    FloatAttention({.problem = {.q = DenseHeads<const float>(q.data(), kTokens, 2, kWidth),
                                .k = DenseHeads<const float>(k.data(), kTokens, 2, kWidth),
                                .v = DenseHeads<const float>(v.data(), kTokens, 1, kWidth),
                                .heads = heads,
                                .lambda = {.data = &lambda},
                                .mask = mask,
                                .scale = 1,
                                .out = DenseHeads(out.data(), kTokens, 1, kWidth)},
                    .sequences = sequences,
                    .visitors = visitors,
                    .layer = 0});
  }

  // The largest relative distance of a map's rows from the reference.
  double Distance(int map, const Steps& steps, int64_t window = 0) const {
    double worst = 0;
    const SiteKey of{Site::kAttnLogits, 0, map - 1, map};
    for (const auto& [place, logits] : seen.sites.at(of).rows) {
      const int64_t first = window == 0 ? 0 : std::max<int64_t>(0, place.second + 1 - window);
      const std::vector<double> expected = Reference(logits, first, steps);
      const Row& p = seen.sites.at({Site::kProbs, 0, map - 1, map}).rows.at(place);
      for (size_t s = 0; s < p.size(); ++s)
        worst = std::max(worst, std::abs(double{p[s]} - expected[s]) / std::max(expected[s], 1e-30));
    }
    return worst;
  }

  float lambda = 0.7f;
  std::vector<OutputHead> heads;
  std::vector<float> q, k, v, out;
  Recorder seen;
};

// f32: two roundings of each p by factors and one by 1 / l, and l's sums of 150.
constexpr double kClose = 160 * 0x1p-24;

TEST(SoftmaxSteps, EachRoundsItsOwnStepInARealPass) {
  const Steps kAll[] = {{"f16", "", "", ""},        {"", "bf16", "", ""},        {"", "", "bf16", ""},
                        {"", "", "", "bf16"},       {"bf16rz", "f16rz", "", ""}, {"f16", "f16", "f16", ""},
                        {"", "", "f16rz", "f16rz"}, {"bf16", "bf16", "", "bf16"}};
  Attention attention(1);
  attention.Run("probs=f32+diff.f16");
  const std::vector<float> of_first = attention.out;
  for (const Steps& steps : kAll) {
    std::string plan = "probs=f32";
    for (const auto& [name, half] :
         {std::pair{"diff", &Steps::diff}, {"exp", &Steps::exp}, {"rescale", &Steps::rescale}, {"sum", &Steps::sum}}) {
      if (!(steps.*half).empty()) plan += Formatted("+{}.{}", name, steps.*half);
    }
    attention.Run(plan);
    EXPECT_LT(attention.Distance(1, steps), kClose) << plan;
    EXPECT_GT(attention.Distance(1, {}), 0x1p-12) << plan;
    if (&steps != kAll) {
      EXPECT_NE(attention.out, of_first) << plan;
    }
    attention.Run(plan, {.kind = Mask::Kind::kWindow, .window = 100});
    EXPECT_LT(attention.Distance(1, steps, 100), kClose) << plan << " in a window";
  }
}

// A map has its own maximum and sum, and may have its own rule; logits are those that a rule has rounded.
TEST(SoftmaxSteps, AreOfEachMap) {
  const Steps diff{"f16", "", "", ""}, exp{"", "bf16", "", ""};
  Attention attention(2);
  attention.Run("probs=f32+exp.bf16");
  EXPECT_LT(attention.Distance(1, exp), kClose);
  EXPECT_LT(attention.Distance(2, exp), kClose);
  attention.Run("attn_logits=int6/row,probs[m1]=f32+diff.f16,probs[m2]=f32+exp.bf16");
  EXPECT_LT(attention.Distance(1, diff), kClose);
  EXPECT_LT(attention.Distance(2, exp), kClose);
  attention.Run("probs[m2]=f32+diff.f16");
  EXPECT_LT(attention.Distance(1, {}), 0x1p-18);  // the pass's own softmax
  EXPECT_LT(attention.Distance(2, diff), kClose);
  const Row &first = attention.seen.sites.at({Site::kProbs, 0, 0, 1}).rows.at({0, kTokens - 1}),
            &second = attention.seen.sites.at({Site::kProbs, 0, 1, 2}).rows.at({0, kTokens - 1});
  for (int i = 0; i < kWidth; ++i) {  // the output is of these maps
    double sum = 0;
    for (int s = 0; s < kTokens; ++s) sum += (double{first[s]} - 0.7 * second[s]) * attention.v[s * kWidth + i];
    EXPECT_NEAR(attention.out[(kTokens - 1) * kWidth + i], sum, 1e-5);
  }
}

// In whole models, beside other rules of maps; and where nothing computes it so.
TEST(SoftmaxSteps, InPlans) {
  for (const char* name : {"llama-mha", "diffllama-mha"}) {
    Model model(GoldenFolder(name));
    const TokenBatch batch = GoldenBatch(name);
    const auto under = [&](const std::string& plan) {
      PlanRun run(Plan::Parse(plan), Carrying::kSimulated, ModelSitesOf(model));
      const SiteVisitors visitors = run.Begin(model);
      return LogitsOf(model, batch, visitors);
    };
    const std::vector<float> f32 = under("");
    for (const char* option : {"+diff.bf16", "+exp.bf16", "+sum.bf16"}) {
      EXPECT_NE(under(Formatted("probs=f32{}", option)), f32) << name << option;
      EXPECT_NE(under(Formatted("probs=fp8e4m3/row+unnormalized{}", option)), under("probs=fp8e4m3/row+unnormalized"))
          << name << option;
    }
    if (ModelSitesOf(model).maps == 2) {
      EXPECT_NE(under("probs=f32+exp.bf16,difference=u8/row"), under("difference=u8/row"));
    }
    EXPECT_EQ(under(""), f32) << name;
    EXPECT_THAT(
        Call([&] { PlanRun(Plan::Parse("probs=f32+exp.f16"), Carrying::kExecuted, ModelSitesOf(model)); }),
        ThrowsMessage<Error>(HasSubstr("plan rule 'probs=f32+exp.f16': got +exp.f16, expected a softmax in f32")));
    EXPECT_THAT(Call([&] {
                  PlanRun(Plan::Parse("probs=f32+exp.f16"), Carrying::kSimulated, ModelSitesOf(model), {}, CachePlan{});
                }),
                ThrowsMessage<Error>(HasSubstr("got a rule for probs")));
    EXPECT_THAT(Call([&] { under("probs=u8/row+sum.f16"); }),
                ThrowsMessage<Error>(HasSubstr("got +sum with maps divided by the sums of their codes, expected "
                                               "+unnormalized")));
  }
  for (const auto& [model, says] :
       {std::pair{ModelSites{.family = "toy", .row_weights = RowWeights::kSoftpick}, "softpick is no softmax"},
        {ModelSites{.family = "toy", .sinks = true}, "learned sinks belong to the sum"}})
    EXPECT_THAT(Call([&] { CheckUse(Plan::Parse("probs=f32+diff.f16").rules().front(), Use::kAny, model); }),
                ThrowsMessage<Error>(HasSubstr(says)));
}

}  // namespace
}  // namespace tare::softmax_steps_test
