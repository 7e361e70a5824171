// SPDX-License-Identifier: Apache-2.0
#include "experiments/tasks/evaluation.h"

#include "experiments/table/table.h"
#include "experiments/tasks/positions.h"
#include "quant/base/error.h"
#include "quant/base/formatted.h"
#include "quant/file/json_text.h"
#include "quant/file/json_value.h"

namespace tare {
namespace {

std::string Line(const std::string& name, const Figures& figures, const char* unit) {
  std::string line = Formatted("{:<28} ", name);
  for (const Figure& figure : figures.list)
    line += Formatted("{} {}   ", figure.keys.name, FigureText(figure, figure.keys.format));
  return line + Formatted("{} {}", figures.count, unit);
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
  if (run.cache()) json_["cache"] = Name(*run.cache());
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
  const std::string how = HowMeasured(json, kind);
  const std::string line = Line(name, *figures, kind.unit) + (how.empty() ? "" : "\n  " + how);
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

}  // namespace tare
