// SPDX-License-Identifier: Apache-2.0
// Whether intervals cover and tests reject as they say, on data of every kind that the program meets and of which the
// truth is known: windows in the order of a text (also correlated from one to the next), independent samples, changes
// of perplexity, differences of drops, accuracies, and items that change; and how often equivalence within a margin is
// shown. What a cell must reach is 0.94 to 0.96, as far as its own number of sets shows: four binomial deviations
// either way.
//
// It draws 1,000 sets per cell here, about a second. By hand, for the table of docs/reference/uncertainty.md (two
// minutes):
//
//   TARE_CALIBRATION=100000 build/release/experiments_tests --gtest_filter=Calibration.*
#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <random>

#include "experiments/significance/inference.h"
#include "experiments/significance/mean_error.h"
#include "experiments/studies/sweep/comparison.h"
#include "quant/base/message.h"

namespace tare::calibration_test {
namespace {

using Random = std::mt19937_64;

int Sets() {
  const char* const asked = std::getenv("TARE_CALIBRATION");
  return asked == nullptr ? 1000 : std::atoi(asked);
}

// Values of mean 0 and deviation 1, independent of each other.
enum class Shape { kNormal, kExponential, kHalfLognormal, kLognormal };  // of skewness 0, 2, 1.75 and 6.2

const char* NameOf(Shape shape) {
  switch (shape) {
    case Shape::kNormal:
      return "normal";
    case Shape::kExponential:
      return "exponential";
    case Shape::kHalfLognormal:
      return "lognormal(0.5)";
    case Shape::kLognormal:
      return "lognormal(1)";
  }
  return "";
}

double Draw(Shape shape, Random& random) {
  thread_local std::normal_distribution<double> normal;
  const auto lognormal = [&](double s) {
    const double square = s * s;
    return (std::exp(s * normal(random)) - std::exp(square / 2)) / std::sqrt(std::expm1(square) * std::exp(square));
  };
  switch (shape) {
    case Shape::kNormal:
      return normal(random);
    case Shape::kExponential:
      return std::exponential_distribution<double>()(random) - 1;
    case Shape::kHalfLognormal:
      return lognormal(0.5);
    case Shape::kLognormal:
      return lognormal(1);
  }
  return 0;
}

// n values, each rho times the one before and a new one, after fifty that are dropped.
std::vector<double> Correlated(Shape shape, double rho, size_t n, Random& random) {
  std::vector<double> values;
  double last = Draw(shape, random) / std::sqrt(1 - rho * rho);
  for (size_t i = 0; i < n + (rho == 0 ? 0 : 50); ++i) {
    last = rho * last + Draw(shape, random);
    if (rho == 0 || i >= 50) values.push_back(last);
  }
  return values;
}

// What a set's interval and test say of the truth.
struct Verdict {
  bool covers = false, rejects = false;
};
Verdict OfMeanError(const MeanError& error, double value, double truth) {
  const Interval interval = error.Around(value), of_error = error.Around(value - truth);
  const bool covers = interval.low <= truth && truth <= interval.high;
  const double p = error.P(value - truth);
  // One decision. At the ends rounding may part them.
  if (std::abs(p - kLevel) > 1e-9) {
    EXPECT_EQ(p < kLevel, of_error.low > 0 || of_error.high < 0) << p;
  }
  return {covers, p < kLevel};
}

struct Band {
  double least = 0.94, most = 0.96;
};

// Runs a cell, prints its row of the table if asked for, and holds both shares to the band.
void Check(const std::string& cell, const std::function<Verdict(Random&)>& draw, Band coverage = {}, Band kept = {}) {
  const int sets = Sets();
  Random random(7);
  int covered = 0, rejected = 0;
  for (int i = 0; i < sets; ++i) {
    const Verdict verdict = draw(random);
    covered += verdict.covers ? 1 : 0;
    rejected += verdict.rejects ? 1 : 0;
  }
  const double covering = static_cast<double>(covered) / sets, rejecting = static_cast<double>(rejected) / sets;
  if (std::getenv("TARE_CALIBRATION") != nullptr)
    std::printf("| %s | %.3f | %.3f |\n", cell.c_str(), covering, rejecting);
  const double slack = 4 * std::sqrt(0.05 * 0.95 / sets);
  EXPECT_GE(covering, coverage.least - slack) << cell;
  EXPECT_LE(covering, coverage.most + slack) << cell;
  EXPECT_GE(1 - rejecting, kept.least - slack) << cell;
  EXPECT_LE(1 - rejecting, kept.most + slack) << cell;
}

constexpr size_t kSizes[] = {kFewestUnits, 30, 40, 60, 100};

void RunMeans(const char* what, Units kind, Shape shape, double rho) {
  for (const size_t n : kSizes) {
    const std::string row =
        Formatted("{} | {} | {}{}", what, n, NameOf(shape), rho == 0 ? "" : Formatted(", neighbours {}", rho));
    Check(row, [&](Random& random) {
      const std::vector<double> values = Correlated(shape, rho, n, random);
      double mean = 0;
      for (const double x : values) mean += x / static_cast<double>(n);
      return OfMeanError(*ErrorOfMean(values, kind), mean, 0);
    });
  }
}

TEST(Calibration, Windows) {
  for (const Shape shape : {Shape::kNormal, Shape::kExponential, Shape::kHalfLognormal}) {
    for (const double rho : {0.0, 0.3, 0.6}) RunMeans("windows", Units::kOfText, shape, rho);
  }
  RunMeans("windows", Units::kOfText, Shape::kLognormal, 0);
}

TEST(Calibration, Samples) {
  for (const Shape shape : {Shape::kNormal, Shape::kExponential, Shape::kHalfLognormal})
    RunMeans("samples", Units::kIndependent, shape, 0);
}

// The losses of runs in windows of 20 or 100 tokens, hard windows being hard for all; run r adds a change of its own.
PairedRuns RunsOf(size_t n, const std::vector<double>& signs, Shape shape, double rho, Random& random) {
  PairedRuns runs{.counts = {}, .sums = {}, .signs = signs, .of_mean = OfMean::kExponential};
  for (size_t i = 0; i < n; ++i) runs.counts.push_back(i % 4 == 3 ? 20 : 100);
  const std::vector<double> hard = Correlated(Shape::kNormal, rho, n, random);
  for (size_t r = 0; r < signs.size(); ++r) {
    const std::vector<double> change = Correlated(shape, rho, n, random);
    std::vector<double>& sums = runs.sums.emplace_back();
    for (size_t i = 0; i < n; ++i) sums.push_back(runs.counts[i] * (3 + 0.2 * hard[i] + 0.02 * change[i]));
  }
  return runs;
}

// All runs have the same mean, so that no contrast differs from 0.
void RunContrast(const char* what, const std::vector<double>& signs, Shape shape, double rho) {
  for (const size_t n : kSizes) {
    const std::string row =
        Formatted("{} | {} | {}{}", what, n, NameOf(shape), rho == 0 ? "" : Formatted(", neighbours {}", rho));
    Check(row, [&](Random& random) {
      const PairedRuns runs = RunsOf(n, signs, shape, rho, random);
      return OfMeanError(*PairedError(runs), Contrast(runs), 0);
    });
  }
}

TEST(Calibration, ChangesOfPerplexity) {
  RunContrast("change of perplexity", {-1, 1}, Shape::kNormal, 0);
  RunContrast("change of perplexity", {-1, 1}, Shape::kExponential, 0.3);
}

TEST(Calibration, DifferencesOfDrops) {
  RunContrast("difference in degradation", {1, -1, -1, 1}, Shape::kNormal, 0);
  RunContrast("difference in degradation", {1, -1, -1, 1}, Shape::kHalfLognormal, 0);
  RunContrast("difference in degradation", {1, -1, -1, 1}, Shape::kNormal, 0.3);
}

// Clusters of five items: a cluster's items share its chance of being right, which is 0.5 to 0.9; paired runs differ in
// what they answer.
TEST(Calibration, ChangesBySample) {
  for (const size_t n : kSizes) {
    Check(Formatted("change by sample | {} | five items each", n), [&](Random& random) {
      std::uniform_real_distribution<double> uniform;
      PairedRuns runs{
          .counts = std::vector<double>(n, 5.0), .sums = {{}, {}}, .signs = {-1, 1}, .kind = Units::kIndependent};
      for (size_t i = 0; i < n; ++i) {
        for (std::vector<double>& sums : runs.sums) {
          const double chance = 0.5 + 0.4 * uniform(random);
          sums.push_back(std::binomial_distribution<int>(5, chance)(random));
        }
      }
      return OfMeanError(*PairedError(runs), Contrast(runs), 0);
    });
  }
}

// One accuracy, drawn from 0.5 to 0.95 for each set: Wilson's coverage swings about 0.95 with the share. There is no
// test; that of the truth by the interval is counted.
TEST(Calibration, Accuracies) {
  for (const int n : {20, 40, 100, 500}) {
    Check(Formatted("accuracy | {} | 0.5 to 0.95 right", n), [&](Random& random) {
      const double share = std::uniform_real_distribution<double>(0.5, 0.95)(random);
      const Interval interval = WilsonInterval(std::binomial_distribution<int>(n, share)(random), n);
      const bool covers = interval.low <= share && share <= interval.high;
      return Verdict{covers, !covers};
    });
  }
}

// As many items gained as lost, of which `changed` are expected. Few changes are whole numbers: the test rejects less
// often than it may, and the interval is wider. The cells say how much.
TEST(Calibration, ChangesOfItems) {
  const struct {
    int n;
    double changed;
    Band coverage, kept;
  } cells[] = {{40, 0.1, {0.97, 0.995}, {0.97, 0.99}},
               {100, 0.1, {0.95, 0.98}, {0.95, 0.97}},
               {100, 0.2, {}, {}},
               {200, 0.1, {}, {}},
               {500, 0.1, {}, {}}};
  for (const auto& cell : cells) {
    Check(
        Formatted("change of items | {} | {:.0f} change", cell.n, cell.n * cell.changed),
        [&](Random& random) {
          const int changed = std::binomial_distribution<int>(cell.n, cell.changed)(random);
          OutcomeChanges items{.n = cell.n};
          items.gained = std::binomial_distribution<int>(changed, 0.5)(random);
          items.lost = changed - items.gained;
          items.sum = items.gained - items.lost, items.squares = changed;
          const Interval interval = items.BonettPrice();
          return Verdict{interval.low <= 0 && 0 <= interval.high, McNemarMidP(items.gained, items.lost) < kLevel};
        },
        cell.coverage, cell.kept);
  }
}

// Two one-sided tests at 5 %: with a loss of the whole margin a plan is called lossless, and called worse, in 5 % of
// sets at most; with a little loss it is called lossless as often as the cell says (power).
struct EquivalenceCell {
  size_t n;
  Shape shape;
  double rho, margin, little, power;
};

// draw(loss, random): a comparison with this true loss.
template <typename Draw>
void CheckEquivalence(const std::string& what, const EquivalenceCell& cell, const Draw& draw) {
  const auto share_of = [&](const char* verdict, double loss) {
    Random random(7);
    int count = 0;
    for (int i = 0; i < Sets(); ++i) count += std::string_view(VerdictAt(cell.margin, draw(loss, random))) == verdict;
    return static_cast<double>(count) / Sets();
  };
  const double lossless = share_of("lossless", cell.margin), worse = share_of("worse", cell.margin),
               power = share_of("lossless", cell.little);
  if (std::getenv("TARE_CALIBRATION") != nullptr)
    std::printf("| %s | %zu | lossless %.3f, worse %.3f | power %.3f |\n", what.c_str(), cell.n, lossless, worse,
                power);
  const double slack = 4 * std::sqrt(0.05 * 0.95 / Sets());
  EXPECT_LE(lossless, 0.05 + slack) << what << " " << cell.n;
  EXPECT_LE(worse, 0.05 + slack) << what << " " << cell.n;
  EXPECT_NEAR(power, cell.power, 4 * std::sqrt(0.25 / Sets())) << what << " " << cell.n;
}

Figure FigureOf(const std::vector<double>& sums, const std::vector<double>& counts, OfMean of_mean) {
  return {.keys = {.name = "figure", .windows = WindowKeys{}, .of_mean = of_mean},
          .windows = {.sums = sums, .counts = counts}};
}

TEST(Calibration, EquivalenceOfPerplexities) {
  for (const EquivalenceCell& cell : {EquivalenceCell{20, Shape::kNormal, 0, 0.03, 0, 0.71},
                                      {40, Shape::kNormal, 0, 0.02, 0, 0.88},
                                      {100, Shape::kExponential, 0.3, 0.01, 0, 0.40}}) {
    CheckEquivalence("perplexity", cell, [&](double loss, Random& random) {
      PairedRuns runs = RunsOf(cell.n, {-1, 1}, cell.shape, cell.rho, random);
      for (size_t i = 0; i < cell.n; ++i) runs.sums[1][i] += runs.counts[i] * std::log1p(loss);
      const Figure before = FigureOf(runs.sums[0], runs.counts, OfMean::kExponential),
                   after = FigureOf(runs.sums[1], runs.counts, OfMean::kExponential);
      return Compare({&before, &after}, {-1, 1});
    });
  }
}

// Divergences of windows with a deviation of half their mean.
TEST(Calibration, EquivalenceOfDivergences) {
  for (const EquivalenceCell& cell : {EquivalenceCell{20, Shape::kHalfLognormal, 0, 0.01, 0.005, 0.94},
                                      {40, Shape::kHalfLognormal, 0, 0.01, 0.007, 0.93},
                                      {100, Shape::kHalfLognormal, 0.3, 0.01, 0.008, 0.86}}) {
    CheckEquivalence("KL divergence", cell, [&](double loss, Random& random) {
      std::vector<double> sums = Correlated(cell.shape, cell.rho, cell.n, random);
      for (double& x : sums) x = loss * (1 + 0.5 * x);
      const std::vector<double> counts(cell.n, 1.0);
      const Figure before = FigureOf(std::vector<double>(cell.n), counts, OfMean::kItself),
                   after = FigureOf(sums, counts, OfMean::kItself);
      return Compare({&before, &after}, {-1, 1});
    });
  }
}

// Items of which 10 % change, besides the share that is lost.
TEST(Calibration, EquivalenceOfAccuracies) {
  for (const EquivalenceCell& cell : {EquivalenceCell{100, {}, 0, 0.08, 0, 0.59}, {400, {}, 0, 0.04, 0, 0.61}}) {
    CheckEquivalence("accuracy", cell, [&](double loss, Random& random) {
      std::uniform_real_distribution<double> uniform;
      Figure before{.keys = {.name = "acc", .outcomes = "outcomes"}}, after = before;
      for (size_t i = 0; i < cell.n; ++i) {
        const double u = uniform(random);
        before.outcomes += u < 0.05 ? '0' : '1';
        after.outcomes += u >= 0.05 && u < 0.1 + loss ? '0' : '1';
      }
      return Compare({&before, &after}, {-1, 1});
    });
  }
}

}  // namespace
}  // namespace tare::calibration_test
