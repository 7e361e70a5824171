// SPDX-License-Identifier: Apache-2.0
#include "experiments/report/figures/figures.h"

#include <ranges>

#include "experiments/report/drawing/interpreter.h"
#include "experiments/significance/inference.h"
#include "experiments/tasks/task.h"
#include "quant/base/message.h"

namespace tare {
namespace {

std::vector<Json> ValuesOf(const FigureData& figure, const std::string& column) {
  return Distinct(figure.table.rows, [&](const Json& row) { return row.at(column); });
}

constexpr std::string_view kWithDomain[] = {"color", "fill", "stroke", "shape", "strokeDash", "fillOpacity"};

// Replaces "sort": null by the rows' order, also as domain of colours, shapes, dashes: equal domains share a legend.
void Order(Json& part, const std::string& channel, const FigureData& figure) {
  if (part.is_object() && part.contains("field") && part.contains("sort") && part["sort"].is_null()) {
    const std::vector<Json> values = ValuesOf(figure, part["field"]);
    if (std::ranges::contains(kWithDomain, channel))
      part["scale"]["domain"] = values;
    else
      part["sort"] = values;
  }
  if (!part.is_structured()) return;
  for (const auto& [key, child] : part.items()) Order(child, key, figure);
}

// "m, q=int4/row,k=int4/row, items" as the lines of a title: rules of a plan have no blank after their comma.
std::vector<std::string> LinesOf(const std::string& text) {
  return text | std::views::split(std::string_view(", ")) | std::ranges::to<std::vector<std::string>>();
}

bool IsPlaceholder(const Json& part) { return part.is_string() && part.get_ref<const std::string&>().starts_with("$"); }

// Each "$NAME" becomes the row's value of that column, "$NAME:lines" its lines; a member that becomes null is left out.
void FillIn(Json& part, const Json& row) {
  if (IsPlaceholder(part)) {
    const std::string name = part.get<std::string>().substr(1);
    const size_t lines = name.find(":lines");
    part = row.at(name.substr(0, lines));
    if (lines != name.npos) part = LinesOf(part.get<std::string>());
  }
  if (!part.is_structured()) return;
  for (auto child = part.begin(); child != part.end();) {
    const bool filled = IsPlaceholder(*child);
    FillIn(*child, row);
    child = filled && child->is_null() && part.is_object() ? part.erase(child) : std::next(child);
  }
}

// Moves out of "spec".
Json PanelsOf(Json& specification, const FigureData& figure) {
  const std::string by = specification["concat"];
  Json panels = Json::array();
  for (const Json& value : ValuesOf(figure, by)) {
    Json& panel = panels.emplace_back(specification["spec"]);
    FillIn(panel, *std::ranges::find_if(figure.table.rows, [&](const Json& row) { return row.at(by) == value; }));
  }
  specification.erase("spec");
  return panels;
}

constexpr size_t kNamed = 12;  // rows; the table has all

// Names a row by the columns before the missing one.
std::string RowName(const FigureData& figure, const Json& row, const Column& missing) {
  std::string name;
  for (const Column& column : figure.table.columns) {
    if (column.name == missing.name) break;
    const Json& value = row.at(column.name);
    if (value.is_null() || std::ranges::contains(figure.drawn, column.name)) continue;
    name += (name.empty() ? "" : ", ") + column.title + " " + PlainText(value);
  }
  return name;
}

// As the tables of sweeps show the figure.
const char* TableFormat(const std::string& task, const std::string& figure) {
  const FigureKeys* const keys = ShownFigure(task, figure);
  return keys != nullptr ? keys->in_tables : ".3f";
}

// "1.69 [1.49, 1.90]" of a change and its interval, as a size: without sign.
std::string SizeText(double change, const std::optional<Interval>& interval, const char* format) {
  if (!interval) return NumberText(std::fabs(change), format);
  return WithInterval(std::fabs(change), change > 0 ? *interval : Interval{-interval->high, -interval->low}, format);
}

// A value beside a change with this interval, to the same place.
std::string BesideText(double value, const std::optional<Interval>& interval, const char* format) {
  if (value == 0) return "0";
  return interval ? BesideInterval(value, *interval, format) : NumberText(value, format);
}

}  // namespace

Table Titled(const std::vector<std::string>& columns) {
  Table table;
  for (const std::string& column : columns) {
    const size_t colon = column.find(": ");
    const std::string name = column.substr(0, colon);
    table.columns.push_back({.name = name, .title = colon == column.npos ? name : column.substr(colon + 2)});
  }
  return table;
}

std::string Filled(std::string_view text, const Fillings& values) {
  std::string filled;
  while (true) {
    const size_t open = text.find("{{");
    filled += text.substr(0, open);
    if (open == text.npos) return filled;
    const size_t close = text.find("}}", open);
    filled += values.find(text.substr(open + 2, close - open - 2))->second;
    text.remove_prefix(close + 2);
  }
}

FigureData FigureOfKind(const std::string& kind) {
  const Json words = Json::parse(Embedded("figures/" + kind + ".json")).at("usermeta");
  const auto list = [&](const char* key) { return words.value(key, std::vector<std::string>()); };
  return {.name = kind,
          .title = words.value("title", ""),
          .caption = Listed(list("caption"), " "),
          .table = Titled(list("columns")),
          .drawn = list("drawn")};
}

void FillWords(FigureData& figure, const Fillings& values) {
  figure.title = Filled(figure.title, values), figure.caption = Filled(figure.caption, values);
  for (Column& column : figure.table.columns) column.title = Filled(column.title, values);
}

FigureData& FigureNamed(const std::string& name, std::vector<FigureData>& figures) {
  const auto known = std::ranges::find(figures, name, &FigureData::name);
  if (known != figures.end()) return *known;
  FigureData& figure = figures.emplace_back(FigureOfKind(name.substr(0, name.find(':'))));
  figure.name = name, figure.on_page = false;
  return figure;
}

std::vector<FigureData> WithRows(std::vector<FigureData> figures) {
  std::erase_if(figures, [](const FigureData& figure) { return figure.table.rows.empty(); });
  for (size_t i = 1; i < figures.size(); ++i) figures[i].name += Formatted(":{}", i + 1);
  return figures;
}

std::string RangeName(int64_t first, int64_t last) {
  return first == last ? Formatted("{}", first) : Formatted("{} to {}", first, last);
}

std::string EvaluatedName(const Json& evaluation) {
  const std::string plan = evaluation.at("plan"), cache = evaluation.value("cache", "");
  return Formatted("{}, {}{}{}", evaluation.at("model").get<std::string>(), plan.empty() ? "f32" : plan,
                   cache.empty() ? "" : ", cache " + cache, evaluation.value("executed", false) ? " executed" : "");
}

std::pair<Json, Json> EndsOf(const std::optional<Interval>& interval, double unit) {
  if (!interval) return {};
  return {NumberOrNull(unit * interval->low), NumberOrNull(unit * interval->high)};
}

std::pair<Json, Json> EndsOf(const SweepFigure& row) {
  if (const std::optional<Interval> interval = row.figure->OfItems()) return {interval->low, interval->high};
  if (row.change == nullptr || !row.change->interval) return {};
  const double before = row.figure->value - row.change->value;
  return EndsOf(Interval{before + row.change->interval->low, before + row.change->interval->high});
}

std::vector<std::string> MissingOf(const FigureData& figure) {
  std::vector<std::string> missing = figure.missing;
  size_t rows = 0;
  for (const Json& row : figure.table.rows) {
    for (const Column& column : figure.table.columns) {
      if (!std::ranges::contains(figure.drawn, column.name) || !row.at(column.name).is_null() || ++rows > kNamed)
        continue;
      missing.push_back(Formatted("{}: {} is not a number", RowName(figure, row, column), column.title));
    }
  }
  if (rows > kNamed) missing.push_back(Formatted("and {} more, empty in the table", rows - kNamed));
  return missing;
}

Json SpecificationOf(const FigureData& figure) {
  Json specification = Json::parse(Embedded("figures/" + figure.Kind() + ".json"));
  specification.erase("usermeta");
  if (specification.contains("concat")) specification["concat"] = PanelsOf(specification, figure);
  Order(specification, "", figure);  // after the placeholders: a model's name may look like one
  specification["data"] = {{"values", figure.table.rows}};
  return specification;
}

std::string WordsFor(const std::string& figure) {
  static const std::map<std::string, std::string> kNames{{"acc", "accuracy"},
                                                         {"acc_norm", "accuracy (acc_norm)"},
                                                         {"acc5", "top-5 accuracy"},
                                                         {"kld", "divergence"},
                                                         {"same_top", "share of unchanged top tokens"},
                                                         {"perplexity_ratio", "ratio of perplexities"}};
  const auto name = kNames.find(figure);
  return name == kNames.end() ? figure : name->second;
}

std::string FigureOnText(const std::string& task, const std::string& figure) {
  return WordsFor(figure) + (task.contains(':') ? " on " + task.substr(task.find(':') + 1) : "");
}

std::string MoveText(const SweepFigure& row) {
  const double value = row.figure->value, change = row.change->value;
  const std::optional<Interval>& interval = row.change->interval;
  const char* const format = TableFormat(row.cell->task, row.figure->keys.name);
  if (change == 0) return Formatted("stays at {}", BesideText(value, {}, format));
  return Formatted("{} by {}{}{}, from {} to {}", change > 0 ? "rises" : "falls", SizeText(change, interval, format),
                   UnitText(row.figure->keys.name), OverText(*row.change), BesideText(value - change, interval, format),
                   BesideText(value, interval, format));
}

std::string RunName(const SweepCell& cell) { return cell.ShownPlan() + (cell.Executed() ? " executed" : ""); }

std::string OverText(const Comparison& c) {
  if (!c.interval || (c.windows == 0 && !c.items)) return "";
  return " over " + (c.windows > 0 ? Counted(c.windows, "window") : Counted(c.items->n, "item"));
}

std::string CountText(const SweepCell& cell) {
  const Json& result = cell.result;
  const std::string count = Formatted("{} of {}", Counted(cell.figures.count, cell.kind->unit), cell.task);
  if (!result.contains("windows") || !result.contains("window")) return count;
  return Formatted(
      "{} in {} of {}{}", count, Counted(result["windows"], "window"), result["window"].dump(),
      cell.key.value("window", 1) == 0 ? " (the default, whatever the model was trained on: --window sets it)" : "");
}

const char* VerdictWord(const Comparison& comparison) {
  return !comparison.p_holm ? "not tested" : comparison.Significant() ? "significant" : "not significant";
}

bool IsInteger(const PlanRow& row) { return row.format.starts_with("int") || row.format.starts_with("u"); }

std::string PlanWords(const SweepCell& cell) {
  const PlanRow& row = cell.row;
  const char* const with = cell.Executed() ? "Executed with" : "With";
  const std::string rule = row.site + "=" + row.format + (row.granularity.empty() ? "" : "/" + row.granularity);
  if (cell.Plan() != rule) return Formatted("{} {}", with, cell.Plan());
  return Formatted("{} {} for {}{}", with, IsInteger(row) ? Formatted("{} bits", row.bits) : row.format, row.site,
                   row.granularity.empty() ? "" : " and one scale per " + row.granularity);
}

std::string CostSentence(const SweepFigure& row) {
  const Comparison* const c = row.change;
  const std::string task = row.cell->task, name = row.figure->keys.name;
  const std::string moves =
      c != nullptr ? MoveText(row)
                   : Formatted("is {}; what this costs is not known: the unquantized model was not run",
                               BesideText(row.figure->value, row.figure->OfItems(), TableFormat(task, name)));
  // A divergence is above 0 by itself: its interval is enough.
  const bool needs_no_word = c == nullptr || c->Significant() || (!c->p_holm && c->primary && c->interval);
  return Formatted("{}, {}'s {} {}{}.", PlanWords(*row.cell), row.cell->model, FigureOnText(task, name), moves,
                   needs_no_word ? "" : Formatted(" ({})", VerdictWord(*c)));
}

std::string MoreText(const SweepFigure& row) {
  const std::string name = row.figure->keys.name, &model = row.cell->model, &first = row.drop->against;
  const std::string size = SizeText(row.drop->value, row.drop->interval, TableFormat(row.cell->task, name)),
                    of = FigureOnText(row.cell->task, name), more = row.drop->value > 0 ? "more" : "less";
  if (row.figure->keys.outcomes != nullptr) return Formatted("{} keeps {} {} {} than {}", model, size, more, of, first);
  if (name == "perplexity") return Formatted("{} loses {} {} {} than {}", model, size, more, of, first);
  return Formatted("the change of {}'s {} is {}{} {} than that of {}'s", model, of, size, UnitText(name),
                   row.drop->value > 0 ? "higher" : "lower", first);
}

const char* UnitText(std::string_view figure) { return figure == "kld" ? " nats per token" : ""; }

std::string EndsText(const Json& row, const char* value, const std::string& format) {
  const Interval ends{NumberAt(row, "low"), NumberAt(row, "high")};
  return std::isnan(ends.high - ends.low) ? NumberText(NumberAt(row, value), format)
                                          : WithInterval(NumberAt(row, value), ends, format);
}

std::string SignedText(const std::string& task, const std::string& figure, const Json& change) {
  return EndsText(change, "value", Formatted("+{}", TableFormat(task, figure)));
}

std::string EstimateText(double value, double error) {
  return std::isfinite(error) && error > 0 ? WithError(value, error, ".6f") : NumberText(value, ".3g");
}

std::string ContextText(const Json& range) {
  const int64_t first = range.at("first"), last = range.at("last");
  return first == last ? Counted(first, "token") : RangeName(first, last) + " tokens";
}

std::string RangeText(int64_t first, int64_t last, const std::string& noun) {
  return noun + (first == last ? "" : "s") + " " + RangeName(first, last);
}

std::string EvaluatedText(const Json& evaluation) {
  const std::string plan = evaluation.at("plan"), cache = evaluation.value("cache", "");
  return evaluation.at("model").get<std::string>() + (plan.empty() || plan == "f32" ? "" : " under " + plan) +
         (cache.empty() ? "" : " with cache " + cache) + (evaluation.value("executed", false) ? " (executed)" : "");
}

}  // namespace tare
