// SPDX-License-Identifier: Apache-2.0
// The maps of a head, their difference and what a plan adds to it, query by key, from `tare maps --heads`
// (experiments/studies/attribution/map_errors.h). draw.js makes an image of a panel's cells, a pixel each.
#include <algorithm>
#include <cmath>

#include "experiments/report/figures/figures.h"
#include "quant/base/message.h"

namespace tare {
namespace {

constexpr size_t kMostCells = 128;  // a side

const Json& Checked(const Json& list) {
  if (list.size() > kMostCells)
    Fail("a picture of attention: got {} cells a side, expected at most {}; try tare maps again", list.size(),
         kMostCells);
  return list;
}

// The smallest and the largest cell.
std::pair<double, double> EndsOf(const Json& cells) {
  double low = INFINITY, high = -INFINITY;
  for (const Json& row : Checked(cells)) {
    for (const Json& cell : Checked(row)) {
      if (cell.is_null()) continue;
      low = std::min(low, cell.get<double>()), high = std::max(high, cell.get<double>());
    }
  }
  return low > high ? std::pair(0.0, 0.0) : std::pair(low, high);
}

// Maps have one colour scale; those of differences and errors have 0 in their middle. Returns the largest magnitude.
double AddPanel(const std::string& panel, const Json& cells, bool is_map, const Json& head, Table& table) {
  const auto [low, high] = EndsOf(cells);
  const double most = std::max(std::abs(low), std::abs(high)), end = is_map || most == 0 ? 1 : most;
  table.Add({panel, low, high});
  table.rows.back().update({{"cells", cells},  // from here on for the drawing alone
                            {"unit", is_map ? "probability" : "difference"},
                            {"scheme", is_map ? "viridis" : "blueorange"},
                            {"domain", {is_map ? 0 : -end, end}},
                            {"tokens", head.at("tokens")},
                            {"end", cells.size() * head.at("cell").get<size_t>()}});
  return most;
}

FigureData FigureOf(const std::string& model, const std::string& plan, const Json& head) {
  const std::string place =
      Formatted("head {} of layer {} of {}", head.at("head").get<int>(), head.at("layer").get<int>(), model);
  FigureData figure{
      .name = "attention",
      .title = "Attention of " + place,
      .caption = Formatted(
          "Query by key, the {} of the first window. Each cell shows, of {} by as many, the entry of largest "
          "magnitude, with its sign; the colour scale is of square roots. Error: what {} adds, with exact inputs to "
          "the layer.{}",
          Counted(head.at("tokens").get<int64_t>(), "token"), Counted(head.at("cell").get<int64_t>(), "token"), plan,
          head.at("lambda").is_null() ? "" : " lambda is the mean over queries."),
      .table = Titled({"panel: picture", "low: smallest", "high: largest"})};
  const Json &maps = head.at("maps"), &difference = head.at("difference");
  double before = 0;
  for (size_t i = 0; i < maps.size(); ++i)
    before = AddPanel(Formatted("map {}", i + 1), maps[i], true, head, figure.table);
  if (!difference.is_null())
    before = AddPanel(Formatted("difference, lambda = {:.3g}", NumberAt(head, "lambda")), difference, false, head,
                      figure.table);
  const double error = AddPanel("error, " + plan, head.at("error"), false, head, figure.table);
  for (Json& row : figure.table.rows) row["place"] = place;
  figure.findings = {Formatted("In {}, {} changes an entry of {} by at most {:.3g}, where the largest is {:.3g}.",
                               place, plan, difference.is_null() ? "the map" : "the difference of maps", error,
                               before)};
  return figure;
}

}  // namespace

std::vector<FigureData> AttentionOfHeads(const Material& material) {
  std::vector<FigureData> figures;
  material.ForEach("tare.maps/1", [&](const Json& run) {
    for (const Json& plan : run.at("plans")) {
      for (const Json& head : plan.value("heads", Json::array()))
        figures.push_back(FigureOf(run.at("model"), plan.at("plan"), head));
    }
  });
  return WithRows(figures);
}

}  // namespace tare
