// SPDX-License-Identifier: Apache-2.0
// Breaks of commands, usage line, options, rows, commands and footers; tare help: topics, whose texts are in
// tools/topics/ with the code's tables, and commands; tare manual: all commands in the format of man(7).
#include "tools/command.h"

#include <functional>
#include <ranges>
#include <sstream>
#include <utility>

#include "experiments/model/config/family.h"
#include "experiments/plan/cache_plan.h"
#include "experiments/quantize/steps/table.h"
#include "experiments/tasks/task.h"
#include "quant/format/format.h"
#include "quant/plan/presets.h"

namespace tare {
namespace {

constexpr size_t kCommandColumn = 14;
constexpr std::string_view kHeading = "Examples:";

// Continues at the text that follows a name and two spaces, else at the line's own indent.
std::string WrappedText(const std::string& line) {
  const size_t begin = std::min(line.find_first_not_of(' '), line.size()), gap = line.find("  ", begin);
  const size_t text = gap == line.npos ? line.npos : line.find_first_not_of(' ', gap);
  return Wrapped(line, begin > 0 && text < kLineColumns / 2 ? text : begin);
}

// The last place to break a command before `limit`: before an option rather than its value, in no quotes.
size_t BreakOf(const std::string& command, size_t begin, size_t limit) {
  size_t option = command.npos, word = command.npos;
  bool quoted = false;
  for (size_t i = begin; i < command.size(); ++i) {
    if (command[i] == '\'') quoted = !quoted;
    if (command[i] != ' ' || quoted) continue;
    if (i > limit && word != command.npos) break;
    word = i;
    if (command.compare(i, 3, " --") == 0) option = i;
  }
  return option != command.npos ? option : word;
}

std::string WrappedCommand(std::string command) {
  std::string lines;
  while (command.size() > kLineColumns) {
    const size_t space = BreakOf(command, command.find_first_not_of(' '), kLineColumns - 2);
    if (space == command.npos) break;
    lines += command.substr(0, space) + " \\\n";
    command = "    " + command.substr(space + 1);
  }
  return lines + command + "\n";
}

// Joins the lines of a paragraph, to be broken evenly; indented ones and headings stay.
std::string Filled(const std::string& footer) {
  std::istringstream lines(footer);
  std::string filled, before;
  for (std::string line; std::getline(lines, line); before = line) {
    const bool goes_on =
        !before.empty() && !line.empty() && before[0] != ' ' && line[0] != ' ' && !before.ends_with(':');
    filled += (filled.empty() ? "" : goes_on ? " " : "\n") + line;
  }
  return filled;
}

// As help shows an option: "--out FILE" or "MODEL", and "[512] positions per window".
std::string OptionUsage(const CLI::Option& option) {
  const std::string value = option.get_option_text();
  return option.get_name() + (value.empty() ? "" : " " + value);
}

std::string OptionText(const CLI::Option& option) {
  std::string value = option.get_default_str();
  if (value.starts_with('[')) value = value.substr(1, value.size() - 2);  // a list
  if (value == "{}") value.clear();                                       // an empty one
  return (value.empty() ? "" : "[" + value + "] ") + option.get_description();
}

// "Usage: tare dump MODEL --input FILE --out FILE [OPTIONS]": what is required.
std::string UsageLine(const std::string& name, const CLI::App& command) {
  std::string positionals, options;
  for (const CLI::Option* option : command.get_options()) {
    std::string usage = OptionUsage(*option);
    if (option->nonpositional()) {
      options += option->get_required() ? " " + usage : "";
      continue;
    }
    if (option->get_expected_max() == CLI::detail::expected_max_vector_size) usage += "...";
    positionals += option->get_required() ? " " + usage : " [" + usage + "]";
    if (option->get_expected_min() == 2) positionals += " " + usage;
  }
  const char* const sub = command.get_require_subcommand_min() > 0 ? " COMMAND" : "";
  return Wrapped(Formatted("Usage: {}{}{}{} [OPTIONS]", name, sub, positionals, options), name.size() + 8);
}

std::vector<const CLI::Option*> OptionsOf(const CLI::App& command, const std::string& group) {
  return command.get_options([&](const CLI::Option* option) {
    return option != command.get_help_ptr() && option->nonpositional() && option->get_group() == group;
  });
}

// "  --threads N  --quiet", in lines.
std::string UsagesOf(const std::vector<const CLI::Option*>& options) {
  std::string lines, line;
  for (const CLI::Option* option : options) {
    const std::string usage = "  " + OptionUsage(*option);
    if (line.size() + usage.size() > kLineColumns) lines += std::exchange(line, "") + "\n";
    line += usage;
  }
  return lines + line + "\n";
}

std::string GroupRows(const CLI::App& command, const std::string& group) {
  std::string rows;
  for (const CLI::Option* option : OptionsOf(command, group))
    rows += HelpRow(OptionUsage(*option), OptionText(*option));
  return rows;
}

std::string GroupsOf(const CLI::App& command) {
  std::string own, shared;
  for (const std::string& group : command.get_groups()) {
    const std::vector<const CLI::Option*> options = OptionsOf(command, group);
    if (options.empty()) continue;
    if (group == kOfTasks || group == kCommon) {
      shared += Formatted("{} (tare {}):\n{}", group, group == kCommon ? "--help" : "help tasks", UsagesOf(options));
    } else {
      own += group + ":\n" + GroupRows(command, group);
    }
  }
  return own + shared;
}

// ---- help

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
          {"presets", NamesOf(kPlanPresets, &PlanPreset::name)},
          {"tasks", TaskRows()},
          {"options", GroupRows(*app.get_subcommand("eval"), kOfTasks)},
          {"weights", StepsAt(StepPlace::kWeights)},
          {"codes", StepsAt(StepPlace::kCodes)},
          {"better", StepsAt(StepPlace::kBetterCodes)},
          {"calibrated", StepsWithText(AllSteps())},
          {"policies", Listed(KeepPolicies(), ", ")}};
}

