// SPDX-License-Identifier: Apache-2.0
// What `tare attribute`, and `tare compare` for each of its models, write of an attribution into its folder.
#pragma once

#include <string>
#include <vector>

#include "experiments/studies/attribution/attribution.h"
#include "quant/file/json_value.h"
#include "tools/cells.h"

namespace tare {

// Files of the folder besides its cells: attribution.csv, .txt and .json.
std::vector<AtomicFile> ClaimAttribution(const CellsCommand& options);

struct AttributionResult {
  AttributedModel model;
  Json json;  // tare.attribution/1
  std::string table, legend;
};
// From the cells of RunCells; writes the files.
AttributionResult WriteAttribution(const SweepOptions& options, const AttributionQuestion& question,
                                   std::vector<SweepCell> cells);

}  // namespace tare
