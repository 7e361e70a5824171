// SPDX-License-Identifier: Apache-2.0
// Shows the tensors of a forward pass to visitors. Rows of the whole stream come in blocks of 64 tokens of one
// sequence; q, k, v and head_out in blocks of one head and all tokens of a sequence, so that a scale per channel, or
// per block of tokens and channel, lies within one block. FloatAttention shows attention logits, probabilities and
// their difference.
#pragma once

#include "experiments/model/batch.h"
#include "kernels/attention/heads.h"
#include "quant/observe/site_visitor.h"

namespace tare {

// rows: [R, columns], with R the batch's rows.
void ShowRows(SiteVisitors visitors, Site site, std::optional<int> layer, const TokenBatch& batch, float* rows,
              int64_t columns);

// Values [R][heads][width] of q, k, v or head_out; `table` gives the map of each head of q or k.
void ShowHeads(SiteVisitors visitors, Site site, int layer, const TokenBatch& batch, std::span<const OutputHead> table,
               HeadsView<float> values);

}  // namespace tare
