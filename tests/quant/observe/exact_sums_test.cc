// SPDX-License-Identifier: Apache-2.0
// Values equal sums of integers; the bits do not depend on order or split; contents of files are checked.
#include "quant/observe/row_measures.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "quant/base/message.h"

namespace tare::exact_sums_test {
namespace {

struct Term {
  size_t sum;
  double value;
};

// Terms of every magnitude that doubles have, or of few, with both signs.
std::vector<Term> Drawn(size_t n, int exponents, std::mt19937_64& random) {
  std::vector<Term> terms;
  for (size_t i = 0; i < n; ++i) {
    const double mantissa = 2.0 * static_cast<double>(random() >> 11) / 0x1p53 - 1.0;
    const int exponent = static_cast<int>(random() % static_cast<uint64_t>(2 * exponents + 1)) - exponents;
    terms.push_back({random() % 3, std::ldexp(mantissa, exponent)});
  }
  return terms;
}

ExactSums Summed(const std::vector<Term>& terms) {
  ExactSums sums(3);
  for (const Term& t : terms) sums.Add(t.sum, t.value);
  return sums;
}

TEST(ExactSums, EqualIntegerSums) {
  std::mt19937_64 random(1);
  for (int round = 0; round < 200; ++round) {
    ExactSums sums(1);
    int64_t expected = 0;  // in units of 2^-20
    for (int i = 0; i < 1000; ++i) {
      const int64_t units = static_cast<int64_t>(random() >> 14) - (int64_t{1} << 49);
      expected += units;
      sums.Add(0, std::ldexp(static_cast<double>(units), -20));
    }
    EXPECT_EQ(sums.Value(0), std::ldexp(static_cast<long double>(expected), -20));
  }
}

TEST(ExactSums, MultiplesAreExact) {
  std::mt19937_64 random(3);
  for (int round = 0; round < 100; ++round) {
    const auto number = [&](int bits) {
      return static_cast<int64_t>(random() >> (64 - bits)) * (random() % 2 == 0 ? 1 : -1);
    };
    const int64_t factor = number(ExactSums::kFactorBits);
    ExactSums of(2), sums(2);
    int64_t expected = 0;
    for (int i = 0; i < 5; ++i) {
      const int64_t value = number(38);
      expected += value;
      of.Add(1, static_cast<double>(value));
    }
    sums.AddMultiple(0, of, 1, static_cast<double>(factor));
    EXPECT_EQ(sums.Value(0), static_cast<long double>(expected * factor));
    sums.AddMultiple(0, sums, 0, -1.0);  // of itself
    EXPECT_EQ(sums, ExactSums(2));
  }
}

TEST(ExactSums, KeepWhatDoublesLose) {
  ExactSums sums(2);
  for (const double value : {0x1p1000, 1.0, 0x1p-1074, -0x1p1000}) sums.Add(1, value);
  EXPECT_EQ(sums.Value(1), 1.0L);  // 2^-1074 is below an ulp of it
  sums.Add(1, -1.0);
  EXPECT_EQ(sums.Value(1), 0x1p-1074L);
  EXPECT_EQ(sums.Value(0), 0.0L);
  sums.Add(1, -0x1p-1074);
  EXPECT_EQ(sums, ExactSums(2));
  for (const double value : {std::numeric_limits<double>::max(), std::numeric_limits<double>::denorm_min()}) {
    ExactSums one(1);
    one.Add(0, value);
    EXPECT_EQ(one.Value(0), value);
    one.Add(0, -2 * std::min(value, 1e300));
    one.Add(0, -value);
    EXPECT_EQ(one.Value(0), -2 * std::min(value, 1e300));
  }
}

TEST(ExactSums, DoNotDependOnOrderOrSplit) {
  std::mt19937_64 random(2);
  for (int round = 0; round < 100; ++round) {
    std::vector<Term> terms = Drawn(random() % 200, round % 2 == 0 ? 1020 : 30, random);
    const ExactSums whole = Summed(terms);
    std::ranges::shuffle(terms, random);
    ExactSums merged(3);
    for (size_t begin = 0; begin < terms.size();) {
      const size_t end = std::min(terms.size(), begin + random() % 30);
      merged.Merge(
          Summed({terms.begin() + static_cast<ptrdiff_t>(begin), terms.begin() + static_cast<ptrdiff_t>(end)}));
      begin = end;
    }
    EXPECT_EQ(merged, whole);
    EXPECT_EQ(merged.Canonical(), whole.Canonical());
    EXPECT_EQ(ExactSums::From(3, whole.Canonical()), whole);
    EXPECT_EQ(ExactSums::From(3, whole.Canonical()).Value(1), whole.Value(1));
  }
}

TEST(ExactSums, StandOneAfterAnotherInFiles) {
  std::mt19937_64 random(3);
  for (int round = 0; round < 20; ++round) {
    const ExactSums a = Summed(Drawn(round, 1020, random)), b = Summed(Drawn(10, 30, random)), none(2);
    const ExactSums* const parts[] = {&a, &none, &b};
    const ExactSums all = ExactSums::From(8, ExactSums::Concatenated(parts).Canonical());
    EXPECT_EQ(all.Slice(0, 3), a);
    EXPECT_EQ(all.Slice(3, 2), none);
    EXPECT_EQ(all.Slice(5, 3), b);
  }
}

TEST(ExactSums, CarryLongBeforeAWordIsFull) {
  ExactSums sums(1);
  sums.Add(0, 0x1.fffffffffffffp31);
  for (int i = 0; i < 40; ++i) {
    const ExactSums copy = sums;
    sums.Merge(copy);
  }
  EXPECT_EQ(sums.Value(0), 0x1.fffffffffffffp71L);
  for (int i = 0; i < 40; ++i) {
    const ExactSums copy = sums;
    sums.Merge(copy);
  }
  EXPECT_EQ(sums.Value(0), 0x1.fffffffffffffp111L);
  ExactSums negative(1);
  negative.Add(0, -1.0);
  EXPECT_EQ(negative.Canonical().limbs, std::vector<int64_t>{-1});
}

TEST(ExactSums, RefuseInvalidLimbs) {
  const auto refused = [](size_t sums, ExactSums::Digits digits) {
    EXPECT_THROW(ExactSums::From(sums, digits), Error);
  };
  refused(1, {.first = 0, .width = 2, .limbs = {1}});
  refused(1, {.first = -1, .width = 1, .limbs = {1}});
  refused(1, {.first = 69, .width = 2, .limbs = {1, 1}});
  refused(1, {.first = 2147483647, .width = 2, .limbs = {1, 1}});
  refused(1, {.first = 0, .width = 2, .limbs = {-1, 0}});
  refused(1, {.first = 0, .width = 2, .limbs = {int64_t{1} << 32, 0}});
  refused(1, {.first = 0, .width = 1, .limbs = {-(int64_t{1} << 32) - 1}});
  EXPECT_THROW(ExactSums(1).Merge(ExactSums(2)), Error);
  EXPECT_DEATH(ExactSums(1).Add(0, std::numeric_limits<double>::infinity()), "exponent");
}

}  // namespace
}  // namespace tare::exact_sums_test
