// SPDX-License-Identifier: Apache-2.0
#include "tools/usage.h"

#include <algorithm>
#include <vector>

#include "quant/base/formatted.h"
#include "quant/base/nearest.h"

namespace tare {
namespace {

std::vector<std::string> OptionNamesOf(const CLI::App& app) {
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
  const std::vector<std::string> known = is_option ? OptionNamesOf(*innermost) : commands;
  if (known.empty()) return Formatted("{}: unknown word '{}'", path, word);
  const std::string name = word.substr(0, word.find('='));
  const std::string nearest = std::ranges::min(known, {}, [&](const std::string& k) { return Distance(name, k); });
  const bool is_near = Distance(name, nearest) <= name.size() / 2 - (is_option ? 1 : 0);
  return Formatted("{}: unknown {} '{}'; {}", path, is_option ? "option" : "command", word,
                   is_near ? "the nearest is " + nearest : "expected one of " + Joined(known));
}

}  // namespace tare
