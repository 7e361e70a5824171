// SPDX-License-Identifier: Apache-2.0
#include "tools/help.h"

#include <algorithm>
#include <sstream>
#include <string_view>

namespace tare {
namespace {

constexpr size_t kWidth = 80, kTextColumn = 30;

// Where what does not fit goes on.
size_t ColumnAfter(const std::string& line, bool example) {
  const size_t indent = std::min(line.find_first_not_of(' '), line.size());
  if (example) return 4;
  return line.starts_with("  -") ? kTextColumn : indent;
}

std::string Wrapped(std::string line, bool example) {
  const std::string_view end = example ? " \\" : "";
  const std::string column(ColumnAfter(line, example), ' ');
  std::string lines;
  while (line.size() > kWidth) {
    const size_t begin = line.find_first_not_of(' ');
    size_t space = line.rfind(' ', kWidth - end.size());
    if (space == line.npos || space < begin) space = line.find(' ', begin);  // one long word
    if (space == line.npos || line.substr(space) == end) break;
    lines += line.substr(0, space).append(end) + "\n";
    line = column + line.substr(line.find_first_not_of(' ', space));
  }
  return lines + line + "\n";
}

}  // namespace

std::string HelpFormatter::make_help(const CLI::App* app, std::string name, CLI::AppFormatMode mode) const {
  std::istringstream help(CLI::Formatter::make_help(app, std::move(name), mode));
  std::string wrapped;
  bool example = false;
  for (std::string line; std::getline(help, line);) {
    example = example ? !line.empty() : line.starts_with("Example");
    wrapped += Wrapped(line, example);
  }
  return wrapped;
}

}  // namespace tare
