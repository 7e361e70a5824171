// SPDX-License-Identifier: Apache-2.0
// A program with its libraries loaded, stopped before main. It forks for each run, which saves the loader's time (about
// 20 of 40 ms per run, and 100 ms under the sanitizers). waiting_main.cc is its other side, a library that is loaded
// first.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <string>

#include "tests/attack/process.h"

namespace tare::attack {

class WaitingProgram {
 public:
  // Throws std::runtime_error where the program does not start with the library.
  WaitingProgram(const std::string& program, const std::filesystem::path& library);
  WaitingProgram(const WaitingProgram&) = delete;
  ~WaitingProgram();

  // Runs main with the words, in the folder, printing to the files; one run at a time. Returns the run's process, or 0
  // where the words are too many for a message.
  pid_t Start(const std::filesystem::path& folder, const std::filesystem::path& out, const std::filesystem::path& err,
              const Limits& limits, const Words& words);
  int socket() const { return socket_; }  // readable once the run ended
  int Status() const;                     // as waitpid gives it; waits for it

 private:
  pid_t pid_ = 0;
  int socket_ = -1;
};

// What Start sends: the limits, then folder, out, err and the words, each with the zero that ends it.
struct RunLimits {
  rlim_t file_bytes, address_bytes, open_files;
};

inline constexpr char kSocketVariable[] = "TARE_ATTACK_SOCKET";

}  // namespace tare::attack
