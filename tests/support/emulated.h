// SPDX-License-Identifier: Apache-2.0
// For the sizes of tests that would take minutes where tools/test.sh --arm64 emulates a processor.
#pragma once

namespace tare {

#ifdef TARE_EMULATED  // tests/CMakeLists.txt
inline constexpr bool kEmulated = true;
#else
inline constexpr bool kEmulated = false;
#endif

}  // namespace tare
