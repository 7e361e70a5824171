// SPDX-License-Identifier: Apache-2.0
// A folder of files that comes whole: made beside its final place under a temporary name (temporary_name.h), filled,
// and renamed. What is not committed goes away again; what a kill left, with the next one of that name.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "quant/file/open_folder.h"

namespace tare {

class AtomicFolder {
 public:
  // Throws Error where it cannot be made, or another process writes the folder.
  explicit AtomicFolder(const std::filesystem::path& path);
  AtomicFolder(const AtomicFolder&) = delete;
  ~AtomicFolder();

  // To be filled with files.
  const std::filesystem::path& path() const { return temporary_; }
  // A new folder comes whole; one that is there gets the files one by one. Throws Error for a file that is there.
  void Commit();

 private:
  std::filesystem::path final_, temporary_;
  std::shared_ptr<const OpenFolder> above_, folder_;
  int fd_ = -1;  // with the lock
};

}  // namespace tare
