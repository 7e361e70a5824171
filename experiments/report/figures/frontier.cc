// SPDX-License-Identifier: Apache-2.0
// The frontier of `tare search`: the predicted loss of each step, the measured losses, and the allowed loss. Of a
// search within a size, its measured plans.
#include "experiments/report/figures/figures.h"
#include "quant/base/formatted.h"

namespace tare {
namespace {

// A line across, from the most bits to the fewest.
void AddLimit(const std::string& panel, const Json& json, FigureData& figure) {
  const Json& frontier = json.at("frontier");
  for (const Json* point : {&frontier.front(), &frontier.back()})
    figure.table.Add({panel, "allowed", nullptr, NumberOrNull(NumberAt(*point, "bits")),
                      NumberOrNull(NumberAt(json, "within")), nullptr, nullptr, nullptr});
}

std::string MeasuredLoss(const Json& point) {
  const Json& change = point.at("tasks").at(0).at("change");
  const double low = NumberAt(change, "low"), high = NumberAt(change, "high");
  return Formatted("{:.3g}", NumberAt(change, "value")) +
         (std::isnan(high - low) ? "" : Formatted(" [{:.3g}, {:.3g}]", low, high));
}

std::string FindingOf(const Json& json, const Json& answer) {
  const std::string panel = json.at("model"), loses = MeasuredLoss(answer);
  const double bits = NumberAt(answer, "bits"), predicted = NumberAt(answer, "predicted");
  if (const auto budget = json.find("budget"); budget != json.end())
    return Formatted(
        "The plan chosen for {} within {:.3g} bits per weight has {:.2f} and loses {} nats per token; the "
        "prediction was {:.3g}.",
        panel, NumberAt(*budget, "bits_per_weight"), bits, loses, predicted);
  return Formatted(
      "The cheapest measured plan of {} that loses at most {:.3g} nats per token has {:.2f} bits per "
      "operand and loses {}; the prediction was {:.3g}.",
      panel, NumberAt(json, "within"), bits, loses, predicted);
}

void AddSearch(const Json& json, FigureData& figure) {
  const std::string panel = json.at("model");
  const Json& frontier = json.at("frontier");
  if (frontier.empty()) return;
  for (const Json& point : frontier)
    figure.table.Add({panel, "predicted", point.at("step"), NumberOrNull(NumberAt(point, "bits")),
                      NumberOrNull(NumberAt(point, "predicted")), nullptr, nullptr, nullptr});
  const Json* answer = nullptr;
  for (const Json& point : json.at("verified")) {
    const Json& change = point.at("tasks").at(0).at("change");
    figure.table.Add({panel, "measured", point.at("step"), NumberOrNull(NumberAt(point, "bits")),
                      NumberOrNull(NumberAt(change, "value")), NumberOrNull(NumberAt(change, "low")),
                      NumberOrNull(NumberAt(change, "high")), point.at("plan")});
    if (point.at("plan") == json.at("plan")) answer = &point;
  }
  if (!json.contains("budget")) AddLimit(panel, json, figure);
  if (answer != nullptr) figure.findings.push_back(FindingOf(json, *answer));
}

}  // namespace

std::vector<FigureData> Frontiers(const Material& material) {
  FigureData figure{.name = "frontier",
                    .title = "The cheapest plans within a loss",
                    .caption =
                        "Kullback-Leibler divergence from the model without a plan, nats per token, against the mean "
                        "bits of all searched operands. Predicted: the sum of what the parts lose alone; measured: the "
                        "loss of the whole plan, with 95 % intervals, paired by window; allowed: the limit of "
                        "--within. n: the measured steps, in the table with their plans.",
                    .table = Titled({"panel: model", "kind", "step", "bits: bits per operand",
                                     "loss: divergence (nats)", "low: from", "high: to", "plan"}),
                    .drawn = {"bits", "loss"}};
  material.ForEach("tare.search/1", [&](const Json& json) { AddSearch(json, figure); });
  if (figure.table.rows.empty()) return {};
  return {figure};
}

}  // namespace tare
