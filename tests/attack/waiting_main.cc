// SPDX-License-Identifier: Apache-2.0
// Loaded before a program (LD_PRELOAD), it replaces main: it waits on a socket and forks for every requested run
// (waiting_program.h). In the child, the program's main runs as if freshly started: no thread has been started yet, and
// no file opened.
#include <dlfcn.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "tests/attack/enter.h"
#include "tests/attack/waiting_program.h"

namespace {

using tare::attack::RunLimits;
using Main = int (*)(int, char**, char**);

Main g_main = nullptr;

// The child's part: sets itself up as Start said, and is the program from there on.
[[noreturn]] void Run(std::vector<char>& message, char** environment) {
  RunLimits run;
  std::memcpy(&run, message.data(), sizeof run);
  std::vector<char*> words;
  for (char* at = message.data() + sizeof run; at < message.data() + message.size(); at += std::strlen(at) + 1)
    words.push_back(at);
  if (!tare::attack::Enter(words[0], words[1], words[2], {run.file_bytes, run.address_bytes, run.open_files}))
    _exit(127);
  words.erase(words.begin(), words.begin() + 3);
  const int count = static_cast<int>(words.size());
  words.push_back(nullptr);
  std::exit(g_main(count, words.data(), environment));
}

int Wait(int argc, char** argv, char** environment) {
  const char* number = getenv(tare::attack::kSocketVariable);
  if (number == nullptr) return g_main(argc, argv, environment);
  const int socket = std::atoi(number);
  unsetenv(tare::attack::kSocketVariable);
  unsetenv("LD_PRELOAD");
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  const pid_t self = getpid();
  send(socket, &self, sizeof self, 0);
  std::vector<char> message(1 << 17);
  for (;;) {
    const ssize_t length = recv(socket, message.data(), message.size(), 0);
    if (length <= 0) _exit(0);
    const pid_t pid = fork();
    if (pid == 0) {
      close(socket);
      message.resize(static_cast<size_t>(length));
      Run(message, environ);
    }
    send(socket, &pid, sizeof pid, 0);
    int status = 0;
    waitpid(pid, &status, 0);
    send(socket, &status, sizeof status, 0);
  }
}

}  // namespace

extern "C" int __libc_start_main(Main main, int argc, char** argv, void (*init)(), void (*fini)(), void (*unload)(),
                                 void* stack_end) {
  g_main = main;
  using Start = decltype(&__libc_start_main);
  const auto start = reinterpret_cast<Start>(dlsym(RTLD_NEXT, "__libc_start_main"));
  return start(&Wait, argc, argv, init, fini, unload, stack_end);
}
