// SPDX-License-Identifier: Apache-2.0
// The kernels' Highway targets that this CPU supports, one after another.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <span>

#include "hwy/detect_targets.h"
#include "hwy/targets.h"

namespace tare {

// SSE2 has no FMA: where a stage's bits hang on it, that target is left out.
inline constexpr int64_t kAllTargets[] = {HWY_SSE2,     HWY_AVX2, HWY_AVX3, HWY_AVX3_DL, HWY_NEON_WITHOUT_AES,
                                          HWY_NEON_BF16};
inline constexpr std::span<const int64_t> kFmaTargets = std::span(kAllTargets).subspan(1);

template <typename Check>
void OnEachTarget(std::span<const int64_t> targets, Check check) {
  for (const int64_t target : targets) {
    if ((hwy::SupportedTargets() & target) == 0) continue;
    SCOPED_TRACE(hwy::TargetName(target));
    hwy::SetSupportedTargetsForTest(target);
    check();
    hwy::SetSupportedTargetsForTest(0);
    if (testing::Test::HasFatalFailure()) return;
  }
}

}  // namespace tare
