// SPDX-License-Identifier: Apache-2.0
// What a product reads of a weight, told by its bits: values, codes with inputs in 15 bits, or codes with inputs in 8.
#include "experiments/model/linear/linear_weights.h"

#include <gtest/gtest.h>

#include <cmath>
#include <optional>
#include <utility>
#include <vector>

#include "experiments/model/linear/weight_matrix.h"
#include "quant/base/float16.h"
#include "tests/support/random_quantized.h"

namespace tare::linear_weights_test {
namespace {

constexpr int64_t kOut = 70, kIn = 64, kMany = kFewTokens + 1;

enum class Read { kValues, kCodes, kCodesAndInputs };

class LinearWeightsTest : public testing::Test {
 protected:
  // y of so many rows of x.
  std::vector<float> Product(const LinearWeights& linear, int64_t rows) {
    AlignedBuffer<float> y(static_cast<size_t>(PaddedRows(rows) * kOut));
    const LinearProduct product{linear, y.data()};
    products_.Project(x_.data(), rows, {&product, 1});
    return {y.data(), y.data() + rows * kOut};
  }
  std::vector<float> InFloat(int64_t rows) {
    AlignedBuffer<char> memory;
    AlignedBuffer<float> y(static_cast<size_t>(PaddedRows(rows) * kOut));
    const DenseMatrix values = tare::InFloat(WeightMatrix(&codes_.view()), Math::kF32, memory, "w");
    const Projection projection{.weight = values, .y = y.data()};
    projector_.Project(x_.data(), rows, {&projection, 1});
    return {y.data(), y.data() + rows * kOut};
  }
  // Products of codes, each row alone, or with inputs in 8 bits.
  std::vector<float> InIntegers(int64_t rows, const std::optional<TokenFormat>& format) {
    const PackedMatrix packed(codes_.view());
    std::vector<float> y(static_cast<size_t>(rows * kOut));
    for (int64_t row = 0; row < rows; ++row) {
      const QuantizedProjection projection{&packed, nullptr, y.data() + row * kOut};
      if (format) {
        QuantizedLinear().Project(x_.data() + row * kIn, 1, *format, {&projection, 1});
      } else {
        OneTokenProjector().Project(x_.data() + row * kIn, 1, {&projection, 1});
      }
    }
    return y;
  }
  void Expect(const LinearWeights& linear, Read one, Read few, Read many) {
    for (const auto& [rows, read] : {std::pair(int64_t{1}, one), std::pair(kFewTokens, few), std::pair(kMany, many)}) {
      const std::vector<float> expected = read == Read::kValues  ? InFloat(rows)
                                          : read == Read::kCodes ? InIntegers(rows, {})
                                                                 : InIntegers(rows, kInput);
      EXPECT_EQ(Product(linear, rows), expected) << rows << " rows";
    }
  }
  // Told by their size, which is not that of values.
  bool HoldsCodes(const LinearWeights& linear) const {
    return linear.Bytes() == static_cast<double>(PackedMatrix(codes_.view()).Bytes());
  }
  static constexpr TokenFormat kInput{.format = Format::kInt8};
  const Rule rule_ = Plan::Parse("weights=int4/channel").rules()[0];
  const std::vector<float> values_ = RandomNormal(kOut * kIn, 1);
  const WeightMatrix stored_ = DenseMatrix{.data = values_.data(), .out = kOut, .in = kIn};
  const QuantizedMatrixBuffer codes_ = QuantizeByRule(stored_, rule_, "w");
  const std::vector<float> x_ = RandomNormal(static_cast<size_t>(PaddedRows(kMany) * kIn), 2);
  Projector projector_{Math::kF32};
  LinearProducts products_{projector_};
};

TEST_F(LinearWeightsTest, CodesServeFewRowsWhereNoValuesStandReady) {
  const WeightMatrix codes(&codes_.view());
  LinearWeights linear("w", codes);
  Expect(linear, Read::kValues, Read::kValues, Read::kValues);
  linear.Follow({.executed = true}, Kept::kCodesAndValues, Math::kF32);
  Expect(linear, Read::kCodes, Read::kCodes, Read::kValues);
  EXPECT_TRUE(HoldsCodes(linear));
  linear.Restore();
  Expect(linear, Read::kValues, Read::kValues, Read::kValues);
  AlignedBuffer<char> memory;
  WeightMatrix both = tare::InFloat(codes, Math::kF32, memory, "w");
  both.quantized = &codes_.view();
  linear = LinearWeights("w", both);
  linear.Follow({.executed = true}, Kept::kCodesAndValues, Math::kF32);
  Expect(linear, Read::kCodes, Read::kValues, Read::kValues);
}

TEST_F(LinearWeightsTest, ARuleForInputsTakesAllRowsToCodes) {
  for (const Kept kept : {Kept::kNothing, Kept::kCodes, Kept::kCodesAndValues}) {
    for (const WeightMatrix& stored : {WeightMatrix(&codes_.view()), stored_}) {
      LinearWeights linear("w", stored);
      LinearRules rules{.input = kInput, .executed = true};
      if (stored.quantized == nullptr) rules.weight = rule_;
      linear.Follow(rules, kept, Math::kF32);
      Expect(linear, Read::kCodesAndInputs, Read::kCodesAndInputs, Read::kCodesAndInputs);
      EXPECT_EQ(HoldsCodes(linear), kept != Kept::kNothing);
      EXPECT_EQ(linear.Holds(), kept != Kept::kNothing);
    }
  }
}

TEST_F(LinearWeightsTest, RoundedValuesAreKeptOrMade) {
  LinearWeights linear("w", stored_);
  for (const Kept kept : {Kept::kNothing, Kept::kCodes, Kept::kCodesAndValues}) {
    linear.Follow({.weight = rule_}, kept, Math::kF32);  // simulated
    Expect(linear, Read::kValues, Read::kValues, Read::kValues);
    EXPECT_EQ(linear.Holds(), kept == Kept::kCodesAndValues);
    EXPECT_FALSE(HoldsCodes(linear));
    linear.Follow({.weight = rule_, .executed = true}, kept, Math::kF32);
    Expect(linear, Read::kCodes, kept == Kept::kCodes ? Read::kCodes : Read::kValues, Read::kValues);
    EXPECT_EQ(HoldsCodes(linear), kept != Kept::kNothing);
  }
}

// The codes stand in place of the stored weight; their values are kept or made.
TEST_F(LinearWeightsTest, CodesReplaceAWeight) {
  const std::vector<float> other = RandomNormal(kOut * kIn, 3);
  for (const Kept kept : {Kept::kNothing, Kept::kCodesAndValues}) {
    LinearWeights linear("w", DenseMatrix{.data = other.data(), .out = kOut, .in = kIn});
    const std::vector<float> stored = Product(linear, kMany);
    linear.Replace(codes_.view(), kept, Math::kF32);
    Expect(linear, Read::kValues, Read::kValues, Read::kValues);
    EXPECT_EQ(linear.Holds(), kept == Kept::kCodesAndValues);
    linear.Restore();
    EXPECT_EQ(Product(linear, kMany), stored);
  }
}

// Codes multiply rounded inputs, the branch the inputs themselves; without a rule for inputs values have both.
TEST_F(LinearWeightsTest, ALowRankBranchReadsInputsAsTheyAre) {
  const std::vector<float> codes_alone = InIntegers(kMany, kInput);
  QuantizedMatrixBuffer with = QuantizeByRule(stored_, rule_, "w");
  std::vector<uint16_t> up(kOut * 2), down(2 * kIn);
  for (size_t i = 0; i < up.size(); ++i) up[i] = Bf16FromFloat(RandomNormal(up.size(), 4)[i]);
  for (size_t i = 0; i < down.size(); ++i) down[i] = Bf16FromFloat(RandomNormal(down.size(), 5)[i]);
  with.SetBranch(up, down);
  LinearWeights linear("w", WeightMatrix(&with.view()));
  const std::vector<float> of_values = Product(linear, kMany);
  linear.Follow({.executed = true}, Kept::kCodes, Math::kF32);
  EXPECT_EQ(Product(linear, kMany), of_values);
  EXPECT_FALSE(HoldsCodes(linear));
  linear.Follow({.input = kInput, .executed = true}, Kept::kCodes, Math::kF32);
  EXPECT_TRUE(HoldsCodes(linear));
  for (const int64_t rows : {int64_t{1}, kFewTokens, kMany}) {
    const std::vector<float> y = Product(linear, rows);
    for (int64_t row = 0; row < rows; ++row) {
      for (int64_t n = 0; n < kOut; ++n) {
        double branch = 0, size = 0;
        for (int64_t k = 0; k < 2; ++k) {
          for (int64_t i = 0; i < kIn; ++i) {
            const double term = double{FloatFromBf16(up[n * 2 + k])} * double{FloatFromBf16(down[k * kIn + i])} *
                                double{x_[row * kIn + i]};
            branch += term, size += std::abs(term);
          }
        }
        const double expected = codes_alone[row * kOut + n] + branch;
        EXPECT_NEAR(y[row * kOut + n], expected, 0x1p-18 * (size + std::abs(expected)));  // sums of 64 in f32
      }
    }
  }
}

// NVFP4's f32 per tensor is a sequence's own.
TEST_F(LinearWeightsTest, EachSequenceIsATensor) {
  LinearWeights linear("w", WeightMatrix(&codes_.view()));
  linear.Follow({.input = TokenFormat{.format = Format::kNvFp4}, .executed = true}, Kept::kCodes, Math::kF32);
  constexpr int64_t kLengths[] = {9, 1, kMany - 10};
  AlignedBuffer<float> x(x_.size()), y(static_cast<size_t>(PaddedRows(kMany) * kOut));
  for (size_t i = 0; i < x_.size(); ++i) x[i] = i < 9 * kIn ? 100 * x_[i] : x_[i];
  const LinearProduct product{linear, y.data()};
  products_.Project(x.data(), kMany, {&product, 1}, kLengths);
  const PackedMatrix packed(codes_.view());
  std::vector<float> alone(static_cast<size_t>(kMany * kOut));
  for (int64_t i = 0, row = 0; i < 3; row += kLengths[i++]) {
    const QuantizedProjection projection{&packed, nullptr, alone.data() + row * kOut};
    QuantizedLinear().Project(x.data() + row * kIn, kLengths[i], {.format = Format::kNvFp4}, {&projection, 1});
  }
  EXPECT_EQ(std::vector<float>(y.data(), y.data() + alone.size()), alone);
}

// Three weights of one input: each has its own codes, format and bias.
TEST_F(LinearWeightsTest, ProductsOfOneInput) {
  std::vector<float> bias(kOut, 2.0f);
  LinearWeights plain("a", WeightMatrix(&codes_.view())), packed("b", WeightMatrix(&codes_.view())),
      biased("c", WeightMatrix(&codes_.view()), bias);
  packed.Follow({.input = kInput, .executed = true}, Kept::kCodes, Math::kF32);
  std::vector<AlignedBuffer<float>> y;
  for (int i = 0; i < 3; ++i) y.emplace_back(static_cast<size_t>(PaddedRows(kMany) * kOut));
  const LinearProduct all[] = {{plain, y[0].data()}, {packed, y[1].data()}, {biased, y[2].data()}};
  products_.Project(x_.data(), kMany, all);
  const std::vector<float> in_float = InFloat(kMany), in_integers = InIntegers(kMany, kInput);
  for (size_t i = 0; i < in_float.size(); ++i) {
    ASSERT_EQ(y[0][i], in_float[i]);
    ASSERT_EQ(y[1][i], in_integers[i]);
    ASSERT_NEAR(y[2][i], in_float[i] + 2, 1e-5f * (1 + std::abs(in_float[i])));
  }
}

}  // namespace
}  // namespace tare::linear_weights_test
