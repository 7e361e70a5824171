// SPDX-License-Identifier: Apache-2.0
#include "quant/file/folder_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "quant/base/error.h"
#include "quant/file/held.h"

namespace tare {
namespace {

namespace fs = std::filesystem;

Held& HeldFolders() {
  static Held held;
  return held;
}

// Whether it was not there.
bool Make(const fs::path& folder) {
  std::error_code error;
  const bool made = fs::create_directories(folder, error);
  if (!fs::is_directory(folder)) Fail("{}: cannot be created as a folder; try another --out", folder.string());
  return made;
}

}  // namespace

FolderLock::FolderLock(const fs::path& folder) : folder_(fs::weakly_canonical(folder)) {
  if (!HeldFolders().Has(folder_)) {
    fd_ = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
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

OutputFolder::OutputFolder(const fs::path& folder) : folder_(folder), made_(Make(folder)), lock_(folder) {}

OutputFolder::~OutputFolder() {
  std::error_code error;
  if (made_ && fs::is_empty(folder_, error) && !error) fs::remove(folder_, error);
}

}  // namespace tare
