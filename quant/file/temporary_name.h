// SPDX-License-Identifier: Apache-2.0
// Names of what is being written, beside the final NAME: NAME.PID-N-CHECK.tmp, where CHECK is 16 digits of the SHA-256
// of all that is before it. Nobody else's file has such a name by chance (one in 2^64), so what a kill left is known
// for ours, and goes; whatever else looks like it stays. Who writes holds a lock on it, which ends with the process.
// A file system takes 255 bytes: of a NAME of more than 212 its first 195 stand there, a dash and 16 digits of its own
// SHA-256, so that names which begin alike keep apart.
#pragma once

#include <sys/types.h>
#include <unistd.h>

#include <filesystem>
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

}  // namespace tare
