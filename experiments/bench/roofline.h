// SPDX-License-Identifier: Apache-2.0
// The clock of all benches, the summary of repetitions, and the machine's limits, measured in the same run as the
// results compared with them: the ukernel's rate on operands that stay in cache, and the rate of reading memory.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "kernels/linear/projector.h"
#include "quant/base/message.h"

namespace tare {

// From a monotonic clock.
inline double Seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Mean time of a call, over as many calls as take `least` seconds. Throws Error after RequestStop.
inline double SecondsOfCall(const std::function<void()>& call, double least) {
  const double start = Seconds();
  int64_t calls = 0;
  double seconds = 0;
  for (; seconds < least; seconds = Seconds() - start, ++calls) {
    ThrowIfStopped();
    call();
  }
  return seconds / static_cast<double>(calls);
}

// Throws Error, starting with `where`, for a case without threads or repetitions.
inline void RequireRuns(const char* where, int threads, int repetitions) {
  if (threads < 1 || repetitions < 1)
    Fail("{}: got {} threads and {} repetitions, expected at least 1", where, threads, repetitions);
}

struct Timing {
  double median = 0;  // seconds; the upper one if the count is even
  double spread = 0;  // (largest - smallest) / median
};

// Needs at least one repetition.
inline Timing TimingOf(std::vector<double> seconds) {
  std::ranges::sort(seconds);
  const double median = seconds.at(seconds.size() / 2);
  return {median, (seconds.back() - seconds.front()) / median};
}

// The line under a table of timings: empty, or that the machine was not quiet.
template <typename Result>
std::string QuietText(const std::vector<Result>& results) {
  double largest = 0.5;  // below it is quiet
  for (const Result& result : results) largest = std::max(largest, result.spread);
  if (largest == 0.5) return "";
  return Formatted("The largest spread is {:.0f} %: other work ran meanwhile; try again on a quiet machine.\n",
                   100 * largest);
}

// ---- Limits

struct Roofline {
  double u8s8_gops = 0;  // u8 x s8 -> s32, M 64, N 64, K 128
  double f32_gflops = 0;
  double bf16_gflops = 0;  // 0 where the CPU has no products of bf16
  double read_gbps = 0;    // of 256 MiB
};

// Best of some rounds on this many threads, which stay set; some tenths of a second. MeasureProducts skips reading.
Roofline MeasureRoofline(int threads);
Roofline MeasureProducts(int threads);

// A roof before and after a case: the better counts; if they differ by more than kSteadyRoof, no share of it holds.
struct RoofAround {
  double before = 0, after = 0;

  static constexpr double kSteadyRoof = 0.05;
  double Moved() const { return 1 - std::min(before, after) / std::max(before, after); }
  double Share(double speed) const { return Moved() <= kSteadyRoof ? speed / std::max(before, after) : NAN; }
};

// Ways to read memory. Which is fastest depends on the processor and on where the memory lies: on an Intel Xeon
// (Granite Rapids class) one chain of 16-byte loads reads 256 MiB at 10.5 GB/s, and the best of these loops at 17.1.
struct ReadLoop {
  int streams = 1;  // runs that are read side by side: 1, 2, 4 or 8
  int ahead = 0;    // bytes by which memory is asked for before it is read; 0: not asked for
};

inline constexpr std::array<ReadLoop, 8> kReadLoops = {
    {{1, 0}, {2, 0}, {4, 0}, {8, 0}, {1, 16384}, {2, 4096}, {4, 4096}, {8, 4096}}};

inline constexpr size_t kReadStep = 8 * 32;  // values that every loop divides by

// The sum of x [count], with the widest loads; count a multiple of kReadStep, x aligned to 64 bytes.
uint64_t SumRead(const uint64_t* x, size_t count, const ReadLoop& loop);

// GB/s of repeated reads, the best of kReadLoops and some rounds; in large pages if there are, like key/value caches.
double ReadRate(int threads, size_t bytes);

// The size of the processor's last cache, as the system reports it, or 0.
double LastCacheBytes();

// The better of each: a shared machine is slower at times, never faster.
Roofline Better(const Roofline& a, const Roofline& b);

nlohmann::ordered_json ToJson(const Roofline& roofline);  // {"u8s8_gops","f32_gflops","bf16_gflops","read_gbps"}

// The yardstick for forward passes: oneDNN's x [rows, in] W [in, out] in its own layout, f32, or bf16 with f32 sums. A
// call runs it once and gives its seconds. implementation, unless null: gets oneDNN's name for it.
std::function<double()> MatmulOf(Math math, int64_t rows, int64_t out, int64_t in,
                                 std::string* implementation = nullptr);

}  // namespace tare
