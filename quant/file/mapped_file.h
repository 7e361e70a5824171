// SPDX-License-Identifier: Apache-2.0
// A whole file, read-only, as bytes in memory: the system reads a page when it is first touched. If another process
// shortens the file, touching a lost page raises SIGBUS, which the command turns into a message. A library that may not
// handle signals, or must not end its process, copies files instead: they take their size in memory, and stay as they
// were when they were opened.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string_view>

namespace tare {

enum class FileMemory { kMapped, kCopied };
// How files are opened from now on, in the whole process; kMapped unless it is called.
void OpenFilesAs(FileMemory memory);

class MappedFile {
 public:
  // Throws Error if path is missing, not a regular file, or unreadable. An empty file has no bytes.
  explicit MappedFile(const std::filesystem::path& path);
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  std::span<const std::byte> bytes() const { return bytes_; }
  std::string_view text() const { return {reinterpret_cast<const char*>(bytes_.data()), bytes_.size()}; }
  const std::filesystem::path& path() const { return path_; }

  // Gives back the memory of whole pages in [offset, offset + size); touching them reads them again. Nothing of a copy.
  void Release(size_t offset, size_t size) const;

 private:
  std::filesystem::path path_;
  std::span<const std::byte> bytes_;
  FileMemory memory_ = FileMemory::kMapped;
};

}  // namespace tare
