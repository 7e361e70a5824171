// SPDX-License-Identifier: Apache-2.0
#include "quant/file/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>

#include "quant/base/message.h"
#include "quant/file/files_of_run.h"
#include "quant/file/output_folder.h"

namespace tare {
namespace {

std::atomic<FileMemory> file_memory = FileMemory::kMapped;

std::string Reason() { return std::strerror(errno); }

FileState StateOfFile(int fd, const std::filesystem::path& path) {
  struct stat status;
  if (fstat(fd, &status) != 0) Fail("{}: cannot read: {}", path.string(), Reason());
  if (S_ISDIR(status.st_mode)) Fail("{}: got a folder, expected a file; try one of the files in it", path.string());
  if (!S_ISREG(status.st_mode)) Fail("{}: got a pipe or device, expected a file; try storing it first", path.string());
  const auto time = [](const timespec& t) {
    return std::chrono::seconds(t.tv_sec) + std::chrono::nanoseconds(t.tv_nsec);
  };
  return {.device = status.st_dev,
          .inode = status.st_ino,
          .bytes = status.st_size,
          .modified = time(status.st_mtim),
          .changed = time(status.st_ctim)};
}

const std::byte* Map(int fd, size_t size, const std::filesystem::path& path) {
  void* const address = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd, 0);
  if (address == MAP_FAILED) Fail("{}: cannot map {} bytes: {}", path.string(), size, Reason());
  return static_cast<const std::byte*>(address);
}

// Pages of its own, unmapped like a mapped file's.
const std::byte* CopyOf(int fd, size_t size, const std::filesystem::path& path) {
  constexpr size_t kMost = size_t{1} << 30;  // of one read, which the system bounds at 2 GiB
  void* const address = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (address == MAP_FAILED) Fail("{}: cannot hold {} bytes: {}", path.string(), size, Reason());
  std::byte* const bytes = static_cast<std::byte*>(address);
  for (size_t done = 0; done < size;) {
    const ssize_t got = pread(fd, bytes + done, std::min(size - done, kMost), static_cast<off_t>(done));
    if (got > 0) {
      done += static_cast<size_t>(got);
    } else if (got == 0 || errno != EINTR) {
      const std::string reason = got == 0 ? "became shorter while it was read; try again when nothing writes to it"
                                          : "cannot read: " + Reason();
      munmap(address, size);
      Fail("{}: {}", path.string(), reason);
    }
  }
  return bytes;
}

// Without O_NONBLOCK, opening a pipe without a writer would hang.
Descriptor Opened(const std::filesystem::path& path) {
  constexpr int kFlags = O_RDONLY | O_CLOEXEC | O_NONBLOCK;
  Descriptor file(open(path.c_str(), kFlags));
  const int copy = CopyOfPipe(file.get());
  return copy < 0 ? std::move(file) : Descriptor(open(Formatted("/proc/self/fd/{}", copy).c_str(), kFlags));
}

// Network file systems have none without a name from the start.
Descriptor FileWithoutName(const std::filesystem::path& folder) {
  Descriptor file(open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
  if (file.get() >= 0) return file;
  std::string name = folder / "memory-XXXXXX";
  file = Descriptor(mkostemp(name.data(), O_CLOEXEC));
  if (file.get() >= 0) unlink(name.c_str());
  return file;
}

alignas(64) std::byte nothing[64];  // where an empty allocation is

}  // namespace

std::string Beginning(const std::filesystem::path& path, size_t most) {
  std::string first(most, '\0');
  const Descriptor file = Opened(path);
  first.resize(static_cast<size_t>(std::max<ssize_t>(0, pread(file.get(), first.data(), most, 0))));  // none of a pipe
  return first;
}

void OpenFilesAs(FileMemory memory) { file_memory = memory; }

MappedFile::MappedFile(const std::filesystem::path& path) : path_(path), memory_(file_memory) {
  const Descriptor file = Opened(path);
  const int fd = file.get();
  if (fd < 0 && (errno == ENOENT || errno == ENOTDIR)) Fail("{}: no such file; try checking the path", path.string());
  if (fd < 0) Fail("{}: cannot open: {}; try checking its permissions", path.string(), Reason());
  state_ = StateOfFile(fd, path);
  NoteOpened({state_.device, state_.inode});
  const size_t size = static_cast<size_t>(state_.bytes);
  if (size > 0) bytes_ = {memory_ == FileMemory::kMapped ? Map(fd, size, path) : CopyOf(fd, size, path), Unmap{size}};
}

void MappedFile::Unmap::operator()(const std::byte* bytes) const { munmap(const_cast<std::byte*>(bytes), size); }

bool MappedFile::Release(std::span<const std::byte> bytes) const {
  const size_t size = this->bytes().size();
  const size_t offset = reinterpret_cast<uintptr_t>(bytes.data()) - reinterpret_cast<uintptr_t>(bytes_.get());
  if (offset > size || bytes.size() > size - offset) return false;
  if (memory_ == FileMemory::kCopied) return true;
  const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  const size_t begin = (offset + page - 1) / page * page;
  const size_t end = (offset + bytes.size()) / page * page;
  // What the kernel refuses costs memory and no more.
  if (begin < end) madvise(const_cast<std::byte*>(bytes_.get() + begin), end - begin, MADV_DONTNEED);
  return true;
}

// The disk's blocks are taken at once: writing to a page that has none would end the process.
void* DiskMemory::do_allocate(size_t bytes, size_t) {
  if (bytes == 0) return nothing;
  const Descriptor file = FileWithoutName(folder_);
  int error = file.get() < 0 ? errno : posix_fallocate(file.get(), 0, static_cast<off_t>(bytes));
  void* const p = error != 0 ? MAP_FAILED : mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
  if (p != MAP_FAILED) return p;
  Fail("{}: cannot hold {} bytes in a temporary file: {}; try a folder with more space", folder_.string(), bytes,
       std::strerror(error != 0 ? error : errno));
}

void DiskMemory::do_deallocate(void* p, size_t bytes, size_t) {
  if (bytes > 0) munmap(p, bytes);
}

}  // namespace tare
