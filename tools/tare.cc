// SPDX-License-Identifier: Apache-2.0
// The tare command as a process: its signals, its standard files and its environment. program.h has its exit codes.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cctype>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <climits>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include "kernels/product/library_settings.h"
#include "quant/base/memory.h"
#include "quant/base/message.h"
#include "quant/base/parallel.h"
#include "quant/file/sha256.h"
#include "tools/program.h"

namespace tare {
const char* FileBeingRead();  // quant/file/hdf5_handle.h, which needs HDF5's headers
}

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

// A mapped file shrank while it was read. Nothing can continue; unfinished output stays under its temporary name.
// Reading a lost page interrupts no library call, so any function may be called. The first of several threads reports.
void StopOnLostPage(int, siginfo_t* info, void*) {
  static std::atomic_flag said;
  while (said.test_and_set()) pause();
  const std::string path = MappedFileAt(reinterpret_cast<uintptr_t>(info->si_addr));
  tare::PutError("tare: " + path + ": became shorter while it was read; try again when nothing writes to it\n");
  _exit(1);
}

// The HDF5 library crashes on some forged files.
void StopOnForgedFile(int signal, siginfo_t*, void*) {
  std::signal(signal, SIG_DFL);  // elsewhere the same instruction fails again
  const char* const name = tare::FileBeingRead();
  if (name == nullptr) return;
  char text[2 * PATH_MAX];  // memory of the heap may be damaged
  const int size = std::snprintf(text, sizeof text,
                                 "tare: %s: damaged: the HDF5 library cannot read it; try making it again\n", name);
  std::replace_if(text, text + size - 1, [](unsigned char c) { return std::iscntrl(c) != 0; }, '?');
  (void)!write(STDERR_FILENO, text, static_cast<size_t>(size));
  _exit(1);
}

volatile std::sig_atomic_t stopped_by = 0;
std::atomic<int64_t> stopped_at;  // milliseconds

// A second Ctrl-C ends the process at once, but not within 0.5 s: timeout(1) signals the process and then its group.
void Stop(int signal) {
  using namespace std::chrono;
  const int64_t now = duration_cast<milliseconds>(steady_clock::now().time_since_epoch()).count();
  if (stopped_by == 0) {
    stopped_by = signal;
    stopped_at = now;
    tare::RequestStop();
  } else if (now - stopped_at > 500) {
    std::signal(signal, SIG_DFL);
    std::raise(signal);  // delivered when this has returned
  }
}

void StopOnSignals() {
  struct sigaction action = {};
  action.sa_handler = Stop;
  action.sa_flags = SA_ONSTACK;  // parallel.h
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
  struct sigaction before = {}, lost = {};
  sigaction(SIGHUP, nullptr, &before);
  if (before.sa_handler != SIG_IGN) sigaction(SIGHUP, &action, nullptr);  // nohup ignores it
  sigaction(SIGPIPE, nullptr, &before);
  if (before.sa_handler == SIG_DFL) {  // the print that fails cleans up first (ReaderEnded)
    action.sa_handler = [](int) {};
    sigaction(SIGPIPE, &action, nullptr);
  }
  lost.sa_sigaction = StopOnLostPage;
  lost.sa_flags = SA_SIGINFO | SA_ONSTACK;
  sigaction(SIGBUS, &lost, nullptr);
  lost.sa_sigaction = StopOnForgedFile;
  sigaction(SIGSEGV, &lost, nullptr);
  sigaction(SIGFPE, &lost, nullptr);
  std::signal(SIGXFSZ, SIG_IGN);  // a file-size limit then fails the write, like a full disk
}

// The first file to be opened would get the number of one that is closed, and what is printed with it.
void OpenStandardFiles() {
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (fcntl(fd, F_GETFD) >= 0 || errno != EBADF) continue;
    const int opened = open("/dev/null", fd == STDIN_FILENO ? O_RDONLY : O_WRONLY);
    if (fd == STDOUT_FILENO && opened == fd) tare::Fail("standard output: got none, it is closed; try > /dev/null");
  }
}

// In the user's folder for what may be removed at any time, as the XDG base directory specification has it.
void RememberHashes() {
  const auto folder = [](const char* variable) {
    const char* const value = std::getenv(variable);
    return std::filesystem::path(value != nullptr && value[0] == '/' ? value : "");
  };
  const std::filesystem::path caches = folder("XDG_CACHE_HOME"), home = folder("HOME");
  if (!caches.empty()) return tare::RememberHashesIn(caches / "tare");
  if (!home.empty()) tare::RememberHashesIn(home / ".cache" / "tare");
}

// As OpenMP's users know it.
void ObeyWaitPolicy() {
  const char* const set = std::getenv("OMP_WAIT_POLICY");
  const std::string_view policy(set == nullptr ? "" : set);
  if (policy == "passive" || policy == "PASSIVE") tare::ThreadPool::SpinFor(std::chrono::microseconds(0));
  if (policy == "active" || policy == "ACTIVE") tare::ThreadPool::SpinFor(std::chrono::milliseconds(10));
}

// Libraries read variables that change results (ONEDNN_DEFAULT_FPMATH_MODE), threads (OMP_THREAD_LIMIT) or opening
// (HDF5_DRIVER), write files (ONEDNN_JIT_DUMP) or load code (HDF5_PLUGIN_PATH, OPENSSL_CONF, INTEL_LIBITTNOTIFY64).
constexpr std::string_view kOfLibraries[] = {"HDF5_",    "H5",     "ONEDNN_", "DNNL_", "ICU_",
                                             "OPENSSL_", "INTEL_", "OMP_",    "GOMP_", "KMP_"};
// An OMP_WAIT_POLICY that OpenMP does not know it would print as it is.
constexpr std::string_view kMayStay[] = {"OMP_WAIT_POLICY=passive", "OMP_WAIT_POLICY=PASSIVE", "OMP_WAIT_POLICY=active",
                                         "OMP_WAIT_POLICY=ACTIVE"};

// Called by the loader before what libraries do (OpenMP looks before main). ONEDNN_VERBOSE may stay: it only shows.
void ForgetVariablesOfLibraries(int, char**, char** variables) {
  char** kept = variables;
  for (; *variables != nullptr; ++variables) {
    const std::string_view variable(*variables);
    const bool stays = variable.starts_with("ONEDNN_VERBOSE=") || std::ranges::contains(kMayStay, variable);
    const auto begins = [&](std::string_view begin) { return variable.starts_with(begin); };
    if (stays || std::ranges::none_of(kOfLibraries, begins)) *kept++ = *variables;
  }
  *kept = nullptr;
}
[[gnu::section(".preinit_array"), gnu::used]] auto* const before_libraries = &ForgetVariablesOfLibraries;

void Prepare() {
  OpenStandardFiles();
  tare::RequireRoom();
  setenv("HDF5_PLUGIN_PRELOAD", "::", 1);  // HDF5's word for no plugins, also of its own folder
  ObeyWaitPolicy();
  RememberHashes();
  if (const char* isa = std::getenv("TARE_MAX_ISA")) tare::LimitInstructions(isa);
  tare::MeetOneDnn();
}

}  // namespace

// An interrupted command has cleaned up and ends by its signal (130 in the shell), or a shell's loop would go on.
int main(int argc, char** argv) {
  StopOnSignals();
  const int code = tare::RunProgram(argc, argv, Prepare);
  if (code != 0 && stopped_by != 0) {
    std::fflush(nullptr);
    std::signal(stopped_by, SIG_DFL);
    std::raise(stopped_by);
  }
  return code;
}
