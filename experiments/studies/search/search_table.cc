// SPDX-License-Identifier: Apache-2.0
#include "experiments/studies/search/search_table.h"

#include <algorithm>
#include <map>

#include "experiments/studies/search/operands.h"
#include "experiments/studies/sweep/table.h"
#include "experiments/studies/sweep/table_files.h"
#include "experiments/text/csv.h"
#include "quant/base/formatted.h"
#include "quant/file/json.h"

namespace tare {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kLossFormat = ".2e";
constexpr size_t kLayersInLine = 20;

const PartLevel& LevelAt(const Search& search, const FrontierPoint& point, size_t part) {
  return search.parts[part].levels[point.levels[part]];
}

std::string MeasuredText(const Comparison& c) {
  return c.interval ? WithInterval(c.value, *c.interval, kLossFormat) : NumberText(c.value, kLossFormat);
}

std::string VerifiedText(const Search& search) {
  std::string text = Formatted("\n{:<18}{:>6}{:>11}  measured\n", "kld", "bits", "predicted");
  for (const VerifiedPoint& point : search.verified) {
    const bool answer = &point == &search.Answer();
    text += Formatted("  step {:<11}{:>6.2f}{:>11}  {}{}\n", point.step, search.BitsAt(point.step),
                      NumberText(search.frontier[point.step].loss, kLossFormat), MeasuredText(point.changes.front()),
                      answer                         ? " the answer"
                      : point.Loss() > search.within ? " beyond"
                                                     : "");
  }
  return text;
}

// The first figure of every task but divergence, at the same points.
std::string TasksText(const Search& search) {
  std::string text;
  for (size_t task = 1; task < search.Answer().cells.size(); ++task) {
    const SweepCell& first = search.Answer().cells[task];
    const char* const format = first.figures.list.front().keys.in_tables;
    text += Formatted("\n{}, {}: change from 16 bits\n", first.task, first.figures.list.front().keys.name);
    for (const VerifiedPoint& point : search.verified)
      text += Formatted("  step {:<11}{:>6.2f}  {:<24}{}\n", point.step, search.BitsAt(point.step),
                        FigureText(point.cells[task].figures.list.front(), format),
                        ComparisonText(point.changes[task], format));
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

}  // namespace

std::string SearchTable(const Search& search) {
  const VerifiedPoint& answer = search.Answer();
  const FrontierPoint& last = search.frontier.back();
  std::string text =
      Formatted("{}: {} parts, a frontier of {} steps from 16 to {:.2f} bits per operand\n", search.model,
                search.parts.size(), search.frontier.size() - 1, search.BitsAt(search.frontier.size() - 1));
  text += VerifiedText(search) + TasksText(search) + BitsText(search);
  text += Formatted(
      "\nwithin {} nats per token, {:.2f} bits per operand{}:\n{}\n", search.within, search.BitsAt(answer.step),
      answer.step + 1 == search.frontier.size() && last.cost > 0 ? ", the cheapest that there is" : "", answer.plan);
  const std::optional<Interval>& interval = answer.changes.front().interval;
  if (interval && interval->high > search.within) text += "its 95 % interval reaches beyond: more tokens would tell\n";
  return text;
}

std::string SearchCsv(const Search& search) {
  std::string text = "step,part,rule,bits,predicted,measured,stderr,low,high,within,plan\n";
  for (size_t step = 0; step < search.frontier.size(); ++step) {
    const FrontierPoint& point = search.frontier[step];
    const std::string moved =
        step == 0 ? "," : search.parts[point.moved].name + "," + CsvField(LevelAt(search, point, point.moved).rule);
    const auto run = std::ranges::find(search.verified, step, &VerifiedPoint::step);
    const bool ran = run != search.verified.end();
    text += Formatted("{},{},{},{},{},{},{}\n", step, moved, search.BitsAt(step), point.loss,
                      SizeCsv(ran ? &run->changes.front() : nullptr),
                      ran ? (run->Loss() <= search.within ? "1" : "0") : "", ran ? CsvField(run->plan) : "");
  }
  return text;
}

Json SearchJson(const Search& search, const Resampling& resampling) {
  Json json{{"schema", "tare.search/1"},
            {"model", search.model},
            {"within", search.within},
            {"level", 1 - kLevel},
            {"draws", resampling.draws},
            {"seed", resampling.seed},
            {"bits", search.BitsAt(search.Answer().step)},
            {"plan", search.Answer().plan},
            {"parts", Json::array()},
            {"frontier", Json::array()},
            {"verified", Json::array()}};
  for (const SearchPart& part : search.parts) {
    Json levels = Json::array();
    for (const PartLevel& level : part.levels)
      levels.push_back({{"rule", level.rule}, {"bits", level.bits}, {"kld", level.of.loss}});
    json["parts"].push_back({{"part", part.name}, {"operands", part.operands}, {"levels", levels}});
  }
  for (size_t step = 0; step < search.frontier.size(); ++step) {
    const FrontierPoint& point = search.frontier[step];
    Json moved{{"step", step}};
    if (step > 0)
      moved.update({{"part", search.parts[point.moved].name}, {"rule", LevelAt(search, point, point.moved).rule}});
    moved.update({{"bits", search.BitsAt(step)}, {"predicted", point.loss}});
    json["frontier"].push_back(moved);
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
