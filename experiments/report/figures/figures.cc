// SPDX-License-Identifier: Apache-2.0
#include "experiments/report/figures/figures.h"

#include <algorithm>

#include "experiments/report/drawing/embedded.h"
#include "quant/base/formatted.h"
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

constexpr std::string_view kWithDomain[] = {"color", "fill", "stroke", "shape", "strokeDash", "fillOpacity"};

// Replaces each "sort": null by the order of the rows. Colours, shapes and dashes get it as their domain: with one domain
// two of them share a legend.
void Order(Json& part, const std::string& channel, const FigureData& figure) {
  if (part.is_object() && part.contains("field") && part.contains("sort") && part["sort"].is_null()) {
    const Json values = Distinct(figure, part["field"]);
    if (std::ranges::contains(kWithDomain, channel))
      part["scale"]["domain"] = values;
    else
      part["sort"] = values;
  }
  if (!part.is_structured()) return;
  for (const auto& [key, child] : part.items()) Order(child, key, figure);
}

// "m, q=int4/row,k=int4/row, items" as the lines of a title: rules of a plan have no blank after their comma.
Json LinesOf(const std::string& text) {
  Json lines = Json::array();
  for (size_t from = 0; from != text.npos;) {
    const size_t comma = text.find(", ", from);
    lines.push_back(text.substr(from, comma - from));
    from = comma == text.npos ? comma : comma + 2;
  }
  return lines;
}

// Each "$NAME" becomes the row's value of that column, "$NAME:lines" its lines.
void FillIn(Json& part, const FigureData& figure, const FigureRow& row) {
  if (part.is_string() && part.get_ref<const std::string&>().starts_with("$")) {
    std::string name = part.get<std::string>().substr(1);
    const size_t lines = name.find(":lines");
    name = name.substr(0, lines);
    const auto column = std::ranges::find(figure.columns, name, &Column::name);
    part = row.at(static_cast<size_t>(column - figure.columns.begin()));
    if (lines != name.npos) part = LinesOf(part.get<std::string>());
  }
  if (!part.is_structured()) return;
  for (Json& child : part) FillIn(child, figure, row);
}

// The "spec" is taken.
Json PanelsOf(Json& specification, const FigureData& figure) {
  const auto by = std::ranges::find(figure.columns, specification["concat"].get<std::string>(), &Column::name) -
                  figure.columns.begin();
  Json panels = Json::array();
  std::vector<Json> known;
  for (const FigureRow& row : figure.rows) {
    if (std::ranges::contains(known, row.at(static_cast<size_t>(by)))) continue;
    known.push_back(row[static_cast<size_t>(by)]);
    Json panel = specification["spec"];
    FillIn(panel, figure, row);
    panels.push_back(std::move(panel));
  }
  specification.erase("spec");
  return panels;
}

constexpr size_t kNamed = 12;  // rows; the table has all

std::string RowName(const FigureData& figure, const FigureRow& row, size_t before) {
  std::string name;
  for (size_t i = 0; i < before; ++i) {
    if (row[i].is_null() || figure.columns[i].drawn) continue;
    name += (name.empty() ? "" : ", ") + figure.columns[i].title + " " +
            (row[i].is_string() ? row[i].get<std::string>() : row[i].dump());
  }
  return name;
}

}  // namespace

std::string RangeName(int64_t first, int64_t last) {
  return first == last ? Formatted("{}", first) : Formatted("{} to {}", first, last);
}

std::string EvaluatedName(const Json& evaluation) {
  const std::string plan = evaluation.at("plan"), cache = evaluation.value("cache", "");
  return Formatted("{}, {}{}{}", evaluation.at("model").get<std::string>(), plan.empty() ? "f32" : plan,
                   cache.empty() ? "" : ", cache " + cache, evaluation.value("executed", false) ? " executed" : "");
}

std::vector<std::string> MissingOf(const FigureData& figure) {
  std::vector<std::string> missing = figure.missing;
  size_t rows = 0;
  for (const FigureRow& row : figure.rows) {
    for (size_t i = 0; i < row.size(); ++i) {
      if (!figure.columns[i].drawn || !row[i].is_null() || ++rows > kNamed) continue;
      missing.push_back(Formatted("{}: {} is no number", RowName(figure, row, i), figure.columns[i].title));
    }
  }
  if (rows > kNamed) missing.push_back(Formatted("and {} more, empty in the table", rows - kNamed));
  return missing;
}

Json SpecificationOf(const FigureData& figure) {
  Json specification = Json::parse(Embedded("figures/" + figure.Kind() + ".json"));
  Order(specification, "", figure);
  Json values = Json::array();
  for (const FigureRow& row : figure.rows) {
    Json& value = values.emplace_back(Json::object());
    for (size_t i = 0; i < row.size(); ++i) value[figure.columns[i].name] = row[i];
  }
  if (specification.contains("concat")) specification["concat"] = PanelsOf(specification, figure);
  specification["data"] = {{"values", std::move(values)}};
  return specification;
}

}  // namespace tare
