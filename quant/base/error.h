// SPDX-License-Identifier: Apache-2.0
// How Tare reports errors. Bad input (a file, a config, a shape at a public entry) throws Error, whose message says
// "where: got X, expected Y; try Z". A broken promise of our own code aborts through TARE_CHECK.
//
// Ctrl-C in a long run: a signal handler, on a stack of its own (thread_pool.h), calls RequestStop, and the long loops
// call ThrowIfStopped between units of work, as ParallelFor does, so that the stack unwinds, temporary files are
// removed and finished work is kept.
#pragma once

#include <format>
#include <stdexcept>
#include <string_view>

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

// Throws Error with a message in std::format's syntax; formatting is compiled once (formatted.h).
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

}  // namespace tare

#define TARE_CHECK(condition)                                              \
  do {                                                                     \
    if (!(condition)) ::tare::CheckFailed(#condition, __FILE__, __LINE__); \
  } while (false)
