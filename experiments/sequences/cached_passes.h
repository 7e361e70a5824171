// SPDX-License-Identifier: Apache-2.0
// Tokens through key/value caches as decoding computes them, many at a time where that is the same: every query sees the
// cache as it is when its own token comes.
#pragma once

#include <functional>
#include <vector>

#include "experiments/model/model.h"

namespace tare {

// How many tokens may follow the first `past` in one pass: up to the end of a page, where scales per channel are fixed; one
// where the last tokens stay in f32, for which those are changes with every token.
int64_t TokensAtOnce(const CachePlan& plan, int64_t past);

// A batch's sequences through caches of their own, a branch through a fork of its prefix's. body: after each pass, the
// pass's batch and which row of the whole each of its rows is.
void PassThroughCaches(Model& model, SiteVisitors visitors, const TokenBatch& whole, const CachePlan& plan,
                       const std::function<void(const TokenBatch& pass, const std::vector<int64_t>& rows)>& body);

}  // namespace tare
