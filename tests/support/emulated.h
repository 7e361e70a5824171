// SPDX-License-Identifier: Apache-2.0
// For the sizes of tests that would take minutes where tools/test.sh --arm64 emulates a processor, and of tests of
// kernels, which run as released too, where sanitizers slow them.
#pragma once

namespace tare {

#ifdef TARE_EMULATED  // tests/CMakeLists.txt
inline constexpr bool kEmulated = true;
#else
inline constexpr bool kEmulated = false;
#endif

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kSlow = true;
#else
inline constexpr bool kSlow = kEmulated;
#endif

}  // namespace tare
