// SPDX-License-Identifier: Apache-2.0
#include "quant/file/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "quant/base/error.h"

namespace tare {
namespace {

std::string Reason() { return std::strerror(errno); }

std::span<const std::byte> Map(int fd, const std::filesystem::path& path) {
  struct stat status;
  if (fstat(fd, &status) != 0) Fail("{}: cannot read: {}", path.string(), Reason());
  if (S_ISDIR(status.st_mode)) Fail("{}: got a folder, expected a file; try one of the files in it", path.string());
  if (!S_ISREG(status.st_mode)) Fail("{}: got a pipe or device, expected a file; try storing it first", path.string());
  if (status.st_size == 0) return {};
  const size_t size = static_cast<size_t>(status.st_size);
  void* address = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd, 0);
  if (address == MAP_FAILED) Fail("{}: cannot map {} bytes: {}", path.string(), size, Reason());
  return {static_cast<const std::byte*>(address), size};
}

}  // namespace

MappedFile::MappedFile(const std::filesystem::path& path) : path_(path) {
  // Without O_NONBLOCK, opening a pipe without a writer would hang here.
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0 && (errno == ENOENT || errno == ENOTDIR)) Fail("{}: no such file; try checking the path", path.string());
  if (fd < 0) Fail("{}: cannot open: {}; try checking its permissions", path.string(), Reason());
  struct Closer {
    int fd;
    ~Closer() { close(fd); }
  } const closer{fd};
  bytes_ = Map(fd, path);
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)), bytes_(std::exchange(other.bytes_, {})) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

void MappedFile::Release(size_t offset, size_t size) const {
  const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  if (offset > bytes_.size() || size > bytes_.size() - offset) {
    Fail("{}: release of {} bytes at {}, expected inside its {}", path_.string(), size, offset, bytes_.size());
  }
  const size_t begin = (offset + page - 1) / page * page;
  const size_t end = (offset + size) / page * page;
  // What the kernel refuses costs memory and no more.
  if (begin < end) madvise(const_cast<std::byte*>(bytes_.data() + begin), end - begin, MADV_DONTNEED);
}

}  // namespace tare
