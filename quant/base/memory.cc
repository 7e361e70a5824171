// SPDX-License-Identifier: Apache-2.0
#include "quant/base/memory.h"

#include <unistd.h>

#include <sys/mman.h>
#include <sys/resource.h>

#include <map>
#include <mutex>
#include <new>

#include "quant/base/integers.h"
#include "quant/base/message.h"

namespace tare {
namespace {

constexpr size_t kLarge = size_t{2} << 20;                            // of the processor's pages
constexpr size_t kRoom = size_t{32} << 20, kStack = size_t{1} << 20;  // 192 KiB of stack are too few for `quantize`

class Chunks final : public std::pmr::memory_resource {
  void* do_allocate(size_t bytes, size_t alignment) override {
    constexpr size_t kShared = size_t{32} << 20, kAlone = size_t{8} << 20, kLine = 64;
    TARE_CHECK(alignment <= kLine);
    const size_t taken = bytes == 0 ? kLine : RoundUp(bytes, kLine);
    const bool shares = taken < kAlone;
    const std::lock_guard lock(mutex_);
    std::span<std::byte> chunk = shares ? rest_ : std::span<std::byte>();
    if (taken > chunk.size()) {
      const size_t all = RoundUp(shares ? kShared : taken, kLarge);
      chunk = {static_cast<std::byte*>(::operator new(all, std::align_val_t{kLarge})), all};
      AdviseLargePages(chunk);
      buffers_[chunk.data()] = 0;
    }
    ++ChunkOf(chunk.data())->second;
    if (shares) rest_ = chunk.subspan(taken);
    return chunk.data();
  }

  void do_deallocate(void* buffer, size_t, size_t) override {
    const std::lock_guard lock(mutex_);
    const auto chunk = ChunkOf(static_cast<std::byte*>(buffer));
    if (--chunk->second > 0) return;
    if (!rest_.empty() && chunk == ChunkOf(rest_.data())) rest_ = {};
    ::operator delete(chunk->first, std::align_val_t{kLarge});
    buffers_.erase(chunk);
  }

  bool do_is_equal(const memory_resource& other) const noexcept override { return this == &other; }

  std::map<std::byte*, size_t>::iterator ChunkOf(std::byte* at) { return std::prev(buffers_.upper_bound(at)); }

  std::mutex mutex_;
  std::map<std::byte*, size_t> buffers_;  // in use, by where their chunk begins
  std::span<std::byte> rest_;             // of the newest chunk that buffers share
};

}  // namespace

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
  const auto begin = reinterpret_cast<uintptr_t>(memory.data());
  const uintptr_t first = (begin + kLarge - 1) / kLarge * kLarge, last = (begin + memory.size()) / kLarge * kLarge;
  if (first < last) madvise(memory.data() + (first - begin), last - first, MADV_HUGEPAGE);
}

// Never destroyed: threads may still hold buffers when the process ends.
std::pmr::memory_resource& LargePages() {
#ifdef __SANITIZE_ADDRESS__
  return *std::pmr::new_delete_resource();  // where the sanitizer sees a buffer's end
#else
  static Chunks& chunks = *new Chunks;
  return chunks;
#endif
}

double MachineMemory() {
  return static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGESIZE));
}

}  // namespace tare
