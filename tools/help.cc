// SPDX-License-Identifier: Apache-2.0
#include "tools/help.h"

#include <algorithm>
#include <sstream>

#include "quant/base/error.h"

namespace tare {
namespace {

constexpr size_t kWidth = 80;
constexpr size_t kTextColumn = 28,
                 kLastTextColumn = 40;  // CLI11's, after the indent; the last where a text still stands beside its name
constexpr std::string_view kHeading = "Examples:";

// Where a line that does not fit continues: at the column of the text that follows a name and at least two spaces.
size_t ColumnAfter(const std::string& line) {
  const size_t begin = std::min(line.find_first_not_of(' '), line.size());
  if (line[begin] == '-') return kTextColumn + begin;
  const size_t gap = line.find("  ", begin);
  const size_t text = gap == line.npos ? line.npos : line.find_first_not_of(' ', gap);
  return begin > 0 && text <= kLastTextColumn ? text : begin;
}

std::string Wrapped(std::string line) {
  const std::string column(ColumnAfter(line), ' ');
  std::string lines;
  while (line.size() > kWidth) {
    const size_t begin = line.find_first_not_of(' ');
    size_t space = line.rfind(' ', kWidth);
    if (space == line.npos || space < begin) space = line.find(' ', begin);  // one long word
    if (space == line.npos) break;
    lines += line.substr(0, space) + "\n";
    const size_t next = line.find_first_not_of(' ', space);
    if (next == line.npos) return lines;
    line = column + line.substr(next);
  }
  return lines + line + "\n";
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
  while (command.size() > kWidth) {
    const size_t space = BreakOf(command, command.find_first_not_of(' '), kWidth - 2);
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

}  // namespace

std::string HelpFormatter::make_help(const CLI::App* app, std::string name, CLI::AppFormatMode mode) const {
  const std::string footer = app->get_footer();
  std::string text = CLI::Formatter::make_help(app, std::move(name), mode);
  if (const size_t at = text.rfind(footer); !footer.empty() && at != text.npos)
    text.replace(at, footer.size(), Filled(footer));
  std::istringstream help(text);
  std::string wrapped;
  bool example = false;
  for (std::string line; std::getline(help, line);) {
    example = example ? !line.empty() : line == kHeading;
    wrapped += example ? WrappedCommand(line) : Wrapped(line);
  }
  return wrapped;
}

std::string Paragraph(const std::string& text) {
  std::istringstream lines(Filled(text));
  std::string wrapped;
  for (std::string line; std::getline(lines, line);) wrapped += Wrapped(line);
  return wrapped;
}

std::string Examples(std::initializer_list<std::string_view> commands) {
  TARE_CHECK(commands.size() >= 2);
  std::string text(kHeading);
  for (const std::string_view command : commands) text.append("\n  ").append(command);
  return text;
}

}  // namespace tare
