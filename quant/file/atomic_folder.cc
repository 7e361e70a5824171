// SPDX-License-Identifier: Apache-2.0
#include "quant/file/atomic_folder.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <utility>

#include "quant/base/error.h"
#include "quant/file/temporary_name.h"
#include "quant/file/write_failure.h"

namespace tare {
namespace {

namespace fs = std::filesystem;

// Never over what is there. Some file systems cannot promise that.
int RenameNew(int from, const std::string& name, int to, const std::string& as) {
  if (renameat2(from, name.c_str(), to, as.c_str(), RENAME_NOREPLACE) == 0) return 0;
  if (errno != EINVAL && errno != ENOSYS) return errno;
  struct stat status;
  if (fstatat(to, as.c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0) return EEXIST;
  return renameat(from, name.c_str(), to, as.c_str()) == 0 ? 0 : errno;
}

}  // namespace

AtomicFolder::AtomicFolder(const fs::path& path) : final_(path), above_(OpenFolder::Of(FolderOf(path))) {
  if (above_ == nullptr) FailToOpenFolderOf(path, errno);
  if (const pid_t writer = OtherWriter(*above_, path))
    Fail("{}: process {} is writing it; try another name, or wait until it ends", path.string(), writer);
  for (int n = 0; fd_ < 0; ++n) {
    temporary_ = FolderOf(path) / TemporaryName(path.filename(), n);
    if (mkdirat(above_->fd(), temporary_.filename().c_str(), 0777) != 0) {
      if (errno != EEXIST) FailToCreate(path, errno);
      continue;
    }
    folder_ = OpenFolder::Of(temporary_);
    fd_ = folder_ == nullptr ? -1 : folder_->Reading();
    if (fd_ < 0) FailToCreate(path, errno);
    if (!LockLinked(fd_)) close(std::exchange(fd_, -1));
  }
}

AtomicFolder::~AtomicFolder() {
  close(fd_);
  RemoveTemporary(*above_, temporary_.filename());
}

void AtomicFolder::Commit() {
  const int error = RenameNew(above_->fd(), temporary_.filename(), above_->fd(), final_.filename());
  if (error == 0) return;
  const auto there = error == EEXIST ? OpenFolder::Of(final_) : nullptr;
  if (there == nullptr) FailToCreate(final_, error);
  folder_->ForEachName([&](const std::string& name) {
    if (const int of_file = RenameNew(folder_->fd(), name, there->fd(), name)) FailToCreate(final_ / name, of_file);
  });
}

}  // namespace tare
