// SPDX-License-Identifier: Apache-2.0
#include "quant/file/files_of_run.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <map>
#include <mutex>
#include <set>
#include <span>

#include "quant/base/message.h"
#include "quant/file/output_folder.h"

namespace tare {
namespace {

namespace fs = std::filesystem;

struct Noted {
  std::mutex mutex;
  bool running = false;
  std::map<FileIdentity, std::string> inputs;  // and the folder that was named instead; "" for a file
  std::map<fs::path, std::pair<FileIdentity, std::string>> outputs;  // with the name that was given
  std::set<FileIdentity> own;
};

// Locked as long as the second lives.
std::pair<Noted&, std::unique_lock<std::mutex>> AllNoted() {
  static Noted noted;
  return {noted, std::unique_lock(noted.mutex)};
}

[[noreturn]] void Refuse(const std::string& output, const std::string& folder) {
  if (folder.empty()) Fail("{}: is both an input and an output; try another name for the output", output);
  Fail("{}: is a file of the input {} and would be overwritten; try another output", output, folder);
}

FileIdentity FileAt(const fs::path& path) {
  struct stat status{};
  return stat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode) ? IdentityOf(status) : FileIdentity();
}

void Note(Noted& noted, const FileIdentity& file, const std::string& folder) {
  if (!noted.running || file == FileIdentity() || noted.own.contains(file)) return;
  for (const auto& [absolute, output] : noted.outputs) {
    if (output.first == file) Refuse(output.second, folder);
  }
  std::string& named = noted.inputs[file];
  if (named.empty()) named = folder;
}

constexpr std::string_view kStandardInput = "/dev/stdin";

// The open file that a path names; -1 for any other path.
int DescriptorIn(std::string_view path) {
  if (path == kStandardInput) return STDIN_FILENO;
  for (const std::string_view folder : {"/dev/fd/", "/proc/self/fd/"}) {
    if (path.starts_with(folder)) return ParseNumber<int>(path.substr(folder.size())).value_or(-1);
  }
  return -1;
}

// Up to so many bytes; none at the end. Looks up now and then, for a signal may come just before the wait begins. A
// named pipe that nobody has opened for writing yet reads as one at its end, but for poll.
size_t Read(int fd, std::span<char> bytes, const std::string& path) {
  const bool waits = (fcntl(fd, F_GETFL) & O_NONBLOCK) == 0;
  for (int looks = 1;; ++looks) {
    constexpr int kMilliseconds = 100, kLooks = 10;
    pollfd readable{.fd = fd, .events = POLLIN, .revents = 0};
    const int ready = poll(&readable, 1, kMilliseconds);
    ThrowIfStopped();  // also at the end: what wrote into the pipe may have been interrupted
    if (ready == 0 && waits) continue;
    const ssize_t got = read(fd, bytes.data(), bytes.size());
    if (got > 0 || (got == 0 && ready > 0)) return static_cast<size_t>(got);
    if (got == 0 && looks >= kLooks)
      Fail("{}: got a pipe that nobody writes into, expected a writer; try starting it first", path);
    if (got < 0 && errno != EINTR && errno != EAGAIN) Fail("{}: cannot read: {}", path, std::strerror(errno));
  }
}

void Write(int fd, std::string_view bytes, const std::string& path) {
  while (!bytes.empty()) {
    const ssize_t written = write(fd, bytes.data(), bytes.size());
    if (written < 0 && errno != EINTR)
      Fail("{}: cannot copy it to a temporary file: {}; try TMPDIR=FOLDER with more space", path, std::strerror(errno));
    if (written > 0) bytes.remove_prefix(static_cast<size_t>(written));
  }
}

// A file with all that can be read from an open one.
int NewCopy(int fd, const std::string& path) {
  std::error_code error;
  const fs::path folder = fs::temp_directory_path(error);
  int file = error ? -1 : open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, S_IRUSR | S_IWUSR);
  if (file < 0) file = memfd_create("pipe", MFD_CLOEXEC);
  if (file < 0) Fail("{}: cannot make a temporary file: {}", path, std::strerror(errno));
  std::array<char, 1 << 16> bytes;
  while (const size_t got = Read(fd, bytes, path)) Write(file, {bytes.data(), got}, path);
  lseek(file, 0, SEEK_SET);
  return file;
}

