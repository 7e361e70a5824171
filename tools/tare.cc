// SPDX-License-Identifier: Apache-2.0
// The tare command. Exit codes: 0 done, 1 failed (bad input, full disk, interrupted), 2 wrong usage.
#include <unistd.h>

#include <atomic>
#include <charconv>
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

#include "kernels/product/instruction_set.h"
#include "quant/base/error.h"
#include "quant/base/interrupt.h"
#include "quant/base/memory.h"
#include "quant/base/notice.h"
#include "tools/command.h"
#include "tools/help.h"
#include "tools/usage.h"

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

// A mapped file became shorter while it was read. Nothing can go on: what was being written stays under its temporary
// name. The read of a page that is gone interrupts no call of a library, so that this may call what it likes.
// Several threads may come here at once: the first speaks for all.
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
  action.sa_flags = SA_RESETHAND;  // a second Ctrl-C ends the process at once
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
  struct sigaction lost = {};
  lost.sa_sigaction = StopOnLostPage;
  lost.sa_flags = SA_SIGINFO;
  sigaction(SIGBUS, &lost, nullptr);
  std::signal(SIGXFSZ, SIG_IGN);  // a file-size limit then fails the write, like a full disk
}

int Fail(const char* message) {
  std::fflush(stdout);
  std::fprintf(stderr, "tare: %s\n", message);
  return 1;
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
  tare::AddSearch(app);
  tare::AddTokenize(app);
  tare::AddMake(app);
  tare::AddBench(app);
  tare::AddReport(app);
  tare::AddPlot(app);
  tare::AddCompletion(app);
  tare::AddManual(app);
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
             : Fail("standard output: cannot be written; is the disk full?");
}

}  // namespace

int main(int argc, char** argv) {
  StopOnSignals();
  tare::OnNotice([](const std::string& text) { std::fprintf(stderr, "tare: warning: %s\n", text.c_str()); });
  try {
    tare::KeepCommand(argc, argv);
    if (const char* isa = std::getenv("TARE_MAX_ISA")) tare::LimitInstructions(isa);
    return Run(argc, argv);
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
