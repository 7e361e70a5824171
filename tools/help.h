// SPDX-License-Identifier: Apache-2.0
// Help in 80 columns: purpose, usage, options by group, examples, exit status.
#pragma once

#include <CLI/CLI.hpp>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>

namespace tare {

// Texts stay in their column, paragraphs of a command's footer are filled, and examples can still be pasted into a
// shell. A single word is never broken.
class HelpFormatter : public CLI::Formatter {
 public:
  // name: the words that call the command, "tare bench decode".
  std::string make_help(const CLI::App* app, std::string name, CLI::AppFormatMode mode) const override;
};

// As help shows an option: "--out FILE" or "MODEL", and "[512] positions per window".
std::string OptionUsage(const CLI::Option& option);
std::string OptionText(const CLI::Option& option);

// "  name     text", its text from `column` on.
std::string HelpRow(const std::string& name, const std::string& text, size_t column = 24);
// Rows of the options of a group of `command`.
std::string GroupRows(const CLI::App& command, const std::string& group);

// A subject of `tare help TOPIC`: tools/topics/NAME.txt, in which {NAME} stands for a table of the code.
struct Topic {
  const char *name, *text;
};
std::span<const Topic> Topics();
std::string TopicNames(const std::string& between);  // "model, plan, ..."
std::string TopicText(const Topic& topic, const CLI::App& app);

// A footer, a topic or a legend in 80 columns: the lines of a paragraph are filled, indented ones keep their breaks.
std::string Paragraphs(const std::string& text);

// A footer, or its end: at least two whole commands; long ones are broken when shown.
std::string Examples(std::initializer_list<std::string_view> commands);

}  // namespace tare
