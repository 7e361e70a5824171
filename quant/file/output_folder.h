// SPDX-License-Identifier: Apache-2.0
// Folders that outputs go into: one that comes whole, and one that is filled file by file while no other process may.
#pragma once

#include <filesystem>
#include <memory>

#include "quant/file/open_folder.h"

namespace tare {

// A folder of files that comes whole: made beside its final place under a temporary name (temporary_name.h), filled,
// and renamed. What is not committed goes away again; what a kill left, with the next one of that name.
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
  Descriptor fd_;  // with the lock
};

// A folder for outputs, made where there is none, and held: all that is written below its path goes into this one. One
// that was made here and that nothing came into goes again. Only one process at a time may hold it, and it may do so
// again; on file systems without locks every process may.
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
  std::filesystem::path identity_;  // device and inode: a name may lead elsewhere by now
  Descriptor fd_;                   // of the object that locked it
};

}  // namespace tare
