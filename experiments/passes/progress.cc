// SPDX-License-Identifier: Apache-2.0
#include "experiments/passes/progress.h"

#include "quant/base/formatted.h"

namespace tare {
namespace {

std::string TimeText(double seconds) {
  if (seconds < 120) return Formatted("{:.0f} s", seconds);
  return seconds < 7200 ? Formatted("{:.0f} min", seconds / 60) : Formatted("{:.1f} h", seconds / 3600);
}

// For slow units, the time of each.
std::string RateText(double per_second) {
  if (per_second >= 10) return Formatted("{:.0f} per second", per_second);
  if (per_second >= 1) return Formatted("{:.1f} per second", per_second);
  return 1 / per_second < 120 ? Formatted("{:.1f} s each", 1 / per_second) : TimeText(1 / per_second) + " each";
}

// done, left: work; seconds: for what is done.
std::string OfAll(double done, double left, double seconds) {
  const std::string time = done > 0 ? ", " + TimeText(seconds * left / done) + " left" : "";
  return Formatted("{:.0f} % of all{}; ", 100 * done / (done + left), time);
}

}  // namespace

void ProgressClock::Begin(std::string what, const Work& work, double now) {
  if (before_ + work_.here == 0) all_since_ = now;  // what came before did none of the work
  what_ = std::move(what);
  before_ += work_.here;
  work_ = work;
  runs_ += work.runs_after ? 1 : 0;
  unit_.clear();
  done_ = 0;
  since_ = last_ = now;
}

std::string ProgressClock::Start() const {
  const int64_t after = work_.runs_after.value_or(0);
  return runs_ == 1 && after > 0 ? Formatted("{} runs; {}", 1 + after, what_) : "";
}

std::string ProgressClock::Line(int64_t done, int64_t total, const std::string& unit, double now, size_t columns) {
  if (done < done_ || (unit != unit_ && !unit_.empty())) since_ = last_;
  done_ = done;
  unit_ = unit;
  last_ = now;
  const double seconds = now - since_, share = total > 0 ? static_cast<double>(done) / static_cast<double>(total) : 1;
  const bool bytes = unit == "bytes", parts = before_ + work_.after > 0;
  std::string figures = parts   ? Formatted(": {:.0f} %", 100 * share)
                        : bytes ? Formatted(": {} of {}", SizeText(done), SizeText(total))
                                : Formatted(": {} of {} {}", done, total, unit);
  if (done > 0 && seconds > 0) {
    const double rate = static_cast<double>(done) / seconds;
    figures += ", " + (bytes ? SizeText(static_cast<int64_t>(rate)) + " per second" : RateText(rate));
    if (!parts) figures += Formatted(", {} left", TimeText(seconds * (1 - share) / share));
  }
  std::string all;
  if (parts && work_.runs_after) all = Formatted("run {} of {}, ", runs_, runs_ + *work_.runs_after);
  const double of_part = unit.ends_with(" of weights") ? 0 : share;
  if (parts) all += OfAll(before_ + work_.here * of_part, work_.here * (1 - of_part) + work_.after, now - all_since_);
  const size_t taken = all.size() + figures.size(), room = columns > taken ? columns - taken : 0;
  const std::string name = what_.size() <= room ? what_ : what_.substr(0, room > 2 ? room - 2 : 0) + "..";
  return (all + name + figures).substr(0, columns);
}

}  // namespace tare
