// SPDX-License-Identifier: Apache-2.0
#include "experiments/plan/shared_scales.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <numeric>
#include <vector>

namespace tare::shared_scales_test {
namespace {

TEST(DynamicClipTest, OptionsChooseTheClip) {
  std::vector<float> values(1000, 0.5f);
  values[17] = -100.0f;
  const auto clip = [&](const char* plan) { return DynamicClip(Plan::Parse(plan).rules()[0], values, 100.0f); };
  EXPECT_EQ(clip("layer_out=int4/token"), 100.0f);
  EXPECT_EQ(clip("layer_out=int4/token+p99.9"), 0.5f);
  EXPECT_LT(clip("layer_out=int8/token+mse"), 100.1f);
  EXPECT_GE(clip("layer_out=int8/token+mse"), 0.5f);
}

// Which group each value of a block of 5 rows and 6 columns is in, in the order of the groups.
std::vector<int> GroupsOf(const char* granularity) {
  std::vector<float> values(5 * 8);
  const SiteBlock block{.site = Site::kV, .rows = 5, .first_columns = 6, .values = values.data(), .stride = 8};
  int next = 0;
  ForEachGroup(block, *ParseGranularity(granularity), [&](const ScaleGroup& group) {
    for (float& x : group.values) x = static_cast<float>(next);
    ++next;
  });
  std::vector<int> groups;
  for (int64_t r = 0; r < block.rows; ++r) groups.insert(groups.end(), block.Row(r).begin(), block.Row(r).end());
  return groups;
}

std::vector<int> Labels(int (*label)(int row, int column)) {
  std::vector<int> labels;
  for (int r = 0; r < 5; ++r) {
    for (int c = 0; c < 6; ++c) labels.push_back(label(r, c));
  }
  return labels;
}

TEST(ForEachGroup, FollowsTheGranularity) {
  for (const char* row : {"row", "token", "tensor", "head"})
    EXPECT_EQ(GroupsOf(row), Labels([](int r, int) { return r; })) << row;
  EXPECT_EQ(GroupsOf("group4"), Labels([](int r, int c) { return 2 * r + c / 4; }));
  EXPECT_EQ(GroupsOf("block3"), Labels([](int r, int c) { return 2 * r + c / 3; }));
  EXPECT_EQ(GroupsOf("tokens2"), Labels([](int r, int) { return r / 2; }));
  EXPECT_EQ(GroupsOf("tokens32.by8"), Labels([](int r, int) { return r; }));
  EXPECT_EQ(GroupsOf("tokens32.by4x2"), Labels([](int r, int) { return r / 2; }));
  EXPECT_EQ(GroupsOf("channel"), Labels([](int, int c) { return c; }));
  EXPECT_EQ(GroupsOf("block2.channel"), Labels([](int r, int c) { return 6 * (r / 2) + c; }));
}

TEST(ForEachGroup, KnowsThePlaceOfItsFirstValue) {
  std::vector<float> values(4 * 4);
  std::iota(values.begin(), values.end(), 0.0f);
  const SiteBlock block{.site = Site::kV, .rows = 4, .first_columns = 4, .values = values.data(), .stride = 4};
  for (const char* granularity : {"row", "group2", "channel", "block2.channel"}) {
    ForEachGroup(block, *ParseGranularity(granularity), [&](const ScaleGroup& group) {
      for (size_t i = 0; i < group.values.size(); ++i) {
        const auto step = static_cast<int64_t>(i);
        const int64_t row = group.row + step * group.row_step, column = group.column + (group.row_step == 0 ? step : 0);
        EXPECT_EQ(group.values[i], static_cast<float>(4 * row + column)) << granularity;
      }
    });
  }
}

TEST(SharedMaxima, ATensorIsOfAllHeadsAndOfOneRule) {
  const Plan plan = Plan::Parse("q=int8/tensor,q[h1]=int8/tensor");
  SiteBlock block{.site = Site::kQ, .layer = 2, .slot = 1, .head = 0, .map = 1};
  SharedMaxima maxima;
  for (const Granularity::Kind kind : {Granularity::Kind::kTensor, Granularity::Kind::kHead}) {
    block.head = 0;
    maxima.Add(PlaceOf(block, kind, &plan.rules()[0]), {3.0f});
    maxima.Add(PlaceOf(block, kind, &plan.rules()[0]), {2.0f});
    block.head = 1;
    maxima.Add(PlaceOf(block, kind, &plan.rules()[1]), {5.0f});
    block.head = 2;
    maxima.Add(PlaceOf(block, kind, &plan.rules()[0]), {7.0f});
  }
  block.head = 0;
  EXPECT_THAT(maxima.At(PlaceOf(block, Granularity::Kind::kTensor, &plan.rules()[0])), testing::ElementsAre(7.0f));
  EXPECT_THAT(maxima.At(PlaceOf(block, Granularity::Kind::kTensor, &plan.rules()[1])), testing::ElementsAre(5.0f));
  EXPECT_THAT(maxima.At(PlaceOf(block, Granularity::Kind::kHead, &plan.rules()[0])), testing::ElementsAre(3.0f));
}

// Branches of one prefix begin at the same position, but in rows of their own.
TEST(SharedMaxima, ScalesOverHeadsAreOfTheirTokens) {
  const Plan plan = Plan::Parse("lambda=u4/heads");
  const Rule* const rule = &plan.rules()[0];
  SharedMaxima maxima;
  SiteBlock block{.site = Site::kLambda, .layer = 2, .slot = 1, .head = 0, .first_row = 5, .batch_row = 7, .rows = 2};
  maxima.Add(PlaceOf(block, Granularity::Kind::kHeads, rule), {0.5f, 0.25f});
  block.head = 3;
  maxima.Add(PlaceOf(block, Granularity::Kind::kHeads, rule), {0.125f, 1.0f});
  const WidePlace first = PlaceOf(block, Granularity::Kind::kHeads, rule);
  block.batch_row = 9;
  maxima.Add(PlaceOf(block, Granularity::Kind::kHeads, rule), {0.75f, 0.75f});
  EXPECT_THAT(maxima.At(first), testing::ElementsAre(0.5f, 1.0f));
}

}  // namespace
}  // namespace tare::shared_scales_test

