// SPDX-License-Identifier: Apache-2.0
#include "quant/file/open_folder.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <map>
#include <mutex>
#include <string_view>

#include "quant/base/message.h"
#include "quant/file/files_of_run.h"

namespace tare {
namespace {

namespace fs = std::filesystem;

struct OpenFolders {
  std::mutex mutex;
  std::map<fs::path, std::weak_ptr<const OpenFolder>> by_path;
};

OpenFolders& Registry() {
  static OpenFolders folders;
  return folders;
}

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

}  // namespace

std::shared_ptr<const OpenFolder> OpenFolder::Of(const fs::path& path) {
  const fs::path key = KeyOf(path);
  OpenFolders& folders = Registry();
  const std::lock_guard lock(folders.mutex);
  std::erase_if(folders.by_path, [](const auto& entry) { return entry.second.expired(); });
  int fd = -1;
  for (fs::path above = key;; above = above.parent_path()) {
    const auto found = folders.by_path.find(above);
    if (const auto held = found == folders.by_path.end() ? nullptr : found->second.lock()) {
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
  folders.by_path[key] = opened;
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

}  // namespace tare
