// SPDX-License-Identifier: Apache-2.0
// Progress, speed and remaining time of a run, as one line of text. A run may have parts, such as the cells of a
// sweep: it then gives the time left for the part and for the whole, assuming that all parts take as long as those so
// far.
#pragma once

#include <cstdint>
#include <string>

namespace tare {

class ProgressClock {
 public:
  // Times are seconds of any one clock.
  explicit ProgressClock(double now) : all_since_(now), since_(now), last_(now) {}

  // Part `part` of `parts` begins, counted from 0.
  void Begin(std::string what, size_t part, size_t parts, double now);

  // "quantize: 3 of 4 layers, 12.0 s each, 12 s left", in at most so many columns: the name is cut where it is too
  // long. Of a part: "3/24 llama q=int4/token perplexity:text: 45 %, 1200 per second, 9 s left (12 min of all)".
  // A count that begins again, or another unit, is the next step of the same part, with a rate of its own.
  std::string Line(int64_t done, int64_t total, const std::string& unit, double now, size_t columns);

 private:
  std::string what_, unit_;
  size_t part_ = 0, parts_ = 1;
  double all_since_, since_, last_;
  int64_t done_ = 0;
};

}  // namespace tare
