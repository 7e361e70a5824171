// SPDX-License-Identifier: Apache-2.0
// How long runs report progress to their caller. The libraries themselves never print.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>

namespace tare {

// done of total units ("tokens", "items"). May be empty.
using Progress = std::function<void(int64_t done, int64_t total, const char* unit)>;

inline void Report(const Progress& progress, int64_t done, int64_t total, const char* unit) {
  if (progress) progress(done, total, unit);
}

// A run's progress, speed and remaining time as a line. Of several runs, such as a sweep's cells, it begins with the
// share done and the time left for all, at the average time of those done.
class ProgressClock {
 public:
  // `what` is running. All times are seconds of the same clock.
  ProgressClock(std::string what, double now) : what_(std::move(what)), all_since_(now), since_(now), last_(now) {}

  // Begins the first or the next of several runs, which so many follow.
  void Begin(std::string what, int64_t runs_after, double now);

  // "85 runs; llama f32 perplexity:text" before the first of several runs, whose time tells how long all take; else "".
  std::string Start() const;

  // "quantize: 3 of 4 layers, 12.0 s each, 12 s left", in at most `columns` columns, with long names cut. Of several
  // runs: "run 3 of 85, 2 % of all, 12 min left; llama q=int4/token perplexity:text: 45 %, 1200 tokens/s". A restarted
  // count or a new unit begins a run's next step, with its own rate. "... of weights" (a plan's) move no share of all.
  std::string Line(int64_t done, int64_t total, const std::string& unit, double now, size_t columns);

 private:
  std::string OfAll(double ended, double seconds) const;

  std::string what_, unit_;
  int64_t runs_ = 0, runs_after_ = 0;  // that have begun, and that follow these
  double all_since_, since_, last_;
  int64_t done_ = 0;
};

}  // namespace tare
