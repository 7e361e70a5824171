// SPDX-License-Identifier: Apache-2.0
// One limit on the instruction set of all kernels, in Highway and in oneDNN, to reproduce the results of a smaller
// machine.
#pragma once

#include <string_view>

namespace tare {

// "sse4", "avx2" or "avx512" (without VNNI); throws Error for another word, or if the processor is not x86. Call it
// before anything else in kernels/. A limit above the processor's own has no effect. Code that Highway has no SSE4
// version of runs its SSE2 one.
void LimitInstructions(std::string_view name);

}  // namespace tare
