// SPDX-License-Identifier: Apache-2.0
#include "quant/base/memory.h"

#include <unistd.h>

#include <sys/mman.h>
#include <sys/resource.h>

#ifdef __GLIBC__
#include <malloc.h>
#endif

#include "quant/base/message.h"

namespace tare {

constexpr size_t kRoom = size_t{32} << 20, kStack = size_t{1} << 20;  // 192 KiB of stack are too few for `quantize`

void RequireRoom() {
  rlimit stack;
  if (getrlimit(RLIMIT_STACK, &stack) == 0 && stack.rlim_cur < kStack)
    Fail("stack: got ulimit -s {}, expected at least {}; try raising it", stack.rlim_cur >> 10, kStack >> 10);
  // Private and writable: what RLIMIT_AS, RLIMIT_DATA and strict overcommit each count. No page is touched.
  void* const room = mmap(nullptr, kRoom, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (room == MAP_FAILED) {
    Fail(
        "memory: got less than {} MiB left{}, expected that much for the libraries that Tare uses; try raising the "
        "limit, or a smaller model",
        kRoom >> 20, MemoryLimits());
  }
  munmap(room, kRoom);
}

std::string MemoryLimits() {
  std::string text;
  for (const auto& [resource, option] : {std::pair{RLIMIT_AS, 'v'}, std::pair{RLIMIT_DATA, 'd'}}) {
    rlimit limit;
    if (getrlimit(resource, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) continue;
    text += Formatted("{} ulimit -{} {}", text.empty() ? " under" : " and", option, limit.rlim_cur >> 10);
  }
  return text;
}

void AdviseLargePages(std::span<std::byte> memory) {
  constexpr uintptr_t kLarge = uintptr_t{2} << 20;
  const auto begin = reinterpret_cast<uintptr_t>(memory.data());
  const uintptr_t first = (begin + kLarge - 1) / kLarge * kLarge, last = (begin + memory.size()) / kLarge * kLarge;
  if (first < last) madvise(memory.data() + (first - begin), last - first, MADV_HUGEPAGE);
}

void ReturnFreedMemory() {
#ifdef __GLIBC__
  malloc_trim(0);
#endif
}

double MachineMemory() {
  return static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGESIZE));
}

}  // namespace tare
