// SPDX-License-Identifier: Apache-2.0
#include "experiments/studies/search/search.h"

#include <algorithm>

#include "quant/base/error.h"

namespace tare {

double Search::BitsAt(size_t step) const {
  double operands = 0;
  for (const SearchPart& part : parts) operands += part.operands;
  return frontier[step].cost / operands;
}

std::vector<FrontierPoint> FrontierOf(const std::vector<SearchPart>& parts) {
  std::vector<std::vector<LevelCost>> levels;
  for (const SearchPart& part : parts) {
    levels.emplace_back();
    for (const PartLevel& level : part.levels) levels.back().push_back(level.of);
  }
  return Frontier(levels);
}

void Verify(Search& search, const std::function<VerifiedPoint(size_t step)>& run) {
  const auto loss_of = [&](size_t step) {
    const auto after = std::ranges::find_if(search.verified, [step](const auto& point) { return point.step > step; });
    return search.verified.insert(after, run(step))->Loss();
  };
  size_t within = 0, beyond = search.frontier.size() - 1;
  if (beyond == 0 || loss_of(beyond) <= search.within) {
    within = beyond;
    beyond = search.frontier.size();
  }
  while (beyond - within > 1 && beyond < search.frontier.size()) {
    const size_t middle = within + (beyond - within) / 2;
    (loss_of(middle) <= search.within ? within : beyond) = middle;
  }
  // Levels that lose nothing are of the first point already, whose bits may then be fewer too.
  const bool fewer = std::ranges::any_of(search.frontier.front().levels, [](size_t level) { return level > 0; });
  if (within == 0 && (!fewer || loss_of(0) > search.within)) {
    const double least = search.verified.empty() ? 0 : search.verified.front().Loss();
    FailUsage(
        "--within: got {}, expected a loss that some plan meets: the best measured plan loses {} nats per token; try "
        "--within {}",
        search.within, least, least);
  }
  const auto answer = std::ranges::find(search.verified, within, &VerifiedPoint::step);
  search.answer = static_cast<size_t>(answer - search.verified.begin());
}

VerifiedPoint PointOf(size_t step, const std::string& plan, const std::vector<SweepCell>& cells) {
  VerifiedPoint point{.step = step, .plan = plan, .cells = {}, .changes = {}};
  for (const SweepCell& cell : cells) {
    if (cell.Plan() != plan) continue;
    const auto exact = std::ranges::find_if(
        cells, [&](const SweepCell& other) { return other.task == cell.task && other.Plan() == "f32"; });
    TARE_CHECK(exact != cells.end());
    point.cells.push_back(cell);
    point.changes.push_back(Compare({&exact->figures.list.front(), &cell.figures.list.front()}, {-1, 1}));
  }
  return point;
}

}  // namespace tare
