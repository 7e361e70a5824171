// SPDX-License-Identifier: Apache-2.0
// tare bench decode: attention of one query over a cache of keys and values, compared with the time of reading it.
#include <ranges>
#include <string>
#include <tuple>
#include <vector>

#include "experiments/bench/decode_bench.h"
#include "experiments/bench/timing.h"
#include "experiments/plan/cache_plan.h"
#include "kernels/product/read_ahead.h"
#include "quant/base/formatted.h"
#include "tools/command.h"
#include "tools/files.h"
#include "tools/help.h"

namespace tare {
namespace {

struct BenchDecodeArguments {
  std::vector<std::string> families{"v1"}, caches;
  std::vector<int64_t> lengths{16384};
  std::vector<int> widths{128}, heads{8}, threads{1};
  int kv_heads = 0, batch = 1, repetitions = 7;
  uint64_t seed = 1;
  std::string json;
};

// The caches measured by default.
constexpr const char* kDefaultCaches[] = {"cache_k=int4/token,cache_v=int4/token",
                                          "cache_k=int6/token,cache_v=int6/token",
                                          "cache_k=int8/token,cache_v=int8/token"};
constexpr const char* kBaselines[] = {"cache_k=f32,cache_v=f32", "cache_k=bf16,cache_v=bf16"};

constexpr const char* kDecodeLegend =
    "n: keys; d: head width of q and k; H: output heads; kv: key/value heads; B: sequences; th: threads.\n"
    "seconds: median time of a call, one query per sequence; spread: (largest - smallest) / median; ns/key: time\n"
    "per key and output head; GB/s: bytes of the caches / seconds; of read: share of the best read rate of the same\n"
    "run over as much memory (at most 1 GiB); from: whether the caches fit the processor's last cache; rel L2: error\n"
    "of the first and the last head against exact attention on unquantized values, in double; floor: the part of it\n"
    "that the codes cause; prefetch: the hint for what is read 16 KB later, none, once (into the first cache alone)\n"
    "or kept (into all, four small pages in turn). Every case is checked against the double reference over its cache\n"
    "before it is timed. f32 and bf16: the same kernel; onednn-f32: oneDNN primitives, composed (a batch of one).";

// Every combination: the caches, then the baselines of the same shape.
std::vector<DecodeCase> Cases(const BenchDecodeArguments& o) {
  std::vector<CachePlan> plans;
  for (const std::string& text : o.caches) plans.push_back(ParseCachePlan(text));
  if (plans.empty()) {
    for (const char* text : kDefaultCaches) plans.push_back(ParseCachePlan(text));
  }
  for (const char* text : kBaselines) plans.push_back(ParseCachePlan(text));
  std::vector<DecodeCase> cases;
  DecodeCase c{.shape = {.kv_heads = o.kv_heads, .batch = o.batch}, .repetitions = o.repetitions, .seed = o.seed};
  const auto add_kernels = [&] {
    c.kernel = "tare";
    for (const CachePlan& plan : plans) {
      c.plan = plan;
      cases.push_back(c);
    }
    if (o.batch != 1) return;
    c.kernel = "onednn-f32";
    cases.push_back(c);
  };
  for (const auto& shape : std::views::cartesian_product(o.families, o.lengths, o.widths, o.heads, o.threads)) {
    std::tie(c.shape.family, c.shape.n, c.shape.d, c.shape.heads, c.threads) = shape;
    add_kernels();
  }
  return cases;
}

void Print(const std::vector<DecodeResult>& results) {
  PrintText("{}\nprefetch on this processor: {}\n\n{}{}", TableText(DecodeBenchTable(results), 2), Name(BestReadHint()),
            QuietText(LargestSpread(results)), Paragraph(kDecodeLegend));
}

void Run(const BenchDecodeArguments& o) {
  const std::vector<AtomicFile> claims = ClaimFiles({}, {o.json});
  const std::vector<DecodeResult> results = BenchDecode(Cases(o), ProgressLine("bench decode").Callback());
  if (PrintsTables(o.json)) Print(results);
  WriteJson(o.json, DecodeBenchJson(results, CpuName()));
}

}  // namespace

void AddBenchDecode(CLI::App& bench) {
  const auto [command, o] =
      NewCommand<BenchDecodeArguments>(bench, "decode", "time attention of one query over a low-bit KV cache", Run);
  AddList(command, "--family standard|v1|v2,...", o.families, "kinds of attention");
  Add(command, "--cache RULES", o.caches, "formats, first=N, last=N; repeatable (none: int4, int6 and int8)");
  AddList(command, "--n N,...", o.lengths, "keys per sequence")->check(WholeNumber(1, 1 << 20));
  AddList(command, "--d N,...", o.widths, "head dimension of q and k")->check(WholeNumber(1, 512));
  AddList(command, "--heads N,...", o.heads, "output heads")->check(WholeNumber(1, 256));
  AddWhole(command, "--kv-heads N", o.kv_heads, "KV heads, a divisor of --heads; 0: the same number", 0, 256);
  AddWhole(command, "--batch N", o.batch, "sequences", 1, 4096);
  AddList(command, "--threads N,...", o.threads, "threads")->check(WholeNumber(1, 4096));
  AddWhole(command, "--repetitions N", o.repetitions, "timed calls", 1, 1000);
  Add(command, "--seed N", o.seed, "seed of the values")->capture_default_str();
  AddJson(command, o.json);
  AddQuiet(command);
  command.footer(std::string(kDecodeLegend) + "\n\n" +
                 Examples({"tare bench decode --family v1 --n 512,16384 --cache cache_k=int4/token,cache_v=int4/token",
                           "tare bench decode --n 4096 --heads 8 --kv-heads 2 --batch 4"}));
}

}  // namespace tare
