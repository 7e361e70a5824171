// SPDX-License-Identifier: Apache-2.0
// The quantizer on made-up blocks, against a plain loop over whole matrices with the formula of quant/format/round.h:
// only the choice of values that share a scale is to be tested. parity_test.cc compares whole models with transformers.
#include "experiments/plan/simulated/simulated_quantizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <random>
#include <tuple>

#include "quant/algorithms/round_to_nearest.h"
#include "quant/base/message.h"
#include "quant/base/parallel.h"
#include "quant/format/round.h"
#include "tests/support/checkpoint.h"
#include "tests/support/golden.h"
#include "tests/support/logits.h"
#include "tests/support/normal_floats.h"
#include "tests/support/simulated_plan.h"

namespace tare::simulated_quantizer_test {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

constexpr int kLayers = 3, kHeads = 4, kSequences = 2, kTokens = 70;

ModelConfig Config(const char* family) {
  return {.family = family, .layers = kLayers, .heads = kHeads, .kv_heads = kHeads};
}

int MapOf(const ModelConfig& config, int head) { return Maps(config) == 2 && head >= kHeads / 2 ? 2 : 1; }

// attn_logits of all layers, sequences and heads, [kTokens][kTokens] each; what the mask hides is NaN.
struct Logits {
  explicit Logits(unsigned seed) : values(size_t{kLayers} * kSequences * kHeads * kTokens * kTokens, NAN) {
    std::mt19937 random(seed);
    NormalFloats normal;
    for (int layer = 0; layer < kLayers; ++layer) {
      for (int sequence = 0; sequence < kSequences; ++sequence) {
        for (int head = 0; head < kHeads; ++head) {
          const float deviation = std::exp(normal(random));  // so that scales differ
          for (int t = 0; t < kTokens; ++t) {
            for (int s = 0; s <= t; ++s) At(layer, sequence, head, t, s) = deviation * normal(random);
          }
        }
      }
    }
  }
  float& At(int layer, int sequence, int head, int t, int s) {
    return values[(((static_cast<size_t>(layer) * kSequences + sequence) * kHeads + head) * kTokens + t) * kTokens + s];
  }
  std::vector<float> values;
};

// Blocks as a forward pass shows them: 64 queries of one head of one sequence.
std::vector<SiteBlock> Blocks(Logits& logits, const ModelConfig& config) {
  std::vector<SiteBlock> blocks;
  for (int layer = 0; layer < kLayers; ++layer) {
    for (int sequence = 0; sequence < kSequences; ++sequence) {
      for (int head = 0; head < kHeads; ++head) {
        for (int t = 0; t < kTokens; t += 64) {
          blocks.push_back({.site = Site::kAttnLogits,
                            .layer = layer,
                            .sequence = 10 + sequence,
                            .slot = sequence,
                            .head = head,
                            .map = MapOf(config, head),
                            .first_row = t,
                            .rows = std::min(64, kTokens - t),
                            .first_columns = t + 1,
                            .column_step = 1,
                            .values = &logits.At(layer, sequence, head, t, 0),
                            .stride = kTokens});
        }
      }
    }
  }
  return blocks;
}

// Blocks in any order on several threads, as attention does.
void Quantize(SimulatedQuantizer& quantizer, Logits& logits, const ModelConfig& config, unsigned seed) {
  std::vector<SiteBlock> blocks = Blocks(logits, config);
  std::ranges::shuffle(blocks, std::mt19937(seed));
  quantizer.BeginBatch(kSequences);
  if (quantizer.NeedsSurvey(Site::kAttnLogits, 0)) {
    ParallelFor(blocks.size(), [&](size_t i, int thread) { quantizer.Survey(blocks[i], thread); });
  }
  ParallelFor(blocks.size(), [&](size_t i, int thread) { quantizer.Visit(blocks[i], thread); });
}

// What shares a scale with (layer, sequence, head, t): any label that is equal for exactly those. No format: left
// alone.
struct Group {
  Format format = Format::kF32;
  std::tuple<int, int, int, int, int> label;
};
using Grouping = std::function<Group(int layer, int sequence, int head, int t)>;

Logits Quantized(Logits logits, const Grouping& grouping) {
  std::map<std::tuple<int, int, int, int, int>, float> absmax;
  const auto for_rows = [&](const auto& body) {
    for (int layer = 0; layer < kLayers; ++layer) {
      for (int sequence = 0; sequence < kSequences; ++sequence) {
        for (int head = 0; head < kHeads; ++head) {
          for (int t = 0; t < kTokens; ++t)
            body(grouping(layer, sequence, head, t), &logits.At(layer, sequence, head, t, 0), t + 1);
        }
      }
    }
  };
  for_rows([&](const Group& group, const float* row, int columns) {
    for (int s = 0; s < columns; ++s) absmax[group.label] = std::max(absmax[group.label], std::fabs(row[s]));
  });
  for_rows([&](const Group& group, float* row, int columns) {
    if (group.format == Format::kF32) return;
    const Scale scale = ScaleFor(absmax[group.label], group.format);
    for (int s = 0; s < columns; ++s)
      row[s] = static_cast<float>(CodeOf(row[s], scale.inv, group.format)) * scale.scale;
  });
  return logits;
}

void ExpectPlan(const char* plan, const ModelConfig& config, const Grouping& grouping) {
  SCOPED_TRACE(plan);
  for (const unsigned seed : {1u, 2u}) {
    Logits logits(seed);
    const Logits expected = Quantized(logits, grouping);
    SimulatedPlan quantizer(plan, config);
    Quantize(quantizer, logits, config, seed);
    for (size_t i = 0; i < expected.values.size(); ++i) {
      ASSERT_TRUE(logits.values[i] == expected.values[i] ||
                  (std::isnan(logits.values[i]) && std::isnan(expected.values[i])))
          << "value " << i << ": got " << logits.values[i] << ", expected " << expected.values[i];
    }
  }
}

TEST(SimulatedQuantizerTest, RowHeadAndTensorShareWhatTheySay) {
  const ModelConfig config = Config("llama");
  ExpectPlan("attn_logits=int8/row", config,
             [](int l, int b, int h, int t) { return Group{Format::kInt8, {l, b, h, t, 0}}; });
  ExpectPlan("attn_logits=int6/head", config,
             [](int l, int b, int h, int) { return Group{Format::kInt6, {l, b, h, 0, 0}}; });
  ExpectPlan("attn_logits=int4/tensor", config,
             [](int l, int b, int, int) { return Group{Format::kInt4, {l, b, 0, 0, 0}}; });
}

TEST(SimulatedQuantizerTest, DifferentialMapsShareATensorsScaleUnlessTheRuleSays) {
  const ModelConfig config = Config("diffllama");
  ExpectPlan("attn_logits=int6/tensor", config,
             [](int l, int b, int, int) { return Group{Format::kInt6, {l, b, 0, 0, 0}}; });
  ExpectPlan("attn_logits[m1]=int6/tensor,attn_logits[m2]=int6/tensor", config,
             [](int l, int b, int h, int) { return Group{Format::kInt6, {l, b, h / 2, 0, 0}}; });
  ExpectPlan("attn_logits[m2]=int4/tensor", config,
             [](int l, int b, int h, int) { return Group{h < 2 ? Format::kF32 : Format::kInt4, {l, b, h / 2, 0, 0}}; });
}

TEST(SimulatedQuantizerTest, SelectorsChooseLayersAndHeads) {
  const ModelConfig config = Config("llama");
  ExpectPlan("attn_logits[l1-2,h0-1]=int8/row", config, [](int l, int b, int h, int t) {
    return Group{l >= 1 && h < 2 ? Format::kInt8 : Format::kF32, {l, b, h, t, 0}};
  });
  // The last rule that matches wins; a tensor is what the rule selects: heads 1 to 3 without head 2.
  ExpectPlan("attn_logits[h1-3]=int8/tensor,attn_logits[h2]=int4/head,attn_logits[l0]=f32", config,
             [](int l, int b, int h, int) {
               if (l == 0 || h == 0) return Group{Format::kF32, {l, b, h, 0, 0}};
               return h == 2 ? Group{Format::kInt4, {l, b, h, 0, 0}} : Group{Format::kInt8, {l, b, 99, 0, 0}};
             });
  // Two rules of one layer, each with a tensor of its own, one inside the other.
  ExpectPlan("attn_logits=int8/tensor,attn_logits[h1-2]=int8/tensor", config,
             [](int l, int b, int h, int) { return Group{Format::kInt8, {l, b, h == 1 || h == 2, 0, 0}}; });
  ExpectPlan("attn_logits=int8/tensor,attn_logits[l1]=int6/row", config, [](int l, int b, int h, int t) {
    return l == 1 ? Group{Format::kInt6, {l, b, h, t, 1}} : Group{Format::kInt8, {l, b, 0, 0, 0}};
  });
}

// Blocks count from a row's first key; NVFP4's f32 is of the tensor.
TEST(SimulatedQuantizerTest, BlocksByDefinition) {
  const ModelConfig config = Config("llama");
  for (const char* const text : {"mxfp4", "mxfp6e2m3:rceil", "nvfp4", "if4"}) {
    const Format format = *ParseFormat(text);
    Logits logits(3), expected(3);
    SimulatedPlan quantizer(Formatted("attn_logits={}", text), config);
    Quantize(quantizer, logits, config, 4);
    for (int l = 0; l < kLayers; ++l) {
      for (int b = 0; b < kSequences; ++b) {
        float of_tensor = 0.0f;
        const auto for_rows = [&](const auto& body) {
          for (int h = 0; h < kHeads; ++h) {
            for (int t = 0; t < kTokens; ++t) body(&expected.At(l, b, h, t, 0), &logits.At(l, b, h, t, 0), t + 1);
          }
        };
        for_rows([&](const float* row, const float*, int n) {
          for (int s = 0; s < n; ++s) of_tensor = std::max(of_tensor, std::fabs(row[s]));
        });
        for_rows([&](const float* row, const float* got, int n) {
          for (int s = 0; s < n; ++s) {
            const int block = Info(format).block, begin = s / block * block, end = std::min(begin + block, n);
            const float absmax = AbsMax({row + begin, static_cast<size_t>(end - begin)});
            const float chosen = BlockEnd(row + begin, end - begin, format, absmax, of_tensor);
            const Scale scale = ScaleFor(chosen, format, of_tensor);
            ASSERT_EQ(got[s], Rounded(row[s], scale.inv, format) * scale.scale) << text << ' ' << s;
          }
        });
      }
    }
  }
}

// E8M0's floor clips the largest f32, ceil doubles it.
TEST(SimulatedQuantizerTest, AScaleBeyondF32IsRefused) {
  const ModelConfig config = Config("llama");
  Logits logits(1);
  logits.At(1, 0, 2, 66, 3) = std::numeric_limits<float>::max();
  Logits floored = logits;
  SimulatedPlan floor("attn_logits=mxfp4", config), ceil("attn_logits=mxfp4:ceil", config);
  Quantize(floor, floored, config, 1);
  EXPECT_EQ(floored.At(1, 0, 2, 66, 3), 0x1.8p127f);
  EXPECT_THAT(
      [&] { Quantize(ceil, logits, config, 1); },
      ThrowsMessage<Error>(HasSubstr(
          "sequence 10, row 66: got 3.4028235e+38, expected a magnitude whose scale in mxfp4:ceil fits in f32")));
}

TEST(SimulatedQuantizerTest, RowsOfZerosStayZero) {
  const ModelConfig config = Config("llama");
  Logits logits(1);
  for (float& value : logits.values) value = std::isnan(value) ? value : 0.0f;
  for (const char* plan : {"attn_logits=int4/row", "attn_logits=int4/head", "attn_logits=int4/tensor",
                           "attn_logits=mxfp4", "attn_logits=nvfp4", "attn_logits=nf4/row"}) {
    SimulatedPlan quantizer(plan, config);
    Quantize(quantizer, logits, config, 1);
    EXPECT_EQ(logits.At(0, 0, 0, 69, 69), 0.0f);
    EXPECT_EQ(logits.At(2, 1, 3, 0, 0), 0.0f);
  }
}

TEST(SimulatedQuantizerTest, BatchesAreIndependent) {
  const ModelConfig config = Config("llama");
  SimulatedPlan quantizer("attn_logits=int8/tensor", config);
  Logits large(1);
  for (float& value : large.values) value *= 1000;
  Quantize(quantizer, large, config, 1);
  Logits logits(2);
  Logits expected = Quantized(logits, [](int l, int b, int, int) { return Group{Format::kInt8, {l, b, 0, 0, 0}}; });
  Quantize(quantizer, logits, config, 1);
  EXPECT_EQ(logits.At(1, 1, 2, 69, 3), expected.At(1, 1, 2, 69, 3));
}

TEST(SimulatedQuantizerTest, WantsOnlyTheSitesOfItsPlan) {
  const SimulatedPlan none("f32", Config("llama")), row("attn_logits=int8/row", Config("llama")),
      head("attn_logits=int8/head", Config("llama"));
  EXPECT_FALSE(none.Wants(Site::kAttnLogits, 0));
  EXPECT_TRUE(row.Wants(Site::kAttnLogits, 0));
  EXPECT_FALSE(row.Wants(Site::kLayerOut, 0));
  EXPECT_FALSE(row.NeedsSurvey(Site::kAttnLogits, 0));
  EXPECT_TRUE(head.NeedsSurvey(Site::kAttnLogits, 0));
}

// One visit of a block of `rows` x `columns` values against groups that are named by (row, column).
using GroupOf = std::function<int(int row, int column)>;

void ExpectGroups(const char* plan, Site site, Format format, const GroupOf& group_of, bool normalised = false) {
  constexpr int kRows = 70, kColumns = 40, kStride = 50;
  std::mt19937 random(3);
  NormalFloats normal;
  std::vector<float> values(size_t{kRows} * kStride);
  for (float& x : values) x = Info(format).min_code < 0 ? normal(random) : std::fabs(normal(random));
  std::vector<float> expected = values;
  std::map<int, float> absmax;
  const auto each = [&](const auto& body) {
    for (int r = 0; r < kRows; ++r) {
      for (int c = 0; c < kColumns; ++c) body(expected[static_cast<size_t>(r) * kStride + c], group_of(r, c));
    }
  };
  each([&](float& x, int group) { absmax[group] = std::max(absmax[group], std::fabs(x)); });
  each([&](float& x, int group) {
    const Scale scale = ScaleFor(absmax[group], format);
    x = static_cast<float>(CodeOf(x, scale.inv, format)) * scale.scale;
  });
  SimulatedPlan quantizer(plan, Config("diffllama"));
  EXPECT_TRUE(quantizer.Wants(site, 0));
  quantizer.BeginBatch(1);
  const SiteBlock block{.site = site,
                        .layer = 0,
                        .head = 1,
                        .map = 1,
                        .rows = kRows,
                        .first_columns = kColumns,
                        .values = values.data(),
                        .stride = kStride};
  if (quantizer.NeedsSurvey(site, 0)) quantizer.Survey(block, 0);
  quantizer.Visit(block, 0);
  for (int r = 0; r < kRows; ++r) {
    double sum = 1;
    if (normalised) {
      sum = 0;
      for (int c = 0; c < kColumns; ++c) sum += expected[static_cast<size_t>(r) * kStride + c];
    }
    for (int c = 0; c < kStride; ++c) {
      const size_t i = static_cast<size_t>(r) * kStride + c;
      // A division and a product instead of a quotient: two roundings of 2^-24.
      const float want = c < kColumns ? static_cast<float>(expected[i] / sum) : expected[i];
      ASSERT_NEAR(values[i], want, normalised ? 0x1p-22f * want : 0.0f) << plan << " row " << r << " column " << c;
    }
  }
}

TEST(SimulatedQuantizerTest, EveryGranularityOfEverySite) {
  const auto row = [](int r, int) { return r; };
  ExpectGroups("q=int8/token", Site::kQ, Format::kInt8, row);
  ExpectGroups("k[h1,m1]=int4/head", Site::kK, Format::kInt4, [](int, int) { return 0; });
  ExpectGroups("k=int6/tensor", Site::kK, Format::kInt6, [](int, int) { return 0; });
  ExpectGroups("v=int8/channel", Site::kV, Format::kInt8, [](int, int c) { return c; });
  ExpectGroups("v=int4/block64.channel", Site::kV, Format::kInt4, [](int r, int c) { return 1000 * (r / 64) + c; });
  ExpectGroups("linear_in=int8/group32", Site::kDownProjIn, Format::kInt8,
               [](int r, int c) { return 10 * r + c / 32; });
  ExpectGroups("linear_in=int6/token", Site::kUpProjIn, Format::kInt6, row);
  ExpectGroups("difference=int6/block16", Site::kDifference, Format::kInt6,
               [](int r, int c) { return 10 * r + c / 16; });
  ExpectGroups("probs=u4/block16", Site::kProbs, Format::kU4, [](int r, int c) { return 10 * r + c / 16; }, true);
  ExpectGroups("probs=u8/row", Site::kProbs, Format::kU8, row, true);
  ExpectGroups("layer_out=int8/token", Site::kLayerOut, Format::kInt8, row);
  ExpectGroups("lm_head.in=int8/tensor", Site::kLmHeadIn, Format::kInt8, [](int, int) { return 0; });
}

// By the formula of round.h, in double.
TEST(SimulatedQuantizerTest, ADifferenceInUnsignedCodesHasAZeroPoint) {
  std::vector<float> values{0.5f, -0.25f, 0.125f, 0.0f, 0.75f, 0.375f, -0.5f, -0.125f};
  const std::vector<float> before = values;
  SimulatedPlan quantizer("difference=u4/block4", Config("diffllama"));
  quantizer.Visit({.site = Site::kDifference, .rows = 1, .first_columns = 8, .values = values.data(), .stride = 8}, 0);
  for (int i = 0; i < 8; ++i) {
    const double inv = (15 - 0x1p-10) / (i < 4 ? 0.75 : 1.25), zero = std::nearbyint((i < 4 ? 0.25 : 0.5) * inv);
    EXPECT_FLOAT_EQ(values[i], static_cast<float>(std::nearbyint(before[i] * inv) / inv)) << i;
    EXPECT_TRUE(std::nearbyint(before[i] * inv) + zero >= 0 && std::nearbyint(before[i] * inv) + zero <= 15) << i;
  }
}

// Codes of what is left after the mean of the first 64 tokens is taken away.
TEST(SimulatedQuantizerTest, SmoothingSubtractsTheMeanOfThePrefix) {
  constexpr int kRows = 80;
  std::vector<float> values(kRows);
  for (int r = 0; r < kRows; ++r) values[r] = 10.0f + (r % 2 == 0 ? 1.0f : -1.0f);
  SimulatedPlan quantizer("v=int4/channel+smooth", Config("llama"));
  EXPECT_TRUE(quantizer.resolved.SpansRows());
  quantizer.Visit({.site = Site::kV,
                   .layer = 0,
                   .head = 0,
                   .rows = kRows,
                   .first_columns = 1,
                   .values = values.data(),
                   .stride = 1},
                  0);
  for (int r = 0; r < kRows; ++r) EXPECT_EQ(values[r], 10.0f + (r % 2 == 0 ? 1.0f : -1.0f)) << r;  // +-7 of 7 codes
}

TEST(SimulatedQuantizerTest, NanAndInfinityAreLocated) {
  const ModelConfig config = Config("llama");
  for (const char* plan : {"attn_logits=int8/row", "attn_logits=int8/head", "attn_logits=int8/tensor"}) {
    for (const float bad : {std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::infinity()}) {
      Logits logits(1);
      logits.At(1, 1, 3, 66, 20) = bad;
      SimulatedPlan quantizer(plan, config);
      EXPECT_THAT([&] { Quantize(quantizer, logits, config, 3); },
                  ThrowsMessage<Error>(
                      HasSubstr("layer 1, head 3, map 1, attn_logits, sequence 11, row 66: got NaN or infinity")))
          << plan;
    }
  }
}

// A model whose logits overflow says where instead of scoring noise.
TEST(SimulatedQuantizerTest, AModelsInfiniteLogitsAreLocated) {
  const TemporaryFolder folder;
  EditedCheckpoint checkpoint(GoldenFolder("llama-mha"));
  for (const char* name : {"q_proj", "k_proj"}) {
    EditedCheckpoint::Tensor& tensor =
        checkpoint.tensors.at(std::string("model.layers.1.self_attn.") + name + ".weight");
    for (size_t i = 0; i < 64 * 64; ++i) tensor.SetBits(i, 0x60000000);  // 2^65 each
  }
  checkpoint.Write(folder / "m");
  Model model(folder / "m");
  SimulatedPlan quantizer("attn_logits=int8/row", model.config());
  SiteVisitor* const visitors[] = {&quantizer};
  EXPECT_THAT([&] { model.Forward(GoldenBatch("llama-mha"), visitors); },
              ThrowsMessage<Error>(HasSubstr("layer 1, head")));
}

}  // namespace
}  // namespace tare::simulated_quantizer_test
