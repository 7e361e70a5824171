// SPDX-License-Identifier: Apache-2.0
// One limit on the instructions of everything below, Highway's code and oneDNN's alike, to see what a lesser machine
// would compute.
#pragma once

#include <string_view>

namespace tare {

// "sse4", "avx2" or "avx512" (without VNNI); throws Error for another word, or where the processor is no x86. To be
// called before anything else of kernels/. A limit beyond the processor changes nothing. Code that Highway has no SSE4
// version of runs its SSE2 one.
void LimitInstructions(std::string_view name);

}  // namespace tare
