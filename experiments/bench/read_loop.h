// SPDX-License-Identifier: Apache-2.0
// Ways to read memory. Which is fastest depends on the processor and on where the memory lies: on an Intel Xeon
// (Granite Rapids class) one chain of 16-byte loads reads 256 MiB at 10.5 GB/s, and the best of these loops at 17.1.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace tare {

struct ReadLoop {
  int streams = 1;  // runs that are read side by side: 1, 2, 4 or 8
  int ahead = 0;    // bytes by which memory is asked for before it is read; 0: not asked for
};

inline constexpr std::array<ReadLoop, 8> kReadLoops = {
    {{1, 0}, {2, 0}, {4, 0}, {8, 0}, {1, 16384}, {2, 4096}, {4, 4096}, {8, 4096}}};

inline constexpr size_t kReadStep = 8 * 32;  // values that every loop divides by

// The sum of x [count], with the widest loads; count a multiple of kReadStep, x aligned to 64 bytes.
uint64_t SumRead(const uint64_t* x, size_t count, const ReadLoop& loop);

}  // namespace tare
