// SPDX-License-Identifier: Apache-2.0
#include "quant/file/disk_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <string>

#include "quant/base/message.h"
#include "quant/file/descriptor.h"

namespace tare {
namespace {

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
