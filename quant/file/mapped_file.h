// SPDX-License-Identifier: Apache-2.0
// Files as memory. A whole file, read-only: the system reads a page when first touched. If another process shortens the
// file, touching a lost page raises SIGBUS, which the command turns into a message. A library that may not handle
// signals, or must not end its process, copies files instead, as they were when opened.
//
// Memory on a disk: what does not fit beside the rest is written out by the system, so that a run holds more than the
// machine's memory. Each allocation is a mapped file without a name; nothing is left when the process ends.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <memory_resource>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace tare {

enum class FileMemory { kMapped, kCopied };
// How files are opened from now on, in the whole process; kMapped unless it is called.
void OpenFilesAs(FileMemory memory);

// What tells a file from others, and from itself before a change: of fstat, times since the epoch.
struct FileState {
  uint64_t device = 0, inode = 0;
  int64_t bytes = 0;
  std::chrono::nanoseconds modified{}, changed{};  // the content; the content, name, owner or rights
};

inline std::string_view AsText(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

class MappedFile {
 public:
  // Throws Error if path is missing, not a regular file, or unreadable. An empty file has no bytes.
  explicit MappedFile(const std::filesystem::path& path);

  std::span<const std::byte> bytes() const { return {bytes_.get(), bytes_ == nullptr ? 0 : bytes_.get_deleter().size}; }
  std::string_view text() const { return AsText(bytes()); }
  const std::filesystem::path& path() const { return path_; }
  const FileState& state() const { return state_; }  // when it was opened

  // Gives back whole pages of the file's bytes; touching rereads them. Nothing of a copy; false for bytes of others.
  bool Release(std::span<const std::byte> bytes) const;

 private:
  struct Unmap {
    size_t size;
    void operator()(const std::byte* bytes) const;
  };
  std::filesystem::path path_;
  FileState state_;
  std::unique_ptr<const std::byte[], Unmap> bytes_;
  FileMemory memory_ = FileMemory::kMapped;
};

// The first bytes of a regular file, fewer of a shorter one; empty where they cannot be read.
std::string Beginning(const std::filesystem::path& path, size_t most);

class DiskMemory : public std::pmr::memory_resource {
 public:
  // Files are made in this folder, which must exist by the first allocation.
  explicit DiskMemory(std::filesystem::path folder) : folder_(std::move(folder)) {}

 private:
  void* do_allocate(size_t bytes, size_t alignment) override;  // Throws Error where the disk has no room for it.
  void do_deallocate(void* p, size_t bytes, size_t alignment) override;
  bool do_is_equal(const memory_resource& other) const noexcept override { return this == &other; }

  std::filesystem::path folder_;
};

}  // namespace tare
