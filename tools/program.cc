// SPDX-License-Identifier: Apache-2.0
// The table of commands, the words of usage errors, and what becomes of an error.
#include "tools/program.h"

#include <csignal>
#include <cstdio>
#include <exception>
#include <new>
#include <ranges>
#include <utility>

#include "experiments/report/drawing/interpreter.h"
#include "quant/base/memory.h"
#include "quant/file/files_of_run.h"
#include "tools/command.h"

namespace tare {

extern const char kCommit[];  // "abc1234", or "" where there is no git; made by cmake/commit.cmake

namespace {

// "; try --tasks choice=items.jsonl", or for a word by its place "; try tare verify Q.h5": as the command's examples
// have it; "" if none does. path: "tare verify".
std::string TryText(const CLI::App& command, const std::string& path, const std::string& name) {
  const std::string examples = command.get_footer(), before = (name.starts_with("-") ? name : path) + " ";
  for (size_t at = examples.find(before); at != examples.npos; at = examples.find(before, at + 1)) {
    const size_t value = at + before.size();
    const size_t end =
        examples[value] == '\'' ? examples.find('\'', value + 1) + 1 : examples.find_first_of(" \n", value);
    if (examples[value] != '-') return "; try " + before + examples.substr(value, end - value);
  }
  return "";
}

// CLI11's errors, such as "--tasks is required" and "Could not convert: --within = x", in the words of all others.
std::string InOurWords(const CLI::App& command, const std::string& path, const CLI::ParseError& error) {
  constexpr std::string_view kConvert = "Could not convert: ";
  const std::string message = error.what(), kind = error.get_name(), last = message.substr(message.rfind(' ') + 1);
  const bool converts = message.starts_with(kConvert);
  const std::string of_name = converts ? message.substr(kConvert.size()) : message;
  const std::string name = of_name.substr(0, of_name.find_first_of(" :"));
  const CLI::Option* const option = command.get_option_no_throw(name);
  if (option == nullptr) return message;
  const std::string& shown = option->get_option_text();
  const std::string value = shown.empty() ? "one" : shown, type = option->get_type_name();
  if (kind == "RequiredError")
    return Formatted("{}: got none, expected {}{}", name, value, TryText(command, path, name));
  if (kind == "RequiresError")
    return Formatted("{}: got no {} with it, expected both{}", name, last,
                     last.starts_with("-") ? TryText(command, path, last) : "");
  if (kind == "ExcludesError")
    return Formatted("{}: got {} too, expected one of the two; try leaving out {}", name, last, last);
  int least = 0, got = 0;
  if (std::sscanf(message.c_str() + name.size(), ": At least %d required but received %d", &least, &got) == 2)
    return Formatted("{}: got {}, expected {}", name, got, least);
  if (kind == "ArgumentMismatch" && message.ends_with(" missing"))
    return Formatted("{}: got no value, expected {}{}", name, value, TryText(command, path, name));
  if (!converts) return message;
  return Formatted("{}: got '{}', expected {}", name, of_name.substr(of_name.find(" = ") + 3),
                   type.starts_with("UINT")    ? "a whole number of 0 or more"
                   : type.starts_with("INT")   ? "a whole number"
                   : type.starts_with("FLOAT") ? "a number"
                                               : "another value");
}

// Describes a usage error in a line that begins with the command; one that lacks a command below it gets its help
// instead. An unknown word comes before a missing one, with the nearest known word, or all if none is near:
//
//   tare eval: unknown option '--taks'; the nearest is --tasks
std::string WhatIsWrong(const CLI::App& app, const CLI::ParseError& error) {
  const CLI::App* innermost = &app;
  std::string path = app.get_name(), before;
  while (!innermost->get_subcommands().empty()) {
    innermost = innermost->get_subcommands().front();
    before = std::exchange(path, path + " " + innermost->get_name());
  }
  const std::vector<std::string> unknown = app.remaining(true);
  if (unknown.empty() && innermost->get_require_subcommand_min() > 0)
    return Formatted("{}\ntare: got no command, expected one of these", innermost->help(before));
  if (unknown.empty()) return Formatted("{}: {}", path, InOurWords(*innermost, path, error));
  const std::string& word = unknown.front();
  const std::string dashes = word.starts_with("-") ? "--" : "";
  std::vector<std::string> known =
      innermost->get_subcommands({}) | std::views::transform(&CLI::App::get_name) | std::ranges::to<std::vector>();
  if (!dashes.empty())
    known = innermost->get_options() | std::views::transform(&CLI::Option::get_lnames) | std::views::join |
            std::ranges::to<std::vector>();
  if (known.empty()) return Formatted("{}: unknown word '{}'", path, word);
  const std::string name = word.substr(0, word.find('='));
  const std::string* const nearest = NearestOf(name.substr(std::min(name.find_first_not_of('-'), name.size())), known);
  return Formatted("{}: unknown {} '{}'; {}", path, dashes.empty() ? "command" : "option", word,
                   nearest != nullptr ? "the nearest is " + dashes + *nearest
                                      : "expected one of " + dashes + Listed(known, " " + dashes));
}

int Failed(const std::string& message, int code = 1) {
  std::fflush(stdout);
  PutError(Formatted("tare: {}\n", message));
  return code;
}

struct CommandGroup {
  const char* name;  // in help
  std::vector<AddCommand*> commands;
};
const CommandGroup kCommands[] = {
    {"Look at a model", {AddInspect, AddStats, AddDump, AddMaps}},
    {"Measure what a plan costs",
     {AddPlan, AddEval, AddSweep, AddCompare, AddJudge, AddAttribute, AddSearch, AddGenerate}},
    {"Make low-bit checkpoints", {AddQuantize, AddLevels, AddConvert, AddVerify}},
    {"Make texts and items", {AddTokenize, AddMake, AddProbe}},
    {"Show results and measure speed", {AddReport, AddPlot, AddBench}},
    {"Get help", {AddHelp, AddCompletion, AddManual}}};

int Run(int argc, char** argv) {
  CLI::App app{"measure what low-bit quantization costs Differential Transformers", "tare"};
  app.set_help_flag("-h,--help", "print this help");
  app.formatter_fn(HelpOf);
  const std::string commit = kCommit[0] == '\0' ? "" : Formatted(" ({})", std::string(kCommit));
  app.set_version_flag("--version", "tare " TARE_VERSION + commit, "print the version and its commit");
  app.require_subcommand(1);
  for (const auto& [group, commands] : kCommands) {
    for (AddCommand* const add : commands) {
      add(app);
      app.get_subcommands({}).back()->group(group);
    }
  }
  AddFooters(app);
  // Last: commands would begin with it.
  app.footer("tare COMMAND --help prints the options of a command, tare help TOPIC more about " + TopicNames(", ") +
             ".\n\nExamples:\n  tare inspect experiments/pair/novels-differential\n  tare help plan");
  CheckValues(app);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() != static_cast<int>(CLI::ExitCodes::Success)) {
      PutError(WhatIsWrong(app, error) + "\nRun with --help for more information.\n");
      return 2;
    }
    app.exit(error);  // --help, --version
  }
  // The last flush tells nothing of writes that failed before it.
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return 0;
  PutText("");  // says why, or what it can
  return Failed("standard output: cannot be written; try freeing space, or another place for it");
}

}  // namespace

