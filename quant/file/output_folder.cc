// SPDX-License-Identifier: Apache-2.0
// Folders that are open, names and locks of temporaries, the folder that comes whole, and the one that is filled.
#include "quant/file/output_folder.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <cerrno>
#include <charconv>
#include <cstdint>
#include <cstring>
#include <map>
#include <string_view>

#include "quant/base/message.h"
#include "quant/file/files_of_run.h"
#include "quant/file/sha256.h"

namespace tare {
namespace {

namespace fs = std::filesystem;

// Absolute, without what does not count in it; ".." does, after a link.
fs::path KeyOf(const fs::path& path) {
  fs::path key;
  for (const fs::path& part : fs::absolute(path)) {
    if (!part.empty() && part != ".") key /= part;
  }
  return key;
}

// Searching is enough: a folder that may not be listed may be written into.
int OpenAt(int folder, const fs::path& path) {
  return openat(folder, path.empty() ? "." : path.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC);
}

constexpr std::string_view kTemporaryEnd = ".tmp";
constexpr size_t kCheckDigits = 16;

std::string CheckOf(std::string_view begin) { return Sha256OfText(begin).substr(0, kCheckDigits); }

// ".PID-N-CHECK.tmp" with ten digits for each of both numbers.
constexpr size_t kMostAfterStem = 1 + 10 + 1 + 10 + 1 + kCheckDigits + kTemporaryEnd.size();
constexpr size_t kMostStem = NAME_MAX - kMostAfterStem;

// What temporaries of this name begin with. A character is not cut in two: some file systems take UTF-8 alone. A name
// that is itself too long stays, so that it fails before anything is written.
std::string StemOf(const std::string& name) {
  if (name.size() <= kMostStem || name.size() > NAME_MAX) return name;
  size_t kept = kMostStem - 1 - kCheckDigits;
  while (kept > 0 && (static_cast<uint8_t>(name[kept]) & 0xC0) == 0x80) --kept;
  return Formatted("{}-{}", name.substr(0, kept), CheckOf(name));
}

// Digits, a dash, and anything: the process of STEM.PID-..., 0 of another name.
pid_t ProcessIn(std::string_view temporary, const std::string& stem) {
  if (!temporary.starts_with(stem + ".") || !temporary.ends_with(kTemporaryEnd)) return 0;
  temporary.remove_prefix(stem.size() + 1);
  pid_t pid = 0;
  const auto end = std::from_chars(temporary.data(), temporary.data() + temporary.size(), pid).ptr;
  return pid > 0 && *end == '-' ? pid : 0;
}

// Never over what is there. Some file systems cannot promise that.
int RenameNew(int from, const std::string& name, int to, const std::string& as) {
  if (renameat2(from, name.c_str(), to, as.c_str(), RENAME_NOREPLACE) == 0) return 0;
  if (errno != EINVAL && errno != ENOSYS) return errno;
  struct stat status;
  if (fstatat(to, as.c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0) return EEXIST;
  return renameat(from, name.c_str(), to, as.c_str()) == 0 ? 0 : errno;
}

Held held_folders;

}  // namespace

std::shared_ptr<const OpenFolder> OpenFolder::Of(const fs::path& path) {
  const fs::path key = KeyOf(path);
  static std::mutex mutex;
  static std::map<fs::path, std::weak_ptr<const OpenFolder>> folders;
  const std::lock_guard lock(mutex);
  std::erase_if(folders, [](const auto& entry) { return entry.second.expired(); });
  int fd = -1;
  for (fs::path above = key;; above = above.parent_path()) {
    const auto found = folders.find(above);
    if (const auto held = found == folders.end() ? nullptr : found->second.lock()) {
      if (above == key) return held;
      fd = OpenAt(held->fd(), key.lexically_relative(above));
      break;
    }
    if (above == above.parent_path()) {
      fd = OpenAt(AT_FDCWD, key);
      break;
    }
  }
  if (fd < 0) return nullptr;
  const std::shared_ptr<const OpenFolder> opened = Adopt(fd);
  folders[key] = opened;
  return opened;
}

std::shared_ptr<const OpenFolder> OpenFolder::Make(const fs::path& path, bool* made) {
  const fs::path key = KeyOf(path);
  if (made != nullptr) *made = false;
  if (std::shared_ptr<const OpenFolder> there = Of(key)) return there;
  if (key == key.parent_path()) return nullptr;
  const std::shared_ptr<const OpenFolder> above = Make(key.parent_path());
  if (above == nullptr) return nullptr;
  const bool is_new = mkdirat(above->fd(), key.filename().c_str(), 0777) == 0;
  if (made != nullptr) *made = is_new;
  if (!is_new && errno != EEXIST) return nullptr;
  return Of(key);
}

std::shared_ptr<const OpenFolder> OpenFolder::Adopt(int fd) {
  return std::shared_ptr<const OpenFolder>(new OpenFolder(fd));
}

Descriptor OpenFolder::Reading() const { return Descriptor(openat(fd(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC)); }

void OpenFolder::ForEachName(const std::function<void(const std::string& name)>& use) const {
  Descriptor fd = Reading();
  DIR* const entries = fd.get() < 0 ? nullptr : fdopendir(fd.get());
  if (entries == nullptr) return;
  fd.release();
  const std::unique_ptr<DIR, int (*)(DIR*)> closer(entries, &closedir);
  while (const dirent* entry = readdir(entries)) {
    const std::string_view name = entry->d_name;
    if (name != "." && name != "..") use(std::string(name));
  }
}

fs::path FolderOf(const fs::path& path) { return path.has_parent_path() ? path.parent_path() : fs::path("."); }

std::shared_ptr<const OpenFolder> OpenFolderOf(const fs::path& path) {
  if (auto folder = OpenFolder::Of(FolderOf(path))) return folder;
  const int error = errno;
  const std::string folder = FolderOf(path).string();
  if (error == ENOTDIR) Fail("{}: cannot write: {} is not a folder", path.string(), folder);
  if (error == ENOENT) Fail("{}: cannot write: no folder {}; try mkdir -p first", path.string(), folder);
  FailToCreate(path, error);
}

void RemoveFile(const fs::path& path) {
  const auto folder = OpenFolder::Of(FolderOf(path));
  if (folder == nullptr || IsInput(folder->fd(), path.filename().c_str())) return;
  unlinkat(folder->fd(), path.filename().c_str(), 0);
}

void FailToCreate(const fs::path& path, int error) {
  const char* const advice =
      error == ENAMETOOLONG ? "a shorter one" : "checking the folder's permissions, or write to another";
  Fail("{}: cannot write: {}; try {}", path.string(), std::strerror(error), advice);
}

void FailToWrite(const fs::path& path, int error) {
  Fail("{}: writing failed: {}; try freeing space there, or write to another folder", path.string(),
       std::strerror(error));
}

void SyncFolder(const OpenFolder& folder, const fs::path& path) {
  const Descriptor fd = folder.Reading();
  if (fd.get() >= 0 && fsync(fd.get()) != 0 && errno != EINVAL) FailToWrite(path, errno);
}

std::string TemporaryName(const std::string& name, int n) {
  const std::string begin = Formatted("{}.{}-{}", StemOf(name), getpid(), n);
  return Formatted("{}-{}{}", begin, CheckOf(begin), kTemporaryEnd);
}

bool IsTemporaryName(const std::string& name) {
  constexpr size_t kEndSize = 1 + kCheckDigits + kTemporaryEnd.size();
  if (name.size() <= kEndSize) return false;
  const std::string begin = name.substr(0, name.size() - kEndSize);
  return Formatted("{}-{}{}", begin, CheckOf(begin), kTemporaryEnd) == name;
}

pid_t OtherWriter(const OpenFolder& folder, const std::filesystem::path& path) {
  const std::string stem = StemOf(path.filename());
  pid_t writer = 0;
  folder.ForEachName([&](const std::string& temporary) {
    const pid_t process = ProcessIn(temporary, stem);
    if (process == 0 || process == getpid()) return;
    if (!IsTemporaryName(temporary))
      return Notice(Formatted("{}: a killed run may have left it; try removing it if nobody needs it",
                              (path.parent_path() / temporary).string()));
    const Descriptor fd(openat(folder.fd(), temporary.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
    if (fd.get() < 0) return;
    if (flock(fd.get(), LOCK_EX | LOCK_NB) == 0) {
      RemoveTemporary(folder, temporary);
    } else if (errno == EWOULDBLOCK) {
      writer = process;
    }
  });
  return writer;
}

void RemoveTemporary(const OpenFolder& folder, const std::string& temporary) {
  if (IsInput(folder.fd(), temporary.c_str())) return;
  if (unlinkat(folder.fd(), temporary.c_str(), 0) == 0 || (errno != EISDIR && errno != EPERM)) return;
  if (unlinkat(folder.fd(), temporary.c_str(), AT_REMOVEDIR) == 0) return;  // an empty one, even without a free handle
  const int fd = openat(folder.fd(), temporary.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
  if (fd < 0) return;
  OpenFolder::Adopt(fd)->ForEachName([&](const std::string& name) {
    if (!IsInput(fd, name.c_str())) unlinkat(fd, name.c_str(), 0);
  });
  unlinkat(folder.fd(), temporary.c_str(), AT_REMOVEDIR);
}

bool LockLinked(int fd) {
  struct stat status;
  (void)flock(fd, LOCK_EX);
  return fstat(fd, &status) != 0 || status.st_nlink > 0;
}

AtomicFolder::AtomicFolder(const fs::path& path) : final_(path), above_(OpenFolderOf(path)) {
  if (const pid_t writer = OtherWriter(*above_, path))
    Fail("{}: process {} is writing it; try another name, or wait until it ends", path.string(), writer);
  for (int n = 0; fd_.get() < 0; ++n) {
    temporary_ = FolderOf(path) / TemporaryName(path.filename(), n);
    if (mkdirat(above_->fd(), temporary_.filename().c_str(), 0777) != 0) {
      if (errno != EEXIST) FailToCreate(path, errno);
      continue;
    }
    folder_ = OpenFolder::Of(temporary_);
    if (folder_ != nullptr) fd_ = folder_->Reading();
    if (fd_.get() < 0) {
      const int error = errno;
      unlinkat(above_->fd(), temporary_.filename().c_str(), AT_REMOVEDIR);
      FailToCreate(path, error);
    }
    if (!LockLinked(fd_.get())) fd_ = Descriptor();
  }
}

AtomicFolder::~AtomicFolder() { RemoveTemporary(*above_, temporary_.filename()); }

void AtomicFolder::Commit() {
  const int error = RenameNew(above_->fd(), temporary_.filename(), above_->fd(), final_.filename());
  if (error == 0) return;
  const auto there = error == EEXIST ? OpenFolder::Of(final_) : nullptr;
  if (there == nullptr) FailToCreate(final_, error);
  folder_->ForEachName([&](const std::string& name) {
    if (const int of_file = RenameNew(folder_->fd(), name, there->fd(), name)) FailToCreate(final_ / name, of_file);
  });
}

OutputFolder::OutputFolder(const fs::path& folder)
    : folder_(folder.has_filename() ? folder : folder.parent_path()),
      open_(OpenFolder::Make(folder_, &made_)),
      above_(OpenFolder::Of(FolderOf(folder_))) {
  if (open_ == nullptr) Fail("{}: cannot be created as a folder; try another --out", folder.string());
  struct stat status{};
  (void)fstat(open_->fd(), &status);
  identity_ = Formatted("{} {}", status.st_dev, status.st_ino);
  if (!held_folders.Has(identity_)) {
    fd_ = open_->Reading();
    if (fd_.get() >= 0 && flock(fd_.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
      Fail("{}: another process is writing into this folder; try another, or wait until it ends", folder_.string());
  }
  held_folders.Add(identity_);
}

// The system removes only what is empty.
OutputFolder::~OutputFolder() {
  if (made_ && above_ != nullptr) unlinkat(above_->fd(), folder_.filename().c_str(), AT_REMOVEDIR);
  held_folders.Remove(identity_);
}

}  // namespace tare
