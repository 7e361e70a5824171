// SPDX-License-Identifier: Apache-2.0
#include "quant/file/atomic_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <utility>

#include "quant/base/error.h"
#include "quant/base/formatted.h"
#include "quant/file/held.h"
#include "quant/file/mapped_file.h"

namespace tare {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void FailToWrite(const fs::path& path, int error) {
  Fail("{}: writing failed: {}; try freeing space there, or write to another folder", path.string(),
       std::strerror(error));
}

[[noreturn]] void FailToCreate(const fs::path& path, int error) {
  Fail("{}: cannot write: {}; try checking the folder's permissions, or write to another", path.string(),
       std::strerror(error));
}

fs::path FolderOf(const fs::path& path) { return path.has_parent_path() ? path.parent_path() : fs::path("."); }

// What cannot be looked at counts as not there.
bool Exists(const fs::path& path) {
  std::error_code error;
  return fs::exists(path, error);
}

// Where a link leads, also to a file that is not there yet; a path that is no link, itself.
fs::path Through(fs::path path) {
  constexpr int kMostLinks = 40;  // as Linux follows
  std::error_code error;
  for (int links = 0; fs::is_symlink(path, error); ++links) {
    if (links == kMostLinks) Fail("{}: cannot write: the links form a circle; try another name", path.string());
    path = path.parent_path() / fs::read_symlink(path, error);
  }
  return path;
}

void CheckTarget(const fs::path& path) {
  if (path.filename().empty()) Fail("{}: got a folder, expected the name of a file", path.string());
  struct stat status;
  if (stat(FolderOf(path).c_str(), &status) != 0) {
    Fail("{}: cannot write: no folder {}; try mkdir -p first", path.string(), FolderOf(path).string());
  }
  if (!S_ISDIR(status.st_mode)) Fail("{}: cannot write: {} is not a folder", path.string(), FolderOf(path).string());
  // Renaming over a device would replace it.
  if (stat(path.c_str(), &status) == 0 && !S_ISREG(status.st_mode)) {
    Fail("{}: a folder or device has that name; try another name", path.string());
  }
}

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

// The process that the name NAME.PID-N.tmp tells, of a file NAME; 0 where it is another name.
pid_t WriterOf(std::string_view temporary, const std::string& name) {
  if (!temporary.starts_with(name + ".") || !temporary.ends_with(".tmp")) return 0;
  temporary.remove_prefix(name.size() + 1);
  pid_t pid = 0;
  const auto end = std::from_chars(temporary.data(), temporary.data() + temporary.size(), pid).ptr;
  return pid > 0 && *end == '-' ? pid : 0;
}

// The process that writes the file, 0 where none does. Who writes a temporary holds a lock on it, which ends with the
// process: one without was left by a kill, and goes.
pid_t OtherWriter(const fs::path& path) {
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(path.parent_path(), error)) {
    const pid_t writer = WriterOf(entry.path().filename().string(), path.filename().string());
    if (writer == 0 || writer == getpid()) continue;
    const Descriptor file(open(entry.path().c_str(), O_RDONLY | O_CLOEXEC));
    if (file.get() < 0) continue;
    if (flock(file.get(), LOCK_EX | LOCK_NB) == 0) {
      unlink(entry.path().c_str());
    } else if (errno == EWOULDBLOCK) {
      return writer;
    }
  }
  return 0;
}

Held& HeldFiles() {
  static Held held;
  return held;
}

// False where another process took the new file for one that was left over. Some network file systems refuse locks.
bool LockLinked(int fd) {
  struct stat status;
  (void)flock(fd, LOCK_EX);
  return fstat(fd, &status) != 0 || status.st_nlink > 0;
}

// Returns an error number, or 0.
int WriteAll(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = write(fd, text.data(), text.size());
    if (written < 0 && errno != EINTR) return errno;
    if (written > 0) text.remove_prefix(static_cast<size_t>(written));
  }
  return 0;
}

