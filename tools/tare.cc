// SPDX-License-Identifier: Apache-2.0
// The tare command. Exit codes: 0 done, 1 failed (bad input, full disk, interrupted), 2 wrong usage.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <fstream>
#include <memory>
#include <new>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/product/instruction_set.h"
#include "quant/base/error.h"
#include "quant/base/formatted.h"
#include "quant/base/interrupt.h"
#include "quant/base/memory.h"
#include "quant/base/nearest.h"
#include "quant/base/notice.h"
#include "quant/base/thread_pool.h"
#include "quant/file/remembered_hashes.h"
#include "tools/command.h"
#include "tools/help.h"

namespace tare {
namespace {

std::vector<std::string> OptionNamesOf(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    const std::vector<std::string>& more = option->get_lnames();
    names.insert(names.end(), more.begin(), more.end());
  }
  return names;
}

std::vector<std::string> CommandsOf(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands({})) names.push_back(command->get_name());
  return names;
}

std::string Joined(const std::vector<std::string>& words, const std::string& dashes) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : " ") + dashes + word;
  return text;
}

// CLI11's "MODELS: At least 2 required but received 1" and "Could not convert: --within = x" in the words of all other
// messages.
std::string InOurWords(const CLI::App& command, const std::string& message) {
  constexpr std::string_view kConvert = "Could not convert: ";
  const size_t equals = message.find(" = ");
  if (message.starts_with(kConvert) && equals != message.npos) {
    const std::string name = message.substr(kConvert.size(), equals - kConvert.size());
    const CLI::Option* const option = command.get_option_no_throw(name);
    const std::string type = option == nullptr ? "" : option->get_type_name();
    return Formatted("{}: got '{}', expected {}", name, message.substr(equals + 3),
                     type.starts_with("UINT")    ? "a whole number of 0 or more"
                     : type.starts_with("INT")   ? "a whole number"
                     : type.starts_with("FLOAT") ? "a number"
                                                 : "another value");
  }
  int least = 0, got = 0;
  const size_t at = message.find(": At least ");
  if (at == message.npos ||
      std::sscanf(message.c_str() + at, ": At least %d required but received %d", &least, &got) != 2)
    return message;
  return Formatted("{}: got {}, expected {}", message.substr(0, at), got, least);
}

// Describes a usage error in one line that begins with the command. An unknown word is reported before a missing one,
// with the nearest known word, or all of them if none is near:
//
//   tare eval: unknown option '--taks'; the nearest is --tasks
//   tare bench: got no command, expected one of forward linear attention
std::string WhatIsWrong(const CLI::App& app, const CLI::ParseError& error) {
  const CLI::App* innermost = &app;
  std::string path = app.get_name();
  while (!innermost->get_subcommands().empty()) {
    innermost = innermost->get_subcommands().front();
    path += " " + innermost->get_name();
  }
  const std::vector<std::string> unknown = app.remaining(true), commands = CommandsOf(*innermost);
  if (unknown.empty() && innermost->get_require_subcommand_min() > 0)
    return Formatted("{}: got no command, expected one of {}", path, Joined(commands, ""));
  if (unknown.empty()) return Formatted("{}: {}", path, InOurWords(*innermost, error.what()));
  const std::string& word = unknown.front();
  const std::string dashes = word.starts_with("-") ? "--" : "";
  const std::vector<std::string> known = word.starts_with("-") ? OptionNamesOf(*innermost) : commands;
  if (known.empty()) return Formatted("{}: unknown word '{}'", path, word);
  const std::string name = word.substr(0, word.find('='));
  const std::string* const nearest = NearestOf(name.substr(std::min(name.find_first_not_of('-'), name.size())), known);
  return Formatted(
      "{}: unknown {} '{}'; {}", path, dashes.empty() ? "command" : "option", word,
      nearest != nullptr ? "the nearest is " + dashes + *nearest : "expected one of " + Joined(known, dashes));
}

}  // namespace
}  // namespace tare

namespace {

// "7f0000000000-7f0000010000 r--p 00000000 08:01 123   /path": the path of the line that holds an address.
std::string MappedFileAt(uintptr_t address) {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    uintptr_t begin = 0, end = 0;
    const char* const last = line.data() + line.size();
    const auto dash = std::from_chars(line.data(), last, begin, 16);
    if (dash.ptr == last || std::from_chars(dash.ptr + 1, last, end, 16).ptr == last) continue;
    if (begin <= address && address < end && line.contains('/')) return line.substr(line.find('/'));
  }
  return "a mapped file";
}

// A mapped file became shorter while it was read. Nothing can continue; unfinished output stays under its temporary
// name. Reading a lost page interrupts no library call, so any function may be called here. Several threads may arrive
// at once: the first reports for all.
void StopOnLostPage(int, siginfo_t* info, void*) {
  static std::atomic_flag said;
  while (said.test_and_set()) pause();
  const std::string path = MappedFileAt(reinterpret_cast<uintptr_t>(info->si_addr));
  std::fprintf(stderr, "tare: %s: became shorter while it was read; try again when nothing writes to it\n",
               path.c_str());
  _exit(1);
}

