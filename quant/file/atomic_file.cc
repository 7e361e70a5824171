// SPDX-License-Identifier: Apache-2.0
#include "quant/file/atomic_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>
#include <utility>

#include "quant/base/message.h"
#include "quant/file/files_of_run.h"
#include "quant/file/mapped_file.h"

namespace tare {
namespace {

namespace fs = std::filesystem;

// The target of a link at a path in a folder that is held; empty where there is no link.
std::string LinkIn(const OpenFolder& folder, const fs::path& path) {
  std::string text(PATH_MAX, '\0');
  const ssize_t length = readlinkat(folder.fd(), path.filename().c_str(), text.data(), text.size());
  text.resize(length < 0 ? 0 : static_cast<size_t>(length));
  return text;
}

struct Target {
  fs::path path;
  std::shared_ptr<const OpenFolder> folder;
  FileIdentity there = {};
};

// The target of a link, even if it does not exist yet; any other path itself.
Target Through(fs::path path) {
  constexpr int kMostLinks = 40;  // as Linux follows
  for (int links = 0;; ++links) {
    if (links == kMostLinks) Fail("{}: cannot write: the links form a circle; try another name", path.string());
    if (path.filename().empty()) Fail("{}: got a folder, expected the name of a file", path.string());
    const std::shared_ptr<const OpenFolder> folder = OpenFolderOf(path);
    // Renaming over a device would replace it; what a link of /proc leads to has no name.
    struct stat status{};
    if (fstatat(folder->fd(), path.filename().c_str(), &status, 0) == 0 && !S_ISREG(status.st_mode))
      Fail("{}: a folder or device has that name; try another name", path.string());
    const std::string link = LinkIn(*folder, path);
    if (link.empty()) return {path, folder, IdentityOf(status)};
    path = path.parent_path() / link;
  }
}

Held held_files;

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

AtomicFile::AtomicFile(const fs::path& path) {
  // A path that this process claimed and that is a link now became one since: it leads to somebody else's file.
  const bool held = held_files.Has(fs::absolute(path));
  Target target = held ? Target{path, OpenFolderOf(path)} : Through(path);
  final_ = std::move(target.path);
  folder_ = std::move(target.folder);
  absolute_ = fs::absolute(final_);
  if (!held_files.Has(absolute_)) {
    NoteOutput(target.there, absolute_, path);
    Claim();
  } else {
    Create();
  }
  held_files.Add(absolute_);
}

void AtomicFile::Create() {
  for (int n = 0; fd_.get() < 0; ++n) {
    temporary_ = TemporaryName(final_.filename(), n);
    fd_ = Descriptor(openat(folder_->fd(), temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
    if (fd_.get() < 0 && errno != EEXIST) FailToCreate(final_, errno);
    if (fd_.get() >= 0 && !LockLinked(fd_.get())) fd_ = Descriptor();
  }
  NoteMade(fd_.get());
}

// If two processes find no other and both create their temporaries, each sees the other's: both step back, and
// whichever retries while the other is there is refused. So one of them stays.
void AtomicFile::Claim() {
  for (;;) {
    if (const pid_t writer = OtherWriter(*folder_, absolute_))
      Fail("{}: process {} is writing it; try another name, or wait until it ends", absolute_.string(), writer);
    Create();
    if (OtherWriter(*folder_, absolute_) == 0) return;
    unlinkat(folder_->fd(), temporary_.c_str(), 0);
    fd_ = Descriptor();
    constexpr int kSteps = 97;
    usleep(static_cast<useconds_t>(100 * (getpid() % kSteps)));
  }
}

AtomicFile::~AtomicFile() {
  if (fd_.get() < 0) return;
  unlinkat(folder_->fd(), temporary_.c_str(), 0);
  Close();
}

void AtomicFile::Close() {
  held_files.Remove(absolute_);
  if (!held_files.Has(absolute_)) ForgetOutput(absolute_);
  fd_ = Descriptor();
}

void AtomicFile::Write(std::string_view text) {
  WriteAt(end_, text);
  end_ += std::ssize(text);
}

void AtomicFile::WriteAt(int64_t offset, std::string_view bytes) {
  TARE_CHECK(fd_.get() >= 0);
  while (!bytes.empty()) {
    const ssize_t written = pwrite(fd_.get(), bytes.data(), bytes.size(), offset);
    if (written < 0 && errno != EINTR) FailToWrite(final_, errno);
    if (written <= 0) continue;
    bytes.remove_prefix(static_cast<size_t>(written));
    offset += written;
  }
}

void AtomicFile::Commit() {
  TARE_CHECK(fd_.get() >= 0);
  if (fsync(fd_.get()) != 0) FailToWrite(final_, errno);
  const int folder = folder_->fd();
  if (renameat(folder, temporary_.c_str(), folder, final_.filename().c_str()) != 0) FailToWrite(final_, errno);
  Close();  // synced already, so nothing is left to go wrong
  SyncFolder(*folder_, final_);
}

// The path by way of the folder that is held, or by its name where /proc is not there.
fs::path AtomicFile::path() const {
  const fs::path held = Formatted("/proc/self/fd/{}", folder_->fd());
  std::error_code error;
  return (fs::exists(held, error) ? held : absolute_.parent_path()) / temporary_;
}

void WriteFileAtomically(const fs::path& path, std::string_view text) {
  AtomicFile file(path);
  file.Write(text);
  file.Commit();
}

void AppendLine(const fs::path& path, std::string_view line) {
  TARE_CHECK(line.find('\n') == line.npos);
  const std::shared_ptr<const OpenFolder> folder = OpenFolderOf(path);
  const Descriptor file(openat(folder->fd(), path.filename().c_str(), O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC, 0666));
  if (file.get() < 0) FailToCreate(path, errno);
  // Two processes may append to one file, and what is cut off below must not be the other's.
  struct stat status;
  if (flock(file.get(), LOCK_EX) != 0 || fstat(file.get(), &status) != 0) FailToWrite(path, errno);
  RefuseInput(IdentityOf(status), path);
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
