// SPDX-License-Identifier: Apache-2.0
// How long runs report progress to their caller. The libraries themselves never print.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace tare {

// done of total units ("tokens", "items"). May be empty.
using Progress = std::function<void(int64_t done, int64_t total, const char* unit)>;

inline void Report(const Progress& progress, int64_t done, int64_t total, const char* unit) {
  if (progress) progress(done, total, unit);
}

// What a part of a run is of the whole, in any unit that all parts share, for example tokens or parts.
struct Work {
  double here = 1;                                   // of the part itself
  double after = 0;                                  // of what follows it
  std::optional<int64_t> runs_after = std::nullopt;  // if the parts are runs: how many follow it
};

// What follows a part that knows only of itself.
struct Later {
  double work = 0;
  int64_t runs = 0;
};

// Progress, speed and remaining time of a run, as one line of text. A run may have parts, such as the cells of a sweep:
// it then begins with the share that is done of all of them and the time left for all, assuming that what remains takes
// as long as as much of what is done.
class ProgressClock {
 public:
  // All times are seconds of the same clock.
  explicit ProgressClock(double now) : all_since_(now), since_(now), last_(now) {}

  // Ends the part before it.
  void Begin(std::string what, const Work& work, double now);

  // "85 runs; llama f32 perplexity:text" before the first of several runs, whose time tells how long all take; else "".
  std::string Start() const;

  // "quantize: 3 of 4 layers, 12.0 s each, 12 s left", in at most `columns` columns: a name that is too long is cut.
  // Of several parts: "23 % of all, 12 min left; llama q=int4/token perplexity:text: 45 %, 1200 per second", and before
  // that "run 3 of 85, " if they are runs. A count that restarts, or a new unit, begins the next step of the same part,
  // with its own rate. Units "... of weights" are of a plan, before the part's own work: they move no share of all.
  std::string Line(int64_t done, int64_t total, const std::string& unit, double now, size_t columns);

 private:
  std::string what_, unit_;
  Work work_ = {.here = 0, .after = 0};
  double before_ = 0;  // work of the parts that have ended
  int64_t runs_ = 0;   // that have begun
  double all_since_, since_, last_;
  int64_t done_ = 0;
};

}  // namespace tare
