// SPDX-License-Identifier: Apache-2.0
// What Highway and oneDNN do in the whole process. Call these before anything else in kernels/.
#pragma once

#include <string_view>

namespace tare {

// Limits the instruction set of all kernels, in Highway and in oneDNN, to reproduce the results of a smaller machine.
// "sse4", "avx2" or "avx512" (without VNNI). Throws Error for any other word, and if the processor is not x86. A limit
// above the processor's own has no effect. Code without an SSE4 version in Highway runs its SSE2 version.
void LimitInstructions(std::string_view name);

// On ARM without the file that identifies the processor, as in some containers, oneDNN says so on standard error when
// it is used first. It is used here, with that output elsewhere; call this before other threads may write there.
void MeetOneDnn();

// With ONEDNN_VERBOSE oneDNN prints a line per kernel among a command's figures. From here on it prints none.
void SilenceOneDnn();

}  // namespace tare
