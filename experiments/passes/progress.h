// SPDX-License-Identifier: Apache-2.0
// How long runs report progress to their caller. The libraries themselves never print.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace tare {

// done of total units ("tokens", "items"). May be empty.
using Progress = std::function<void(int64_t done, int64_t total, const char* unit)>;

inline void Report(const Progress& progress, int64_t done, int64_t total, const char* unit) {
  if (progress) progress(done, total, unit);
}

// Progress, speed and remaining time of a run, as one line of text. A run may have parts, such as the cells of a sweep:
// it then gives the time left for the part and for the whole, assuming that the remaining parts take as long as those
// so far.
class ProgressClock {
 public:
  // All times are seconds of the same clock.
  explicit ProgressClock(double now) : all_since_(now), since_(now), last_(now) {}

  // Starts part `part` of `parts`, counted from 0.
  void Begin(std::string what, size_t part, size_t parts, double now);

  // "quantize: 3 of 4 layers, 12.0 s each, 12 s left", in at most `columns` columns: a name that is too long is cut.
  // For a part: "3/24 llama q=int4/token perplexity:text: 45 %, 1200 per second, 9 s left (12 min of all)". A count
  // that restarts, or a new unit, begins the next step of the same part, with its own rate.
  std::string Line(int64_t done, int64_t total, const std::string& unit, double now, size_t columns);

 private:
  std::string what_, unit_;
  size_t part_ = 0, parts_ = 1;
  double all_since_, since_, last_;
  int64_t done_ = 0;
};

}  // namespace tare
