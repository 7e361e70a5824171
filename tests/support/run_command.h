// SPDX-License-Identifier: Apache-2.0
// Starts the program as a user would: keeps exit code, standard output and standard error; can limit the size of its
// files (like a full disk), its memory or its open files; can interrupt it once something is seen to have happened.
// call_tare.h runs a command without a start.
#pragma once

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <functional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "tests/quant/file/temporary_folder.h"

namespace tare {

struct Outcome {
  int exit_code = 0;  // minus the signal's number where a signal ended it
  std::string out, err;
};

// The exit code of a refusal: 2, wrong usage, where the message says first that the fault is in an option or in a plan.
inline int RefusalCode(const std::string& err) {
  const size_t line = err.rfind("\ntare: ");  // after warnings
  const std::string message = line == err.npos ? err : err.substr(line + 1);
  return message.starts_with("tare: --") || message.starts_with("tare: plan") ? 2 : 1;
}

struct CommandSetting {
  std::filesystem::path standard_output = {}, standard_error = {};  // where they go instead of into the outcome
  rlim_t file_bytes = RLIM_INFINITY;  // no file of the command, standard output included, becomes larger
  rlim_t memory_bytes = RLIM_INFINITY, open_files = RLIM_INFINITY;
  std::vector<std::string> environment = {};  // NAME=VALUE, beside the test's own
};

inline bool Limit(__rlimit_resource resource, rlim_t most) {
  const rlimit limit{most, most};
  return most == RLIM_INFINITY || setrlimit(resource, &limit) == 0;
}

// LLVM's OpenMP, which sanitized programs have, warns where a full disk leaves no room for a file of its own.
inline std::string WithoutOpenMp(std::string lines) {
  while (lines.starts_with("OMP: Warning #179: ") && lines.contains('\n')) lines.erase(0, lines.find('\n') + 1);
  return lines;
}

class RunningCommand {
 public:
  explicit RunningCommand(std::vector<std::string> arguments, const CommandSetting& setting = {}) {
    const std::string out = setting.standard_output.empty() ? folder_ / "out" : setting.standard_output;
    const std::string err = setting.standard_error.empty() ? folder_ / "err" : setting.standard_error;
    std::vector<char*> argv;
    for (std::string& argument : arguments) argv.push_back(argument.data());
    argv.push_back(nullptr);
    process_ = fork();
    if (process_ < 0) throw std::runtime_error("fork failed");
    if (process_ > 0) return;
    const bool ready = dup2(open(out.c_str(), kWrite, 0666), STDOUT_FILENO) >= 0 &&
                       dup2(open(err.c_str(), kWrite, 0666), STDERR_FILENO) >= 0 &&
                       Limit(RLIMIT_FSIZE, setting.file_bytes) && Limit(RLIMIT_AS, setting.memory_bytes) &&
                       Limit(RLIMIT_NOFILE, setting.open_files);
    for (const std::string& variable : setting.environment) putenv(const_cast<char*>(variable.c_str()));
    if (ready) execv(argv[0], argv.data());
    _exit(127);
  }
  RunningCommand(const RunningCommand&) = delete;
  ~RunningCommand() {
    if (process_ <= 0) return;
    kill(process_, SIGKILL);
    waitpid(process_, nullptr, 0);
  }

  pid_t process() const { return process_; }

  // Sends the signal as soon as `seen` says so; nothing where the command ends before that.
  void SignalOnce(const std::function<bool()>& seen, int signal) {
    while (!Ended()) {
      if (seen()) {
        kill(process_, signal);
        return;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }

  Outcome Wait() {
    int status = 0;
    if (waitpid(process_, &status, 0) < 0) throw std::runtime_error("waitpid failed");
    process_ = 0;
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status), GetFile(folder_ / "out"),
            WithoutOpenMp(GetFile(folder_ / "err"))};
  }

 private:
  static constexpr int kWrite = O_WRONLY | O_CREAT | O_TRUNC | O_NOCTTY;

  bool Ended() const {
    siginfo_t info{};
    return waitid(P_PID, static_cast<id_t>(process_), &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid != 0;
  }

  TemporaryFolder folder_;
  pid_t process_ = 0;
};

inline std::vector<std::string> TareCommand(const std::vector<std::string>& arguments) {
  std::vector<std::string> command{TARE_BINARY_DIR "/tare"};
  command.insert(command.end(), arguments.begin(), arguments.end());
  return command;
}

inline Outcome StartTare(const std::vector<std::string>& arguments, const CommandSetting& setting = {}) {
  return RunningCommand(TareCommand(arguments), setting).Wait();
}

}  // namespace tare
