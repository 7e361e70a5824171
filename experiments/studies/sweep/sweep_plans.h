// SPDX-License-Identifier: Apache-2.0
// The plans of a sweep: sites x granularity x bits, with all sites in one plan or each in its own, or given as plans;
// and a plan's name in a table row.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "quant/plan/plan.h"

namespace tare {

enum class SweepSites { kTogether, kEach };

struct SweepQuestion {
  std::string site = "attn_logits";          // or several, separated by commas
  SweepSites sites = SweepSites::kTogether;  // kEach: one after another; a group stands for each of its sites
  std::set<Site> lacking;                    // sites that such a group leaves out
  std::string base;                          // rules added to every quantized cell
  std::vector<int> bits{16, 8, 6, 4};        // 16: not quantized
  std::vector<std::string> formats;          // if not empty, used instead of bits: f32, int4, mxfp4
  std::vector<std::string> granularities{"row"};
  std::vector<std::string> plans;  // if not empty, used instead of all these
};

// Each plan once, in the order of the question: "f32" for 16 bits, else "attn_logits=int6/row" after the base's rules,
// one rule per site. Among several sites, one without the granularity (q has no row) uses its nearest, the finer of
// two, and a notice says so. Throws Error for an empty or repeated entry, and for other numbers of bits than 16, 8, 6
// and 4, and of weights, k and v 3 and 2.
std::vector<Plan> PlansOf(const SweepQuestion& question);

// "q,k", "int4", "token" of the rules that quantize; empty for "f32", which has 16 bits. Bits are those of the last
// rule. A scale looks ahead if it may span later tokens than the query, which a model in use does not know yet.
struct PlanRow {
  std::string site, format, granularity;
  int bits = 16;
  bool looks_ahead = false;
  bool exact = true;  // 16 bits, and nothing else that changes the model, as f32+sink does
};
PlanRow RowOf(const Plan& plan);

}  // namespace tare
