// SPDX-License-Identifier: Apache-2.0
// The hint of decoding, and of products of one token with weights, for bytes 16 KB later, by the processor's maker:
// none suits all, a wrong one halves the speed. Results do not depend on it (measured: docs/develop/notebook.md).
//
//   near    AMD up to Zen 4, whose own prefetchers do better: only what lies just behind a head's panels, before the
//           softmax, during which they rest
//   once    into the first cache alone, 16 KB ahead: AMD Zen 5
//   kept    into all caches, in four small pages in turn (LineAhead): Intel and others. "Once" passes by the second
//           cache, and what is asked for so early is gone again before it is used
#pragma once

#include <algorithm>
#include <cstdint>
#include <string_view>

namespace tare {

enum class ReadHint { kNear, kOnce, kKept };

inline constexpr uintptr_t kReadAhead = 16384;  // bytes: what is on its way must last while a softmax is computed

// The place to ask for with the `line`th 64 bytes of what is read from `at` on. A first cache waits for some 16 lines
// at a time, too few where memory is 170 ns away. An Intel processor's second cache asks for up to 20 lines ahead by
// itself, but in each small page apart and not beyond its end (Intel's optimization manual). So while 16 KB are read,
// the four pages behind them are asked for side by side, a line of each with every 256 bytes. Each of the four
// instructions of a loop then walks through a page line by line, which matters as much.
constexpr uintptr_t LineAhead(uintptr_t at, uintptr_t line) {
  constexpr uintptr_t kSmallPage = 4096, kPages = kReadAhead / kSmallPage;
  const uintptr_t read = at + 64 * line, block = read / kReadAhead * kReadAhead, of_block = read % kReadAhead / 64;
  return block + kReadAhead + of_block % kPages * kSmallPage + of_block / kPages * 64;
}

// This processor's; the same in every call.
inline ReadHint BestReadHint() {
  static const ReadHint hint = [] {
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (__builtin_cpu_is("znver5")) return ReadHint::kOnce;
    if (__builtin_cpu_is("amd")) return ReadHint::kNear;
#endif
    return ReadHint::kKept;
  }();
  return hint;
}

// Asks for what follows `bytes` of a weight matrix at w: kKept as above, kOnce 4 KB ahead into all caches. kNear asks
// for a line of the next small page, so that its address is known before it is read; it has no use in large pages.
inline void AskForWeights(const void* w, int64_t bytes, ReadHint hint) {
  constexpr uintptr_t kNear = 4096, kTogether = 256;  // a line of each of four pages
  const auto at = reinterpret_cast<uintptr_t>(w), count = static_cast<uintptr_t>(bytes);
  if (hint != ReadHint::kKept) {
    const uintptr_t asked = hint == ReadHint::kOnce ? count : at % kNear < count ? 64 : 0;
    for (uintptr_t line = 0; line < asked; line += 64)
      __builtin_prefetch(reinterpret_cast<const void*>(at + kNear + line));
  } else if (at % kTogether < count) {
    for (uintptr_t line = 0; line < std::max(count, kTogether) / 64; ++line)
      __builtin_prefetch(reinterpret_cast<const void*>(LineAhead(at, line)));
  }
}

constexpr std::string_view Name(ReadHint hint) {
  return hint == ReadHint::kNear ? "near" : hint == ReadHint::kOnce ? "once" : "kept";
}

}  // namespace tare
