// SPDX-License-Identifier: Apache-2.0
#include "tests/attack/waiting_program.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <stdexcept>

namespace tare::attack {

WaitingProgram::WaitingProgram(const std::string& program, const std::filesystem::path& library) {
  std::array<int, 2> ends{};
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) != 0)
    throw std::runtime_error("socketpair failed");
  pid_ = fork();
  if (pid_ < 0) throw std::runtime_error("fork failed");
  if (pid_ == 0) {
    setenv("LD_PRELOAD", library.c_str(), 1);
    setenv(kSocketVariable, std::to_string(ends[1]).c_str(), 1);
    const char* options = getenv("ASAN_OPTIONS");  // which wants to be the first library otherwise
    setenv("ASAN_OPTIONS", (std::string(options == nullptr ? "" : options) + ":verify_asan_link_order=0").c_str(), 1);
    fcntl(ends[1], F_SETFD, 0);
    execl(program.c_str(), program.c_str(), nullptr);
    _exit(127);
  }
  close(ends[1]);
  socket_ = ends[0];
  pid_t ready = 0;
  if (recv(socket_, &ready, sizeof ready, 0) != sizeof ready || ready != pid_)
    throw std::runtime_error(program + " does not wait with " + library.string());
}

WaitingProgram::~WaitingProgram() {
  close(socket_);
  waitpid(pid_, nullptr, 0);
}

pid_t WaitingProgram::Start(const std::filesystem::path& folder, const std::filesystem::path& out,
                            const std::filesystem::path& err, const Limits& limits, const Words& words) {
  const RunLimits run{limits.file_bytes, limits.address_bytes, limits.open_files};
  std::string message(reinterpret_cast<const char*>(&run), sizeof run);
  for (const std::string& path : {folder.string(), out.string(), err.string()})
    message.append(path.c_str(), path.size() + 1);
  for (const std::string& word : words) message.append(word.c_str(), std::char_traits<char>::length(word.c_str()) + 1);
  constexpr size_t kLongest = 64 << 10;  // a socket's buffer holds three of them
  if (message.size() > kLongest) return 0;
  pid_t pid = 0;
  if (send(socket_, message.data(), message.size(), MSG_NOSIGNAL) < 0 ||
      recv(socket_, &pid, sizeof pid, 0) != sizeof pid)
    throw std::runtime_error("a waiting program is gone");
  return pid;
}

int WaitingProgram::Status() const {
  int status = 0;
  if (recv(socket_, &status, sizeof status, 0) != sizeof status) throw std::runtime_error("a waiting program is gone");
  return status;
}

}  // namespace tare::attack
