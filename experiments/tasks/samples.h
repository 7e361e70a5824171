// SPDX-License-Identifier: Apache-2.0
// Items that share a draw: those with the same "sample" key share a text, examples or an answer (tare make), and are
// not independent. An item without the key is its own sample.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "experiments/significance/paired_runs.h"
#include "quant/file/json.h"

namespace tare {

// How many of each sample's items are right ('1' in outcomes), and how many there are, in the order in which samples
// first come. items: places in outcomes and in the records, which have their keys as "item".
WindowLosses BySample(const std::vector<nlohmann::ordered_json>& records, std::string_view outcomes,
                      std::span<const size_t> items);

}  // namespace tare
