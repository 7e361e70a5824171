// SPDX-License-Identifier: Apache-2.0
// AppendLine and ReadLines of atomic_file.h.
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "quant/base/error.h"
#include "quant/file/atomic_file.h"
#include "quant/file/mapped_file.h"
#include "quant/file/write_failure.h"

namespace tare {
namespace {

namespace fs = std::filesystem;

// Closes on the way out.
class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(const Descriptor&) = delete;
  ~Descriptor() {
    if (fd_ >= 0) close(fd_);
  }
  int get() const { return fd_; }

 private:
  int fd_;
};

// Length of the part that consists of whole lines: up to the last newline, looked for backwards, in steps.
off_t WholeLines(int fd, off_t size) {
  char step[4096];
  for (off_t end = size; end > 0;) {
    const off_t begin = std::max<off_t>(0, end - static_cast<off_t>(sizeof step));
    const size_t count = static_cast<size_t>(end - begin);
    if (pread(fd, step, count, begin) != static_cast<ssize_t>(count)) return size;  // not readable: leave it alone
    const void* newline = memrchr(step, '\n', count);
    if (newline != nullptr) return begin + (static_cast<const char*>(newline) - step) + 1;
    end = begin;
  }
  return 0;
}

}  // namespace

void AppendLine(const fs::path& path, std::string_view line) {
  TARE_CHECK(line.find('\n') == line.npos);
  const std::shared_ptr<const OpenFolder> folder = OpenFolder::Of(FolderOf(path));
  if (folder == nullptr) FailToOpenFolderOf(path, errno);
  const Descriptor file(openat(folder->fd(), path.filename().c_str(), O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC, 0666));
  if (file.get() < 0) FailToCreate(path, errno);
  // Two processes may append to one file, and what is cut off below must not be the other's.
  struct stat status;
  if (flock(file.get(), LOCK_EX) != 0 || fstat(file.get(), &status) != 0) FailToWrite(path, errno);
  const off_t whole = WholeLines(file.get(), status.st_size);
  if (whole < status.st_size && ftruncate(file.get(), whole) != 0) FailToWrite(path, errno);
  const std::string record = std::string(line) + '\n';
  const ssize_t written = write(file.get(), record.data(), record.size());
  const int error = written < 0 ? errno : ENOSPC;
  if (written != static_cast<ssize_t>(record.size())) {
    if (written > 0 && ftruncate(file.get(), whole) != 0) FailToWrite(path, errno);
    FailToWrite(path, error);
  }
  if (fdatasync(file.get()) != 0 && errno != EINVAL) FailToWrite(path, errno);
  if (status.st_size == 0) SyncFolder(*folder, path);
}

std::vector<std::string> ReadLines(const fs::path& path) {
  std::vector<std::string> lines;
  std::error_code error;  // what cannot be looked at counts as not there
  if (!fs::exists(path, error)) return lines;
  const MappedFile file(path);
  std::string_view text = file.text();
  for (size_t end; (end = text.find('\n')) != text.npos; text.remove_prefix(end + 1))
    lines.emplace_back(text.substr(0, end));
  return lines;
}

}  // namespace tare
