// SPDX-License-Identifier: Apache-2.0
// Which visitor sees what, and in which order.
#include "quant/observe/site_visitor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace tare::site_visitor_test {
namespace {

using ::testing::ElementsAre;

TEST(SiteBlockTest, RowsOfACausalBlockGrow) {
  std::vector<float> values(24);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  const SiteBlock causal{.rows = 3, .first_columns = 4, .column_step = 1, .values = values.data(), .stride = 8};
  EXPECT_EQ(causal.Columns(0), 4);
  EXPECT_EQ(causal.Columns(2), 6);
  EXPECT_THAT(causal.Row(1), ElementsAre(8, 9, 10, 11, 12));
  const SiteBlock full{.rows = 3, .first_columns = 2, .values = values.data(), .stride = 8};
  EXPECT_THAT(full.Row(2), ElementsAre(16, 17));
  full.Row(2)[1] = -1;
  EXPECT_EQ(values[17], -1);
}

// Wants one site of one layer; adds its number to what it is shown, and writes down what that was.
class Adder : public SiteVisitor {
 public:
  Adder(Site site, int layer, float number, bool surveys)
      : site_(site), layer_(layer), number_(number), surveys_(surveys) {}
  bool Wants(Site site, std::optional<int> layer) const override { return site == site_ && layer == layer_; }
  bool NeedsSurvey(Site, std::optional<int>) const override { return surveys_; }
  void Survey(const SiteBlock& block, int thread) override {
    surveyed.push_back(block.values[0] + static_cast<float>(100 * thread));
  }
  void Visit(const SiteBlock& block, int thread) override {
    visited.push_back(block.values[0] + static_cast<float>(100 * thread));
    block.values[0] += number_;
  }
  std::vector<float> surveyed, visited;

 private:
  Site site_;
  int layer_;
  float number_;
  bool surveys_;
};

TEST(SiteVisitorTest, LaterVisitorsSeeWhatEarlierOnesLeft) {
  Adder first(Site::kQ, 1, 2, false), other(Site::kQ, 0, 5, false), last(Site::kQ, 1, 3, false);
  SiteVisitor* const visitors[] = {&first, &other, &last};
  float value = 10;
  const SiteBlock block{.site = Site::kQ, .layer = 1, .rows = 1, .first_columns = 1, .values = &value, .stride = 1};
  Visit(visitors, block, 4);
  EXPECT_THAT(first.visited, ElementsAre(410));
  EXPECT_THAT(last.visited, ElementsAre(412));
  EXPECT_TRUE(other.visited.empty());
  EXPECT_EQ(value, 15);
}

TEST(SiteVisitorTest, OnlyThoseThatNeedASurveyAreSurveyed) {
  Adder surveys(Site::kQ, 1, 2, true), plain(Site::kQ, 1, 3, false), elsewhere(Site::kK, 1, 3, true);
  SiteVisitor* const visitors[] = {&surveys, &plain, &elsewhere};
  float value = 10;
  const SiteBlock block{.site = Site::kQ, .layer = 1, .rows = 1, .first_columns = 1, .values = &value, .stride = 1};
  Survey(visitors, block, 1);
  EXPECT_THAT(surveys.surveyed, ElementsAre(110));
  EXPECT_TRUE(plain.surveyed.empty());
  EXPECT_TRUE(elsewhere.surveyed.empty());
  EXPECT_EQ(value, 10);
}

TEST(SiteVisitorTest, PassesAskBySiteAndLayer) {
  Adder surveys(Site::kQ, 1, 2, true), plain(Site::kK, 2, 3, false);
  SiteVisitor* const both[] = {&plain, &surveys};
  EXPECT_TRUE(AnyWants(both, Site::kQ, 1));
  EXPECT_TRUE(AnyWants(both, Site::kK, 2));
  EXPECT_FALSE(AnyWants(both, Site::kQ, 2));
  EXPECT_FALSE(AnyWants(both, Site::kV, 1));
  EXPECT_TRUE(AnyNeedsSurvey(both, Site::kQ, 1));
  EXPECT_FALSE(AnyNeedsSurvey(both, Site::kK, 2));
  EXPECT_FALSE(AnyNeedsSurvey(both, Site::kQ, 0));  // asks Wants first
  EXPECT_FALSE(AnyWants({}, Site::kQ, 1));
  EXPECT_FALSE(AnyNeedsSurvey({}, Site::kQ, 1));
  EXPECT_NO_FATAL_FAILURE(Visit({}, {}, 0));
}

}  // namespace
}  // namespace tare::site_visitor_test
