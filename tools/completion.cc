// SPDX-License-Identifier: Apache-2.0
// tare completion: shell completion of commands and options, generated from the commands themselves.
#include <memory>
#include <string>

#include "quant/base/formatted.h"
#include "tools/command.h"
#include "tools/help.h"

namespace tare {
namespace {

// The words that may follow a command: its subcommands and options.
std::string WordsOf(const CLI::App& command) {
  std::string words;
  for (const CLI::App* sub : command.get_subcommands({})) {
    if (!sub->get_name().empty()) words += sub->get_name() + " ";
  }
  for (const CLI::Option* option : OptionsOf(command)) {
    for (const std::string& name : option->get_lnames()) words += "--" + name + " ";
  }
  return words;
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

void AddCompletion(CLI::App& app) {
  CLI::App* command = app.add_subcommand("completion", "print the completion of commands and options for a shell");
  auto shell = std::make_shared<std::string>();
  command->add_option("SHELL", *shell, "bash or zsh")->required()->check(CLI::IsMember({"bash", "zsh"}));
  command->footer(Examples({"tare completion bash > ~/.local/share/bash-completion/completions/tare",
                            "tare completion zsh > ~/.zfunc/_tare"}));
  command->callback([&app, shell] {
    // zsh runs scripts of bash's completion.
    const char* const head = *shell == "zsh" ? "#compdef tare\nautoload -U +X bashcompinit && bashcompinit\n" : "";
    PrintText("{}{}", head, BashScript(app));
  });
}

}  // namespace tare
