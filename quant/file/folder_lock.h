// SPDX-License-Identifier: Apache-2.0
// A folder that one process at a time writes into: held from here to the end of the object, or of the process.
#pragma once

#include <filesystem>

namespace tare {

class FolderLock {
 public:
  // Throws Error where another process holds it. File systems that know no locks are taken as free.
  explicit FolderLock(const std::filesystem::path& folder);
  FolderLock(const FolderLock&) = delete;
  ~FolderLock();

 private:
  int fd_;
};

}  // namespace tare
