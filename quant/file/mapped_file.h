// SPDX-License-Identifier: Apache-2.0
// A whole file, read-only, as bytes in memory: the kernel reads a page when it is first touched. Nothing protects a
// mapping from another process that shortens the file meanwhile: the page is then gone, and touching it is a SIGBUS,
// which the command turns into a message.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>

namespace tare {

class MappedFile {
 public:
  // Throws Error where path is missing, not a regular file, or unreadable. An empty file has no bytes.
  explicit MappedFile(const std::filesystem::path& path);
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  std::span<const std::byte> bytes() const { return bytes_; }
  const std::filesystem::path& path() const { return path_; }

  // Gives back the memory of the pages that lie whole in [offset, offset + size); touched again, they are read again.
  void Release(size_t offset, size_t size) const;

 private:
  std::filesystem::path path_;
  std::span<const std::byte> bytes_;
};

}  // namespace tare