void StopOnSignals() {
  struct sigaction action = {};
  action.sa_handler = [](int) { tare::RequestStop(); };
  action.sa_flags = SA_RESETHAND | SA_ONSTACK;  // a second Ctrl-C ends the process at once; signal_stack.h
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
  struct sigaction hangup = {};
  sigaction(SIGHUP, nullptr, &hangup);
  if (hangup.sa_handler != SIG_IGN) sigaction(SIGHUP, &action, nullptr);  // nohup ignores it
  struct sigaction lost = {};
  lost.sa_sigaction = StopOnLostPage;
  lost.sa_flags = SA_SIGINFO | SA_ONSTACK;
  sigaction(SIGBUS, &lost, nullptr);
  std::signal(SIGXFSZ, SIG_IGN);  // a file-size limit then fails the write, like a full disk
}

// The first file to be opened would get the number of one that is closed, and what is printed with it.
void OpenStandardFiles() {
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (fcntl(fd, F_GETFD) >= 0 || errno != EBADF) continue;
    const int opened = open("/dev/null", fd == STDIN_FILENO ? O_RDONLY : O_WRONLY);
    if (fd == STDOUT_FILENO && opened == fd) tare::Fail("standard output: got none, it is closed; try > /dev/null");
  }
}

// In the user's folder for what may be removed at any time, as the XDG base directory specification has it.
void RememberHashes() {
  const auto folder = [](const char* variable) {
    const char* const value = std::getenv(variable);
    return std::filesystem::path(value != nullptr && value[0] == '/' ? value : "");
  };
  const std::filesystem::path caches = folder("XDG_CACHE_HOME"), home = folder("HOME");
  if (!caches.empty()) return tare::RememberHashesIn(caches / "tare");
  if (!home.empty()) tare::RememberHashesIn(home / ".cache" / "tare");
}

// As OpenMP's users know it.
void ObeyWaitPolicy() {
  const char* const set = std::getenv("OMP_WAIT_POLICY");
  const std::string_view policy(set == nullptr ? "" : set);
  if (policy == "passive" || policy == "PASSIVE") tare::ThreadPool::SpinFor(std::chrono::microseconds(0));
  if (policy == "active" || policy == "ACTIVE") tare::ThreadPool::SpinFor(std::chrono::milliseconds(10));
}

int Fail(const char* message, int code = 1) {
  std::fflush(stdout);
  std::fprintf(stderr, "tare: %s\n", message);
  return code;
}

// "--records -" would make a file of this name, where --json - is standard output.
void RefuseDashes(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    for (const std::string_view name : {"--records", "--csv"}) {
      if ((argv[i] == name && i + 1 < argc && argv[i + 1] == std::string_view("-")) ||
          argv[i] == std::string(name) + "=-")
        tare::FailUsage("{}: got -, expected a file; only --json - is standard output; try {} ./-", name, name);
    }
  }
}

int Run(int argc, char** argv) {
  CLI::App app{"Tare measures what low-bit quantization costs Differential Transformers and standard Transformers.",
               "tare"};
  app.formatter(std::make_shared<tare::HelpFormatter>());
  app.set_version_flag("--version", "tare " TARE_VERSION);
  app.require_subcommand(1);
  app.footer(tare::Examples({"tare inspect experiments/pair/novels-differential", "tare eval --help"}));
  tare::AddInspect(app);
  tare::AddPlan(app);
  tare::AddDump(app);
  tare::AddStats(app);
  tare::AddEval(app);
  tare::AddGenerate(app);
  tare::AddQuantize(app);
  tare::AddConvert(app);
  tare::AddVerify(app);
  tare::AddSweep(app);
  tare::AddCompare(app);
  tare::AddAttribute(app);
  tare::AddMaps(app);
  tare::AddLevels(app);
  tare::AddSearch(app);
  tare::AddTokenize(app);
  tare::AddMake(app);
  tare::AddProbe(app);
  tare::AddBench(app);
  tare::AddReport(app);
  tare::AddPlot(app);
  tare::AddCompletion(app);
  tare::AddManual(app);
  tare::CheckValues(app);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() != static_cast<int>(CLI::ExitCodes::Success)) {
      std::fprintf(stderr, "%s\nRun with --help for more information.\n", tare::WhatIsWrong(app, error).c_str());
      return 2;
    }
    app.exit(error);  // --help, --version
  }
  // The last flush tells nothing of writes that failed before it.
  return std::fflush(stdout) == 0 && std::ferror(stdout) == 0
             ? 0
             : Fail("standard output: cannot be written; try freeing space, or another place for it");
}

}  // namespace

int main(int argc, char** argv) {
  StopOnSignals();
  tare::OnNotice([](const std::string& text) { std::fprintf(stderr, "tare: warning: %s\n", text.c_str()); });
  try {
    OpenStandardFiles();
    ObeyWaitPolicy();
    RememberHashes();
    RefuseDashes(argc, argv);
    tare::KeepCommand(argc, argv);
    if (const char* isa = std::getenv("TARE_MAX_ISA")) tare::LimitInstructions(isa);
    return Run(argc, argv);
  } catch (const tare::UsageError& error) {
    return Fail(error.what(), 2);
  } catch (const tare::Error& error) {
    return Fail(error.what());
  } catch (const std::bad_alloc&) {
    return Fail(("out of memory" + tare::MemoryLimits() +
                 "; try a shorter --window if the command has one, a smaller model, or a machine with more")
                    .c_str());
  } catch (const std::filesystem::filesystem_error& error) {
    return Fail((error.path1().string() + ": " + error.code().message() + "; try checking the path and its permissions")
                    .c_str());
  } catch (const std::exception& error) {
    return Fail((std::string("internal error: ") + error.what() +
                 "; is memory short? If not, please report it with the command")
                    .c_str());
  }
}
