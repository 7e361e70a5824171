// SPDX-License-Identifier: Apache-2.0
// Outputs in the making: under temporary names, in folders that come whole, or that one process at a time fills.
//
// What is open is a file's descriptor, or a folder opened once and held: what is made, renamed and removed relative to
// it stays in it, wherever its name leads by then. While held, whoever asks for its path, or one below, gets it.
#pragma once

#include <sys/types.h>
#include <unistd.h>

#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>

namespace tare {

// An open file, closed at the end; -1: none.
class Descriptor {
 public:
  explicit Descriptor(int fd = -1) : fd_(fd) {}
  Descriptor(Descriptor&& other) noexcept : fd_(other.release()) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Descriptor() {
    if (fd_ >= 0) close(fd_);
  }
  int get() const { return fd_; }
  int release() { return std::exchange(fd_, -1); }

 private:
  int fd_;
};

class OpenFolder {
 public:
  // The folder; null, with errno, where it cannot be opened.
  static std::shared_ptr<const OpenFolder> Of(const std::filesystem::path& path);
  // As Of, after making the folder where there is none; `made` says whether it was made.
  static std::shared_ptr<const OpenFolder> Make(const std::filesystem::path& path, bool* made = nullptr);
  static std::shared_ptr<const OpenFolder> Adopt(int fd);  // which it closes

  // The descriptor, for openat and the like; in messages, callers name the folder.
  int fd() const { return fd_.get(); }
  // Another descriptor of the folder, for reading, or none: this one can be locked, synced and listed.
  Descriptor Reading() const;
  void ForEachName(const std::function<void(const std::string& name)>& use) const;

 private:
  explicit OpenFolder(int fd) : fd_(fd) {}
  Descriptor fd_;
};

// The folder that a path's last name is in.
std::filesystem::path FolderOf(const std::filesystem::path& path);

// That folder, opened. Throws Error where it cannot be.
std::shared_ptr<const OpenFolder> OpenFolderOf(const std::filesystem::path& path);

// Removes a file, where there is one and it is no input (files_of_run.h), from the folder that is held.
void RemoveFile(const std::filesystem::path& path);

// Throw Error with the final path, the system's reason and something to try. error: errno of the call that failed.
[[noreturn]] void FailToCreate(const std::filesystem::path& path, int error);
[[noreturn]] void FailToWrite(const std::filesystem::path& path, int error);  // begun, and not ended

// A new name lasts once its folder is synced. EINVAL, where a file system cannot, is no failure. Else throws Error.
void SyncFolder(const OpenFolder& folder, const std::filesystem::path& path);

// ---- A temporary is beside the final NAME: NAME.PID-N-CHECK.tmp, CHECK being 16 digits of the SHA-256 of all before
// it. No other file has such a name by chance (one in 2^64), so what a kill left is ours, and goes; look-alikes stay.
// Who writes holds a lock on it until the process ends. File systems take 255 bytes: a NAME of more than 212 becomes
// its first 195, a dash and 16 digits of its SHA-256, so that names that begin alike differ.

// The n-th of this process.
std::string TemporaryName(const std::string& name, int n);

// Whether it is one, of any name and process.
bool IsTemporaryName(const std::string& name);

// The process that writes `path`, a file or folder in this folder, 0 where no other does. Temporaries of ended
// processes are removed on the way; a notice names what looks like one of an earlier version.
pid_t OtherWriter(const OpenFolder& folder, const std::filesystem::path& path);

// A temporary: a file, or a folder and the files in it. Inputs (files_of_run.h) stay, as what else is there.
void RemoveTemporary(const OpenFolder& folder, const std::string& temporary);

// False where another process took what was new for something left over. Some network file systems refuse locks.
bool LockLinked(int fd);

// What this process has locked, not to lock it twice. Belongs to one process: forks copy the list, but not the locks.
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

// A folder for outputs, made if missing, and held: all written below its path goes into it. One made here that stays
// empty goes again. One process at a time holds it, more than once; on file systems without locks every process may.
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
