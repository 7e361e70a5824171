// SPDX-License-Identifier: Apache-2.0
// Runs one model's attribution in its own folder and writes the result there, for `tare attribute` and for each of the
// two models of `tare compare`.
#pragma once

#include <string>
#include <vector>

#include "experiments/studies/attribution/attribution.h"
#include "quant/file/json_value.h"
#include "tools/cells.h"

namespace tare {

struct AttributionQuestion {
  Plan plan;
  std::string by;
  std::vector<PlanPart> parts;
  PartCosts costs = PartCosts::kAloneAndTakenOut;
};
// Cuts the plan into parts of the options' only model; their plans become the sweep's. Throws Error if it cannot be
// cut.
AttributionQuestion AskAttribution(CellsCommand& options, const std::string& plan, const std::string& by,
                                   PartCosts costs = PartCosts::kAloneAndTakenOut);

// Files of the folder besides its cells: attribution.csv, .txt and .json.
std::vector<AtomicFile> ClaimAttribution(CellsCommand& options);

struct AttributionResult {
  AttributedModel model;
  Json json;  // tare.attribution/1
  std::string table, legend;
};
// From the cells of RunCells; writes the files.
AttributionResult WriteAttribution(const CellsCommand& options, const AttributionQuestion& question,
                                   std::vector<SweepCell> cells);

}  // namespace tare
