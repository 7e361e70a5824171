// SPDX-License-Identifier: Apache-2.0
// A folder that one process at a time writes into: locked for the life of the object or process. The holder may lock it
// again.
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
  std::filesystem::path folder_;
  int fd_ = -1;  // of the object that locked it
};

// A folder for outputs, made where there is none, and held. One that was made here and that nothing came into goes
// again.
class OutputFolder {
 public:
  // Throws Error where it cannot be made, or another process holds it.
  explicit OutputFolder(const std::filesystem::path& folder);
  OutputFolder(const OutputFolder&) = delete;
  ~OutputFolder();

 private:
  std::filesystem::path folder_;
  bool made_;
  FolderLock lock_;
};

}  // namespace tare
