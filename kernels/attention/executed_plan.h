// SPDX-License-Identifier: Apache-2.0
// A plan's rules for attention, as the integer kernels take them. What they execute: q and k a token, v a block and
// channel or a channel, probs or difference a block, attn_logits a row; one rule a site for all heads and maps of the
// layer.
#pragma once

#include "kernels/attention/executed_attention.h"
#include "quant/format/plan.h"

namespace tare {

struct ExecutedPlan {
  AttentionPlan attention;  // k_mean and v_mean are the caller's to fill in
  bool smooth_k = false;    // +smooth was asked for
  bool smooth_v = false;
};

// Throws Error naming the rule that the kernels cannot execute, and what they can.
ExecutedPlan ExecutedPlanOf(const Plan& plan, int layer, int heads);

}  // namespace tare
