// SPDX-License-Identifier: Apache-2.0
// Breaks of commands, the usage line, groups of options, and texts of options, rows, commands and examples.
#include "tools/help.h"

#include <algorithm>
#include <sstream>
#include <utility>
#include <vector>

#include "quant/base/message.h"
#include "tools/command.h"

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

}  // namespace

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

std::string HelpRow(const std::string& name, const std::string& text, size_t column) {
  std::string row = "  " + name + "  ";
  row.resize(std::max(row.size(), column), ' ');
  return Wrapped(row + text, column);
}

std::string GroupRows(const CLI::App& command, const std::string& group) {
  std::string rows;
  for (const CLI::Option* option : OptionsOf(command, group))
    rows += HelpRow(OptionUsage(*option), OptionText(*option));
  return rows;
}

std::string HelpFormatter::make_help(const CLI::App* app, std::string name, CLI::AppFormatMode) const {
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

std::string Examples(std::initializer_list<std::string_view> commands) {
  TARE_CHECK(commands.size() >= 2);
  std::string text(kHeading);
  for (const std::string_view command : commands) text.append("\n  ").append(command);
  return text;
}

}  // namespace tare
