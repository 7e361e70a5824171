// SPDX-License-Identifier: Apache-2.0
#include "quant/base/message.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <mutex>
#include <numeric>
#include <ranges>
#include <set>
#include <utility>

namespace tare {
namespace {

std::atomic<bool> stop_requested{false};
static_assert(std::atomic<bool>::is_always_lock_free, "a signal handler stores to it");

// Any thread may say something, or be the one that stops.
struct {
  std::mutex mutex;
  std::set<std::string> notices;
  std::string kept;
  void (*show_notice)(const std::string& text) = nullptr;
  void (*show_continued)(const std::string& text) = nullptr;
} said;

constexpr std::string_view kVowels = "aeiou";

std::string Plural(std::string_view noun) {
  const bool ies = noun.size() > 1 && noun.ends_with('y') && !kVowels.contains(noun[noun.size() - 2]);
  return ies ? std::string(noun.substr(0, noun.size() - 1)) + "ies" : std::string(noun) + "s";
}

constexpr size_t kLongest = 200;

}  // namespace

void FailFormatted(std::string_view format, std::format_args args) { throw Error(FormatArguments(format, args)); }

void FailUsageFormatted(std::string_view format, std::format_args args) {
  throw UsageError(FormatArguments(format, args));
}

void CheckFailed(const char* condition, const char* file, int line) {
  std::fprintf(stderr, "%s:%d: internal error: %s does not hold; please report this\n", file, line, condition);
  std::abort();
}

void RequestStop() noexcept { stop_requested.store(true, std::memory_order_relaxed); }

void ForgetStop() noexcept { stop_requested.store(false, std::memory_order_relaxed); }

bool StopRequested() { return stop_requested.load(std::memory_order_relaxed); }

void ThrowIfStopped() {
  if (StopRequested()) throw Interrupted("interrupted: no half-written file was left behind" + KeptText());
}

// 0x80 to 0x9f are control characters, too: two bytes in UTF-8 (C2 80), one where they stand alone.
std::string Printable(std::string_view text) {
  std::string shown;
  shown.reserve(text.size());
  int more = 0;  // bytes of the character that has begun
  for (const char byte : text) {
    const auto c = static_cast<unsigned char>(byte);
    const bool of_two = more == 1 && shown.back() == '\xC2', upper = c >= 0x80 && c < 0xA0 && (more == 0 || of_two);
    more = c >= 0xF0 ? 3 : c >= 0xE0 ? 2 : c >= 0xC0 ? 1 : c >= 0x80 ? std::max(0, more - 1) : 0;
    if (upper || c == 0x7F || (c < 0x20 && c != '\n' && c != '\t')) {
      if (upper && of_two) shown.pop_back();
      shown += Formatted("\\u{:04x}", c);
    } else {
      shown += byte;
    }
  }
  return shown;
}

void PutError(std::string_view text) { std::fputs(Printable(text).c_str(), stderr); }

void PutText(std::string_view raw) {
  const std::string text = Printable(raw);
  const bool whole = std::fwrite(text.data(), 1, text.size(), stdout) == text.size();
  if (whole && std::fflush(stdout) == 0) return;
  if (errno == EPIPE) throw ReaderEnded("standard output: cannot be written: whoever reads it has ended");
  Fail("standard output: cannot be written: {}; try freeing space, or another place for it", std::strerror(errno));
}

std::string FormatArguments(std::string_view format, std::format_args args) { return std::vformat(format, args); }

std::string SizeText(int64_t bytes) {
  constexpr const char* kUnits[] = {"KB", "MB", "GB", "TB"};
  if (bytes < 1000) return Formatted("{} bytes", bytes);
  double size = static_cast<double>(bytes) / 1000;
  size_t unit = 0;
  for (; size >= 999.5 && unit + 1 < std::size(kUnits); ++unit) size /= 1000;
  return Formatted("{:.{}f} {}", size, size < 9.995 ? 2 : size < 99.95 ? 1 : 0, kUnits[unit]);
}

void Notice(const std::string& text) {
  const std::scoped_lock lock(said.mutex);
  if (said.notices.insert(text).second && said.show_notice != nullptr) said.show_notice(text);
}

void OnNotice(void (*show)(const std::string& text)) {
  const std::scoped_lock lock(said.mutex);
  said.notices.clear();
  said.show_notice = show;
}

std::string Counted(int64_t n, std::string_view noun) {
  return Formatted("{} {}", n, n == 1 ? std::string(noun) : Plural(noun));
}

std::string WithArticle(std::string_view noun) {
  return Formatted("{} {}", !noun.empty() && kVowels.contains(noun.front()) ? "an" : "a", noun);
}

std::string RangesText(const std::vector<size_t>& numbers) {
  std::string text;
  for (const auto run : numbers | std::views::chunk_by([](size_t a, size_t b) { return b == a + 1; })) {
    text += Formatted("{}{}", text.empty() ? "" : ",", run.front());
    if (run.size() > 1) text += Formatted("-{}", run.back());
  }
  return text;
}

std::string Wrapped(std::string line, size_t column) {
  std::string lines;
  while (line.size() > kLineColumns) {
    const size_t begin = line.find_first_not_of(' ');
    size_t space = line.rfind(' ', kLineColumns);
    if (space == line.npos || space < begin) space = line.find(' ', begin);  // one long word
    if (space == line.npos) break;
    lines += line.substr(0, line.find_last_not_of(' ', space) + 1) + "\n";
    const size_t next = line.find_first_not_of(' ', space);
    if (next == line.npos) return lines;
    line = std::string(column, ' ') + line.substr(next);
  }
  return lines + line + "\n";
}

size_t Distance(std::string_view a, std::string_view b) {
  a = a.substr(0, kLongest), b = b.substr(0, kLongest);
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 0; i < a.size(); ++i) {
    size_t diagonal = std::exchange(row[0], i + 1);
    for (size_t j = 0; j < b.size(); ++j) {
      const size_t changed = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = std::exchange(row[j + 1], std::min({changed, row[j] + 1, row[j + 1] + 1}));
    }
  }
  return row.back();
}

