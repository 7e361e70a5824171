// SPDX-License-Identifier: Apache-2.0
// Runs one model's attribution in its own folder and writes the result there, for `tare attribute` and for each of the
// two models of `tare compare`.
#pragma once

#include <string>
#include <vector>

#include "experiments/studies/attribution/attribution_pair.h"
#include "quant/file/json.h"
#include "tools/cells.h"

namespace tare {

struct AttributionQuestion {
  Plan plan;
  std::string by;
  std::vector<PlanPart> parts;
};
// The plan cut into parts of the options' only model; their plans become the sweep's. Throws Error where it cannot be.
AttributionQuestion AskAttribution(CellsCommand& options, const std::string& plan, const std::string& by);

// Files of the folder besides its cells: attribution.csv, .txt and .json.
std::vector<AtomicFile> ClaimAttribution(CellsCommand& options);

struct AttributionResult {
  AttributedModel model;
  nlohmann::ordered_json json;  // tare.attribution/1
  std::string table, legend;
};
// Of cells that RunCells gave; writes the files.
AttributionResult WriteAttribution(const CellsCommand& options, const AttributionQuestion& question,
                                   std::vector<SweepCell> cells);

}  // namespace tare
