// SPDX-License-Identifier: Apache-2.0
// Which hint decoding gives for the bytes that it reads 16 KB later, by who made the processor: no choice is right for
// all of them, and a wrong one costs half of the speed. Results do not depend on it. Measurements: NOTEBOOK.md.
//
//   none    AMD up to Zen 4, whose own prefetchers do better
//   once    into the first cache alone: AMD Zen 5
//   kept    into all caches: Intel and others. "Once" passes by the second cache, and what is asked for so early is
//           gone again before it is used
#pragma once

#include <cstddef>
#include <string_view>

namespace tare {

enum class ReadHint { kNone, kOnce, kKept };

inline constexpr ptrdiff_t kReadAhead = 16384;  // bytes: what is on its way must last while a softmax is computed

// The same in every call.
ReadHint BestReadHint();

// "none", "once", "kept".
std::string_view Name(ReadHint hint);

}  // namespace tare
