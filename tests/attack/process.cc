// SPDX-License-Identifier: Apache-2.0
#include "tests/attack/process.h"

#include <poll.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <ctime>
#include <stdexcept>

#include "tests/attack/waiting_program.h"
#include "tests/quant/file/temporary_folder.h"

namespace tare::attack {
Process::Process(const std::filesystem::path& folder, const Words& command, const Limits& limits,
                 const std::string& name, WaitingProgram* waiting)
    : out_(folder.parent_path() / (name + ".out")),
      err_(folder.parent_path() / (name + ".err")),
      start_(std::chrono::steady_clock::now()) {
  if (waiting != nullptr) pid_ = waiting->Start(folder, out_, err_, limits, command);
  if (pid_ != 0) {
    waiting_ = waiting;
    handle_ = waiting->socket();
    return;
  }
  std::vector<char*> words;
  for (const std::string& word : command) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  pid_ = fork();
  if (pid_ < 0) throw std::runtime_error("fork failed");
  if (pid_ == 0) {
    if (Enter(folder.c_str(), out_.c_str(), err_.c_str(), limits)) execv(words[0], words.data());
    _exit(127);
  }
  handle_ = static_cast<int>(syscall(SYS_pidfd_open, pid_, 0));
  if (handle_ < 0) throw std::runtime_error("pidfd_open failed");
}

Process::~Process() {
  if (pid_ > 0) {
    kill(pid_, SIGKILL);
    Status();
  }
  if (waiting_ == nullptr) close(handle_);
}

int Process::Status() {
  int status = 0;
  if (waiting_ != nullptr) {
    status = waiting_->Status();
  } else {
    waitpid(pid_, &status, 0);
  }
  pid_ = 0;
  return status;
}

bool Process::EndsWithin(std::chrono::microseconds time) const {
  pollfd ended{handle_, POLLIN, 0};
  const timespec wait{time.count() / 1'000'000, time.count() % 1'000'000 * 1000};
  return ppoll(&ended, 1, &wait, nullptr) > 0;
}

// A machine that gives it next to no time does not make it hang: processor time counts, or six times as much of ours.
bool Process::EndsInTime(std::chrono::milliseconds patience) const {
  constexpr std::chrono::milliseconds kLook(500);
  clockid_t clock = 0;
  for (auto waited = kLook; waited <= 6 * patience; waited += kLook) {
    if (EndsWithin(kLook)) return true;
    timespec used{};
    if (clock_getcpuclockid(pid_, &clock) != 0 || clock_gettime(clock, &used) != 0) continue;  // just ended
    if (std::chrono::seconds(used.tv_sec) >= patience) return false;
  }
  return false;
}

End Process::Wait(std::chrono::milliseconds patience, const Strike& strike) {
  End end;
  if (strike.signal != 0 && !EndsWithin(strike.after)) kill(pid_, strike.signal);
  if (!EndsInTime(patience)) {
    end.hung = true;
    kill(pid_, SIGKILL);
  }
  const int status = Status();
  end.time = std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::steady_clock::now() - start_);
  if (WIFEXITED(status)) end.exit_code = WEXITSTATUS(status);
  if (WIFSIGNALED(status)) end.signal = WTERMSIG(status);
  end.out = GetFile(out_);
  end.err = GetFile(err_);
  return end;
}

}  // namespace tare::attack
