// SPDX-License-Identifier: Apache-2.0
#include "quant/base/error.h"

#include <atomic>
#include <cstdio>
#include <cstdlib>

#include "quant/base/formatted.h"
#include "quant/base/kept.h"

namespace tare {
namespace {

std::atomic<bool> stop_requested{false};
static_assert(std::atomic<bool>::is_always_lock_free, "a signal handler stores to it");

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

}  // namespace tare
