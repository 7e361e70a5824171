// SPDX-License-Identifier: Apache-2.0
#include "quant/file/folder_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>

#include "quant/base/error.h"
#include "quant/file/held.h"

namespace tare {
namespace {

namespace fs = std::filesystem;

Held& HeldFolders() {
  static Held held;
  return held;
}

}  // namespace

FolderLock::FolderLock(const fs::path& folder) : folder_(fs::weakly_canonical(folder)) {
  if (!HeldFolders().Has(folder_)) {
    if (const auto open = OpenFolder::Of(folder)) fd_ = open->Reading();
    if (fd_ >= 0 && flock(fd_, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
      close(fd_);
      Fail("{}: another process is writing into this folder; try another, or wait until it ends", folder.string());
    }
  }
  HeldFolders().Add(folder_);
}

FolderLock::~FolderLock() {
  HeldFolders().Remove(folder_);
  if (fd_ >= 0) close(fd_);
}

OutputFolder::OutputFolder(const fs::path& folder)
    : folder_(folder.has_filename() ? folder : folder.parent_path()),
      open_(OpenFolder::Make(folder_, &made_)),
      above_(OpenFolder::Of(FolderOf(folder_))),
      lock_(folder_) {
  if (open_ == nullptr) Fail("{}: cannot be created as a folder; try another --out", folder.string());
}

// The system removes only what is empty.
OutputFolder::~OutputFolder() {
  if (made_ && above_ != nullptr) unlinkat(above_->fd(), folder_.filename().c_str(), AT_REMOVEDIR);
}

}  // namespace tare
