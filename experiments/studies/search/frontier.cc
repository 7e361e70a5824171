// SPDX-License-Identifier: Apache-2.0
// Edges of a part's hull, steps of a budget, points at given levels, Frontier, and LeastLossWithin a budget.
#include "experiments/studies/search/search.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <tuple>

#include "quant/base/message.h"

namespace tare {
namespace {

struct Edge {
  size_t part = 0, to = 0;
  double slope = 0;  // loss per cost saved
};

// The level with the least loss, and among those the least cost.
size_t Beginning(const std::vector<LevelCost>& levels) {
  const auto least =
      std::ranges::min_element(levels, {}, [](const LevelCost& level) { return std::tuple(level.loss, level.cost); });
  return static_cast<size_t>(least - levels.begin());
}

// The next corner of the hull: the flattest edge to less cost, and among those the longest.
std::optional<Edge> EdgeFrom(const std::vector<LevelCost>& levels, size_t part, size_t from) {
  std::optional<Edge> best;
  for (size_t to = 0; to < levels.size(); ++to) {
    const double saved = levels[from].cost - levels[to].cost;
    if (saved <= 0) continue;
    const double slope = (levels[to].loss - levels[from].loss) / saved;
    if (!best || slope < best->slope || (slope == best->slope && levels[to].cost < levels[best->to].cost))
      best = Edge{part, to, slope};
  }
  return best;
}

constexpr size_t kMostSteps = 1 << 16;
constexpr double kImpossible = std::numeric_limits<double>::infinity();

double CostOf(const PartLevel& level) { return level.of.cost; }

double Cheapest(const SearchPart& part) {
  TARE_CHECK(!part.levels.empty());
  return CostOf(*std::ranges::min_element(part.levels, {}, CostOf));
}

// What is left of the budget, in steps of a cost.
struct Steps {
  double step = 1;
  size_t all = 0;

  // Whole steps that `cost` takes; more than all if it takes more.
  size_t Of(double cost) const {
    if (cost <= 0) return 0;
    const double steps = std::ceil(cost / step);
    return steps <= static_cast<double>(all) ? static_cast<size_t>(steps) : all + 1;
  }
};

// By the greatest common divisor of what levels cost beyond the cheapest: bits of whole matrices have a large one, and
// the choice is exact. Else by 2^-16 of what is left.
Steps StepsWithin(double left, const std::vector<SearchPart>& parts) {
  uint64_t divisor = 0;
  bool whole = left < 0x1p53;
  for (const SearchPart& part : parts) {
    for (const PartLevel& level : part.levels) {
      const double beyond = CostOf(level) - Cheapest(part);
      whole = whole && beyond == std::floor(beyond) && beyond < 0x1p53;
      if (whole) divisor = std::gcd(divisor, static_cast<uint64_t>(beyond));
    }
  }
  if (whole && divisor == 0) return {};  // no level costs more
  if (const double step = static_cast<double>(divisor); whole && left / step <= double{kMostSteps})
    return {step, static_cast<size_t>(left / step)};
  return {std::max(left / double{kMostSteps}, std::numeric_limits<double>::min()), kMostSteps};
}

// Adds a part: least[s] becomes the least loss of all parts so far within s steps. Returns the part's level there.
std::vector<uint16_t> AddPart(const SearchPart& part, const Steps& steps, std::vector<double>& least) {
  TARE_CHECK(part.levels.size() <= std::numeric_limits<uint16_t>::max());
  const double cheapest = Cheapest(part);
  std::vector<uint16_t> level_at(steps.all + 1);
  std::vector<double> next(steps.all + 1, kImpossible);
  for (size_t level = 0; level < part.levels.size(); ++level) {
    const double loss = std::max(part.levels[level].of.loss, 0.0);
    for (size_t s = steps.Of(CostOf(part.levels[level]) - cheapest), from = 0; s <= steps.all; ++s, ++from) {
      if (least[from] + loss >= next[s]) continue;
      next[s] = least[from] + loss;
      level_at[s] = static_cast<uint16_t>(level);
    }
  }
  least = std::move(next);
  return level_at;
}

}  // namespace

FrontierPoint PointAt(const std::vector<SearchPart>& parts, const std::vector<size_t>& levels) {
  FrontierPoint point{.levels = levels, .cost = 0, .loss = 0};
  for (size_t part = 0; part < parts.size(); ++part) {
    const LevelCost& level = parts[part].levels[levels[part]].of;
    point.cost += level.cost;
    point.loss += std::max(level.loss, 0.0);
  }
  return point;
}

std::vector<FrontierPoint> Frontier(const std::vector<SearchPart>& parts) {
  std::vector<size_t> at;
  std::vector<Edge> edges;
  for (size_t part = 0; part < parts.size(); ++part) {
    TARE_CHECK(!parts[part].levels.empty());
    std::vector<LevelCost> levels;
    for (const PartLevel& level : parts[part].levels) levels.push_back({CostOf(level), std::max(level.of.loss, 0.0)});
    at.push_back(Beginning(levels));
    for (auto edge = EdgeFrom(levels, part, at.back()); edge; edge = EdgeFrom(levels, part, edge->to))
      edges.push_back(*edge);
  }
  std::ranges::stable_sort(edges, {}, &Edge::slope);
  std::vector<FrontierPoint> frontier{PointAt(parts, at)};
  for (const Edge& edge : edges) {
    at[edge.part] = edge.to;
    frontier.push_back(PointAt(parts, at));
    frontier.back().moved = edge.part;
  }
  return frontier;
}

std::optional<FrontierPoint> LeastLossWithin(double budget, const std::vector<SearchPart>& parts) {
  double left = budget;
  for (const SearchPart& part : parts) left -= Cheapest(part);
  if (!(left >= 0)) return std::nullopt;
  const Steps steps = StepsWithin(left, parts);
  std::vector<double> least(steps.all + 1, 0.0);
  std::vector<std::vector<uint16_t>> level_at;
  for (const SearchPart& part : parts) level_at.push_back(AddPart(part, steps, least));

  FrontierPoint choice{.levels = std::vector<size_t>(parts.size()), .cost = 0, .loss = 0};
  // The fewest steps that lose as little as all.
  auto s = static_cast<size_t>(std::ranges::lower_bound(least, least.back(), std::greater{}) - least.begin());
  for (size_t part = parts.size(); part-- > 0;) {
    const size_t level = level_at[part][s];
    const LevelCost& taken = parts[part].levels[level].of;
    s -= steps.Of(taken.cost - Cheapest(parts[part]));
    choice.levels[part] = level;
    choice.cost += taken.cost;
    choice.loss += std::max(taken.loss, 0.0);
  }
  return choice;
}

}  // namespace tare