std::map<FileIdentity, int> copies;  // by the pipe

}  // namespace

FilesOfRun::FilesOfRun() {
  const auto [noted, lock] = AllNoted();
  noted.running = true;
}

FilesOfRun::~FilesOfRun() {
  const auto [noted, lock] = AllNoted();
  noted.running = false;
  noted.inputs.clear();
  noted.outputs.clear();
  noted.own.clear();
}

void NoteInput(const fs::path& path) {
  const auto [noted, lock] = AllNoted();
  Note(noted, FileAt(path), "");
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(path, error))
    Note(noted, FileAt(entry.path()), path.string());
}

void NoteOpened(const FileIdentity& file) {
  const auto [noted, lock] = AllNoted();
  Note(noted, file, "");
}

void NoteOutput(const FileIdentity& file, const fs::path& absolute, const fs::path& path) {
  RefuseInput(file, path);
  const auto [noted, lock] = AllNoted();
  if (file != FileIdentity()) noted.outputs[absolute] = {file, path.string()};
}

void ForgetOutput(const fs::path& absolute) {
  const auto [noted, lock] = AllNoted();
  noted.outputs.erase(absolute);
}

void RefuseInput(const FileIdentity& file, const fs::path& path) {
  const auto [noted, lock] = AllNoted();
  const auto input = noted.inputs.find(file);
  if (input != noted.inputs.end()) Refuse(path.string(), input->second);
}

void TakeForOwn(const fs::path& path) {
  const FileIdentity file = FileAt(path);
  RefuseInput(file, path);
  const auto [noted, lock] = AllNoted();
  if (noted.running && file != FileIdentity()) noted.own.insert(file);
}

// The system may give a new file the inode of an input that somebody removed.
void NoteMade(int fd) {
  struct stat status{};
  const auto [noted, lock] = AllNoted();
  if (!noted.running || fstat(fd, &status) != 0) return;
  noted.inputs.erase(IdentityOf(status));
  noted.own.insert(IdentityOf(status));
}

bool IsInput(int folder, const char* name) {
  struct stat status{};
  const auto [noted, lock] = AllNoted();
  return fstatat(folder, name, &status, 0) == 0 && noted.inputs.contains(IdentityOf(status));
}

int CopyOfPipe(int fd) {
  struct stat status{};
  if (fd < 0 || fstat(fd, &status) != 0 || !S_ISFIFO(status.st_mode)) return -1;
  const auto copy = copies.find(IdentityOf(status));
  return copy == copies.end() ? -1 : copy->second;
}

std::string FileOf(const std::string& path) {
  const std::string name(path == "-" ? kStandardInput : std::string_view(path));
  const int fd = DescriptorIn(name);
  struct stat status{};
  if (fd < 0 && stat(name.c_str(), &status) == 0 && S_ISFIFO(status.st_mode)) {
    const Descriptor pipe(open(name.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    if (pipe.get() >= 0) copies[IdentityOf(status)] = NewCopy(pipe.get(), name);
    return name;
  }
  if (fd < 0 || fstat(fd, &status) != 0 || (fcntl(fd, F_GETFL) & O_ACCMODE) == O_WRONLY) return name;
  // A file that a shell has read a part of goes on there.
  if (S_ISDIR(status.st_mode) || (S_ISREG(status.st_mode) && lseek(fd, 0, SEEK_CUR) <= 0)) return name;
  const Descriptor copy(NewCopy(fd, name));
  dup2(copy.get(), fd);
  return name;
}

std::vector<std::string> SplitNames(std::string_view list) {
  std::vector<std::string> names(1);
  for (size_t i = 0; i < list.size(); ++i) {
    const bool comma = list[i] == ',', twice = comma && list.substr(i + 1).starts_with(',');
    comma && !twice ? static_cast<void>(names.emplace_back()) : names.back().push_back(list[i]);
    if (twice) ++i;
  }
  return names;
}

}  // namespace tare
