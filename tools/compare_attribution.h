// SPDX-License-Identifier: Apache-2.0
// The cost of each part of a plan in both models of `tare compare`: each attribution in its own folder below the
// comparison's (attribution-A, attribution-B), as `tare attribute --out` writes it, and the two side by side.
#pragma once

#include <string>
#include <vector>

#include "tools/attribute.h"

namespace tare {

// The options of one model's, and its plan cut into parts.
struct ModelAttribution {
  CellsCommand options;
  AttributionQuestion question;
};
// Of both models by site, by divergence on the text, at most `tokens` of it. Throws Error, before anything runs, for a
// plan that cannot be cut or not be run.
std::vector<ModelAttribution> AskBoth(const CellsCommand& compare, const std::filesystem::path& text,
                                      const std::string& plan, int64_t tokens);

struct ComparedAttribution {
  std::string table, legend;
  nlohmann::ordered_json json;  // {"plan", "tokens", "models": [tare.attribution/1, ..], "differences"}
};
// Writes attribution.csv of the two side by side into the comparison's folder. `plan` as it was given.
ComparedAttribution RunBoth(std::vector<ModelAttribution>& both, const std::string& plan,
                            const std::filesystem::path& folder);

}  // namespace tare
