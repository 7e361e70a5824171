// SPDX-License-Identifier: Apache-2.0
// What is open: a file's descriptor, and a folder that is opened once and held: what is made, renamed and removed
// relative to it stays in it, wherever its name leads by then (somebody moved it, and a link took its place). While one
// is held, whoever asks for the same path, or for a folder below, gets that one.
#pragma once

#include <unistd.h>

#include <filesystem>
#include <functional>
#include <memory>
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

// A new name in the folder lasts once the folder is synced. File systems that cannot sync a folder say EINVAL, which is
// no failure. Throws Error about path otherwise.
void SyncFolder(const OpenFolder& folder, const std::filesystem::path& path);

}  // namespace tare
