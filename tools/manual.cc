// SPDX-License-Identifier: Apache-2.0
// tare manual and tare completion: the manual page of all commands, in the format of man(7), and completion for a
// shell, both generated from the commands themselves.
#include <memory>
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
  std::string text;
  for (const CLI::Option* option : command.get_options())
    text += Formatted(".TP\n.B {}\n{}\n", Plain(OptionUsage(*option)), Plain(OptionText(*option)));
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
  for (const Topic& topic : Topics())
    page += Formatted(".SH {}\n.nf\n{}.fi\n", topic.name, Plain(TopicText(topic, app)));
  return page +
         ".SH EXIT STATUS\n"
         "0: done; 1: failed (bad input, full disk, interrupted); 2: usage error.\n"
         ".SH ENVIRONMENT\n"
         ".TP\n"
         ".B TARE_MAX_ISA\n"
         "sse4, avx2 or avx512: limits the program to this instruction set.\n"
         ".TP\n"
         ".B ONEDNN_VERBOSE\n"
         "1: oneDNN writes a line about each of its kernels to standard output; none with --json \\-.\n";
}

// The words that may follow a command: its subcommands and options.
std::string WordsOf(const CLI::App& command) {
  std::string words;
  for (const CLI::App* sub : command.get_subcommands({})) words += sub->get_name() + " ";
  for (const CLI::Option* option : command.get_options()) {
    for (const std::string& name : option->get_lnames()) words += "--" + name + " ";
  }
  return words + (command.get_name() == "help" ? TopicNames(" ") : "");
}

// A function that finds the command among the words so far and offers its words, or files if none fits.
std::string BashScript(const CLI::App& app) {
  std::string commands, words = Formatted("    '') words='{}' ;;\n", WordsOf(app));
  ForCommands(app, [&](const std::string& name, const CLI::App& command) {
    commands += Formatted("{}'{}'", commands.empty() ? "" : " | ", name);
    words += Formatted("    '{}') words='{}' ;;\n", name, WordsOf(command));
  });
  return Formatted(
      "_tare() {{\n"
      "  local word command='' words='' current=${{COMP_WORDS[COMP_CWORD]}}\n"
      "  for word in \"${{COMP_WORDS[@]:1:COMP_CWORD-1}}\"; do\n"
      "    case \"${{command:+$command }}$word\" in\n"
      "      {}) command=\"${{command:+$command }}$word\" ;;\n"
      "    esac\n"
      "  done\n"
      "  case \"$command\" in\n{}  esac\n"
      "  COMPREPLY=($(compgen -W \"$words\" -- \"$current\"))\n"
      "}}\n"
      "complete -o default -F _tare tare\n",
      commands, words);
}

}  // namespace

void AddManual(CLI::App& app) {
  CLI::App* command = app.add_subcommand("manual", "print the manual page, for man");
  command->footer(Examples({"tare manual > tare.1 && man ./tare.1", "tare manual | man -l -"}));
  command->callback([&app] { PrintText("{}", PageOf(app)); });
}

void AddCompletion(CLI::App& app) {
  CLI::App* command = app.add_subcommand("completion", "print the completion of commands and options for a shell");
  auto shell = std::make_shared<std::string>();
  Add(*command, "SHELL", *shell, "bash or zsh")->required()->check(OneOf("bash|zsh"));
  command->footer(Examples({"tare completion bash > ~/.local/share/bash-completion/completions/tare",
                            "tare completion zsh > ~/.zfunc/_tare"}));
  command->callback([&app, shell] {
    // zsh runs scripts of bash's completion.
    const char* const head = *shell == "zsh" ? "#compdef tare\nautoload -U +X bashcompinit && bashcompinit\n" : "";
    PrintText("{}{}", head, BashScript(app));
  });
}

}  // namespace tare
