// SPDX-License-Identifier: Apache-2.0
// The sites whose statistics are kept: names of sites or groups with the selectors of plans, separated by commas
// (attn_logits[l0-3,m1],layer_out,weights); empty text means all sites of the model.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "experiments/plan/model_sites.h"
#include "quant/plan/plan.h"

namespace tare {

class SiteSelection {
 public:
  // Throws Error for a name or selector that matches nothing in this model.
  static SiteSelection Parse(std::string_view text, const ModelSites& model);

  // Whether any part of the site and layer is selected; and whether this head and map of it is.
  bool Wants(Site site, std::optional<int> layer) const;
  bool Admits(const SiteKey& key) const;
  // The canonical form; "all" for everything.
  const std::string& canonical() const { return canonical_; }

 private:
  std::vector<Rule> rules_;
  std::string canonical_;
};

}  // namespace tare
