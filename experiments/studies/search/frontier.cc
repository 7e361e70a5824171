// SPDX-License-Identifier: Apache-2.0
#include "experiments/studies/search/frontier.h"

#include <algorithm>
#include <optional>
#include <tuple>

#include "quant/base/error.h"

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

}  // namespace

std::vector<FrontierPoint> Frontier(const std::vector<std::vector<LevelCost>>& parts) {
  FrontierPoint point;
  std::vector<Edge> edges;
  for (size_t part = 0; part < parts.size(); ++part) {
    TARE_CHECK(!parts[part].empty());
    std::vector<LevelCost> levels = parts[part];
    for (LevelCost& level : levels) level.loss = std::max(level.loss, 0.0);
    const size_t begin = Beginning(levels);
    point.levels.push_back(begin);
    for (auto edge = EdgeFrom(levels, part, begin); edge; edge = EdgeFrom(levels, part, edge->to))
      edges.push_back(*edge);
  }
  std::ranges::stable_sort(edges, {}, &Edge::slope);
  std::vector<FrontierPoint> frontier;
  const auto add = [&] {
    point.cost = point.loss = 0;
    for (size_t part = 0; part < parts.size(); ++part) {
      const LevelCost& level = parts[part][point.levels[part]];
      point.cost += level.cost;
      point.loss += std::max(level.loss, 0.0);
    }
    frontier.push_back(point);
  };
  add();
  for (const Edge& edge : edges) {
    point.levels[edge.part] = edge.to;
    point.moved = edge.part;
    add();
  }
  return frontier;
}

}  // namespace tare
