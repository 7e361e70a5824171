// SPDX-License-Identifier: Apache-2.0
// Runs tokens through key/value caches as decoding does, many at a time where that gives the same result: every query
// sees the cache as it is when its own token arrives.
#pragma once

#include <functional>
#include <vector>

#include "experiments/model/model.h"

namespace tare {

// A batch's sequences through caches of their own, a branch through a fork of its prefix's. body: after each pass, the
// pass's batch and which row of the whole each of its rows is.
void PassThroughCaches(Model& model, SiteVisitors visitors, const TokenBatch& whole, const CachePlan& plan,
                       const std::function<void(const TokenBatch& pass, const std::vector<int64_t>& rows)>& body);

}  // namespace tare
