// SPDX-License-Identifier: Apache-2.0
// Captured q, k and v of modules of every variant: their output, what is shown on the way, with and without rounding,
// and refusals.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "experiments/observe/captured/captured_statistics.h"
#include "experiments/studies/attribution/attribution.h"
#include "experiments/studies/attribution/map_errors.h"
#include "quant/base/message.h"
#include "tests/quant/file/temporary_folder.h"
#include "tests/support/arrays.h"
#include "tests/support/attention_module.h"
#include "tests/support/call.h"
#include "tests/support/site_recorder.h"

namespace tare::captured_variants_test {
namespace {

using attention_module::ExpectNear;
using attention_module::kVariantModules;
using attention_module::Narrow;
using attention_module::ReadVariant;
using attention_module::VariantModule;

using testing::HasSubstr;
using testing::ThrowsMessage;

// A module's q, k, v and output [B,T,H,D] as a file, and how they meet.
struct Captured {
  explicit Captured(const std::string& name) : a(ReadVariant(name)) {
    const int kv = a.module.Argument("kv_heads", a.count);
    const auto put = [&](const std::string& site, const std::vector<float>& values, int64_t heads) {
      arrays[site + ".0"] = {{a.batch, a.tokens, heads, std::ssize(values) / (a.batch * a.tokens * heads)}, values};
      axes[site] = {{"axes", "BTHD"}};
    };
    put("q", a.q, a.Maps() * a.count), put("k", a.k, a.Maps() * kv), put("v", a.v, kv);
    put("head_out", Narrow(a.module.tensors["o"]), a.count);
    nlohmann::json& how = axes["attention"] = {{"heads", a.heads}, {"variant", a.variant.name}};
    if (a.Maps() == 2) how["lambda"] = a.lambda;
    if (a.mask.kind == Mask::Kind::kFull) how["mask"] = "none";
    if (a.beta > 0) how["beta"] = a.beta;
  }
  CapturedInput Input() const {
    PutArrays(folder / "c.safetensors", arrays);
    PutFile(folder / "axes.json", axes.dump());
    return LoadCaptured({folder / "c.safetensors"}, CapturedLayout::Load(folder / "axes.json"));
  }
  void Refuses(const char* plan, const char* message) const {
    EXPECT_THAT(Call([&] {
                  ForCapturedLayers(Input(), {}, [&](CapturedLayer& layer, const std::vector<int>& layers) {
                    SimulatedAttention run(Plan::Parse(plan), AttentionSites(layer.problem(), layers));
                  });
                }),
                ThrowsMessage<Error>(HasSubstr(message)));
  }

  TemporaryFolder folder;
  VariantModule a;
  std::map<std::string, TestArray> arrays;
  nlohmann::json axes;
};

bool IsCross(std::string_view name) { return name.starts_with("sa3-cross"); }  // k of other tokens is not captured

TEST(CapturedVariants, AreTheirModules) {
  for (const char* name : kVariantModules) {
    if (IsCross(name)) continue;
    SCOPED_TRACE(name);
    Captured c(name);
    ForCapturedLayers(c.Input(), {}, [&](CapturedLayer& layer, const std::vector<int>& layers) {
      SimulatedAttention exact(Plan(), AttentionSites(layer.problem(), layers));
      const std::vector<float>& out = layer.Under(exact);
      ExpectNear({out.begin(), out.end()}, c.a.module.tensors["o"]);
      SimulatedAttention rounded(Plan::Parse("attn_logits=int4/row"), AttentionSites(layer.problem(), layers));
      WindowLosses losses;
      layer.AddLosses(layer.Under(rounded), losses);
      EXPECT_GT(MeanOf(losses, name), 1e-6);
    });
  }
}

// What DINT shows as the difference follows from the maps that it shows, rounded or not: G is of rounded maps, and a
// causal mask hides no later key of the mean of all.
TEST(CapturedVariants, DintsDifferenceFollowsFromTheShownMaps) {
  for (const char* name : {"dint-causal-a", "dint-causal-b", "dint-all-a", "dint-all-b"}) {
    for (const char* plan : {"q=int8/token", "probs=u4/row+unnormalized"}) {
      SCOPED_TRACE(testing::Message() << name << " " << plan);
      const Captured c(name);
      const bool all = c.a.variant.integral == Integral::kAll;
      ForCapturedLayers(c.Input(), {}, [&](CapturedLayer& layer, const std::vector<int>& layers) {
        SimulatedAttention run(Plan::Parse(plan), AttentionSites(layer.problem(), layers));
        Recorder shown;
        layer.Show(layer.sequences().front(), run, shown);
        const int64_t T = layer.sequences().front().prefix;
        for (int head = 0; head < c.a.count; ++head) {
          const auto at = [&](int map, int64_t query, int64_t key) {
            const Row& row = shown.sites.at({Site::kProbs, 0, 2 * head + map, map + 1}).rows.at({0, query});
            return key < std::ssize(row) ? double{row[key]} : 0.0;
          };
          for (int64_t t = 0; t < T; ++t) {
            const Row& row = shown.sites.at({Site::kDifference, 0, head, {}}).rows.at({0, t});
            ASSERT_EQ(std::ssize(row), all ? T : t + 1);
            const int64_t queries = all ? T : t + 1;
            for (int64_t key = 0; key < std::ssize(row); ++key) {
              double mean = 0;
              for (int64_t n = 0; n < queries; ++n) mean += at(0, n, key) / static_cast<double>(queries);
              ASSERT_NEAR(row[key], at(0, t, key) - c.a.lambda * (at(1, t, key) - mean), 1e-6) << t << " " << key;
            }
          }
        }
      });
    }
  }
}

TEST(CapturedVariants, RefusesWhatTheyLack) {
  Captured threshold("tda-a"), dint("dint-causal-a"), other("tda-a");
  threshold.Refuses("probs=u8/block64", "expected +unnormalized, as threshold's rows do not sum to 1");
  threshold.Refuses("attn_logits=int8/row+sink", "as threshold has no sum of exponentials");
  for (const Captured* c : {&threshold, &dint}) {
    EXPECT_THAT(Call([&] { MeasureMapErrors(c->Input(), Plan::Parse("q=int8/token"), {}, {}); }),
                ThrowsMessage<Error>(HasSubstr(std::string("errors of maps: got ") + std::string(c->a.variant.name))));
  }
  other.axes["attention"]["beta"] = -0.5;
  other.Refuses("q=int8/token", "threshold: got beta -0.5, expected a finite number from 0 on");
  other.axes["attention"].erase("beta");
  other.Refuses("q=int8/token", "axes.json: attention: got the variant threshold alone, expected \"beta\" beside it");
  EXPECT_EQ(ReadAs(dint.Input())["variant"], "dint");
  other.axes["attention"]["beta"] = 0.5;
  other.Refuses("q=int8/token", "try heads, variant, lambda, beta, scale or mask of \"attention\"");
  other.axes["attention"]["window"] = 3;
  other.Refuses("q=int8/token", "threshold: got another mask, expected causal");
  dint.axes["attention"]["mask"] = "none";
  dint.Refuses("q=int8/token", "dint: got another mask, expected causal, or with dint-all none");
  dint.axes["attention"] = {{"heads", "standard"}, {"variant", "dint"}};
  dint.arrays["v.0"] = dint.arrays["k.0"];
  dint.Refuses("q=int8/token", "dint: got heads with one map, expected two");
  dint.axes["attention"]["variant"] = "dsa";
  dint.Refuses("q=int8/token", "as variant softmax, softpick, threshold, dint, dint-all");
}

}  // namespace
}  // namespace tare::captured_variants_test
