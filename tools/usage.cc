// SPDX-License-Identifier: Apache-2.0
#include "tools/usage.h"

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

#include "quant/base/formatted.h"

namespace tare {
namespace {

// Levenshtein's: letters to add, take away or change.
size_t Distance(const std::string& a, const std::string& b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 0; i < a.size(); ++i) {
    size_t diagonal = std::exchange(row[0], i + 1);
    for (size_t j = 0; j < b.size(); ++j) {
      const size_t changed = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = std::exchange(row[j + 1], std::min({changed, row[j] + 1, row[j + 1] + 1}));
    }
  }
  return row.back();
}

std::vector<std::string> OptionsOf(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  return names;
}

std::vector<std::string> CommandsOf(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands({})) names.push_back(command->get_name());
  return names;
}

std::string Joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : " ") + word;
  return text;
}

}  // namespace

std::string WhatIsWrong(const CLI::App& app, const CLI::ParseError& error) {
  const CLI::App* innermost = &app;
  std::string path = app.get_name();
  while (!innermost->get_subcommands().empty()) {
    innermost = innermost->get_subcommands().front();
    path += " " + innermost->get_name();
  }
  const std::vector<std::string> unknown = app.remaining(true), commands = CommandsOf(*innermost);
  if (unknown.empty() && innermost->get_require_subcommand_min() > 0)
    return Formatted("{}: got no command, expected one of {}", path, Joined(commands));
  if (unknown.empty()) return Formatted("{}: {}", path, error.what());
  const std::string& word = unknown.front();
  const bool is_option = word.starts_with("-");
  const std::vector<std::string> known = is_option ? OptionsOf(*innermost) : commands;
  if (known.empty()) return Formatted("{}: unknown word '{}'", path, word);
  const std::string name = word.substr(0, word.find('='));
  const std::string nearest = std::ranges::min(known, {}, [&](const std::string& k) { return Distance(name, k); });
  const bool is_near = Distance(name, nearest) <= name.size() / 2 - (is_option ? 1 : 0);
  return Formatted("{}: unknown {} '{}'; {}", path, is_option ? "option" : "command", word,
                   is_near ? "the nearest is " + nearest : "expected one of " + Joined(known));
}

}  // namespace tare
