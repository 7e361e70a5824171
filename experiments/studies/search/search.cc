// SPDX-License-Identifier: Apache-2.0
#include "experiments/studies/search/search.h"

#include <algorithm>
#include <cmath>

#include "quant/base/message.h"

namespace tare {

double Search::BitsAt(size_t step) const {
  double operands = 0;
  for (const SearchPart& part : parts) operands += part.operands;
  return frontier[step].cost / operands;
}

void RequireRoom(const SearchBudget& budget, const std::vector<SearchPart>& parts) {
  double least = 0, unquantized = 0;
  for (const SearchPart& part : parts) {
    least += std::ranges::min(part.levels, {}, [](const PartLevel& level) { return level.of.cost; }).of.cost;
    for (const PartLevel& level : part.levels) unquantized += level.plan.empty() ? level.of.cost : 0;
  }
  const double weights = budget.stored.weights, enough = std::ceil(least / weights * 1000) / 1000;
  const auto options = [&](double bits) {
    return Formatted("--bits-per-weight {:.3f}, or --bytes {:.0f}", bits,
                     std::ceil((bits * weights + budget.stored.others) / 8));
  };
  if (unquantized > 0 && budget.bits >= unquantized)
    FailUsage("got room for {:.3f} bits per weight, expected less than the {:.3f} of the weights as stored; try {}",
              budget.bits / weights, unquantized / weights, options(std::max(enough, unquantized / weights / 4)));
  if (least <= budget.bits) return;
  FailUsage(
      "got room for {:.3f} bits per weight, expected at least {:.3f}, which the smallest levels take beside {} of all "
      "other tensors; try {}",
      std::max(0.0, budget.bits / weights), least / weights, SizeText(static_cast<int64_t>(budget.stored.others / 8)),
      options(enough));
}

std::vector<FrontierPoint> ChoicesWithin(const SearchBudget& budget, const std::vector<SearchPart>& parts,
                                         const std::vector<std::vector<size_t>>& uniform) {
  const std::optional<FrontierPoint> choice = LeastLossWithin(budget.bits, parts);
  TARE_CHECK(choice);
  std::vector<FrontierPoint> points;
  for (const std::vector<size_t>& levels : uniform) {
    if (levels.empty()) continue;
    const FrontierPoint point = PointAt(parts, levels);
    if (point.cost > budget.bits || (!points.empty() && point.cost <= points.front().cost)) continue;
    points.assign(1, point);
  }
  if (points.empty() || points.front().levels != choice->levels) points.push_back(*choice);
  return points;
}

void Verify(Search& search, const std::function<VerifiedPoint(size_t step)>& run) {
  if (search.budget) {
    for (size_t step = 0; step < search.frontier.size(); ++step) search.verified.push_back(run(step));
    const auto best = std::ranges::min_element(search.verified, {}, &VerifiedPoint::Loss);
    search.answer = static_cast<size_t>(best - search.verified.begin());
    return;
  }
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