std::string TopicText(const Topic& topic, const CLI::App& app) {
  std::string text(topic.text);
  for (const auto& [name, table] : Tables(app)) {
    const std::string mark = "{" + name + "}";
    if (const size_t at = text.find(mark); at != text.npos) {
      const bool ends_line = table.ends_with('\n');
      text.replace(at, mark.size() + (ends_line ? 1 : 0), table);
    }
  }
  return text;
}

void Run(const CLI::App& app, const std::vector<std::string>& words) {
  if (words.empty())
    return PrintText("Topics: {}\n\ntare help TOPIC prints one of them, tare help COMMAND the help of a command.\n",
                     TopicNames(", "));
  for (const Topic& topic : Topics()) {
    if (words == std::vector{std::string(topic.name)}) return PrintText("{}", Paragraphs(TopicText(topic, app)));
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

// Calls body for each command below the program with its words, such as "bench decode", parents first.
void ForCommands(const CLI::App& app,
                 const std::function<void(const std::string& words, const CLI::App& command)>& body) {
  for (const CLI::App* sub : app.get_subcommands({})) {
    body(sub->get_name(), *sub);
    ForCommands(*sub,
                [&](const std::string& words, const CLI::App& below) { body(sub->get_name() + " " + words, below); });
  }
}

std::string PageOf(const CLI::App& app) {
  std::string page = Formatted(
      ".TH TARE 1 \"\" \"tare {0}\" \"User commands\"\n.SH NAME\ntare \\- {1}\n.SH SYNOPSIS\n.B tare\nCOMMAND "
      "[ARGUMENTS]\n.SH COMMANDS\n",
      TARE_VERSION, Plain(app.get_description()));
  ForCommands(app, [&](const std::string& name, const CLI::App& command) {
    page += Formatted(".SS tare {}\n{}\n{}.PP\n.nf\n{}.fi\n", Plain(name), Plain(command.get_description()),
                      OptionTexts(command), Plain(command.get_footer()));
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

std::string HelpRow(const std::string& name, const std::string& text, size_t column) {
  std::string row = "  " + name + "  ";
  row.resize(std::max(row.size(), column), ' ');
  return Wrapped(row + text, column);
}

std::string HelpOf(const CLI::App* app, const std::string& name, CLI::AppFormatMode) {
  std::string help = Formatted("{} - {}\n\n", name, app->get_description()) + UsageLine(name, *app);
  for (const CLI::Option* option : app->get_options()) {
    if (!option->nonpositional()) help += HelpRow(OptionUsage(*option), OptionText(*option));
  }
  std::string group;
  for (const CLI::App* command : app->get_subcommands({})) {
    const std::string of = command->get_group() == "Subcommands" ? "Commands" : command->get_group();
    if (of != std::exchange(group, of)) help += of + ":\n";
    help += HelpRow(command->get_name(), command->get_description(), kCommandColumn);
  }
  if (app->get_parent() == nullptr)
    help += "Options of most commands:\n" + GroupRows(*app->get_subcommand("eval"), kCommon);
  return help + GroupsOf(*app) + "\n" + Paragraphs(app->get_footer()) +
         "\nExit status: 0 done, 1 failed, 2 usage error.\n";
}

std::string Paragraphs(const std::string& text) {
  std::istringstream lines(Filled(text));
  std::string shown;
  bool example = false;
  for (std::string line; std::getline(lines, line);) {
    example = example ? !line.empty() : line == kHeading;
    shown += example ? WrappedCommand(line) : WrappedText(line);
  }
  return shown;
}

void AddFooters(CLI::App& app) {
  for (const auto& [name, text] : Footers()) {
    CLI::App* command = &app;
    for (const std::string& word : CLI::detail::split(std::string(name), '-')) command = command->get_subcommand(word);
    const std::string own = command->get_footer();
    command->footer((own.empty() ? "" : own + "\n\n").append(text));
  }
}

std::string NotesOf(std::string_view footer) {
  const std::string_view text = std::ranges::find(Footers(), footer, &Topic::name)->text;
  return std::string(text.substr(0, text.find(Formatted("\n\n{}", kHeading))));
}

std::string TopicNames(const std::string& between) {
  return Listed(std::views::transform(Topics(), &Topic::name), between);
}

void AddHelp(CLI::App& app) {
  CLI::App* command = app.add_subcommand("help", "explain a topic (" + TopicNames(", ") + ") or a command");
  auto words = std::make_shared<std::vector<std::string>>();
  Add(*command, "TOPIC", *words, "one of the topics, or the words of a command; none: list the topics");
  command->callback([&app, words] { Run(app, *words); });
}

void AddManual(CLI::App& app) {
  CLI::App* command = app.add_subcommand("manual", "print the manual page, for man");
  command->callback([&app] { PrintText("{}", PageOf(app)); });
}

}  // namespace tare
