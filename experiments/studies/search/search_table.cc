// SPDX-License-Identifier: Apache-2.0
// Texts of verified points, tasks and bits by layer, rows of the frontier, and a search as text, CSV and JSON.
#include "experiments/studies/search/search.h"

#include <algorithm>

#include "quant/base/message.h"
#include "quant/file/json.h"

namespace tare {
namespace {

constexpr const char* kLossFormat = ".2e";
constexpr size_t kLayersInLine = 20;

const PartLevel& LevelAt(const Search& search, const FrontierPoint& point, size_t part) {
  return search.parts[part].levels[point.levels[part]];
}

// "  step 12"; with a budget there are two points at most.
std::string NameOf(const Search& search, size_t step) {
  if (!search.budget) return Formatted("  step {}", step);
  return step + 1 == search.frontier.size() ? "  the choice" : "  one level";
}

// The point's relation to the answer.
std::string VerdictOf(const Search& search, const VerifiedPoint& point) {
  if (&point == &search.Answer()) return " the answer";
  return !search.budget && point.Loss() > search.within ? " beyond" : "";
}

std::string MeasuredText(const Comparison& c) {
  return c.interval ? WithInterval(c.value, *c.interval, kLossFormat) : NumberText(c.value, kLossFormat);
}

std::string VerifiedText(const Search& search) {
  Table table{.columns = {Left("step", "kld", 16),
                          Number("bits", "bits", "{:.2f}", 6),
                          {.name = "predicted", .title = "predicted", .width = 9},
                          Left("measured", "measured", 41)}};
  for (const VerifiedPoint& point : search.verified)
    table.Add({NameOf(search, point.step), search.BitsAt(point.step),
               NumberText(search.frontier[point.step].loss, kLossFormat),
               MeasuredText(point.changes.front()) + VerdictOf(search, point)});
  return "\n" + TableText(table);
}

// The first figure of every task but divergence, at the same points.
std::string TasksText(const Search& search) {
  std::string text;
  for (size_t task = 1; task < search.Answer().cells.size(); ++task) {
    const SweepCell& first = search.Answer().cells[task];
    const FigureKeys& keys = first.figures.list.front().keys;
    Table table{.columns = {Left("step", keys.name, 16), Number("bits", "bits", "{:.2f}", 6),
                            Left("measured", "measured", 22), Left("change", "change from unquantized", 26)}};
    for (const VerifiedPoint& point : search.verified)
      table.Add({NameOf(search, point.step), search.BitsAt(point.step),
                 FigureText(point.cells[task].figures.list.front(), keys.in_tables),
                 ComparisonText(point.changes[task], keys.in_tables)});
    text += Formatted("\n{}\n", first.task) + TableText(table);
  }
  return text;
}

std::string BitsText(const Search& search) {
  const FrontierPoint& point = search.frontier[search.Answer().step];
  std::map<Site, std::vector<int>> sites;
  for (size_t part = 0; part < search.parts.size(); ++part) {
    std::vector<int>& bits = sites[search.parts[part].site];
    const auto layer = static_cast<size_t>(search.parts[part].layer.value_or(0));
    bits.resize(std::max(bits.size(), layer + 1), kUnquantizedBits);  // layers before it that no plan names
    bits[layer] = LevelAt(search, point, part).bits;
  }
  std::string text = "\nbits by layer\n";
  for (const auto& [site, bits] : sites) {
    std::string line = Formatted("  {:<14}", Name(site));
    for (size_t i = 0; i < bits.size(); ++i) {
      if (i > 0 && i % kLayersInLine == 0) line += Formatted("\n{:16}", "");
      line += Formatted("{:>3}", bits[i]);
    }
    text += line + "\n";
  }
  return text;
}

// A step of the frontier, the part that it moved (except for the first), and its measured point, if any.
struct SearchStep {
  size_t step = 0;
  const FrontierPoint* point = nullptr;
  const PartLevel* level = nullptr;
  const SearchPart* part = nullptr;
  const VerifiedPoint* run = nullptr;
  double bits = 0;
};

std::vector<SearchStep> StepsOf(const Search& search) {
  std::vector<SearchStep> steps;
  for (size_t step = 0; step < search.frontier.size(); ++step) {
    const FrontierPoint& point = search.frontier[step];
    SearchStep& one = steps.emplace_back(SearchStep{.step = step, .point = &point, .bits = search.BitsAt(step)});
    if (step > 0 && !search.budget)
      one.part = &search.parts[point.moved], one.level = &LevelAt(search, point, point.moved);
    const auto run = std::ranges::find(search.verified, step, &VerifiedPoint::step);
    if (run != search.verified.end()) one.run = &*run;
  }
  return steps;
}

Columns<SearchStep> StepColumns() {
  return {{{"step"}, &SearchStep::step},
          {{"part"}, [](const SearchStep& s) { return s.part ? Json(s.part->name) : Lacking(); }},
          {{"rule"}, [](const SearchStep& s) { return s.level ? Json(s.level->rule) : Lacking(); }},
          {{"bits"}, &SearchStep::bits},
          {{"predicted"}, [](const SearchStep& s) { return s.point->loss; }}};
}

// The bytes of all tensors at a step of the frontier.
double BytesAt(const Search& search, size_t step) {
  return (search.frontier[step].cost + search.budget->stored.others) / 8;
}

std::string BudgetTable(const Search& search) {
  const VerifiedPoint& answer = search.Answer();
  const SearchBudget& budget = *search.budget;
  std::string text = Formatted("{}: {}, the least loss within {:.3f} bits per weight\n", search.model,
                               Counted(std::ssize(search.parts), "part"), budget.bits / budget.stored.weights);
  text += VerifiedText(search) + TasksText(search) + BitsText(search);
  return text + Formatted("\n{:.3f} bits per weight with scales, {} with all other tensors:\n{}\n",
                          search.BitsAt(answer.step), SizeText(static_cast<int64_t>(BytesAt(search, answer.step))),
                          answer.plan);
}

std::string FrontierTable(const Search& search) {
  const VerifiedPoint& answer = search.Answer();
  const FrontierPoint& last = search.frontier.back();
  std::string text =
      Formatted("{}: {}, a frontier of {} from 16 to {:.2f} bits per operand\n", search.model,
                Counted(std::ssize(search.parts), "part"), Counted(std::ssize(search.frontier) - 1, "step"),
                search.BitsAt(search.frontier.size() - 1));
  text += VerifiedText(search) + TasksText(search) + BitsText(search);
  text += Formatted(
      "\nwithin {} nats per token, {:.2f} bits per operand{}:\n{}\n", search.within, search.BitsAt(answer.step),
      answer.step + 1 == search.frontier.size() && last.cost > 0 ? ", the cheapest of all" : "", answer.plan);
  const std::optional<Interval>& interval = answer.changes.front().interval;
  if (interval && interval->high > search.within)
    text += "its 95 % interval exceeds the limit: use more tokens to decide\n";
  return text;
}

}  // namespace

std::string SearchTable(const Search& search) { return search.budget ? BudgetTable(search) : FrontierTable(search); }

std::string SearchCsv(const Search& search) {
  Columns<SearchStep> columns = StepColumns();
  Columns<Comparison> measured = SizeColumns();
  measured.front().column.name = "measured";
  AddPart(columns, "", measured, [](const SearchStep& s) { return s.run ? &s.run->changes.front() : nullptr; });
  if (!search.budget)
    columns.push_back({{"within"}, [within = search.within](const SearchStep& s) {
                         return s.run ? Json(s.run->Loss() <= within ? 1 : 0) : Json();
                       }});
  columns.push_back({{"plan"}, [](const SearchStep& s) { return s.run ? s.run->plan : ""; }});
  return TableCsv(TableOf(columns, StepsOf(search)));
}

Json SearchJson(const Search& search) {
  Json json{{"schema", "tare.search/1"},
            {"model", search.model},
            {"within", search.budget ? Json() : Json(search.within)},
            {"level", 1 - kLevel},
            {"bits", search.BitsAt(search.Answer().step)},
            {"plan", search.Answer().plan},
            {"parts", Json::array()},
            {"frontier", TableJson(TableOf(StepColumns(), StepsOf(search)))},
            {"verified", Json::array()}};
  if (search.budget)
    json["budget"] = {{"bits_per_weight", search.budget->bits / search.budget->stored.weights},
                      {"bytes", BytesAt(search, search.Answer().step)}};
  for (const SearchPart& part : search.parts) {
    Json levels = Json::array();
    for (const PartLevel& level : part.levels) {
      levels.push_back({{"rule", level.rule}, {"bits", level.bits}, {"kld", level.of.loss}});
      if (search.budget) levels.back()["bytes"] = level.of.cost / 8;
    }
    json["parts"].push_back({{"part", part.name}, {"operands", part.operands}, {"levels", levels}});
  }
  for (const VerifiedPoint& point : search.verified) {
    Json tasks = Json::array();
    for (size_t i = 0; i < point.cells.size(); ++i) {
      const Figure& figure = point.cells[i].figures.list.front();
      tasks.push_back({{"task", point.cells[i].task},
                       {"figure", figure.keys.name},
                       {"value", figure.value},
                       {"change", ComparisonJson(point.changes[i])}});
    }
    json["verified"].push_back({{"step", point.step},
                                {"bits", search.BitsAt(point.step)},
                                {"predicted", search.frontier[point.step].loss},
                                {"plan", point.plan},
                                {"tasks", tasks}});
  }
  return json;
}

}  // namespace tare
