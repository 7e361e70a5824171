// SPDX-License-Identifier: Apache-2.0
#include "experiments/tasks/evaluation.h"

#include <functional>

#include "experiments/significance/inference.h"
#include "quant/base/message.h"

namespace tare {
namespace {

std::string FigureLines(const std::string& name, const Figures& figures, const char* unit) {
  std::string line;
  for (const Figure& figure : figures.list) {
    line += Formatted("{}{:<28} {} {}", line.empty() ? "" : "\n", line.empty() ? name : "", figure.keys.name,
                      FigureText(figure, figure.keys.format));
    if (const std::optional<Interval> ends = figure.OfWindows(); ends && !figure.error)
      line += Formatted(" [{}, {}]", BesideInterval(ends->low, *ends, ".4f"), BesideInterval(ends->high, *ends, ".4f"));
  }
  return line + "   " + Counted(figures.count, unit);
}

constexpr std::string_view kError = "_stderr";

// error: null where there is none.
void ForFigures(const Json& range,
                const std::function<void(const std::string& name, double value, const Json& error)>& body) {
  for (const auto& [name, value] : range.items()) {
    if (name == "first" || name == "last" || name == "tokens" || name.ends_with(kError)) continue;
    body(name, value.get<double>(), range.value(name + std::string(kError), Json()));
  }
}

}  // namespace

Evaluation::Evaluation(Model& model, PlanRun& run, const WindowOptions& windows, TaskKinds kinds)
    : model_(model),
      run_(run),
      json_{{"schema", "tare.eval/1"},
            {"model", model.Name()},
            {"weights_sha256", model.files().ContentHash()},
            {"plan", run.plan().canonical()},
            {"plan_hash", run.plan().hash()},
            {"executed", run.carrying() == Carrying::kExecuted},
            {"lookahead", run.LooksAhead()},
            {"math", model.math() == Math::kBf16 ? "bf16" : "f32"},
            {"limit", windows.limit}} {
  if (windows.TakesPart()) json_["from"] = Name(windows.Part());
  if (run.cache()) json_["cache"] = Name(*run.cache());
  if (!run.cache()) json_.update(ToJson(run.TakeKeyValueBits()));
  for (const TaskKind* kind : kinds) {
    if (kind->convention != nullptr) json_[Formatted("{}_convention", kind->name)] = kind->convention(windows);
  }
  json_["tasks"] = Json::object();
}

std::string Evaluation::Run(const Task& task, const Progress& progress) {
  const TaskKind& kind = *task.spec.kind;
  const std::string name = task.spec.Name();
  TaskResult result = task.run(model_, run_, progress);
  for (const Json& record : result.records) {
    Json line{{"task", name}};
    line.update(record);
    records_ += JsonText(line) + "\n";
  }
  const std::optional<Figures> figures = ReadFigures(result.figures, kind);
  TARE_CHECK(figures.has_value());
  Json& json = json_["tasks"][name] = result.figures;
  json["input_sha256"] = task.sha256;
  for (const Figure& figure : figures->list) {
    const std::string key = figure.keys.name;
    if (const std::optional<Interval> ends = figure.OfWindows())
      json.update({{key + "_low", ends->low}, {key + "_high", ends->high}});
  }
  const std::optional<KeyValueBits> bits = run_.TakeKeyValueBits();
  if (run_.cache()) json.update(ToJson(bits));
  const double rounded = bits ? bits->rounded.value_or(1) : 1;
  const std::string how = HowMeasured(json, kind), few = WhyNoErrors(*figures);
  const std::string line =
      FigureLines(name, *figures, kind.unit) + (how.empty() ? "" : "\n  " + how) + (few.empty() ? "" : "\n  " + few) +
      (rounded < 1 ? Formatted("\n  cache: {:.1f} % of its keys and values rounded", 100 * rounded) : "") +
      (run_.LooksAhead() ? "\n  lookahead: a scale may span later tokens than the query" : "");
  if (breakdown_.ByPosition() && kind.by_position != nullptr) {
    const Json& ranges = json.at(kind.by_position);
    std::ranges::move(PositionRows(name, ranges), std::back_inserter(rows_));
    return line + "\n" + PositionTable(ranges);
  }
  if (breakdown_.by.empty() || !HasItems(kind)) return line;
  const Json broken_down = BreakDown(name, result, kind, breakdown_);
  json.update(broken_down);
  std::ranges::move(BreakdownRows(name, broken_down), std::back_inserter(rows_));
  return line + "\n" + BreakdownTable(broken_down, kind, breakdown_);
}

std::string PositionTable(const Json& ranges) {
  Table table{.columns = {Left("range", "predicted from"), {.name = "tokens", .title = "tokens"}}};
  for (const Json& range : ranges) {
    const std::string first = range.at("first").dump(), last = range.at("last").dump();
    Json& row = table.rows.emplace_back(
        Json{{"range", first == last ? first : first + " to " + last}, {"tokens", range.at("tokens")}});
    ForFigures(range, [&](const std::string& name, double value, const Json& error) {
      if (table.rows.size() == 1) table.columns.push_back({.name = name, .title = name});
      row[name] = error.is_null() ? NumberText(value, ".4g") : WithError(value, error.get<double>(), ".4f");
    });
  }
  return TableText(table);
}

std::vector<Json> PositionRows(const std::string& task, const Json& ranges) {
  std::vector<Json> rows;
  for (const Json& range : ranges) {
    ForFigures(range, [&](const std::string& name, double value, const Json& error) {
      rows.push_back({{"task", task},
                      {"first", range.at("first")},
                      {"last", range.at("last")},
                      {"tokens", range.at("tokens")},
                      {"figure", name},
                      {"value", value},
                      {"stderr", error}});
    });
  }
  return rows;
}

}  // namespace tare
