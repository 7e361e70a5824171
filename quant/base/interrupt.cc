// SPDX-License-Identifier: Apache-2.0
#include "quant/base/interrupt.h"

#include <atomic>

namespace tare {
namespace {
std::atomic<bool> stop_requested{false};
static_assert(std::atomic<bool>::is_always_lock_free, "a signal handler stores to it");
}  // namespace

void RequestStop() noexcept { stop_requested.store(true, std::memory_order_relaxed); }

bool StopRequested() { return stop_requested.load(std::memory_order_relaxed); }

void ThrowIfStopped() {
  if (StopRequested()) throw Interrupted("interrupted: no half-written file was left behind");
}

}  // namespace tare
