// SPDX-License-Identifier: Apache-2.0
// The table of refusals against all sites, scales, formats and options; resolved_plan_test.cc and others have messages.
#include "experiments/plan/refusals.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <iterator>
#include <set>
#include <sstream>

#include "experiments/plan/resolved_plan.h"
#include "quant/base/message.h"
#include "quant/plan/site.h"
#include "tests/support/call.h"

namespace tare::refusals_test {
namespace {

// The rule; empty where the grammar refuses it.
std::optional<Rule> RuleIn(const std::string& text) {
  try {
    return Plan::Parse(text).rules().front();
  } catch (const Error&) {
    return std::nullopt;
  }
}

bool IsOfSoftmax(std::string_view word) {
  return std::ranges::contains(kSoftmaxSteps, word, [](const auto& step) { return step.first; });
}

std::vector<std::string> OptionsOf(const SiteClass& site_class) {
  std::vector<std::string> options;
  std::istringstream words{std::string(site_class.options)};
  for (std::string word; words >> word;)
    options.push_back("+" + (word == "keep"        ? "keep4"
                             : word == "p"         ? "p99.9"
                             : word == "outliers"  ? "outliers1"
                             : word == "top"       ? "top1"
                             : word == "smooth<N>" ? "smooth8"
                             : IsOfSoftmax(word)   ? word + ".f16"
                                                   : word));
  return options;
}

// Rules without options: each site in each of its formats, in some formats with blocks, and per each granularity.
std::vector<std::string> BaseRules(Site site) {
  const SiteClass& site_class = ClassOf(site);
  std::vector<std::string> rules{Formatted("{}=f32", Name(site))};
  for (const Format format : {Format::kMxFp4, Format::kNvFp4, Format::kBf16}) {
    if (site_class.Takes(format)) rules.push_back(Formatted("{}={}", Name(site), Name(format)));
  }
  for (const Format& format : site_class.formats) {
    if (!HasCodes(format)) continue;
    for (const Granularity::Kind kind : site_class.granularities) {
      const bool of_n = Spelling(kind).contains("<N>");
      rules.push_back(Formatted("{}={}/{}", Name(site), Name(format), Name(Granularity{kind, of_n ? 16 : 0})));
    }
  }
  return rules;
}

// A row that no rule reaches has traits that exclude each other, or stands behind another that refuses all it would.
TEST(Refusals, EveryRowRefusesSomeRuleFirst) {
  const ModelSites plain, special{.family = "toy", .tied_head = true, .sinks = true, .no_prerotary = "keys without"},
      softpick{.family = "toy", .row_weights = RowWeights::kSoftpick};
  std::set<const Refusal*> reached;
  const auto see = [&](const std::string& text) {
    const std::optional<Rule> rule = RuleIn(text);
    for (int use = 0; rule && use <= static_cast<int>(Use::kInParts); ++use) {
      for (const ModelSites* const model : {&plain, &special, &softpick})
        reached.insert(RefusalOf(*rule, static_cast<Use>(use), *model));
    }
  };
  for (const char* of_more :
       {"experts.down.in[h0]=int8/token", "k=int8/tensor+full+static+mse", "k=fp8e4m3/head+top449"})
    see(of_more);
  for (const SiteInfo& info : kSites) {
    const std::vector<std::string> options = OptionsOf(ClassOf(info.site));
    for (const std::string& rule : BaseRules(info.site)) {
      see(rule);
      for (size_t a = 0; a < options.size(); ++a) {
        see(rule + options[a]);
        for (size_t b = 0; b < a; ++b) see(rule + options[b] + options[a]);
      }
    }
  }
  for (const Refusal& row : Refusals())
    EXPECT_TRUE(reached.contains(&row)) << row.got << ", expected " << row.expected << ": nothing reaches this row";
}

// Pairs of options that some site, scale and format takes only one at a time, by the grammar or by the table. A pair
// that is not listed here is accepted wherever both of its options are.
TEST(Refusals, PairsOfOptions) {
  std::set<std::string> pairs;
  for (const SiteInfo& info : kSites) {
    const std::vector<std::string> options = OptionsOf(ClassOf(info.site));
    for (const std::string& base : BaseRules(info.site)) {
      const auto accepted = [&](const std::string& text) {
        const std::optional<Rule> rule = RuleIn(base + text);
        if (!rule || RefusalOf(*rule, Use::kAny) == nullptr) return rule.has_value();
        EXPECT_THAT(Call([&] { CheckUse(*rule, Use::kAny); }),
                    testing::ThrowsMessage<Error>(testing::AllOf(
                        testing::StartsWith("plan rule '" + rule->text + "': got "), testing::HasSubstr(", expected "),
                        testing::HasSubstr("; try "), testing::Not(testing::ContainsRegex("[{}]")))));
        return false;
      };
      std::vector<std::string> alone;  // those that are accepted so
      std::ranges::copy_if(options, std::back_inserter(alone), accepted);
      for (size_t b = 0; b < alone.size(); ++b) {
        for (size_t a = 0; a < b; ++a) {
          if (!accepted(alone[a] + alone[b])) pairs.insert(alone[a] + alone[b]);
        }
      }
    }
  }
  EXPECT_THAT(pairs, testing::ElementsAre("+full+min", "+full+zero", "+hadamard+static", "+keep4+static",
                                          "+maxshift+static", "+min+keep4", "+min+p99.9", "+min+static", "+min+top1",
                                          "+mse+top1", "+outliers1+static", "+p99.9+mse", "+sketch+outliers1",
                                          "+smooth+prerotary", "+smooth+smooth8", "+smooth+smoothall", "+smooth+static",
                                          "+smooth8+smoothall", "+smooth8+static", "+smoothall+prerotary",
                                          "+smoothall+static", "+static+mse", "+static+p99.9", "+static+prerotary",
                                          "+zero+min", "+zero+p99.9", "+zero+static", "+zero+top1"));
}

// The common form; resolved_plan_test.cc tests each of them.
TEST(RuleChecks, RefusalsHaveOneForm) {
  const Plan plan = Plan::Parse("v[l4]=int8/block64.channel");
  const Rule& rule = plan.rules().front();
  EXPECT_EQ(ScaleText(rule), "a scale per block64.channel");
  EXPECT_THAT(
      Call([&] { RefuseRule(rule, "this", "that", "the other"); }),
      testing::ThrowsMessage<Error>("plan rule 'v[l4]=int8/block64.channel': got this, expected that; try the other"));
  const ModelSites model{.family = "toy", .layers = 2, .maps = 1, .tied_head = false, .heads = {}, .weights = {}};
  EXPECT_THAT(
      Call([&] { CheckSelector(rule, Site::kV, model, "--sites 'v[l4]'"); }),
      testing::ThrowsMessage<Error>("--sites 'v[l4]': got layer 4 of v, expected 0 to 1; try a selector that this toy "
                                    "model has"));
}

}  // namespace
}  // namespace tare::refusals_test
