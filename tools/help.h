// SPDX-License-Identifier: Apache-2.0
// Help in 80 columns.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace tare {

// As CLI11 has it, with lines that are longer broken between words: texts stay in their column, and examples can still be
// pasted into a shell. A word of its own is never broken.
class HelpFormatter : public CLI::Formatter {
 public:
  std::string make_help(const CLI::App* app, std::string name, CLI::AppFormatMode mode) const override;
};

}  // namespace tare
