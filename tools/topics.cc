// SPDX-License-Identifier: Apache-2.0
// tare help: topics whose texts are in tools/topics/, with tables of the code in them; and the help of commands.
#include <algorithm>
#include <memory>
#include <ranges>
#include <string>
#include <utility>
#include <vector>

#include "experiments/model/config/family.h"
#include "experiments/plan/cache_plan.h"
#include "experiments/quantize/steps/table.h"
#include "experiments/tasks/task.h"
#include "quant/base/formatted.h"
#include "quant/format/format.h"
#include "quant/plan/plan.h"
#include "tools/command.h"
#include "tools/help.h"

namespace tare {
namespace {

std::string Listed(const auto& names, std::string_view between) {
  std::string text;
  for (const std::string_view name : names) text.append(text.empty() ? "" : between).append(name);
  return text;
}

// A line of names, which help breaks.
std::string NamesOf(const auto& records, auto name) { return "  " + Listed(std::views::transform(records, name), " "); }

std::string StepsAt(StepPlace place) {
  std::string rows;
  for (const StepKind* kind : AllSteps()) {
    const std::string options(kind->options.starts_with('[') ? kind->options : "");
    if (kind->place == place) rows += HelpRow(std::string(kind->name) + options, std::string(kind->help), 28);
  }
  return rows;
}

std::string TaskRows() {
  std::string rows;
  for (const TaskKind* kind : AllTasks())
    rows += HelpRow(Formatted("{}={}", kind->name, kind->file), std::string(kind->what), 35);
  return rows;
}

// What stands for {NAME} in the texts.
std::vector<std::pair<std::string, std::string>> Tables(const CLI::App& app) {
  return {{"families", NamesOf(Families(), [](const Family* family) -> std::string_view { return family->name; })},
          {"sites", NamesOf(kSites, [](const SiteInfo& info) -> std::string_view { return info.name; })},
          {"formats", NamesOf(kFormats, [](const FormatRow& row) { return row.name.substr(0, row.name.find('(')); })},
          {"presets", Listed(kPlanPresets, ", ")},
          {"tasks", TaskRows()},
          {"options", GroupRows(*app.get_subcommand("eval"), kOfTasks)},
          {"weights", StepsAt(StepPlace::kWeights)},
          {"codes", StepsAt(StepPlace::kCodes)},
          {"better", StepsAt(StepPlace::kBetterCodes)},
          {"calibrated", StepsWithText(AllSteps())},
          {"policies", Listed(KeepPolicies(), ", ")}};
}

void Run(const CLI::App& app, const std::vector<std::string>& words) {
  if (words.empty())
    return PrintText("Topics: {}\n\ntare help TOPIC prints one of them, tare help COMMAND the help of a command.\n",
                     TopicNames(", "));
  for (const Topic& topic : Topics()) {
    if (words == std::vector<std::string>{topic.name}) return PrintText("{}", HelpText(TopicText(topic, app)));
  }
  const CLI::App* command = &app;
  std::string path = app.get_name();
  for (const std::string& word : words) {
    const std::vector<const CLI::App*> commands = command->get_subcommands({});
    const auto sub = std::ranges::find(commands, word, &CLI::App::get_name);
    if (sub == commands.end())
      throw CLI::ValidationError(
          "TOPIC", Formatted("got '{}', expected {} or a command; try tare help plan", word, TopicNames(", ")));
    if (command != &app) path += " " + command->get_name();
    command = *sub;
  }
  PrintText("{}", command->help(path));
}

}  // namespace

std::string TopicText(const Topic& topic, const CLI::App& app) {
  std::string text = topic.text;
  for (const auto& [name, table] : Tables(app)) {
    const std::string mark = "{" + name + "}";
    if (const size_t at = text.find(mark); at != text.npos) {
      const bool ends_line = table.ends_with('\n');
      text.replace(at, mark.size() + (ends_line ? 1 : 0), table);
    }
  }
  return text;
}

std::string TopicNames(const std::string& between) {
  return Listed(std::views::transform(Topics(), &Topic::name), between);
}

void AddHelp(CLI::App& app) {
  CLI::App* command = app.add_subcommand("help", "explain a topic (" + TopicNames(", ") + ") or a command");
  auto words = std::make_shared<std::vector<std::string>>();
  Add(*command, "TOPIC", *words, "one of the topics, or the words of a command; none: list the topics");
  command->footer(Examples({"tare help plan", "tare help bench decode"}));
  command->callback([&app, words] { Run(app, *words); });
}

}  // namespace tare
