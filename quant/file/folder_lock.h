// SPDX-License-Identifier: Apache-2.0
// A lock on a folder that only one process at a time may write into, held until the object is destroyed. The same
// process may lock it again.
#pragma once

#include <filesystem>
#include <memory>

#include "quant/file/open_folder.h"

namespace tare {

class FolderLock {
 public:
  // Throws Error if another process holds it. On file systems without locks it always succeeds.
  explicit FolderLock(const std::filesystem::path& folder);
  FolderLock(const FolderLock&) = delete;
  ~FolderLock();

 private:
  std::filesystem::path folder_;
  int fd_ = -1;  // of the object that locked it
};

// A folder for outputs, made where there is none, and held: all that is written below its path goes into this one. One
// that was made here and that nothing came into goes again.
class OutputFolder {
 public:
  // Throws Error if it cannot be created or another process holds it.
  explicit OutputFolder(const std::filesystem::path& folder);
  OutputFolder(const OutputFolder&) = delete;
  ~OutputFolder();

 private:
  std::filesystem::path folder_;
  bool made_ = false;
  std::shared_ptr<const OpenFolder> open_, above_;
  FolderLock lock_;
};

}  // namespace tare
