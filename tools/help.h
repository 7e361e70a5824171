// SPDX-License-Identifier: Apache-2.0
// Help in 80 columns, and the examples at the end of every command's help.
#pragma once

#include <CLI/CLI.hpp>
#include <initializer_list>
#include <string>
#include <string_view>

namespace tare {

// As CLI11 has it, with lines that are longer broken between words: texts stay in their column, paragraphs of a
// command's footer are filled, and examples can still be pasted into a shell. A word of its own is never broken.
class HelpFormatter : public CLI::Formatter {
 public:
  std::string make_help(const CLI::App* app, std::string name, CLI::AppFormatMode mode) const override;
};

// The lines of text as one paragraph in 80 columns; indented lines stay by themselves.
std::string Paragraph(const std::string& text);

// A footer, or the end of one: whole commands, at least two of them, which are broken where they are shown.
std::string Examples(std::initializer_list<std::string_view> commands);

}  // namespace tare
