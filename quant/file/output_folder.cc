// SPDX-License-Identifier: Apache-2.0
#include "quant/file/output_folder.h"

#include <fcntl.h>
#include <unistd.h>

#include <sys/file.h>
#include <sys/stat.h>

#include <cerrno>

#include "quant/base/message.h"
#include "quant/file/temporary_name.h"

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

Held& HeldFolders() {
  static Held held;
  return held;
}

}  // namespace

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
  if (!HeldFolders().Has(identity_)) {
    fd_ = open_->Reading();
    if (fd_.get() >= 0 && flock(fd_.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
      Fail("{}: another process is writing into this folder; try another, or wait until it ends", folder_.string());
  }
  HeldFolders().Add(identity_);
}

// The system removes only what is empty.
OutputFolder::~OutputFolder() {
  if (made_ && above_ != nullptr) unlinkat(above_->fd(), folder_.filename().c_str(), AT_REMOVEDIR);
  HeldFolders().Remove(identity_);
}

}  // namespace tare
