// SPDX-License-Identifier: Apache-2.0
#include "experiments/passes/shard.h"

#include <algorithm>

#include "quant/base/error.h"
#include "quant/base/formatted.h"

namespace tare {

Shard ParseShard(std::string_view option, std::string_view text) {
  const size_t slash = std::min(text.find('/'), text.size());
  const auto index = ParseNumber<size_t>(text.substr(0, slash));
  const auto count = ParseNumber<size_t>(text.substr(std::min(slash + 1, text.size())));
  if (!index || !count || *index >= *count)
    FailUsage("{}: got '{}', expected i/n with i from 0 to n - 1, for example 0/4", option, text);
  return {*index, *count};
}

}  // namespace tare
