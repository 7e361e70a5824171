// SPDX-License-Identifier: Apache-2.0
// Which plans run on the integer kernels, asked of a model without weights.
#pragma once

#include <string>
#include <vector>

#include "experiments/plan/resolved_plan.h"
#include "quant/base/message.h"
#include "quant/plan/site.h"

namespace tare {

inline bool CanBeExecuted(const std::string& text) {
  const Plan plan = Plan::Parse(text);
  ModelSites model{
      .family = "page", .layers = 2, .maps = 2, .tied_head = false, .decodes = true, .heads = {}, .weights = {}};
  for (const SiteInfo& info : kSites) {
    if (ClassOf(info.site).dimensions.contains('h')) model.heads[info.site] = {1, 2};
    if (IsOfScan(info.site)) model.layers_of[info.site] = {0, 1};
  }
  model.experts = text.contains("experts.") ? 2 : 0;
  const StaticSource statics = [](const Rule&, const SiteKey&) { return std::vector<float>{1.0f}; };
  ResolvedPlan(plan, model, Carrying::kSimulated, statics);  // every site can be simulated
  try {
    ResolvedPlan(plan, model, Carrying::kExecuted, statics);
    return true;
  } catch (const Error&) {
    return false;
  }
}

// What shares a scale of the site where kernels take it, in a plan of which all else is executed.
inline std::vector<std::string> ExecutedPer(Site site) {
  const SiteClass& c = ClassOf(site);
  const std::string maps = site == Site::kDifference ? "difference=int8/block64" : "probs=u8/block64",
                    rest =
                        "weights=int8/channel,linear_in=int8/token,q=int8/token,k=int8/token,v=int8/block64.channel," +
                        maps;
  std::vector<std::string> per;
  for (const Granularity::Kind kind : c.granularities) {
    std::string spelling(Spelling(kind)), sample = spelling;
    if (const size_t n = sample.find("<N>"); n != sample.npos) sample.replace(n, 3, "64");
    const std::string rule = Formatted("{}{}={}/{}", IsCache(site) ? "" : rest + ",", Name(site),
                                       Name(c.formats.front()), sample);  // decoding shows no maps
    const bool freezes =
        c.options.contains("static") && (sample == "tensor" || sample == "head" || sample == "channel");
    const bool follows = (site == Site::kScanState || IsCache(site)) && sample == "tensor";  // only with +static
    if (!follows && CanBeExecuted(rule)) {
      per.push_back(spelling);
    } else if (freezes && CanBeExecuted(rule + "+static")) {
      per.push_back(spelling + "+static");
    }
  }
  return per;
}

}  // namespace tare
