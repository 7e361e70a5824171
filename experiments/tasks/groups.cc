// SPDX-License-Identifier: Apache-2.0
#include "experiments/tasks/evaluation.h"

#include <map>
#include <ranges>

#include "experiments/significance/draws.h"
#include "experiments/significance/inference.h"
#include "quant/base/message.h"

namespace tare {
namespace {

using Groups = std::map<std::vector<Json>, std::vector<size_t>>;  // values of keys -> items

Groups Grouped(const TaskResult& result, const std::vector<std::string>& keys) {
  Groups groups;
  for (size_t i = 0; i < result.records.size(); ++i) {
    std::vector<Json> values;
    for (const std::string& key : keys) values.push_back(result.records[i].at("item").at(key));
    groups[values].push_back(i);
  }
  return groups;
}

auto WithOutcomes(std::span<const FigureKeys> figures) { return figures | std::views::filter(&FigureKeys::outcomes); }

const std::string& Outcomes(const TaskResult& result, const FigureKeys& figure) {
  return result.figures.at(figure.outcomes).get_ref<const std::string&>();
}
std::string Outcomes(const TaskResult& result, const FigureKeys& figure, const std::vector<size_t>& items) {
  const std::string& all = Outcomes(result, figure);
  std::string outcomes;
  for (const size_t i : items) outcomes += all[i];
  return outcomes;
}

void AddAccuracies(Json& group, const TaskResult& result, const TaskKind& kind, const std::vector<size_t>& items) {
  group["n"] = items.size();
  size_t clusters = 0;
  for (const FigureKeys& figure : WithOutcomes(kind.figures)) {
    const std::string name = figure.name;
    const WindowLosses samples = BySample(result.records, ScoresOf(Outcomes(result, figure)), items);
    const Interval interval = ClusteredInterval(samples.sums, samples.counts);
    group.update({{name, ShareRight(Outcomes(result, figure, items))},
                  {name + "_low", interval.low},
                  {name + "_high", interval.high}});
    clusters = samples.counts.size();
  }
  group["samples"] = clusters;
}

// The items of every order, sorted by sample; empty if the orders have different samples.
std::optional<std::vector<std::vector<size_t>>> InSamples(const TaskResult& result, const Groups& orders) {
  std::vector<std::vector<size_t>> matched;
  std::vector<Json> first;
  for (const auto& [value, items] : orders) {
    std::map<Json, size_t> by_sample;
    for (const size_t i : items) {
      const Json& item = result.records[i].at("item");
      if (!item.contains("sample") || !by_sample.emplace(item["sample"], i).second) return std::nullopt;
    }
    std::vector<Json> samples;
    std::vector<size_t>& own = matched.emplace_back();
    for (const auto& [sample, i] : by_sample) samples.push_back(sample), own.push_back(i);
    if (matched.size() == 1) first = samples;
    if (samples != first) return std::nullopt;
  }
  return matched;
}

void AddSpread(Json& group, const TaskResult& result, const TaskKind& kind, const std::string& over,
               const Groups& orders) {
  group[over + "s"] = orders.size();
  group["n"] = orders.begin()->second.size();
  const auto matched = InSamples(result, orders);
  for (const FigureKeys& figure : WithOutcomes(kind.figures)) {
    const auto outcomes = std::views::transform([&](const auto& items) { return Outcomes(result, figure, items); });
    const auto shares =
        orders | std::views::values | outcomes | std::views::transform(ShareRight) | std::ranges::to<std::vector>();
    std::optional<double> p;
    if (matched) p = CochranP(*matched | outcomes | std::ranges::to<std::vector>());
    const std::string name = figure.name;
    group.update({{name + "_best", std::ranges::max(shares)},
                  {name + "_worst", std::ranges::min(shares)},
                  {name + "_sd", shares.size() > 1 ? Json(MeanOfSamples(shares).deviation) : Json()},
                  {name + "_p", p ? Json(*p) : Json()}});
  }
}

Json WithValues(const std::vector<std::string>& keys, const std::vector<Json>& values) {
  Json group;
  for (size_t i = 0; i < keys.size(); ++i) group[keys[i]] = values[i];
  return group;
}

Json Spreads(const TaskResult& result, const TaskKind& kind, const Breakdown& breakdown) {
  std::vector<std::string> keys = breakdown.by;
  keys.push_back(breakdown.over);
  std::map<std::vector<Json>, Groups> spreads;
  for (const auto& [values, items] : Grouped(result, keys))
    spreads[{values.begin(), values.end() - 1}][{values.back()}] = items;
  Json all = Json::array();
  for (const auto& [values, orders] : spreads) {
    Json group = WithValues(breakdown.by, values);
    AddSpread(group, result, kind, breakdown.over, orders);
    all.push_back(std::move(group));
  }
  return all;
}

// The values of one key become columns; without a key, a group is a row with its figure.
std::string GroupsAcross(const Json& groups, const std::string& figure, const std::vector<std::string>& down,
                         const std::string& across) {
  std::map<std::vector<Json>, Json> rows;
  std::map<Json, std::string> columns;  // by the value: its name
  for (const Json& group : groups) {
    std::vector<Json> place;
    for (const std::string& key : down) place.push_back(group.at(key));
    Json& row = rows[place];
    for (const std::string& key : down) row[key] = PlainText(group.at(key));
    const Json value = across.empty() ? Json(figure) : group.at(across);
    columns[value] = across.empty() ? figure : Formatted("{} {}", across, PlainText(value));
    row[columns[value]] =
        WithInterval(group.at(figure), {group.at(figure + "_low"), group.at(figure + "_high")}, ".4f");
  }
  Table table;
  for (const std::string& key : down) table.columns.push_back(Left(key, key));
  for (const auto& [value, name] : columns) table.columns.push_back({.name = name, .title = name});
  for (auto& [place, row] : rows) table.rows.push_back(std::move(row));
  return TableText(table);
}

// The last of several keys gives the columns, if they fit.
std::string GroupTable(const Json& groups, const std::string& figure, const std::vector<std::string>& by) {
  constexpr size_t kWidth = 80;
  const std::string table = by.size() == 1 ? "" : GroupsAcross(groups, figure, {by.begin(), by.end() - 1}, by.back());
  return table.empty() || table.find('\n') > kWidth ? GroupsAcross(groups, figure, by, "") : table;
}

std::string SpreadTable(const Json& spreads, const std::string& figure, const Breakdown& breakdown) {
  Table table;
  for (const std::string& key : breakdown.by) table.columns.push_back(Left(key, key));
  for (const auto& [name, title] : {std::pair{breakdown.over + "s", breakdown.over + "s"},
                                    {figure + "_best", "best"},
                                    {figure + "_worst", "worst"},
                                    {"margin", "margin"}})
    table.columns.push_back({.name = name, .title = title, .format = "{:.2f}"});
  table.columns.push_back({.name = figure + "_sd", .title = "sd", .format = "{:.3f}"});
  table.columns.push_back({.name = figure + "_p", .title = "p", .format = "{:.2g}", .none = "too few"});
  for (const Json& spread : spreads) {
    Json& row = table.rows.emplace_back(spread);
    for (const std::string& key : breakdown.by) row[key] = PlainText(spread.at(key));
    row["margin"] = spread.at(figure + "_best").get<double>() - spread.at(figure + "_worst").get<double>();
  }
  return TableText(table);
}

}  // namespace

WindowLosses BySample(const std::vector<Json>& records, const std::vector<double>& scores) {
  return BySample(records, scores, AllBelow(scores.size()));
}

WindowLosses BySample(const std::vector<Json>& records, const std::vector<double>& scores,
                      std::span<const size_t> items) {
  WindowLosses samples;
  std::map<std::string, size_t> places;
  for (const size_t i : items) {
    size_t place = samples.sums.size();
    if (const auto keys = records[i].find("item"); keys != records[i].end() && keys->contains("sample"))
      place = places.try_emplace(keys->at("sample").dump(), place).first->second;
    if (place == samples.sums.size()) {
      samples.sums.push_back(0);
      samples.counts.push_back(0);
    }
    samples.sums[place] += scores[i];
    samples.counts[place] += 1;
  }
  return samples;
}

std::optional<double> CochranP(const std::vector<std::string>& outcomes) {
  const auto k = static_cast<double>(outcomes.size());
  if (outcomes.size() < 2) return std::nullopt;
  double all = 0, spread = 0, within = 0;
  int64_t changed = 0;  // samples
  for (size_t i = 0; i < outcomes[0].size(); ++i) {
    const auto right =
        static_cast<double>(std::ranges::count_if(outcomes, [&](const std::string& order) { return order[i] == '1'; }));
    all += right;
    within += right * (k - right);
    changed += right > 0 && right < k ? 1 : 0;
  }
  if (changed * std::ssize(outcomes) < 24) return std::nullopt;
  for (const std::string& order : outcomes) {
    const double off = static_cast<double>(std::ranges::count(order, '1')) - all / k;
    spread += off * off;
  }
  return ChiSquaredAbove(k * (k - 1) * spread / within, static_cast<int>(outcomes.size()) - 1);
}

void AddShare(Json& figures, const std::string& name, const std::string& outcomes) {
  const double share = ShareRight(outcomes);
  figures[name] = share;
  figures[name + "_stderr"] = ShareError(share, static_cast<double>(outcomes.size()));
}

void AddSamples(TaskResult& result, std::span<const FigureKeys> figures) {
  for (const FigureKeys& figure : WithOutcomes(figures)) {
    const WindowLosses samples = BySample(result.records, ScoresOf(Outcomes(result, figure)));
    if (samples.counts.size() == result.records.size()) return;
    result.figures[figure.windows->counts] = samples.counts;
    result.figures[figure.windows->losses] = samples.sums;
  }
}

void RequireKeys(const std::string& where, const Json& keys, const Breakdown& breakdown) {
  std::vector<std::string> asked = breakdown.by;
  if (!breakdown.over.empty()) asked.push_back(breakdown.over);
  for (const std::string& key : asked) {
    if (keys.contains(key)) continue;
    const std::string names = Listed(keys.items(), ", ", [](const auto& one) { return one.key(); });
    Fail("{}: got an item without \"{}\", expected one of its keys: {}", where, key, names.empty() ? "none" : names);
  }
}

bool HasItems(const TaskKind& kind) { return std::ranges::any_of(kind.figures, &FigureKeys::outcomes); }

Json BreakDown(const std::string& task, const TaskResult& result, const TaskKind& kind, const Breakdown& breakdown) {
  if (result.records.empty()) Fail("{}: got no records of items, expected some with keys", task);
  for (const Json& record : result.records)
    RequireKeys(Formatted("{}: line {}", task, record.at("line").dump()), record.value("item", Json::object()),
                breakdown);
  Json all;
  for (const auto& [values, items] : Grouped(result, breakdown.by)) {
    Json group = WithValues(breakdown.by, values);
    AddAccuracies(group, result, kind, items);
    all["by"].push_back(std::move(group));
  }
  if (!breakdown.over.empty()) all["spread"] = Spreads(result, kind, breakdown);
  return all;
}

std::string BreakdownTable(const Json& broken_down, const TaskKind& kind, const Breakdown& breakdown) {
  const std::string figure = WithOutcomes(kind.figures).front().name;
  const Json& groups = broken_down.at("by");
  const auto range = [&](const char* key, const char* noun) {
    const auto [least, most] =
        std::ranges::minmax(groups, {}, [&](const Json& group) { return group.at(key).get<int64_t>(); });
    const std::string from = least.at(key) == most.at(key) ? "" : least.at(key).dump() + " to ";
    return from + Counted(most.at(key), noun);
  };
  const bool shared =
      std::ranges::any_of(groups, [](const Json& group) { return group.at("samples") != group.at("n"); });
  std::string table = Formatted("{} with 95 % intervals{}, {}{} each\n", figure, shared ? " over samples" : "",
                                range("n", "item"), shared ? " of " + range("samples", "sample") : "") +
                      GroupTable(groups, figure, breakdown.by);
  if (broken_down.contains("spread"))
    table += Formatted("\n{} over the {}s, and p of no difference (Cochran's Q)\n", figure, breakdown.over) +
             SpreadTable(broken_down["spread"], figure, breakdown);
  return table;
}

std::vector<Json> BreakdownRows(const std::string& task, const Json& broken_down) {
  std::vector<Json> rows;
  for (const Json& group : broken_down.at("by")) rows.emplace_back(Json{{"task", task}}).update(group);
  return rows;
}

}  // namespace tare
