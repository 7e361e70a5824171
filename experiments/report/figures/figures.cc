// SPDX-License-Identifier: Apache-2.0
#include "experiments/report/figures/figures.h"

#include <algorithm>

#include "experiments/report/drawing/embedded.h"
#include "quant/file/json.h"

namespace tare {
namespace {

using Json = nlohmann::ordered_json;

// The values of a column, each once, in the order of the rows.
Json Distinct(const FigureData& figure, const std::string& column) {
  const auto at = std::ranges::find(figure.columns, column, &Column::name) - figure.columns.begin();
  Json values = Json::array();
  for (const FigureRow& row : figure.rows) {
    if (!std::ranges::contains(values, row.at(at))) values.push_back(row[at]);
  }
  return values;
}

// Replaces each "sort": null by the order of the rows. Colours, shapes and dashes get it as their domain: with one domain
// two of them share a legend.
void Order(Json& part, const std::string& channel, const FigureData& figure) {
  if (part.is_object() && part.contains("field") && part.contains("sort") && part["sort"].is_null()) {
    const Json values = Distinct(figure, part["field"]);
    if (channel == "color" || channel == "shape" || channel == "strokeDash")
      part["scale"]["domain"] = values;
    else
      part["sort"] = values;
  }
  if (!part.is_structured()) return;
  for (const auto& [key, child] : part.items()) Order(child, key, figure);
}

}  // namespace

Json SpecificationOf(const FigureData& figure) {
  Json specification = Json::parse(Embedded("figures/" + figure.Kind() + ".json"));
  Order(specification, "", figure);
  Json values = Json::array();
  for (const FigureRow& row : figure.rows) {
    Json& value = values.emplace_back(Json::object());
    for (size_t i = 0; i < row.size(); ++i) value[figure.columns[i].name] = row[i];
  }
  specification["data"] = {{"values", std::move(values)}};
  return specification;
}

}  // namespace tare
