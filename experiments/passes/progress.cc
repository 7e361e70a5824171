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

}  // namespace

void ProgressClock::Begin(std::string what, size_t part, size_t parts, double now) {
  what_ = std::move(what);
  part_ = part;
  parts_ = parts;
  unit_.clear();
  done_ = 0;
  since_ = last_ = now;
}

std::string ProgressClock::Line(int64_t done, int64_t total, const std::string& unit, double now, size_t columns) {
  if (done < done_ || (unit != unit_ && !unit_.empty())) since_ = last_;
  done_ = done;
  unit_ = unit;
  last_ = now;
  const double seconds = now - since_, share = total > 0 ? static_cast<double>(done) / static_cast<double>(total) : 1;
  const bool bytes = unit == "bytes";
  std::string figures = parts_ > 1 ? Formatted(": {:.0f} %", 100 * share)
                        : bytes    ? Formatted(": {} of {}", SizeText(done), SizeText(total))
                                   : Formatted(": {} of {} {}", done, total, unit);
  if (done > 0 && seconds > 0) {
    const double rate = static_cast<double>(done) / seconds;
    figures += Formatted(", {}, {} left", bytes ? SizeText(static_cast<int64_t>(rate)) + " per second" : RateText(rate),
                         TimeText(seconds * (1 - share) / share));
  }
  const double parts_done = static_cast<double>(part_) + share;
  if (parts_ > 1 && parts_done > 0) {
    const double left = (now - all_since_) * (static_cast<double>(parts_) - parts_done) / parts_done;
    figures += Formatted(" ({} of all)", TimeText(left));
  }
  const size_t room = columns > figures.size() ? columns - figures.size() : 0;
  const std::string name = what_.size() <= room ? what_ : what_.substr(0, room > 2 ? room - 2 : 0) + "..";
  return (name + figures).substr(0, columns);
}

}  // namespace tare
