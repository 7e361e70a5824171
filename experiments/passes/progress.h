// SPDX-License-Identifier: Apache-2.0
// How long runs report progress to their caller; the libraries themselves never print.
#pragma once

#include <cstdint>
#include <functional>

namespace tare {

// done of total units ("tokens", "items"); may be empty.
using Progress = std::function<void(int64_t done, int64_t total, const char* unit)>;

inline void Report(const Progress& progress, int64_t done, int64_t total, const char* unit) {
  if (progress) progress(done, total, unit);
}

}  // namespace tare
