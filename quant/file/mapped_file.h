// SPDX-License-Identifier: Apache-2.0
// A whole file, read-only, as bytes in memory: the system reads a page when it is first touched. If another process
// shortens the file, touching a lost page raises SIGBUS, which the command turns into a message.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string_view>

namespace tare {

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

  // Gives back the memory of whole pages in [offset, offset + size); touching them reads them again.
  void Release(size_t offset, size_t size) const;

 private:
  std::filesystem::path path_;
  std::span<const std::byte> bytes_;
};

}  // namespace tare
