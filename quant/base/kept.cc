// SPDX-License-Identifier: Apache-2.0
#include "quant/base/kept.h"

#include <mutex>

#include "quant/base/message.h"

namespace tare {
namespace {

// Any thread may be the one that stops.
struct Kept {
  std::mutex mutex;
  std::string what;
  void (*show)(const std::string& text) = nullptr;
} kept;

}  // namespace

void NoteKept(const std::string& what) {
  const std::scoped_lock lock(kept.mutex);
  kept.what = what;
}

std::string KeptText() {
  const std::scoped_lock lock(kept.mutex);
  return kept.what.empty() ? "; nothing was kept" : "; " + kept.what + ", and the same command continues";
}

void SayContinued(const std::string& where, const std::string& from) {
  const std::scoped_lock lock(kept.mutex);
  if (kept.show != nullptr) kept.show(Formatted("{}: continues from {}", where, from));
}

void OnContinued(void (*show)(const std::string& text)) {
  const std::scoped_lock lock(kept.mutex);
  kept.show = show;
}

}  // namespace tare
