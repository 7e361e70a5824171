// SPDX-License-Identifier: Apache-2.0
// What Tare says: errors, text in std::format's syntax, lists and plurals, and the names nearest to an unknown one.
//
// Bad input (a file, a config, a shape) throws Error: "where: got X, expected Y; try Z". TARE_CHECK aborts on our bugs.
//
// Values become text in message.cc alone: elsewhere it would be half of the code (200 KB and 2 s for 300 lines). Text
// goes to standard output at once, so that a run whose output goes nowhere ends early; notices, which stop nothing, are
// sent by a library and shown where the program decides.
//
// Ctrl-C in a long run: a signal handler, on its own stack (parallel.h), calls RequestStop; long loops call
// ThrowIfStopped between units of work, as ParallelFor does, so that the stack unwinds, temporary files go and finished
// work stays. What is kept to continue from is said then, and again when the next run takes it up.
#pragma once

#include <charconv>
#include <cstddef>
#include <cstdint>
#include <format>
#include <functional>
#include <limits>
#include <optional>
#include <ranges>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace tare {

class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Wrong values of options, and plans that cannot be read: the command is wrong and not a file.
class UsageError : public Error {
 public:
  using Error::Error;
};

[[noreturn]] void FailFormatted(std::string_view format, std::format_args args);
[[noreturn]] void FailUsageFormatted(std::string_view format, std::format_args args);

// Throws Error with a message in std::format's syntax; formatting is compiled once.
template <typename... Args>
[[noreturn]] void Fail(std::format_string<Args...> format, Args&&... args) {
  FailFormatted(format.get(), std::make_format_args(args...));
}

// Throws UsageError likewise.
template <typename... Args>
[[noreturn]] void FailUsage(std::format_string<Args...> format, Args&&... args) {
  FailUsageFormatted(format.get(), std::make_format_args(args...));
}

[[noreturn]] void CheckFailed(const char* condition, const char* file, int line);

// What ends a run that was asked to stop.
class Interrupted : public Error {
 public:
  using Error::Error;
};

// Nobody reads standard output any more, as after `tare ... | head`.
class ReaderEnded : public Error {
 public:
  using Error::Error;
};

void RequestStop() noexcept;  // safe in a signal handler
bool StopRequested();
void ThrowIfStopped();  // throws Interrupted after RequestStop
// For a process that goes on after work that RequestStop ended, as Python does.
void ForgetStop() noexcept;

// How a refusal to take up what another job left ends.
inline constexpr const char* kStartOver = "try --fresh to start over, or another --out";

// "S.h5.part keeps 3 of 9 batches"; empty: nothing. KeptText: as the end of a sentence about an interruption.
void NoteKept(const std::string& what);
std::string KeptText();

// Shows "S.h5.part: continues from 3 of 9 batches", once, by the last OnContinued; nothing before the first.
void SayContinued(const std::string& where, const std::string& from);
void OnContinued(void (*show)(const std::string& text));

// Names, tokens and texts may hold terminal controls: all but tabs and line ends become \u001b etc., which JSON reads.
std::string Printable(std::string_view text);

// To standard output, printable. Throws Error where it cannot be written.
void PutText(std::string_view text);
// To standard error, printable.
void PutError(std::string_view text);

std::string FormatArguments(std::string_view format, std::format_args args);

template <typename... Args>
std::string Formatted(std::format_string<Args...> format, Args&&... args) {
  return FormatArguments(format.get(), std::make_format_args(args...));
}

// Like std::print and std::println; throw as PutText does.
template <typename... Args>
void PrintText(std::format_string<Args...> format, Args&&... args) {
  PutText(FormatArguments(format.get(), std::make_format_args(args...)));
}
template <typename... Args>
void PrintLine(std::format_string<Args...> format, Args&&... args) {
  PutText(FormatArguments(format.get(), std::make_format_args(args...)) + "\n");
}

// Sizes for people, in powers of 1000 and three digits: "412 bytes", "7.41 MB", "12.3 GB".
std::string SizeText(int64_t bytes);

// Shows each text once after the last call of OnNotice, which says where; nothing before the first.
void Notice(const std::string& text);
void OnNotice(void (*show)(const std::string& text));

// A number that is the whole text: "12", "-3", "0.5", "1e-3"; no blank, no plus. Empty for other texts, or past T.
template <typename T>
std::optional<T> ParseNumber(std::string_view text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// The text of each of `all`, with `between` between them, and `last` before the last one, if it is given.
template <typename All, typename Text = std::identity>
std::string Listed(All&& all, std::string_view between, Text text = {}, std::string_view last = {}) {
  std::string listed;
  for (auto at = std::ranges::begin(all); at != std::ranges::end(all);) {
    listed += std::string_view(std::invoke(text, *at));
    const bool before_last =
        ++at != std::ranges::end(all) && !last.empty() && std::ranges::next(at) == std::ranges::end(all);
    if (at != std::ranges::end(all)) listed += before_last ? last : between;
  }
  return listed;
}

// "1 token", "2 tokens", "0 queries". `noun` is the singular and takes -s or -ies.
std::string Counted(int64_t n, std::string_view noun);

// "a llama", "an olmo2".
std::string WithArticle(std::string_view noun);

// "4-5,7" of 4, 5 and 7; the numbers ascend.
std::string RangesText(const std::vector<size_t>& numbers);

// The width of lines for people.
inline constexpr size_t kLineColumns = 80;
// Breaks a line between words, and ends the last one; what does not fit continues at the column.
std::string Wrapped(std::string line, size_t column);

// Levenshtein's: letters to add, remove or change, in the first 200 letters, because file names have any length.
size_t Distance(std::string_view a, std::string_view b);

// The known name that differs from the word by at most half of the word's letters, and least; first of those that
// contain a word of three letters or more ("logits": "attn_logits"); null if none does either.
const std::string* NearestOf(std::string_view word, const std::vector<std::string>& known);

// "; the nearest are 'a', 'b'": at most three, nearest first; empty if none is similar.
std::string NearestText(std::string_view name, const std::vector<std::string>& known);

// What public entries ask of their arguments. Each throws Error, which says where and what it got:
//
//   quantized linear, x: got a null pointer for 64 values
//   cache, key: got head 99, expected 0 to 3

// data points to so many values, 0 or more; where there are none it may be null.
void CheckPointer(std::string_view where, const void* data, int64_t values);

// least <= got <= most.
void CheckRange(std::string_view where, std::string_view what, int64_t got, int64_t least,
                int64_t most = std::numeric_limits<int64_t>::max());
inline void CheckEqual(std::string_view where, std::string_view what, int64_t got, int64_t expected) {
  CheckRange(where, what, got, expected, expected);
}

// A matrix [in, in] in so many values: in is at least 1.
void CheckSquare(std::string_view where, size_t values, int64_t in);

}  // namespace tare

#define TARE_CHECK(condition)                                              \
  do {                                                                     \
    if (!(condition)) ::tare::CheckFailed(#condition, __FILE__, __LINE__); \
  } while (false)
