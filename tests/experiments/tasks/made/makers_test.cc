// SPDX-License-Identifier: Apache-2.0
// What guesses score on the items of every maker, over several seeds: chance. Where the answer is dealt, exactly; else
// within binomial bounds. Of N items the count of right guesses has a standard deviation below sqrt(N c (1 - c)) for
// chance c, ties less; items of different seeds and depths are drawn apart. With kBound deviations, some hundred
// comparisons fail by chance with a probability of 0.01.
// In the released build alone: it computes the embedded pair's figures, ten times as long under sanitizers.
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "experiments/tasks/made/makers.h"
#include "experiments/tasks/probes.h"
#include "tests/experiments/tasks/made/prose.h"

namespace tare::makers_test {
namespace {

constexpr double kBound = 4;

struct MadeCase {
  const char* name;
  std::vector<Json> (*make)(uint64_t seed);
};

std::vector<Json> NeedlesOf(NeedleQuestion question, uint64_t seed) {
  question.grid.seed = seed;
  question.grid.samples = 12;
  return MakeNeedles(question, Prose(), ProseTokenizer());
}

const MadeCase kCases[] = {
    {"Needles", [](uint64_t seed) { return NeedlesOf({.grid = {.lengths = {128}}}, seed); }},
    {"Questions",
     [](uint64_t seed) { return NeedlesOf({.grid = {.lengths = {300}}, .needles = 6, .questions = 3}, seed); }},
    {"Changed",
     [](uint64_t seed) { return NeedlesOf({.grid = {.lengths = {200}}, .wrong = WrongEndings::kChanged}, seed); }},
    {"Swapped",
     [](uint64_t seed) {
       return NeedlesOf({.grid = {.lengths = {300}}, .wrong = WrongEndings::kSwapped, .needles = 9, .questions = 2},
                        seed);
     }},
    {"Lists",
     [](uint64_t seed) {
       return NeedlesOf({.grid = {.lengths = {400}}, .needles = 6, .values = 2, .names = 2}, seed);
     }},
    {"Copies",
     [](uint64_t seed) {
       return MakeCopies({.lengths = {500}, .samples = 12, .seed = seed}, Prose(), ProseTokenizer());
     }},
    {"Shots",
     [](uint64_t seed) {
       return MakeShots({.shots = {6}, .orders = {ShotOrder::kRandom}, .seeds = 1, .samples = 80, .seed = seed},
                        Prose().words());
     }},
    {"Variables",
     [](uint64_t seed) {
       return MakeVariables({.grid = {.lengths = {300}, .samples = 12, .seed = seed}}, Prose(), ProseTokenizer());
     }},
};

class MadeProbesTest : public testing::TestWithParam<MadeCase> {};

TEST_P(MadeProbesTest, GuessesAreAtChance) {
  Probes probes;
  double items = 0;
  std::map<int, double> places;
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    for (Json json : GetParam().make(seed)) {
      json["sample"] = JsonText(json["sample"]) + " of seed " + std::to_string(seed);
      const ChoiceItem item = ParseChoiceItem(JsonText(json), "made");
      probes.Add(item);
      ++places[item.label];
      ++items;
    }
  }
  const ProbeReport report = probes.Report();
  const double chance = *report.chance, bound = kBound * std::sqrt(chance * (1 - chance) / items);
  // Dealt for each seed apart.
  for (const auto& [place, count] : places) EXPECT_NEAR(count, items * chance, 5) << "place " << place + 1;
  for (const Probe& probe : report.probes) {
    if (probe.guess == "constant ending") {
      EXPECT_GE(*probe.p, 0.05) << probe.choice << " scores " << probe.score;
    } else {
      EXPECT_NEAR(probe.score, chance, bound) << probe.guess << ", z " << probe.z;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Makers, MadeProbesTest, testing::ValuesIn(kCases),
                         [](const auto& test) { return std::string(test.param.name); });

}  // namespace
}  // namespace tare::makers_test
