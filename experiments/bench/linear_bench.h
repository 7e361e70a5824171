// SPDX-License-Identifier: Apache-2.0
// `tare bench linear`: speed of quantized linear layers, with oneDNN's f32 matmul (and bf16, where the CPU has it) and
// the machine's limits, all from one run.
//
// A plan of weights and linear_in is executed in integers, activations quantized inside the timing; one of weights
// alone takes a token at a time, and one-token steps cycle over more than 520 MiB of weights (the f32 baseline too), so
// that no cache helps. Before it is timed, a case must agree with the scalar reference. Ours and the baselines are
// timed in turn, each repetition at least 50 ms.
//
//   roofline_fraction = 2 rows out in / seconds / rate of u8 x s8
//                     = bytes of weights / seconds / rate of reading memory      of one-token steps
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "experiments/bench/roofline.h"
#include "experiments/table/table.h"

namespace tare {

struct LinearCase {
  std::string plan = "weights=int8/channel,linear_in=int8/token";
  int64_t rows = 512, out = 2048, in = 2048;
  int threads = 1;
  int repetitions = 7;
  uint64_t seed = 1;
};

struct LinearResult {
  LinearCase measured;
  double seconds = 0, spread = 0;          // median of a call; (largest - smallest) / median
  double f32_seconds = 0, f32_spread = 0;  // oneDNN
  double bf16_seconds = 0;                 // 0 where the CPU has none
  double gops = 0, weights_gbps = 0, f32_weights_gbps = 0;
  double roofline_fraction = 0;
  double bits_per_weight = 0;  // in memory, scales among them
  double rel_l2 = 0;           // against the layer before quantization, in double
};

struct LinearBench {
  Roofline roofline;  // on as many threads as the first case
  std::vector<LinearResult> results;
};

// Throws Error for a case that cannot run, or disagrees with the reference, before the first is timed.
LinearBench BenchLinear(const std::vector<LinearCase>& cases, const CasesDone& progress = {});

// A row per case.
Table LinearBenchTable(const LinearBench& bench);

// {"schema":"tare.bench/1","bench":"linear",...}
Json LinearBenchJson(const LinearBench& bench, const std::string& cpu);

// What `tare bench linear` measures without arguments.
std::vector<LinearCase> DefaultLinearCases();

}  // namespace tare
