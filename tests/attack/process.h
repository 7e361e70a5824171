// SPDX-License-Identifier: Apache-2.0
// One run of a program in a folder: under limits, interrupted by a signal after a while, and killed if it does not end.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <filesystem>
#include <string>
#include <vector>

#include "tests/attack/enter.h"

namespace tare::attack {

using Words = std::vector<std::string>;

struct Strike {
  int signal = 0;  // 0: none
  std::chrono::microseconds after{0};
};

struct End {
  int exit_code = -1;  // -1: a signal ended it
  int signal = 0;
  bool hung = false;  // ended here, after its time
  std::chrono::microseconds time{0};
  std::string out, err;

  bool Done() const { return exit_code == 0; }
};

class WaitingProgram;

class Process {
 public:
  // Starts at once, by the waiting program where there is one. What it prints goes to files of that name beside the
  // folder.
  Process(const std::filesystem::path& folder, const Words& command, const Limits& limits = {},
          const std::string& name = "run", WaitingProgram* waiting = nullptr);
  Process(const Process&) = delete;
  ~Process();

  // patience: of processor time.
  End Wait(std::chrono::milliseconds patience, const Strike& strike = {});

 private:
  bool EndsWithin(std::chrono::microseconds time) const;
  bool EndsInTime(std::chrono::milliseconds patience) const;
  int Status();  // waits for the end

  WaitingProgram* waiting_ = nullptr;

  std::filesystem::path out_, err_;
  std::chrono::steady_clock::time_point start_;
  pid_t pid_ = 0;
  int handle_ = -1;  // readable once it ended
};

}  // namespace tare::attack