int RunProgram(int argc, char** argv, void (*prepare)()) {
  OnNotice([](const std::string& text) { PutError(Formatted("tare: warning: {}\n", text)); });
  OnChat(ReadChatTemplate);
  OnContinued(ShowContinued);
  ForgetOutputs();
  NoteKept("");
  const FilesOfRun noted;
  try {
    prepare();
    KeepCommand(argc, argv);
    return Run(argc, argv);
  } catch (const UsageError& error) {
    return Failed(error.what(), 2);
  } catch (const ReaderEnded& error) {
    // What was unfinished is gone. Now the command ends as others do, without a word, unless its caller ignores that.
    if (std::signal(SIGPIPE, SIG_DFL) != SIG_IGN) std::raise(SIGPIPE);
    return Failed(error.what());
  } catch (const Error& error) {
    return Failed(error.what());
  } catch (const std::bad_alloc&) {
    return Failed("out of memory" + MemoryLimits() +
                  "; try a shorter --window if the command has one, a smaller model, or a machine with more");
  } catch (const std::filesystem::filesystem_error& error) {
    return Failed(error.path1().string() + ": " + error.code().message() +
                  "; try checking the path and its permissions");
  } catch (const std::exception& error) {
    return Failed(
        Formatted("internal error: {}; is memory short? If not, please report it with the command", error.what()));
  }
}

}  // namespace tare
