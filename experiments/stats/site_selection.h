// SPDX-License-Identifier: Apache-2.0
// Which sites statistics are kept of: names of sites or groups with the selectors of plans, commas between them
// (attn_logits[l0-3,m1],layer_out,weights); empty text is all that the model has.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "experiments/model/config.h"
#include "quant/plan/plan.h"

namespace tare {

class SiteSelection {
 public:
  // Throws Error for a name or selector that matches nothing in this model.
  static SiteSelection Parse(std::string_view text, const ModelConfig& config);

  // Whether anything of the site and layer is selected, and whether this head and map of it is.
  bool Wants(Site site, int layer) const;
  bool Admits(Site site, int layer, int head, int map) const;
  // The one spelling; "all" for everything.
  const std::string& canonical() const { return canonical_; }

 private:
  std::vector<Rule> rules_;
  std::string canonical_;
};

// Sites that a forward pass or the checkpoint shows of this model.
std::vector<Site> SitesOf(const ModelConfig& config);

}  // namespace tare
