// SPDX-License-Identifier: Apache-2.0
// `tare bench decode`: one query per sequence over a cache of keys and values, with its error, the machine's best read
// rate and baselines from the same run.
//
// Before it is timed, a case is checked against the double reference over its own cache (bound in decode_attention.h),
// in its first and last head. Decoding and plain reading are timed in turn over equal amounts of memory (at most 256
// MiB of reading), so that a cache which fits the processor's cache is compared with reading from there.
//
//   bandwidth_fraction = bytes of the caches / seconds / bytes per second of reading, the best of the run
//   rel_l2             = of those heads' outputs, to exact attention on the values before any code;
//   floor_rel_l2       = of it, what the codes cost: exact attention over the cache
#pragma once

#include <string>
#include <vector>

#include "experiments/bench/decode_inputs.h"
#include "experiments/bench/roofline.h"
#include "experiments/plan/cache_plan.h"
#include "experiments/table/table.h"

namespace tare {

struct DecodeCase {
  std::string kernel = "tare";  // tare (plan), onednn-f32 (primitives composed, a batch of one)
  CachePlan plan;               // of kernel tare
  DecodeShape shape;
  int threads = 1;
  int repetitions = 7;
  uint64_t seed = 1;
};

struct DecodeResult {
  DecodeCase measured;
  double seconds = 0, spread = 0;  // median of a call; (largest - smallest) / median
  double ns_per_key_head = 0;      // per key and output head
  double bytes = 0;                // of the caches
  double gbps = 0, read_gbps = 0;
  double bandwidth_fraction = 0;
  double rel_l2 = 0, floor_rel_l2 = 0;
};

// Throws Error for a case that cannot run or does not fit the memory, before the first is timed, and for one that
// disagrees with the reference.
std::vector<DecodeResult> BenchDecode(const std::vector<DecodeCase>& cases, const CasesDone& progress = {});

// A row per case.
Table DecodeBenchTable(const std::vector<DecodeResult>& results);

// {"schema":"tare.bench/1","bench":"decode",...}
Json DecodeBenchJson(const std::vector<DecodeResult>& results, const std::string& cpu);

}  // namespace tare
