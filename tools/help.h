// SPDX-License-Identifier: Apache-2.0
// Help in 80 columns, and the examples at the end of every command's help.
#pragma once

#include <CLI/CLI.hpp>
#include <initializer_list>
#include <string>
#include <string_view>

namespace tare {

// CLI11's formatter, with long lines broken between words: texts stay in their column, paragraphs of a command's footer
// are filled, and examples can still be pasted into a shell. A single word is never broken.
class HelpFormatter : public CLI::Formatter {
 public:
  std::string make_help(const CLI::App* app, std::string name, CLI::AppFormatMode mode) const override;
};

// The lines of text as one paragraph in 80 columns; indented lines keep their breaks.
std::string Paragraph(const std::string& text);

// A footer, or its end: at least two whole commands; long ones are broken when shown.
std::string Examples(std::initializer_list<std::string_view> commands);

}  // namespace tare
