// SPDX-License-Identifier: Apache-2.0
// The plans of a sweep: sites x granularity x bits, with all sites in one plan or each in its own, or as given; and the
// name of a plan in a table row.
#pragma once

#include <string>
#include <vector>

#include "quant/plan/plan.h"

namespace tare {

enum class SweepSites { kTogether, kEach };

struct SweepQuestion {
  std::string site = "attn_logits";          // or several, separated by commas
  SweepSites sites = SweepSites::kTogether;  // kEach: one after the other; a group is then each of its sites
  std::string base;                          // rules that every quantized cell has besides
  std::vector<int> bits{16, 8, 6, 4};        // 16: not quantized
  std::vector<std::string> formats;          // instead of bits, where there are any: f32, int4, mxfp4
  std::vector<std::string> granularities{"row"};
  std::vector<std::string> plans;  // instead of all these, where there are any: plans as they are
};

// Each once, in the order of the question: "f32" for 16 bits, else "attn_logits=int6/row" after the base's rules, a
// rule per site. Of several sites one may lack the granularity (q has no row): it takes the nearest that it has, the
// finer of two, and a notice says so. Throws Error for nothing named, something named twice, and other numbers of bits
// than 16, 8, 6 and 4.
std::vector<Plan> PlansOf(const SweepQuestion& question);

// "q,k", "int4", "token", of the rules that quantize; nothing of "f32", which has 16 bits. Bits are those of the last
// rule.
struct PlanRow {
  std::string site, format, granularity;
  int bits = 16;
};
PlanRow RowOf(const Plan& plan);

}  // namespace tare
