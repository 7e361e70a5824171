// SPDX-License-Identifier: Apache-2.0
// tare manual: the manual page of all commands, in the format of man(7), generated from the commands themselves.
#include <string>

#include "quant/base/formatted.h"
#include "tools/command.h"
#include "tools/help.h"

namespace tare {
namespace {

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
  const CLI::Formatter formatter;
  std::string text;
  for (const CLI::Option* option : OptionsOf(command)) {
    text += Formatted(
        ".TP\n.B {}\n{}\n",
        Plain(formatter.make_option_name(option, option->get_positional()) + formatter.make_option_opts(option)),
        Plain(option->get_description()));
  }
  return text;
}

std::string PageOf(const CLI::App& app) {
  std::string page = Formatted(
      ".TH TARE 1 \"\" \"tare {0}\" \"User commands\"\n.SH NAME\ntare \\- {1}\n.SH SYNOPSIS\n.B tare\nCOMMAND "
      "[ARGUMENTS]\n.SH COMMANDS\n",
      TARE_VERSION, Plain(app.get_description()));
  ForCommands(app, [&](const std::string& name, const CLI::App& command) {
    page += Formatted(".SS tare {}\n{}\n{}", Plain(name), Plain(command.get_description()), OptionTexts(command));
    if (!command.get_footer().empty()) page += Formatted(".PP\n.nf\n{}\n.fi\n", Plain(command.get_footer()));
  });
  return page +
         ".SH EXIT STATUS\n"
         "0: done; 1: failed (bad input, full disk, interrupted); 2: wrong usage.\n"
         ".SH ENVIRONMENT\n"
         ".TP\n"
         ".B TARE_MAX_ISA\n"
         "sse4, avx2 or avx512: limits the program to this instruction set.\n"
         ".TP\n"
         ".B ONEDNN_VERBOSE\n"
         "1: oneDNN writes a line about each of its kernels to standard output; none with --json \\-.\n";
}

}  // namespace

void AddManual(CLI::App& app) {
  CLI::App* command = app.add_subcommand("manual", "print the manual page, for man");
  command->footer(Examples({"tare manual > tare.1 && man ./tare.1", "tare manual | man -l -"}));
  command->callback([&app] { PrintText("{}", PageOf(app)); });
}

}  // namespace tare
