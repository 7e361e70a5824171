// SPDX-License-Identifier: Apache-2.0
// The cost of each part of a plan in both models of `tare compare`: each attribution in its own folder below the
// comparison's (attribution-A, attribution-B), as `tare attribute --out` writes it, and the two side by side.
#pragma once

#include <string>
#include <vector>

#include "tools/attribute.h"

namespace tare {

// One model's options, and the plan cut into its parts.
struct ModelAttribution {
  CellsCommand options;
  AttributionQuestion question;
};
// Both models by site, by divergence on at most `tokens` tokens of the text. Throws Error, before anything runs, for a
// plan that cannot be cut or run.
std::vector<ModelAttribution> AskBoth(const CellsCommand& compare, const std::filesystem::path& text,
                                      const std::string& plan, int64_t tokens);

struct ComparedAttribution {
  std::string table, legend;
  Json json;  // {"plan", "tokens", "models": [tare.attribution/1, ..], "differences"}
};
// Writes attribution.csv of the two side by side into the comparison's folder. `plan` is shown as the user gave it.
ComparedAttribution RunBoth(std::vector<ModelAttribution>& both, const std::string& plan,
                            const std::filesystem::path& folder);

}  // namespace tare
