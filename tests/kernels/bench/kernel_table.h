// SPDX-License-Identifier: Apache-2.0
// The table of kernels x formats x shapes, for tests and benchmarks alike: tests/kernels/kernel_table_test.cc checks
// every row against the scalar references, and benchmarks.cc checks and times it, so a new kernel needs a row and no
// more. The property tests take their formats from the lists here. Map: shapes of models, formats, rows, the table.
//
// A row's name leads to its code and its test. Its first word is a source and a suite of tests in CamelCase:
// ExecutedAttention is executed_attention.h and executed_attention_test.cc. The second says what is timed: "quantize"
// and "pack" where the call does them, because the user pays for them.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/attention/integer/executed_attention.h"
#include "kernels/cache/kv_cache.h"
#include "quant/format/format.h"
#include "tests/support/random_attention.h"

namespace tare {

// One layer's attention, by the published config.json. Differential heads count as their model counts outputs: half of
// num_attention_heads in V1, all of them in V2, which has twice the query heads.
struct ModelShape {
  std::string_view family, name;
  HeadKind kind = HeadKind::kStandard;
  int heads = 0;  // output heads
  int kv = 0;     // as heads.h counts them
  int d = 0;      // head width of q and k
  int v_width = 0;
};

// No model of V2 is published: V2 has the shapes of the standard models that it would replace.
inline constexpr ModelShape kModelShapes[] = {
    {"standard", "Llama-3.2-1B", HeadKind::kStandard, 32, 8, 64, 64},
    {"standard", "Qwen3-0.6B", HeadKind::kStandard, 16, 8, 128, 128},
    {"V1", "DiffLlama-0.3B", HeadKind::kDiffLlamaOrder, 16, 8, 64, 64},
    {"V1", "Phi-4-mini-flash", HeadKind::kV1, 20, 10, 64, 128},
    {"V1", "Motif-2.6B", HeadKind::kV1, 8, 8, 128, 256},
    {"V2", "Llama-3.2-1B", HeadKind::kV2, 32, 8, 64, 64},
    {"V2", "Qwen3-0.6B", HeadKind::kV2, 16, 8, 128, 128},
};

// A layer's matrix [out, in].
struct LinearShape {
  std::string_view name;
  int64_t out = 0, in = 0;
};
inline constexpr LinearShape kLinearShapes[] = {
    {"Llama-3.2-1B.gate_proj", 8192, 2048}, {"Llama-3.2-1B.down_proj", 2048, 8192},
    {"Qwen3-0.6B.gate_proj", 3072, 1024},   {"DiffLlama-0.3B.q_proj", 2048, 2048},
    {"Phi-4-mini-flash.fc1", 20480, 2560},  {"Motif-2.6B.down_proj", 2048, 8192},
};

// What integer attention rounds to. "int8" and the like have all of Q, K and V in that format and the probabilities, or
// their difference, as wide; u8 and the like are differences with a zero point.
struct AttentionPrecision {
  std::string_view name;
  AttentionPlan::Order order;
  Format qkv, probs;
  Format logits = Format::kF32;
};
inline constexpr AttentionPrecision kAttentionPrecisions[] = {
    {"int8/late", AttentionPlan::Order::kLate, Format::kInt8, Format::kU8},
    {"int6/late", AttentionPlan::Order::kLate, Format::kInt6, Format::kU6},
    {"int4/late", AttentionPlan::Order::kLate, Format::kInt4, Format::kU4},
    {"int8/early", AttentionPlan::Order::kEarly, Format::kInt8, Format::kInt8},
    {"int6/early", AttentionPlan::Order::kEarly, Format::kInt6, Format::kInt6},
    {"int4/early", AttentionPlan::Order::kEarly, Format::kInt4, Format::kInt4},
    {"u8/early", AttentionPlan::Order::kEarly, Format::kInt8, Format::kU8},
    {"u6/early", AttentionPlan::Order::kEarly, Format::kInt6, Format::kU6},
    {"u4/early", AttentionPlan::Order::kEarly, Format::kInt4, Format::kU4},
    {"int8_logits_int8/late", AttentionPlan::Order::kLate, Format::kInt8, Format::kU8, Format::kInt8},
    {"int8_logits_int6/late", AttentionPlan::Order::kLate, Format::kInt8, Format::kU8, Format::kInt6},
    {"int8_logits_int4/late", AttentionPlan::Order::kLate, Format::kInt8, Format::kU8, Format::kInt4},
    {"int8_logits_int6/early", AttentionPlan::Order::kEarly, Format::kInt8, Format::kInt8, Format::kInt6},
};
constexpr AttentionPlan PlanOf(const AttentionPrecision& p, int block) {
  return {.q = p.qkv, .k = p.qkv, .v = p.qkv, .logits = p.logits, .order = p.order, .probs = p.probs, .block = block};
}

// Formats of Q, K and V, and of weights beside activations of 8 bits.
inline constexpr Format kSignedFormats[] = {Format::kInt8, Format::kInt6, Format::kInt4};
inline constexpr Format kWeightFormats[] = {Format::kInt8, Format::kInt6, Format::kInt4, Format::kInt3, Format::kInt2};
// Formats of late maps, and of differences.
inline constexpr Format kMapFormats[] = {Format::kU8, Format::kU6, Format::kU4};
inline constexpr Format kDifferenceFormats[] = {Format::kInt8, Format::kInt6, Format::kInt4,
                                                Format::kU8,   Format::kU6,   Format::kU4};
// Formats of caches, each way of having codes among them.
inline constexpr Format kCachedFormats[] = {Format::kF32,
                                            Format::kBf16,
                                            Format::kInt8,
                                            Format::kInt6,
                                            Format::kInt4,
                                            Format::kInt3,
                                            Format::kInt2,
                                            WithRange(Format::kInt2, CodeRange::kMin),
                                            WithRange(Format::kInt3, CodeRange::kZero),
                                            WithRange(Format::kInt4, CodeRange::kMin),
                                            WithRange(Format::kInt4, CodeRange::kZero),
                                            WithRange(Format::kInt4, CodeRange::kFull),
                                            WithRange(Format::kInt6, CodeRange::kFull),
                                            WithRange(Format::kInt8, CodeRange::kMin),
                                            Format::kFp8E4M3,
                                            Format::kFp8E5M2,
                                            Format::kNf4,
                                            Format::kNormal4,
                                            Format::kNormal3,
                                            Format::kNormal2,
                                            WithRange(Format::kNormal3, CodeRange::kMean)};

// What a call does, for the counters.
enum class Limit { kNone, kU8S8, kF32, kBf16, kRead };  // what the machine's rate for it is measured on
struct Work {
  double items = 0;  // for ns_per_<item>
  std::string_view item;
  double operations = 0;  // for Gop/s; an addition and a multiplication are two
  double bytes = 0;       // that are read or written, for GB/s
  Limit limit = Limit::kNone;
  double memory = 0;  // bytes that calls cycle over, which kRead reads as often
};

// A kernel on seeded inputs, ready to run again and again. What the functions use they own.
struct KernelCase {
  std::function<void()> run;
  std::function<std::string()> wrong;  // after run: against the scalar reference, "" or what differs (wrong.h)
  Work work;
};

enum class Extent { kWhole, kFewOutputs };  // of matrices: all outputs, or some, for tests
enum class Runs { kOnOneThread, kOnAllThreads };

struct KernelRow {
  std::string name;                 // "ExecutedAttention/quantize_pack_prefill/V1/int8/early/Motif-2.6B"
  std::string size_name;            // what sizes count: "N" keys and queries, "rows", "MiB" of weights
  std::vector<int64_t> sizes;       // that benchmarks time
  int64_t tested = 0;               // the size that tests check, odd where the kernel has tails
  Runs runs = Runs::kOnAllThreads;  // of a kernel that is called inside parallel work: on one
  std::function<KernelCase(int64_t size, Extent extent)> make;
};

inline const std::vector<int64_t> kLengths = {512, 1024, 2048, 4096, 8192, 16384};

// Its parts, one a source of this folder.
void AddAttentionRows(std::vector<KernelRow>& table);
void AddDecodeRows(std::vector<KernelRow>& table);
void AddLinearRows(std::vector<KernelRow>& table);
void AddStageRows(std::vector<KernelRow>& table);
void AddElementRows(std::vector<KernelRow>& table);

inline std::vector<KernelRow> KernelTable() {
  std::vector<KernelRow> table;
  for (const auto add : {AddAttentionRows, AddDecodeRows, AddLinearRows, AddStageRows, AddElementRows}) add(table);
  return table;
}

}  // namespace tare
