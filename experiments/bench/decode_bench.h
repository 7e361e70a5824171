// SPDX-License-Identifier: Apache-2.0
// `tare bench decode`: one query per sequence over a cache of keys and values, with its error, the machine's best read
// rate and baselines from the same run.
//
// Before it is timed, a case is checked against the double reference over its own cache (bound in decode_attention.h),
// in its first and last head. Decoding and plain reading are timed in turn over equal amounts of memory (at most 1 GiB
// of reading), so that a cache which fits the processor's cache is compared with reading from there.
//
//   bandwidth_fraction = bytes of the caches / seconds / best read rate of the run in bytes per second
//   rel_l2             = error of those heads' outputs against exact attention on the unquantized values
//   floor_rel_l2       = the part of it that the codes cause: exact attention over the cache
#pragma once

#include <cmath>
#include <string>
#include <vector>

#include "experiments/bench/decode_inputs.h"
#include "experiments/bench/roofline.h"
#include "experiments/passes/progress.h"
#include "experiments/plan/cache_plan.h"
#include "experiments/table/table.h"

namespace tare {

struct DecodeCase {
  std::string kernel = "tare";  // tare (plan), onednn-f32 (primitives composed, a batch of one)
  CachePlan plan;               // for kernel tare
  DecodeShape shape;
  int threads = 1;
  int repetitions = 7;
  uint64_t seed = 1;
};

struct DecodeResult {
  DecodeCase measured;
  double seconds = 0, spread = 0;  // median of a call; (largest - smallest) / median
  double ns_per_key_head = 0;      // per key and output head
  double x_onednn = NAN;           // seconds of onednn-f32 of the same shape / seconds; NaN: not measured
  double bytes = 0;                // of the caches
  double gbps = 0, read_gbps = 0;
  double bandwidth_fraction = 0;
  bool in_last_cache = false;  // whether the caches fit the processor's
  double rel_l2 = 0, floor_rel_l2 = 0;
};

// Throws Error for a case that cannot run or does not fit into memory, before the first is timed, and for one that
// disagrees with the reference.
std::vector<DecodeResult> BenchDecode(const std::vector<DecodeCase>& cases, const Progress& progress = {});

// One row per case.
Table DecodeBenchTable(const std::vector<DecodeResult>& results);

// That no case reads memory, if so; and for each shape and plan in four bits that was also timed in eight, whether it
// is faster, and why.
std::vector<std::string> DecodeFindings(const std::vector<DecodeResult>& results);

// {"schema":"tare.bench/1","bench":"decode",...}
Json DecodeBenchJson(const std::vector<DecodeResult>& results, const std::string& cpu);

}  // namespace tare
