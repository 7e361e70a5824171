// SPDX-License-Identifier: Apache-2.0
// tare help: topics whose texts are in tools/topics/, with tables of the code in them; and the help of commands. tare
// manual: the manual page of all commands, in the format of man(7), generated from the commands themselves.
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
#include "quant/base/message.h"
#include "quant/format/format.h"
#include "quant/plan/plan.h"
#include "tools/command.h"
#include "tools/help.h"

namespace tare {

// ---- help

namespace {

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
    if (words == std::vector<std::string>{topic.name}) return PrintText("{}", Paragraphs(TopicText(topic, app)));
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

// ---- manual

// Text as man takes it: hyphens that can be pasted, no backslash or first dot that means something.
std::string Plain(const std::string& text) {
  std::string plain;
  for (const char c : text) {
    if ((c == '.' || c == '\'') && (plain.empty() || plain.back() == '\n')) plain += "\\&";
    plain += c == '\\' ? "\\e" : c == '-' ? "\\-" : std::string(1, c);
  }
  return plain;
}

std::string OptionTexts(const CLI::App& command) {
  std::string text;
  for (const CLI::Option* option : command.get_options())
    text += Formatted(".TP\n.B {}\n{}\n", Plain(OptionUsage(*option)), Plain(OptionText(*option)));
  return text;
}

std::string PageOf(const CLI::App& app) {
  std::string page = Formatted(
      ".TH TARE 1 \"\" \"tare {0}\" \"User commands\"\n.SH NAME\ntare \\- {1}\n.SH SYNOPSIS\n.B tare\nCOMMAND "
      "[ARGUMENTS]\n.SH COMMANDS\n",
      TARE_VERSION, Plain(app.get_description()));
  ForCommands(app, [&](const std::string& name, const CLI::App& command) {
    page += Formatted(".SS tare {}\n{}\n{}", Plain(name), Plain(command.get_description()), OptionTexts(command));
    if (!command.get_footer().empty()) page += Formatted(".PP\n.nf\n{}\n.fi\n", Plain(command.get_footer()));
  });
  for (const Topic& topic : Topics())
    page += Formatted(".SH {}\n.nf\n{}.fi\n", topic.name, Plain(TopicText(topic, app)));
  return page +
         ".SH EXIT STATUS\n"
         "0: done; 1: failed (bad input, full disk); 2: usage error; 130: interrupted.\n"
         ".SH ENVIRONMENT\n"
         ".TP\n"
         ".B TARE_MAX_ISA\n"
         "sse4, avx2 or avx512: limits the program to this instruction set.\n"
         ".TP\n"
         ".B ONEDNN_VERBOSE\n"
         "1: oneDNN writes a line about each of its kernels to standard output; none with --json \\-.\n";
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

void AddManual(CLI::App& app) {
  CLI::App* command = app.add_subcommand("manual", "print the manual page, for man");
  command->footer(Examples({"tare manual > tare.1 && man ./tare.1", "tare manual | man -l -"}));
  command->callback([&app] { PrintText("{}", PageOf(app)); });
}

}  // namespace tare
