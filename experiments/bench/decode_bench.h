// SPDX-License-Identifier: Apache-2.0
// `tare bench decode`: one query per sequence over a cache, with error, best read rate and baselines of the same run.
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
#include <cstdint>
#include <string>
#include <vector>

#include "experiments/bench/attention_inputs.h"
#include "experiments/bench/roofline.h"
#include "experiments/passes/progress.h"
#include "experiments/plan/cache_plan.h"
#include "experiments/table/table.h"
#include "kernels/cache/kv_cache.h"
#include "kernels/decode/decode_heads.h"

namespace tare {

// One query per sequence, and seeded normal keys and values, made in parts from a pool: the cache alone needs memory.
struct DecodeShape {
  std::string family = "v1";  // standard v1 v2
  int64_t n = 16384;          // keys per sequence
  int d = 128;                // head width of q and k, and of v; in v1, v is twice as wide
  int heads = 8;              // output heads
  int kv_heads = 0;           // a divisor of heads; 0: the same number
  int batch = 1;              // sequences

  friend bool operator==(const DecodeShape&, const DecodeShape&) = default;
};

class DecodeInputs {
 public:
  // Throws Error for sizes below 1, and for heads that FamilyHeads refuses.
  DecodeInputs(const DecodeShape& shape, uint64_t seed);

  const DecodeHeads& table() const { return table_; }
  const std::vector<OutputHead>& heads() const { return heads_.table; }
  const float* lambda() const { return &lambda_; }
  HeadsView<const float> Query(int sequence) const;

  KvCache Cache(const CacheRules& rules, int sequence) const;

  // All keys and values of a sequence, dense: k [n][k heads][d], v [n][v heads][width].
  struct Dense {
    std::vector<float> k, v;
  };
  Dense AllTokens(int sequence) const;

  // One output head of a sequence, computed in double from unquantized values: [width of the output].
  std::vector<double> Exact(int sequence, int head) const;

 private:
  struct Tokens {
    HeadsView<const float> k, v;
  };
  Tokens Part(int sequence, int64_t part) const;

  DecodeShape shape_;
  FamilyHeads heads_;
  DecodeHeads table_;
  float lambda_ = 0.5f;
  std::vector<float> pool_;
};

struct DecodeCase {
  std::string kernel = "tare";  // tare (plan), onednn-f32 (primitives composed, a batch of one)
  CachePlan plan;               // for kernel tare
  DecodeShape shape;
  int threads = 1, repetitions = 7;
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

// Throws Error, before timing, for a case that cannot run or does not fit memory; and for one that fails the reference.
std::vector<DecodeResult> BenchDecode(const std::vector<DecodeCase>& cases, const Progress& progress = {});

Table DecodeBenchTable(const std::vector<DecodeResult>& results);  // one row per case

// Says if no case reads memory; and for plans in four bits also timed in eight, which is faster, and why.
std::vector<std::string> DecodeFindings(const std::vector<DecodeResult>& results);

// {"schema":"tare.bench/1","bench":"decode",...}
Json DecodeBenchJson(const std::vector<DecodeResult>& results, const std::string& cpu);

}  // namespace tare
