// SPDX-License-Identifier: Apache-2.0
#include "experiments/studies/attribution/captured_attribution.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "quant/base/message.h"
#include "tests/quant/file/temporary_folder.h"
#include "tests/support/arrays.h"
#include "tests/support/call.h"

namespace tare::captured_attribution_test {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

constexpr int64_t kB = 3, kH = 2, kT = 7, kD = 4;

using Arrays = std::map<std::string, TestArray>;

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

using Change = double (*)(double value, double absmax);
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
}  // namespace tare::captured_attribution_test
