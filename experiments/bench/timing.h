// SPDX-License-Identifier: Apache-2.0
// The clock of all benches, and the summary of repetitions.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

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

}  // namespace tare
