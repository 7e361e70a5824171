// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "experiments/significance/mean_error.h"
#include "experiments/studies/attribution/attribution.h"
#include "quant/base/message.h"
#include "tests/quant/file/temporary_folder.h"
#include "tests/support/arrays.h"
#include "tests/support/call.h"
#include "tests/support/sweep_cells.h"

namespace tare::attribution_test {
namespace {

using Arrays = std::map<std::string, TestArray>;
using Change = double (*)(double value, double absmax);
using testing::HasSubstr;
using testing::ThrowsMessage;

const Plan kPlan = Plan::Parse("q=int4/token,k=int4/token");

std::vector<PlanPart> Parts() {
  ModelSites model{.family = "toy", .layers = 1, .maps = 1, .tied_head = false, .heads = {}, .weights = {}};
  model.heads[Site::kQ] = model.heads[Site::kK] = {std::nullopt};
  return PartsOf(kPlan, {.site = true}, model);
}

// Losses of four times five windows of ten tokens, the same spread in all runs: then errors of differences are of what
// differs.
std::vector<SweepCell> Cells(const std::vector<double>& q, const std::vector<double>& k,
                             const std::vector<double>& both) {
  const auto cell = [](const char* plan, std::vector<double> more) {
    const double hard[] = {20, 27, 24, 21, 28};
    double mean = 0;
    std::vector<double> losses;
    for (size_t i = 0; i < 20; ++i) mean += losses.emplace_back(more[i % 5] + hard[i % 5]) / 200;
    return Perplexity("m", plan, std::exp(mean), losses);
  };
  return {cell("f32", {0, 0, 0, 0, 0}),
          cell("q=int4/token,k=int4/token", both),
          cell("q=int4/token", q),
          cell("k=int4/token", k),
          cell("q=int4/token,k=int4/token,q=f32", k),
          cell("q=int4/token,k=int4/token,k=f32", q)};
}

TEST(Attribution, PlansOfTheRuns) {
  EXPECT_THAT(AttributionPlans(kPlan, Parts(), PartCosts::kAloneAndTakenOut),
              testing::ElementsAre("f32", "q=int4/token,k=int4/token", "q=int4/token", "k=int4/token",
                                   "q=int4/token,k=int4/token,q=f32", "q=int4/token,k=int4/token,k=f32"));
  EXPECT_THAT(AttributionPlans(kPlan, Parts(), PartCosts::kAlone),
              testing::ElementsAre("f32", "q=int4/token,k=int4/token", "q=int4/token", "k=int4/token"));
}

// Perplexity and nll are of the same losses: k costs most, and both together 0.05 nats more than their sum.
TEST(Attribution, WhatIsLeftOverHasItsOwnPairedError) {
  const std::vector<Attribution> all = Attribute(Cells({1, 1, 1, 1, 1}, {2, 3, 4, 5, 6}, {3, 4.5, 5.5, 6.5, 8}), kPlan,
                                                 Parts(), PartCosts::kAloneAndTakenOut);
  ASSERT_EQ(all.size(), 2u);
  const Attribution& perplexity = all[0];
  ASSERT_EQ(perplexity.parts.size(), 2u);
  EXPECT_EQ(perplexity.parts[0].part.name, "k");
  const double f32 = std::exp(2.4), q = std::exp(2.5), k = std::exp(2.8), both = std::exp(2.95);
  EXPECT_NEAR(perplexity.change.value, both - f32, 1e-12);
  EXPECT_NEAR(perplexity.parts[0].alone.value, k - f32, 1e-12);
  EXPECT_NEAR(perplexity.parts[0].taken_out->value, both - q, 1e-12);
  EXPECT_NEAR(perplexity.parts[1].taken_out->value, both - k, 1e-12);
  EXPECT_NEAR(perplexity.sum.value, k + q - 2 * f32, 1e-12);
  EXPECT_NEAR(perplexity.left_over.value, both - f32 - (k + q - 2 * f32), 1e-12);
  // g_i of what is left over, by the runs' own derivatives.
  const double mean[] = {2.95, 2.4, 2.5, 2.8}, slope[] = {both, f32, -q, -k}, hard[] = {20, 27, 24, 21, 28};
  const double more[4][5] = {{3, 4.5, 5.5, 6.5, 8}, {0, 0, 0, 0, 0}, {1, 1, 1, 1, 1}, {2, 3, 4, 5, 6}};
  std::vector<double> g;
  for (int i = 0; i < 20; ++i) {
    g.push_back(0);
    for (int r = 0; r < 4; ++r) g.back() += slope[r] * (hard[i % 5] + more[r][i % 5] - mean[r] * 10) / 10;
  }
  EXPECT_NEAR(*perplexity.left_over.error, ErrorOfMean(g, Units::kOfText)->error, 1e-12);
  EXPECT_TRUE(perplexity.left_over.p_holm.has_value());
  EXPECT_GE(*perplexity.left_over.p_holm, *perplexity.left_over.p);
}

// By items: q gains none and loses six of 40, k loses four others, both lose all ten and two more.
TEST(Attribution, OfItems) {
  const auto right = [](int lost_from, int lost_to) {
    std::string text(40, '1');
    for (int i = lost_from; i < lost_to; ++i) text[static_cast<size_t>(i)] = '0';
    return text;
  };
  std::vector<SweepCell> cells;
  const auto add = [&](const char* plan, const std::string& outcomes) {
    cells.push_back(Choice(plan, outcomes, outcomes));
  };
  add("f32", right(0, 0));
  add("q=int4/token,k=int4/token", right(0, 12));
  add("q=int4/token", right(0, 6));
  add("k=int4/token", right(6, 10));
  add("q=int4/token,k=int4/token,q=f32", right(6, 10));
  add("q=int4/token,k=int4/token,k=f32", right(0, 6));
  const std::vector<Attribution> all = Attribute(cells, kPlan, Parts(), PartCosts::kAloneAndTakenOut);
  EXPECT_EQ(all[0].parts[0].part.name, "q");
  EXPECT_NEAR(all[0].parts[0].alone.value, -0.15, 1e-12);
  EXPECT_NEAR(all[0].parts[0].taken_out->value, -0.2, 1e-12);
  EXPECT_NEAR(all[0].left_over.value, -0.05, 1e-12);
  EXPECT_EQ(all[0].left_over.items->lost, 2);
  EXPECT_EQ(all[0].left_over.items->gained, 0);
  EXPECT_EQ(all[0].sum.items->lost, 10);
}

// Without the runs for what is taken out, nothing else changes but the number of comparisons.
TEST(Attribution, OfPartsAlone) {
  std::vector<SweepCell> cells = Cells({1, 1, 1, 1, 1}, {2, 3, 4, 5, 6}, {3, 4.5, 5.5, 6.5, 8});
  const Attribution all = Attribute(cells, kPlan, Parts(), PartCosts::kAloneAndTakenOut).at(0);
  cells.resize(4);
  const Attribution alone = Attribute(cells, kPlan, Parts(), PartCosts::kAlone).at(0);
  ASSERT_EQ(alone.parts.size(), 2u);
  EXPECT_EQ(alone.parts[0].part.name, "k");
  EXPECT_EQ(alone.parts[0].alone.value, all.parts[0].alone.value);
  EXPECT_EQ(alone.parts[0].alone.p, all.parts[0].alone.p);
  EXPECT_FALSE(alone.parts[0].taken_out);
  EXPECT_EQ(alone.left_over.value, all.left_over.value);
  EXPECT_EQ(alone.left_over.error, all.left_over.error);
}

TEST(Attribution, AMissingCellIsNamed) {
  std::vector<SweepCell> cells = Cells({1, 1, 1, 1, 1}, {2, 3, 4, 5, 6}, {3, 4, 5, 6, 8});
  cells.pop_back();
  EXPECT_THAT(Call([&] { Attribute(cells, kPlan, Parts(), PartCosts::kAloneAndTakenOut); }),
              testing::ThrowsMessage<Error>(testing::HasSubstr(
                  "perplexity:t under q=int4/token,k=int4/token,k=f32: got no finished run, expected one")));
}

// 40 items, of which those in [from, to) are lost.
std::string Lost(size_t from, size_t to, size_t also_from = 0, size_t also_to = 0) {
  std::string text(40, '1');
  std::fill(text.begin() + static_cast<long>(from), text.begin() + static_cast<long>(to), '0');
  std::fill(text.begin() + static_cast<long>(also_from), text.begin() + static_cast<long>(also_to), '0');
  return text;
}

// A model that has these parts of the plan, each alone with these outcomes.
AttributedModel ModelOf(const char* model, const Plan& plan, const std::string& whole,
                        const std::vector<std::pair<std::string, std::string>>& parts) {
  AttributedModel m{.cells = {}, .attributions = {}};
  std::vector<PlanPart> cut;
  const auto add = [&](const std::string& under, const std::string& outcomes) {
    m.cells.push_back(Choice(under, outcomes, outcomes, model));
  };
  add("f32", Lost(0, 0));
  add(plan.canonical(), whole);
  for (const auto& [site, outcomes] : parts) {
    cut.push_back({site, Plan::Parse(site + "=int4/token"), Plan::Parse(plan.canonical() + "," + site + "=f32")});
    add(cut.back().alone.canonical(), outcomes);
    add(cut.back().without.canonical(), whole);
  }
  m.attributions = Attribute(m.cells, plan, cut, PartCosts::kAloneAndTakenOut);
  return m;
}

const Plan kBoth = Plan::Parse("q=int4/token,k=int4/token");

// q costs the first model items 0 to 5, the second 0, 1 and 6 to 8: four fewer and three more.
TEST(AttributionPair, DifferencesArePairedByItem) {
  const AttributedModel a = ModelOf("a", kBoth, Lost(0, 8), {{"q", Lost(0, 6)}, {"k", Lost(6, 8)}});
  const AttributedModel b = ModelOf("b", kBoth, Lost(0, 20), {{"q", Lost(0, 2, 6, 9)}, {"k", Lost(0, 20)}});
  const std::vector<AttributionPair> pairs = PairAttributions(a, b, kBoth);
  ASSERT_EQ(pairs.size(), 1u);  // a task's primary figure
  EXPECT_EQ(pairs[0].task, "choice:c");
  EXPECT_STREQ(pairs[0].figure.name, "acc");
  ASSERT_EQ(pairs[0].parts.size(), 2u);
  const PartPair &k = pairs[0].parts[0], &q = pairs[0].parts[1];  // k costs most: the second model half
  EXPECT_EQ(k.part, "k");
  EXPECT_NEAR(*k.first, -0.05, 1e-12);
  EXPECT_NEAR(*k.second, -0.5, 1e-12);
  EXPECT_EQ(q.part, "q");
  EXPECT_NEAR(q.difference->value, (6 - 5) / 40.0, 1e-12);
  EXPECT_EQ(q.difference->items->gained, 4);
  EXPECT_EQ(q.difference->items->lost, 3);
  EXPECT_NEAR(pairs[0].whole.difference->value, (8 - 20) / 40.0, 1e-12);
  // Holm over two parts and the whole: k loses 18 that the first keeps, and keeps none that it loses.
  EXPECT_EQ(k.difference->items->lost, 18);
  EXPECT_NEAR(*k.difference->p_holm, 3 * *k.difference->p, 1e-12);
}

TEST(AttributionPair, APartThatOneModelLacks) {
  const Plan plan = Plan::Parse("q=int4/token,k=int4/token,v=int4/token");
  const AttributedModel a = ModelOf("a", plan, Lost(0, 9), {{"q", Lost(0, 6)}, {"k", Lost(6, 8)}});
  const AttributedModel b = ModelOf("b", plan, Lost(0, 9), {{"q", Lost(0, 6)}, {"v", Lost(6, 9)}});
  const std::vector<AttributionPair> pairs = PairAttributions(a, b, plan);
  ASSERT_EQ(pairs.at(0).parts.size(), 3u);
  EXPECT_EQ(pairs[0].parts[1].part, "v");
  EXPECT_FALSE(pairs[0].parts[1].first || pairs[0].parts[1].difference);
  EXPECT_EQ(pairs[0].parts[2].part, "k");
  EXPECT_FALSE(pairs[0].parts[2].second || pairs[0].parts[2].difference);
}

TEST(AttributionPair, AMissingCellIsNamed) {
  const AttributedModel a = ModelOf("a", kBoth, Lost(0, 8), {{"q", Lost(0, 6)}, {"k", Lost(6, 8)}});
  AttributedModel b = a;
  b.cells.erase(b.cells.begin() + 2);
  EXPECT_THAT(Call([&] { PairAttributions(a, b, kBoth); }),
              testing::ThrowsMessage<Error>(testing::HasSubstr("choice:c under q=int4/token: got no finished run")));
}

constexpr int64_t kB = 3, kH = 2, kT = 7, kD = 4;

Arrays Captured() {
  const std::vector<int64_t> shape{kB, kH, kT, kD};
  Arrays arrays{{"q.0", SomeArray(shape)}, {"k.0", SomeArray(shape)}, {"v.0", SomeArray(shape)}};
  for (size_t i = 0; i < arrays["k.0"].values.size(); ++i) {
    arrays["k.0"].values[i] = std::sin(0.7f * static_cast<float>(i * i % 83));
    arrays["v.0"].values[i] = std::cos(1.3f * static_cast<float>(i * i % 61));
  }
  return arrays;
}

std::vector<Attribution> Price(const Arrays& arrays, const char* plan, const std::string& axes = "{}") {
  const TemporaryFolder folder;
  PutArrays(folder / "c.safetensors", arrays);
  PutFile(folder / "axes.json", axes);
  const CapturedInput input = LoadCaptured({folder / "c.safetensors"}, CapturedLayout::Load(folder / "axes.json"));
  return AttributeCaptured(input, Plan::Parse(plan), {});
}

double Exact(double value, double) { return value; }
double Int4(double value, double absmax) { return std::nearbyint(value * 7 / absmax) * absmax / 7; }
double Int8(double value, double absmax) { return std::nearbyint(value * 127 / absmax) * absmax / 127; }

template <typename Values>
void ChangeRow(Values& row, Change change) {
  double absmax = 0;
  for (const double x : row) absmax = std::max(absmax, std::abs(x));
  for (double& x : row) x = change(x, absmax);
}

// Causal attention in double with rows of logits and of values changed, [B][H][T][D].
std::vector<double> Attention(const Arrays& arrays, Change of_logits, Change of_values) {
  std::vector<double> out;
  const auto row = [&](const char* name, int64_t head, int64_t t) {
    const float* from = &arrays.at(name).values[static_cast<size_t>((head * kT + t) * kD)];
    return std::vector<double>(from, from + kD);
  };
  for (int64_t head = 0; head < kB * kH; ++head) {
    for (int64_t t = 0; t < kT; ++t) {
      std::vector<double> logits, o(kD);
      for (int64_t s = 0; s <= t; ++s) {
        const std::vector<double> q = row("q.0", head, t), k = row("k.0", head, s);
        logits.push_back(0);
        for (size_t d = 0; d < kD; ++d) logits.back() += q[d] * k[d] / 2;
      }
      ChangeRow(logits, of_logits);
      double sum = 0;
      for (const double x : logits) sum += std::exp(x);
      for (int64_t s = 0; s <= t; ++s) {
        std::vector<double> v = row("v.0", head, s);
        ChangeRow(v, of_values);
        for (size_t d = 0; d < kD; ++d) o[d] += std::exp(logits[static_cast<size_t>(s)]) / sum * v[d];
      }
      out.insert(out.end(), o.begin(), o.end());
    }
  }
  return out;
}

double Nmse(const Arrays& arrays, Change of_logits, Change of_values) {
  const std::vector<double> exact = Attention(arrays, Exact, Exact), other = Attention(arrays, of_logits, of_values);
  double errors = 0, squares = 0;
  for (size_t i = 0; i < exact.size(); ++i)
    errors += (other[i] - exact[i]) * (other[i] - exact[i]), squares += exact[i] * exact[i];
  return errors / squares;
}

// f32 rounds each output by 2^-23 or so, against errors of a thousandth and more.
void ExpectNear(double got, double expected) { EXPECT_NEAR(got, expected, 1e-3 * expected); }

TEST(AttributeCaptured, ErrorsAreThoseOfTheFormula) {
  const Arrays arrays = Captured();
  const std::vector<Attribution> one = Price(arrays, "attn_logits=int4/row");
  ASSERT_EQ(one.size(), 1u);
  EXPECT_EQ(one[0].task, "head_out.0");
  EXPECT_EQ(one[0].baseline, 0);
  ExpectNear(one[0].whole, Nmse(arrays, Int4, Exact));
  EXPECT_EQ(one[0].count, kB);
  const std::vector<Attribution> two = Price(arrays, "attn_logits=int4/row,v=int8/token");
  ASSERT_EQ(two[0].parts.size(), 2u);
  EXPECT_EQ(two[0].parts[0].part.name, "attn_logits");
  EXPECT_EQ(two[0].parts[0].alone.value, one[0].whole);
  ExpectNear(two[0].parts[1].alone.value, Nmse(arrays, Exact, Int8));
  ExpectNear(two[0].whole, Nmse(arrays, Int4, Int8));
  EXPECT_EQ(two[0].parts[1].taken_out->value, two[0].whole - one[0].whole);
}

TEST(AttributeCaptured, PaddingAndAxesChangeNothing) {
  Arrays arrays = Captured(), turned, padded;
  for (const auto& [name, array] : arrays) {
    turned[name] = {{kB, kT, kH, kD}, std::vector<float>(array.values.size())};
    padded[name] = {{kB, kH, kT + 2, kD}, std::vector<float>(array.values.size() / kT * (kT + 2), 9.0f)};
    for (int64_t i = 0; i < std::ssize(array.values); ++i) {
      const int64_t d = i % kD, t = i / kD % kT, h = i / kD / kT % kH, b = i / kD / kT / kH;
      turned[name].values[static_cast<size_t>(((b * kT + t) * kH + h) * kD + d)] = array.values[static_cast<size_t>(i)];
      padded[name].values[static_cast<size_t>(((b * kH + h) * (kT + 2) + t + 2) * kD + d)] =
          array.values[static_cast<size_t>(i)];
    }
  }
  padded["attention_mask"] = {{kB, kT + 2}, {}};
  for (int64_t i = 0; i < kB * (kT + 2); ++i) padded["attention_mask"].values.push_back(i % (kT + 2) < 2 ? 0.0f : 1.0f);
  const double expected = Price(arrays, "attn_logits=int4/row")[0].whole;
  const std::string axes = R"({"q": {"axes": "BTHC"}, "k": {"axes": "BTHC"}, "v": {"axes": "BTHC"}})";
  EXPECT_EQ(Price(turned, "attn_logits=int4/row", axes)[0].whole, expected);
  EXPECT_EQ(Price(padded, "attn_logits=int4/row")[0].whole, expected);
}

TEST(AttributeCaptured, RefusesWhatDoesNotFit) {
  const auto refuses = [](const Arrays& arrays, const char* plan, const std::string& axes, const char* message) {
    EXPECT_THAT(Call([&] { Price(arrays, plan, axes); }), ThrowsMessage<Error>(HasSubstr(message)));
  };
  Arrays arrays = Captured();
  refuses(arrays, "weights=int8/channel", "{}", "got no rule for attention, expected q, k, v");
  refuses(arrays, "q=int8/token,cache_k=int4/token", "{}", "got cache_k, expected q, k, v, attn_logits, probs");
  refuses(arrays, "k=int8/tensor+static", "{}", "got +static, expected scales of the arrays themselves");
  refuses(arrays, "layer_out=int8/token,q=int8/token", "{}", "got layer_out, expected a site of this captured model");
  const std::string diffllama = R"({"attention": {"heads": "diffllama"}})";
  refuses(arrays, "q=int8/token", diffllama,
          "got no lambda for the second map of heads diffllama, expected \"lambda\"");
  refuses(arrays, "q=int8/token", R"({"attention": {"heads": "v3"}})", "layer 0: heads: got 'v3'");
  refuses(arrays, "q=int8/token", R"({"attention": {"mask": "window"}})", "attention.mask: got \"window\"");
  refuses(arrays, "q=int8/token", R"({"attention": {"window": 0}})", "attention.window: got 0");
  refuses(arrays, "q=int8/token", R"({"attention": []})", "attention: got array, expected an object");
  refuses(arrays, "q=int8/token", R"({"attention": {"lambda": 0.5}})",
          "got a lambda, but heads standard have no second map; try --axes with {\"attention\"");
  Arrays no_k = arrays;
  no_k.erase("k.0");
  refuses(no_k, "q=int8/token", "{}", "layer 0: got no k, expected q, k and v for a plan");
  Arrays nan = arrays;
  nan["k.0"].values[5] = std::nanf("");
  refuses(nan, "q=int8/token", "{}", "k.0: got NaN or infinity in sequence 0, head 0, token 1");
  const std::vector<double> output = Attention(arrays, Exact, Exact);
  arrays["head_out.0"] = {{kB, kH, kT, kD}, std::vector<float>(output.begin(), output.end())};
  EXPECT_EQ(Price(arrays, "q=int8/token").size(), 1u);
  refuses(arrays, "q=int8/token", R"({"attention": {"scale": 1.0}})", "got a head_out that is not the attention of q");
  refuses(arrays, "q=int8/token", R"({"attention": {"mask": "none"}})",
          "got a head_out that is not the attention of q");
}

// Heads of two maps: lambda as a number and as an array.
TEST(AttributeCaptured, DifferentialHeadsTakeTheirLambda) {
  Arrays arrays = Captured();
  const double half =
      Price(arrays, "difference=int4/row", R"({"attention": {"heads": "diffllama", "lambda": 0.5}})")[0].whole;
  EXPECT_GT(half, 1e-4);
  arrays["lambda.0"] = {{kB, 1, kT, 1}, std::vector<float>(kB * kT, 0.5f)};
  const std::string diffllama = R"({"attention": {"heads": "diffllama"}})";
  EXPECT_EQ(Price(arrays, "difference=int4/row", diffllama)[0].whole, half);
  arrays["lambda.0"] = {{1}, {0.5f}};
  EXPECT_EQ(Price(arrays, "difference=int4/row", diffllama)[0].whole, half) << "a value per head";
  arrays["lambda.0"] = {{2}, {0.5f, 0.5f}};
  EXPECT_THAT(Call([&] { Price(arrays, "difference=int4/row", diffllama); }),
              ThrowsMessage<Error>(HasSubstr("got a lambda [2] for the second map of heads diffllama, expected")));
}

// Each head by its own lambda, at every token.
TEST(AttributeCaptured, ALambdaPerHeadIsThatOfItsTokens) {
  Arrays arrays;
  for (const char* name : {"q.0", "k.0", "v.0"}) arrays[name] = SomeArray({kB, 4, kT, kD});
  const std::string diffllama = R"({"attention": {"heads": "diffllama"}})";
  arrays["lambda.0"] = {{2}, {0.2f, 0.7f}};
  const double by_head = Price(arrays, "difference=int4/row", diffllama)[0].whole;
  arrays["lambda.0"] = {{kB, 2, kT, 1}, {}};
  for (int64_t i = 0; i < kB * 2 * kT; ++i) arrays["lambda.0"].values.push_back(i / kT % 2 == 0 ? 0.2f : 0.7f);
  EXPECT_EQ(Price(arrays, "difference=int4/row", diffllama)[0].whole, by_head);
}

}  // namespace

}  // namespace tare::attribution_test
