// SPDX-License-Identifier: Apache-2.0
#include "experiments/passes/progress.h"

#include "quant/base/message.h"

namespace tare {
namespace {

std::string TimeText(double seconds) {
  if (seconds < 120) return Formatted("{:.0f} s", seconds);
  return seconds < 7200 ? Formatted("{:.0f} min", seconds / 60) : Formatted("{:.1f} h", seconds / 3600);
}

// For slow units, the time of each.
std::string RateText(double per_second, const std::string& unit) {
  if (unit == "bytes") return SizeText(static_cast<int64_t>(per_second)) + "/s";
  if (per_second >= 1) return Formatted("{:.{}f} {}/s", per_second, per_second >= 10 ? 0 : 1, unit);
  return 1 / per_second < 120 ? Formatted("{:.1f} s each", 1 / per_second) : TimeText(1 / per_second) + " each";
}

}  // namespace

void ProgressClock::Begin(std::string what, int64_t runs_after, double now) {
  if (runs_ == 0) all_since_ = now;  // what came before did none of the work
  what_ = std::move(what);
  ++runs_;
  runs_after_ = runs_after;
  unit_.clear();
  done_ = 0;
  since_ = last_ = now;
}

std::string ProgressClock::Start() const {
  return runs_ == 1 && runs_after_ > 0 ? Formatted("{} runs; {}", 1 + runs_after_, what_) : "";
}

// ended: runs, and a share of this one; seconds: for these.
std::string ProgressClock::OfAll(double ended, double seconds) const {
  const auto runs = static_cast<double>(runs_ + runs_after_);
  const std::string time = ended > 0 ? ", " + TimeText(seconds * (runs - ended) / ended) + " left" : "";
  return Formatted("run {} of {}, {:.0f} % of all{}; ", runs_, runs_ + runs_after_, 100 * ended / runs, time);
}

std::string ProgressClock::Line(int64_t done, int64_t total, const std::string& unit, double now, size_t columns) {
  if (done < done_ || (unit != unit_ && !unit_.empty())) since_ = last_;
  done_ = done;
  unit_ = unit;
  last_ = now;
  const double seconds = now - since_, share = total > 0 ? static_cast<double>(done) / static_cast<double>(total) : 1;
  const bool bytes = unit == "bytes", parts = runs_ + runs_after_ > 1;
  std::string figures = parts   ? Formatted(": {:.0f} %", 100 * share)
                        : bytes ? Formatted(": {} of {}", SizeText(done), SizeText(total))
                                : Formatted(": {} of {} {}", done, total, unit);
  if (done > 0 && seconds > 0) {
    const double rate = static_cast<double>(done) / seconds;
    figures += ", " + RateText(rate, unit);
    if (!parts) figures += Formatted(", {} left", TimeText(seconds * (1 - share) / share));
  }
  std::string all;
  const double ended = static_cast<double>(runs_ - 1) + (unit.ends_with(" of weights") ? 0 : share);
  if (parts) all = OfAll(ended, now - all_since_);
  const size_t taken = all.size() + figures.size(), room = columns > taken ? columns - taken : 0;
  const std::string name = what_.size() <= room ? what_ : what_.substr(0, room > 2 ? room - 2 : 0) + "..";
  return (all + name + figures).substr(0, columns);
}

}  // namespace tare
