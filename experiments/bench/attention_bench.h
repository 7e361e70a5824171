// SPDX-License-Identifier: Apache-2.0
// `tare bench attention`: speed of attention, with its error and the machine's limits, all from one run.
//
// Each case uses seeded Q, K, V. Its error against the double reference is taken on at most 256 rows spread over the
// sequence; then come repetitions of at least 0.2 s, with quantizing and packing inside the timing. Rooflines are
// measured before and after with the same number of threads, and the better one counts, if it stood still (RoofAround).
//
//   roofline_fraction = least operations per pair * pairs / seconds / roofline
//                       operations: standard 4d, V1 8d, V2 6d; roofline: u8 x s8, or f32 or bf16 for those kernels
//   x_onednn          = seconds of oneDNN's fastest kernel on the same tensors / seconds
//   max_row_rel_l2    = largest ||error|| / max(||o||, 0.01 (||P1 V|| + lambda ||P2 V||)) of a row
#pragma once

#include <cmath>
#include <string>
#include <vector>

#include "experiments/bench/attention_inputs.h"
#include "experiments/bench/roofline.h"
#include "experiments/passes/progress.h"
#include "experiments/table/table.h"

namespace tare {

struct AttentionResult {
  AttentionCase measured;
  std::string name;                // "int8 early", "oneDNN f32"; one per plan
  Roofline roofline;               // around this case, with as many threads
  std::string order;               // late early f32 bf16
  double seconds = 0, spread = 0;  // median; (largest - smallest) / median
  double ns_per_pair = 0;
  double roofline_fraction = 0, roof_moved = 0;  // NaN: see RoofAround
  double x_onednn = NAN;                         // NaN: oneDNN was not measured
  double executed_gops = 0;                      // least operations / time
  double rel_l2 = 0, max_row_rel_l2 = 0, cosine = 0;
  double floor_rel_l2 = 0;  // f32 attention on the same codes of Q, K and V; 0 for f32 kernels
};

struct AttentionBench {
  std::string isa;    // the path that products take
  Roofline roofline;  // on as many threads as the first case
  std::vector<AttentionResult> results;
};

// Checks all cases before timing; throws Error for one that cannot run. Neighbours with the same tensors share them.
AttentionBench BenchAttention(const std::vector<AttentionCase>& cases, const Progress& progress = {});

Table AttentionBenchTable(const AttentionBench& bench);  // one row per case

// {"schema":"tare.bench/1",...}; the caller fills in machine.cpu.
Json AttentionBenchJson(const AttentionBench& bench, const std::string& cpu);

// Sentences for each shape: its fastest integer kernel, compared with oneDNN; and whether INT4 is faster than INT8.
std::vector<std::string> AttentionFindings(const AttentionBench& bench);

// Adds a case for each baseline that can run c's shape here; c's plan is ignored.
void AddBaselines(const AttentionCase& c, std::vector<AttentionCase>& cases);

}  // namespace tare