const std::string* NearestOf(std::string_view word, const std::vector<std::string>& known) {
  const auto rank = [&](const std::string& name) {
    return std::pair(word.size() < 3 || !name.contains(word), Distance(word, name));
  };
  const auto nearest = std::ranges::min_element(known, {}, rank);
  if (nearest == known.end()) return nullptr;
  const auto [other, distance] = rank(*nearest);
  return other && distance > std::min(word.size(), kLongest) / 2 ? nullptr : &*nearest;
}

std::string NearestText(std::string_view name, const std::vector<std::string>& known) {
  std::vector<std::pair<size_t, std::string_view>> by_distance;
  for (const std::string& other : known) by_distance.emplace_back(Distance(name, other), other);
  const size_t count = std::min<size_t>(3, by_distance.size());
  std::ranges::partial_sort(by_distance, by_distance.begin() + static_cast<ptrdiff_t>(count));
  std::string text;
  for (size_t i = 0; i < count; ++i)
    text += (i == 0 ? (count == 1 ? "; the nearest is '" : "; the nearest are '") : ", '") +
            std::string(by_distance[i].second) + "'";
  return text;
}

void CheckPointer(std::string_view where, const void* data, int64_t values) {
  if (values < 0) Fail("{}: got {} values, expected 0 or more", where, values);
  if (data == nullptr && values > 0) Fail("{}: got a null pointer for {} values", where, values);
}

void CheckRange(std::string_view where, std::string_view what, int64_t got, int64_t least, int64_t most) {
  if (got >= least && got <= most) return;
  if (least == most) Fail("{}: got {} {}, expected {}", where, what, got, least);
  if (most == std::numeric_limits<int64_t>::max()) Fail("{}: got {} {}, expected at least {}", where, what, got, least);
  Fail("{}: got {} {}, expected {} to {}", where, what, got, least, most);
}

void CheckSquare(std::string_view where, size_t values, int64_t in) {
  constexpr int64_t kMost = int64_t{1} << 31;  // whose square an int64_t holds
  CheckRange(where, "inputs", in, 1, kMost);
  CheckEqual(where, "moments", static_cast<int64_t>(values), in * in);
}

void NoteKept(const std::string& what) {
  const std::scoped_lock lock(said.mutex);
  said.kept = what;
}

std::string KeptText() {
  const std::scoped_lock lock(said.mutex);
  return said.kept.empty() ? "; nothing was kept" : "; " + said.kept + ", and the same command continues";
}

void SayContinued(const std::string& where, const std::string& from) {
  const std::scoped_lock lock(said.mutex);
  if (said.show_continued != nullptr) said.show_continued(Formatted("{}: continues from {}", where, from));
}

void OnContinued(void (*show)(const std::string& text)) {
  const std::scoped_lock lock(said.mutex);
  said.show_continued = show;
}

}  // namespace tare
