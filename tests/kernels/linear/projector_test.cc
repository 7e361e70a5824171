// SPDX-License-Identifier: Apache-2.0
// Linear layers against double sums. A sum of `in` products of f32 is off by at most (in + 1) half units of the sum of
// their magnitudes; with bf16 factors, by 2 x 2^-9 more.
#include "kernels/linear/projector.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "quant/base/float16.h"
#include "quant/base/parallel.h"
#include "tests/support/emulated.h"
#include "tests/support/normal_floats.h"

namespace tare::projector_test {
namespace {

struct Case {
  int64_t rows, out, in;
};
constexpr Case kCases[] = {{1, 1, 1},      {1, 7, 5},     {37, 48, 64},    {64, 512, 33},
                           {65, 513, 128}, {513, 96, 40}, {600, 1030, 24}, {22, 64, 12}};

struct Problem {
  Problem(const Case& c, WeightType type, unsigned seed)
      : x(PaddedRows(c.rows) * c.in), y(PaddedRows(c.rows) * c.out), bias(c.out), stored(c.out * c.in * 4) {
    std::mt19937 random(seed);
    NormalFloats normal;
    for (float& v : x.span()) v = normal(random);
    for (float& v : bias) v = normal(random);
    for (int64_t i = 0; i < c.out * c.in; ++i) {
      const float value = normal(random);
      const uint16_t half = type == WeightType::kBf16 ? Bf16FromFloat(value) : F16FromFloat(value);
      if (type == WeightType::kF32) {
        std::memcpy(stored.data() + 4 * i, &value, 4);
        weights.push_back(value);
      } else {
        std::memcpy(stored.data() + 2 * i, &half, 2);
        weights.push_back(type == WeightType::kBf16 ? FloatFromBf16(half) : FloatFromF16(half));
      }
    }
    weight = {stored.data(), type, c.out, c.in};
  }
  AlignedBuffer<float> x, y;
  std::vector<float> bias;
  AlignedBuffer<char> stored;
  std::vector<float> weights;
  DenseMatrix weight;
};

void ExpectRight(const Problem& p, const Case& c, bool has_bias, double extra) {
  for (int64_t r = 0; r < c.rows; ++r) {
    for (int64_t o = 0; o < c.out; ++o) {
      double sum = has_bias ? p.bias[o] : 0.0, size = std::abs(sum);
      for (int64_t i = 0; i < c.in; ++i) {
        const double product = double{p.x[r * c.in + i]} * p.weights[o * c.in + i];
        sum += product;
        size += std::abs(product);
      }
      ASSERT_NEAR(p.y[r * c.out + o], sum, (static_cast<double>(c.in + 2) * 0x1p-24 + extra) * size)
          << "row " << r << " out " << o;
    }
  }
}

TEST(ProjectorTest, EveryWeightTypeAgainstDouble) {
  Projector projector(Math::kF32);
  for (const WeightType type : {WeightType::kF32, WeightType::kBf16, WeightType::kF16}) {
    for (const Case& c : kCases) {
      if (!projector.IsNative(type, c.out, c.in)) continue;
      SCOPED_TRACE(testing::Message() << c.rows << " x " << c.out << " x " << c.in << " type "
                                      << static_cast<int>(type));
      for (const bool has_bias : {false, true}) {
        Problem p(c, type, 1);
        const Projection projection{p.weight, has_bias ? p.bias.data() : nullptr, p.y.data()};
        projector.Project(p.x.data(), c.rows, {&projection, 1});
        ExpectRight(p, c, has_bias, 0);
      }
    }
  }
}

// A problem of the same values and double sums as by rows: only the places of the weights in memory differ.
Problem ByColumns(const Case& c, WeightType type) {
  Problem p(c, type, 1);
  const size_t bytes = type == WeightType::kF32 ? 4 : 2;
  const std::vector<char> rows(p.stored.data(), p.stored.data() + p.stored.size());
  for (int64_t o = 0; o < c.out; ++o) {
    for (int64_t i = 0; i < c.in; ++i)
      std::memcpy(p.stored.data() + (i * c.out + o) * bytes, rows.data() + (o * c.in + i) * bytes, bytes);
  }
  p.weight.order = WeightOrder::kColumns;
  return p;
}

TEST(ProjectorTest, WeightsByColumnsAgainstDouble) {
  int seen = 0;
  for (const Math math : {Math::kF32, Math::kBf16}) {
    if (!HasProducts(math)) continue;
    Projector projector(math);
    for (const WeightType type : {WeightType::kF32, WeightType::kBf16, WeightType::kF16}) {
      for (const Case& c : kCases) {
        if (c.rows == 1 || !projector.IsNative(type, c.out, c.in, WeightOrder::kColumns)) continue;
        if (math == Math::kBf16 && type != WeightType::kBf16) continue;
        SCOPED_TRACE(testing::Message() << c.rows << " x " << c.out << " x " << c.in << " type "
                                        << static_cast<int>(type) << " math " << static_cast<int>(math));
        Problem p = ByColumns(c, type);
        ++seen;
        const Projection projection{p.weight, p.bias.data(), p.y.data()};
        projector.Project(p.x.data(), c.rows, {&projection, 1});
        ExpectRight(p, c, true, math == Math::kBf16 ? 0x1p-8 : 0);
      }
    }
    for (const std::string& name : projector.Implementations())
      EXPECT_THAT(name, testing::Not(testing::StartsWith("ref")));
  }
  EXPECT_GE(seen, 6);  // f32, everywhere
}

// A product of rows that are made is that of stored ones to the bit, beside another of stored ones.
TEST(ProjectorTest, RowsThatAreMade) {
  for (const Math math : {Math::kF32, Math::kBf16}) {
    if (!HasProducts(math)) continue;
    Projector projector(math);
    for (const Case& c : kCases) {
      SCOPED_TRACE(testing::Message() << c.rows << " x " << c.out << " x " << c.in);
      Problem p(c, math == Math::kBf16 ? WeightType::kBf16 : WeightType::kF32, 3);
      AlignedBuffer<float> of_stored(p.y.size());
      const Projection both[] = {
          {.weight = {.type = FactorType(math), .out = c.out, .in = c.in},
           .bias = p.bias.data(),
           .y = p.y.data(),
           .make = [&](int64_t first, int64_t count,
                       float* rows) { std::copy_n(p.weights.begin() + first * c.in, count * c.in, rows); }},
          {p.weight, p.bias.data(), of_stored.data()}};
      projector.Project(p.x.data(), c.rows, both);
      ExpectRight(p, c, true, math == Math::kBf16 ? 0x1p-8 : 0);
      EXPECT_EQ(std::memcmp(p.y.data(), of_stored.data(), c.rows * c.out * sizeof(float)), 0);
    }
  }
}

TEST(ProjectorTest, RowsThatCannotBeMade) {
  Projector projector(Math::kF32);
  float x[16] = {1}, y[16];
  Projection p{
      .weight = {.type = WeightType::kBf16, .out = 1, .in = 1}, .y = y, .make = [](auto...) { Fail("row 0"); }};
  const auto project = [&] { projector.Project(x, 2, {&p, 1}); };
  EXPECT_THAT(project, testing::ThrowsMessage<Error>(testing::HasSubstr("made of another type than factors")));
  p.weight.type = WeightType::kF32;
  EXPECT_THAT(project, testing::ThrowsMessage<Error>("row 0"));
  p.weight.order = WeightOrder::kColumns;
  EXPECT_THAT(project, testing::ThrowsMessage<Error>(testing::HasSubstr("by columns")));
}

TEST(ProjectorTest, Bf16MathRoundsTheFactorsOnly) {
  if (!HasProducts(Math::kBf16)) GTEST_SKIP() << "no products of bf16 here";
  Projector projector(Math::kBf16);
  for (const Case& c : kCases) {
    Problem p(c, WeightType::kBf16, 2);
    const Projection projection{p.weight, nullptr, p.y.data()};
    projector.Project(p.x.data(), c.rows, {&projection, 1});
    ExpectRight(p, c, false, 0x1p-8);
  }
}

// Right numbers, or none: with AVX2 oneDNN 3.7 has wrong ones for such lengths.
TEST(ProjectorTest, RowsOfBf16AreRightOrRefused) {
  Projector projector(Math::kF32);
  const Case c{22, 64, 12};
  Problem p(c, WeightType::kBf16, 1);
  const Projection projection{p.weight, nullptr, p.y.data()};
#ifdef __x86_64__
  const bool computes = projector.IsNative(WeightType::kBf16, c.out, c.in);
#else
  const bool computes = true;  // oneDNN's reference there, which is right
#endif
  if (computes) {
    projector.Project(p.x.data(), c.rows, {&projection, 1});
    ExpectRight(p, c, false, 0);
  } else {
    EXPECT_THAT([&] { projector.Project(p.x.data(), c.rows, {&projection, 1}); },
                testing::ThrowsMessage<Error>(testing::StartsWith("projector: got 12 inputs of bf16 weights, ")));
  }
}

TEST(ProjectorTest, F32IsAlwaysNative) {
  for (const int64_t out : {1, 64, 70, 1030}) {
    EXPECT_TRUE(Projector(Math::kF32).IsNative(WeightType::kF32, out, 12));
    if (HasProducts(Math::kBf16)) {
      EXPECT_TRUE(Projector(Math::kBf16).IsNative(WeightType::kBf16, out, 12));
    }
  }
}

TEST(ProjectorTest, SameBitsOnAnyNumberOfThreads) {
  for (const WeightType type : {WeightType::kBf16, WeightType::kF32}) {
    const Case c = kEmulated || type == WeightType::kF32 ? Case{30, 700, 200} : Case{300, 1100, 704};
    std::vector<float> first;
    for (const int threads : {1, 2, 5}) {
      SetThreads(threads);
      Projector projector(Math::kF32);
      Problem p(c, type, 3);
      const Projection projection{p.weight, p.bias.data(), p.y.data()};
      projector.Project(p.x.data(), c.rows, {&projection, 1});
      const std::vector<float> y(p.y.data(), p.y.data() + c.rows * c.out);
      if (first.empty()) first = y;
      EXPECT_EQ(std::memcmp(first.data(), y.data(), y.size() * sizeof(float)), 0) << threads << " threads";
    }
  }
  SetThreads(0);
}

TEST(ProjectorTest, SeveralOutputsOfOneInput) {
  const Case c{70, 40, 32};
  Projector projector(Math::kF32);
  Problem a(c, WeightType::kF32, 4), b(c, WeightType::kF32, 5);
  b.x = AlignedBuffer<float>(a.x.size());
  std::copy_n(a.x.data(), a.x.size(), b.x.data());
  const Projection both[] = {{a.weight, nullptr, a.y.data()}, {b.weight, b.bias.data(), b.y.data()}};
  projector.Project(a.x.data(), c.rows, both);
  ExpectRight(a, c, false, 0);
  ExpectRight(b, c, true, 0);
}

// oneDNN falls to its reference path without a word, a hundred times slower.
TEST(ProjectorTest, NothingRunsOnTheReferencePath) {
  for (const Math math : {Math::kF32, Math::kBf16}) {
    if (!HasProducts(math)) continue;
    Projector projector(math);
    for (const WeightType type : {WeightType::kF32, WeightType::kBf16, WeightType::kF16}) {
      if (math == Math::kBf16 && type != WeightType::kBf16) continue;
      for (const Case& c :
           {Case{1, 64, 64}, {64, 688, 256}, {513, 96, 40}, {kEmulated ? 6 : 600, 1030, 688}, {80, 67, 64}}) {
        if (!projector.IsNative(type, c.out, c.in)) continue;
        Problem p(c, type, 1);
        const DenseMatrix weight{p.stored.data(), type, c.out, c.in};
        const Projection projections[] = {{.weight = weight, .bias = nullptr, .y = p.y.data()},
                                          {.weight = weight, .bias = p.bias.data(), .y = p.y.data()}};
        projector.Project(p.x.data(), c.rows, projections);
      }
    }
    const std::vector<std::string> names = projector.Implementations();
    EXPECT_TRUE(math == Math::kBf16 || names.size() >= 4);
    EXPECT_THAT(names, testing::Each(testing::Not(testing::StartsWith("ref"))));
  }
}

}  // namespace
}  // namespace tare::projector_test