// A name in the folder lasts once the folder is synced. File systems that cannot sync a folder say EINVAL.
void SyncFolder(const fs::path& path) {
  const int fd = open(FolderOf(path).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  const int error = fd < 0 || fsync(fd) == 0 ? 0 : errno;
  if (fd >= 0) close(fd);
  if (error != 0 && error != EINVAL) FailToWrite(path, error);
}

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

AtomicFile::AtomicFile(const fs::path& path) : final_(Through(path)) {
  CheckTarget(final_);
  absolute_ = fs::absolute(final_);  // the temporary is to be found again after a chdir
  if (!HeldFiles().Has(absolute_)) {
    Claim();
  } else {
    Create();
  }
  HeldFiles().Add(absolute_);
}

void AtomicFile::Create() {
  for (int n = 0; fd_ < 0; ++n) {
    temporary_ = Formatted("{}.{}-{}.tmp", absolute_.string(), getpid(), n);
    fd_ = open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd_ < 0 && errno != EEXIST) FailToCreate(final_, errno);
    if (fd_ >= 0 && !LockLinked(fd_)) close(std::exchange(fd_, -1));
  }
}

// Of two that found nobody and created theirs, each sees the other's: both step back, and who comes again while the
// other is there is refused. So one of them stays.
void AtomicFile::Claim() {
  for (;;) {
    if (const pid_t writer = OtherWriter(absolute_))
      Fail("{}: process {} is writing it; try another name, or wait until it ends", absolute_.string(), writer);
    Create();
    if (OtherWriter(absolute_) == 0) return;
    unlink(temporary_.c_str());
    close(std::exchange(fd_, -1));
    constexpr int kSteps = 97;
    usleep(static_cast<useconds_t>(100 * (getpid() % kSteps)));
  }
}

AtomicFile::AtomicFile(AtomicFile&& other) noexcept
    : final_(std::move(other.final_)),
      absolute_(std::move(other.absolute_)),
      temporary_(std::move(other.temporary_)),
      fd_(std::exchange(other.fd_, -1)) {}

AtomicFile::~AtomicFile() {
  if (fd_ < 0) return;
  unlink(temporary_.c_str());
  Close();
}

void AtomicFile::Close() {
  HeldFiles().Remove(absolute_);
  close(std::exchange(fd_, -1));
}

void AtomicFile::Write(std::string_view text) {
  TARE_CHECK(fd_ >= 0);
  if (const int error = WriteAll(fd_, text)) FailToWrite(final_, error);
}

void AtomicFile::WriteAt(int64_t offset, std::string_view bytes) {
  TARE_CHECK(fd_ >= 0);
  while (!bytes.empty()) {
    const ssize_t written = pwrite(fd_, bytes.data(), bytes.size(), offset);
    if (written < 0 && errno != EINTR) FailToWrite(final_, errno);
    if (written <= 0) continue;
    bytes.remove_prefix(static_cast<size_t>(written));
    offset += written;
  }
}

void AtomicFile::Commit() {
  TARE_CHECK(fd_ >= 0);
  if (fsync(fd_) != 0) FailToWrite(final_, errno);
  const fs::path target = temporary_.parent_path() / final_.filename();
  if (rename(temporary_.c_str(), target.c_str()) != 0) FailToWrite(final_, errno);
  Close();  // synced already, so nothing is left to go wrong
  SyncFolder(target);
}

void WriteFileAtomically(const fs::path& path, std::string_view text) {
  AtomicFile file(path);
  file.Write(text);
  file.Commit();
}

void AppendLine(const fs::path& path, std::string_view line) {
  TARE_CHECK(line.find('\n') == line.npos);
  if (!Exists(path)) CheckTarget(path);
  const Descriptor file(open(path.c_str(), O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC, 0666));
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
  if (status.st_size == 0) SyncFolder(path);
}

std::vector<std::string> ReadLines(const fs::path& path) {
  std::vector<std::string> lines;
  if (!Exists(path)) return lines;
  const MappedFile file(path);
  std::string_view text(reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size());
  for (size_t end; (end = text.find('\n')) != text.npos; text.remove_prefix(end + 1))
    lines.emplace_back(text.substr(0, end));
  return lines;
}

}  // namespace tare
