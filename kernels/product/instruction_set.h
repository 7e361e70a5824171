// SPDX-License-Identifier: Apache-2.0
// Limits the instruction set of all kernels, in Highway and in oneDNN, to reproduce the results of a smaller machine.
#pragma once

#include <string_view>

namespace tare {

// "sse4", "avx2" or "avx512" (without VNNI). Throws Error for any other word, and if the processor is not x86. Call it
// before anything else in kernels/. A limit above the processor's own has no effect. Code without an SSE4 version in
// Highway runs its SSE2 version.
void LimitInstructions(std::string_view name);

}  // namespace tare
