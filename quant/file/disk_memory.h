// SPDX-License-Identifier: Apache-2.0
// Memory on a disk: what does not fit beside the rest is written out by the system, so that a run holds more than the
// machine's memory. Each allocation is a mapped file without a name; nothing is left when the process ends.
#pragma once

#include <filesystem>
#include <memory_resource>
#include <utility>

namespace tare {

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
