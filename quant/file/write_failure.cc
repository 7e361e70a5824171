// SPDX-License-Identifier: Apache-2.0
#include "quant/file/write_failure.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "quant/base/error.h"

namespace tare {

void FailToCreate(const std::filesystem::path& path, int error) {
  const char* const advice =
      error == ENAMETOOLONG ? "a shorter one" : "checking the folder's permissions, or write to another";
  Fail("{}: cannot write: {}; try {}", path.string(), std::strerror(error), advice);
}

void FailToWrite(const std::filesystem::path& path, int error) {
  Fail("{}: writing failed: {}; try freeing space there, or write to another folder", path.string(),
       std::strerror(error));
}

void FailToOpenFolderOf(const std::filesystem::path& path, int error) {
  const std::string folder = FolderOf(path).string();
  if (error == ENOTDIR) Fail("{}: cannot write: {} is not a folder", path.string(), folder);
  if (error == ENOENT) Fail("{}: cannot write: no folder {}; try mkdir -p first", path.string(), folder);
  FailToCreate(path, error);
}

void SyncFolder(const OpenFolder& folder, const std::filesystem::path& path) {
  const int fd = folder.Reading();
  const int error = fd < 0 || fsync(fd) == 0 ? 0 : errno;
  if (fd >= 0) close(fd);
  if (error != 0 && error != EINVAL) FailToWrite(path, error);
}

}  // namespace tare
