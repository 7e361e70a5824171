// SPDX-License-Identifier: Apache-2.0
// The tare command. Exit codes: 0 done, 1 failed (bad input, full disk, interrupted), 2 wrong usage.
#include <csignal>
#include <cstdio>
#include <exception>
#include <new>

#include "quant/base/error.h"
#include "quant/base/interrupt.h"
#include "tools/command.h"

namespace {

void StopOnSignals() {
  struct sigaction action = {};
  action.sa_handler = [](int) { tare::RequestStop(); };
  action.sa_flags = SA_RESETHAND;  // a second Ctrl-C ends the process at once
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
  std::signal(SIGXFSZ, SIG_IGN);  // a file-size limit then fails the write, like a full disk
}

int Fail(const char* message) {
  std::fflush(stdout);
  std::fprintf(stderr, "tare: %s\n", message);
  return 1;
}

int Run(int argc, char** argv) {
  CLI::App app{"Tare measures what low-bit quantization costs Differential Transformers and standard ones.", "tare"};
  app.set_version_flag("--version", "tare " TARE_VERSION);
  app.require_subcommand(1);
  tare::AddInspect(app);
  tare::AddDump(app);
  tare::AddStats(app);
  tare::AddEval(app);
  tare::AddQuantize(app);
  tare::AddVerify(app);
  tare::AddSweep(app);
  tare::AddBench(app);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (app.exit(error) != 0) return 2;
  }
  // The last flush tells nothing of writes that failed before it.
  return std::fflush(stdout) == 0 && std::ferror(stdout) == 0
             ? 0
             : Fail("standard output: cannot be written; is the disk full?");
}

}  // namespace

int main(int argc, char** argv) {
  StopOnSignals();
  try {
    return Run(argc, argv);
  } catch (const tare::Error& error) {
    return Fail(error.what());
  } catch (const std::bad_alloc&) {
    return Fail("out of memory; try a shorter --window or fewer tokens");
  } catch (const std::exception& error) {
    return Fail(error.what());
  }
}
