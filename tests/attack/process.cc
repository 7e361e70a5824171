// SPDX-License-Identifier: Apache-2.0
#include "tests/attack/process.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <stdexcept>

#include "tests/quant/file/temporary_folder.h"

namespace tare::attack {
namespace {

constexpr int kWrite = O_WRONLY | O_CREAT | O_TRUNC;

bool Limit(__rlimit_resource resource, rlim_t value) {
  const rlimit limit{value, value};
  return value == RLIM_INFINITY || setrlimit(resource, &limit) == 0;
}

}  // namespace

Process::Process(const std::filesystem::path& folder, const Words& command, const Limits& limits,
                 const std::string& name)
    : out_(folder.parent_path() / (name + ".out")),
      err_(folder.parent_path() / (name + ".err")),
      start_(std::chrono::steady_clock::now()) {
  std::vector<char*> words;
  for (const std::string& word : command) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  pid_ = fork();
  if (pid_ < 0) throw std::runtime_error("fork failed");
  if (pid_ == 0) {
    const bool ready = chdir(folder.c_str()) == 0 && dup2(open("/dev/null", O_RDONLY), STDIN_FILENO) >= 0 &&
                       dup2(open(out_.c_str(), kWrite, 0666), STDOUT_FILENO) >= 0 &&
                       dup2(open(err_.c_str(), kWrite, 0666), STDERR_FILENO) >= 0 &&
                       close_range(STDERR_FILENO + 1, ~0U, CLOSE_RANGE_CLOEXEC) == 0 && Limit(RLIMIT_CORE, 0) &&
                       Limit(RLIMIT_FSIZE, limits.file_bytes) && Limit(RLIMIT_AS, limits.address_bytes) &&
                       Limit(RLIMIT_NOFILE, limits.open_files);
    if (ready) execv(words[0], words.data());
    _exit(127);
  }
  handle_ = static_cast<int>(syscall(SYS_pidfd_open, pid_, 0));
  if (handle_ < 0) throw std::runtime_error("pidfd_open failed");
}

Process::~Process() {
  if (pid_ > 0) {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  close(handle_);
}

bool Process::EndsWithin(std::chrono::microseconds time) const {
  pollfd ended{handle_, POLLIN, 0};
  const timespec wait{time.count() / 1'000'000, time.count() % 1'000'000 * 1000};
  return ppoll(&ended, 1, &wait, nullptr) > 0;
}

End Process::Wait(std::chrono::milliseconds patience, const Strike& strike) {
  End end;
  if (strike.signal != 0 && !EndsWithin(strike.after)) kill(pid_, strike.signal);
  if (!EndsWithin(patience)) {
    end.hung = true;
    kill(pid_, SIGKILL);
  }
  int status = 0;
  waitpid(pid_, &status, 0);
  pid_ = 0;
  end.time = std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::steady_clock::now() - start_);
  if (WIFEXITED(status)) end.exit_code = WEXITSTATUS(status);
  if (WIFSIGNALED(status)) end.signal = WTERMSIG(status);
  end.out = GetFile(out_);
  end.err = GetFile(err_);
  return end;
}

}  // namespace tare::attack
