// SPDX-License-Identifier: Apache-2.0
// tare stats --tensors: statistics of arrays that another program captured.
#pragma once

#include <string>
#include <vector>

#include "experiments/observe/statistics_units.h"

namespace tare {

struct TensorsOptions {
  std::vector<std::string> files;
  std::string axes, spans, out, json, name;
};

void CollectTensors(const TensorsOptions& options, StatisticsOptions statistics);

}  // namespace tare
