// SPDX-License-Identifier: Apache-2.0
// Runs a command of the program inside this process, which takes a start of the program less than StartTare of
// run_command.h. Where the process itself is tested (its exit code, signals, limits, environment, standard files that
// are closed or full), that one starts it.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <string>
#include <vector>

#include "tests/support/run_command.h"
#include "tools/program.h"

namespace tare {

// A standard stream writes to a file for as long as this lives.
class WritesTo {
 public:
  WritesTo(FILE* stream, const std::string& path) : stream_(stream), fd_(fileno(stream)) {
    std::fflush(stream_);
    before_ = dup(fd_);
    const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0666);
    if (before_ < 0 || file < 0 || dup2(file, fd_) < 0) throw std::runtime_error(path + ": cannot be written");
    close(file);
  }
  WritesTo(const WritesTo&) = delete;
  ~WritesTo() {
    std::fflush(stream_);
    dup2(before_, fd_);
    close(before_);
  }

 private:
  FILE* stream_;
  int fd_, before_ = -1;
};

inline Outcome CallTare(const std::vector<std::string>& arguments) {
  const TemporaryFolder folder;
  const std::string out = folder / "out", err = folder / "err";
  std::vector<std::string> command = TareCommand(arguments);
  std::vector<char*> argv;
  for (std::string& word : command) argv.push_back(word.data());
  argv.push_back(nullptr);
  int exit_code = 0;
  {
    const WritesTo file(stdout, out), errors(stderr, err);
    exit_code = RunProgram(static_cast<int>(command.size()), argv.data(), [] {});
  }
  return {exit_code, GetFile(out), GetFile(err)};
}

}  // namespace tare
