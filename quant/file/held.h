// SPDX-License-Identifier: Apache-2.0
// Files or folders that this process has locked, so that it does not lock them twice. Belongs to one process: a fork
// copies the list, but not the locks.
#pragma once

#include <unistd.h>

#include <filesystem>
#include <mutex>
#include <set>
#include <utility>

namespace tare {

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
