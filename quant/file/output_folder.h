// SPDX-License-Identifier: Apache-2.0
// Outputs while they are written: under temporary names, and in folders, one that comes whole, and one that is filled
// file by file while no other process may.
//
// A temporary is beside the final NAME: NAME.PID-N-CHECK.tmp, where CHECK is 16 digits of the SHA-256 of all that is
// before it. Nobody else's file has such a name by chance (one in 2^64), so what a kill left is known for ours, and
// goes; whatever else looks like it stays. Who writes holds a lock on it, which ends with the process. A file system
// takes 255 bytes: of a NAME of more than 212 its first 195 stand there, a dash and 16 digits of its own SHA-256, so
// that names which begin alike keep apart.
#pragma once

#include <sys/types.h>
#include <unistd.h>

#include <filesystem>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>

#include "quant/file/open_folder.h"

namespace tare {

// The n-th of this process.
std::string TemporaryName(const std::string& name, int n);

// Whether it is one, of any name and process.
bool IsTemporaryName(const std::string& name);

// The process that writes `path`, a file or folder in this folder, 0 where no other does. Temporaries of ended
// processes are removed on the way; a notice names what looks like one of an earlier version.
pid_t OtherWriter(const OpenFolder& folder, const std::filesystem::path& path);

// A temporary: a file, or a folder and the files in it. Inputs (files_of_run.h) stay, as what else is there.
void RemoveTemporary(const OpenFolder& folder, const std::string& temporary);

// Takes the lock. False where another process took what was new for something left over. Some network file systems
// refuse locks.
bool LockLinked(int fd);

// Files or folders that this process has locked, so that it does not lock them twice. Belongs to one process: a fork
// copies the list, but not the locks.
class Held {
 public:
  bool Has(const std::filesystem::path& path) {
    const std::lock_guard lock(mutex_);
    return paths_.contains({getpid(), path});
  }
  void Add(const std::filesystem::path& path) {
    const std::lock_guard lock(mutex_);
    paths_.emplace(getpid(), path);
  }
  // Once per Add.
  void Remove(const std::filesystem::path& path) {
    const std::lock_guard lock(mutex_);
    const auto found = paths_.find({getpid(), path});
    if (found != paths_.end()) paths_.erase(found);
  }

 private:
  std::mutex mutex_;
  std::multiset<std::pair<pid_t, std::filesystem::path>> paths_;
};

// A folder of files that comes whole: made beside its final place under a temporary name, filled,
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