namespace tare::set_apart_test {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

const Format kWithMinimum = WithRange(Format::kInt2, CodeRange::kMin);

TEST(SetApart, CountsUpAndAtLeastOne) {
  EXPECT_EQ(OutliersOf(256, 1), 3);
  EXPECT_EQ(OutliersOf(32, 1), 1);
  EXPECT_EQ(OutliersOf(200, 50), 100);
  EXPECT_EQ(OutliersOf(1, 0.01), 1);
  EXPECT_EQ(OutliersOf(10000, 0.07), 7);
}

TEST(SetApart, TakesTheLargestMagnitudesAndPutsThemBack) {
  const std::vector<float> values{1, -9, 2, 7, -3, 9};
  const SetApart apart(values, Format::kInt4, 33);  // two of six
  EXPECT_THAT(apart.others(), ElementsAre(1, 2, 7, -3));
  std::vector<float> rounded(values.size(), 0.0f);
  apart.Restore(rounded);
  EXPECT_THAT(rounded, ElementsAre(0, -9, 0, 0, 0, 9));
}

TEST(SetApart, OfEquallyFarOnesTheFirst) {
  const std::vector<float> values{3, -3, 3, 1};
  EXPECT_THAT(SetApart(values, Format::kInt4, 25).others(), ElementsAre(-3, 3, 1));
}

// A channel that leans to one side has no large magnitudes, but a far end.
TEST(SetApart, WithAMinimumFarFromTheMedian) {
  const std::vector<float> values{10, 11, 12, 11, 2, 10};
  EXPECT_THAT(SetApart(values, kWithMinimum, 1).others(), ElementsAre(10, 11, 12, 11, 10));
  EXPECT_THAT(SetApart(values, Format::kInt4, 1).others(), ElementsAre(10, 11, 11, 2, 10));
}

TEST(SetApart, AGroupOfOneIsAnOutlier) {
  EXPECT_THAT(SetApart(std::vector{4.0f}, kWithMinimum, 1).others(), IsEmpty());
}

}  // namespace
}  // namespace tare::set_apart_test
