// SPDX-License-Identifier: Apache-2.0
// tare bench attention: error, rooflines, baselines of one run; decode: one query, beside the time to read the cache.
#include <ranges>
#include <thread>
#include <tuple>

#include "experiments/bench/attention_bench.h"
#include "experiments/bench/decode_bench.h"
#include "experiments/observe/captured/captured_statistics.h"
#include "experiments/plan/cache_plan.h"
#include "kernels/product/read_ahead.h"
#include "kernels/product/tile_product.h"
#include "tools/command.h"

namespace tare {

// ---- attention

namespace {

struct BenchAttentionArguments {
  std::vector<std::string> families, plans, masks{"causal"}, data{"gaussian"}, files;  // files: those of data
  std::vector<int64_t> lengths;
  std::vector<int> widths{128}, heads{4}, threads{1};
  AttentionCase all;  // what the cases have in common
  std::string axes, json;
};

// int8, int6 and int4 throughout, in the order that is faster for the family.
std::vector<std::string> UsualPlans(const std::string& family) {
  std::vector<std::string> plans;
  for (const int bits : {8, 6, 4})
    plans.push_back(Formatted("q=int{0}/token,k=int{0}/token,{1}{0}/block256,v=int{0}/block256.channel", bits,
                              family == "standard" ? "probs=u" : "difference=int"));
  return plans;
}

void AddPlans(const BenchAttentionArguments& o, AttentionCase c, std::vector<AttentionCase>& cases) {
  for (const std::string& plan : o.plans.empty() ? UsualPlans(c.family) : o.plans) {
    c.plan = plan;
    cases.push_back(c);
  }
  AddBaselines(c, cases);
}

const char* NameOf(const Mask& mask) {
  return mask.kind == Mask::Kind::kFull ? "full" : mask.kind == Mask::Kind::kCausal ? "causal" : "window";
}

// A shape for each layer of each file, of its first sequence: its first tokens of each --n, or all.
void AddCaptured(const BenchAttentionArguments& o, std::vector<AttentionCase>& cases) {
  const CapturedInput input = LoadCaptured({o.files.begin(), o.files.end()}, CapturedLayout::Load(o.axes));
  ForCapturedLayers(input, {}, [&](CapturedLayer& read, const std::vector<int>&) {
    if (read.sequences().empty()) Fail("{}: got padding alone, expected tokens", read.where());
    const int64_t tokens = read.sequences().front().prefix;
    const auto layer = std::make_shared<CapturedLayer>(std::move(read));
    const AttentionProblem& p = layer->problem();
    CheckSoftmax(layer->where(), p);
    AttentionCase c = o.all;
    c.captured = {layer, &p};
    c.family = input.layout.attention().heads, c.mask = NameOf(p.mask), c.data = layer->where();
    c.d = p.q.width, c.heads = p.out.heads, c.kv_heads = p.v.heads;
    c.lambda = p.lambda.data == nullptr ? 0.0f : p.lambda.At(0, 0);
    const std::vector<int64_t> all{tokens};
    for (const auto& [n, threads] : std::views::cartesian_product(o.lengths.empty() ? all : o.lengths, o.threads)) {
      if (n > tokens) FailUsage("--n: got {}, expected at most the {} tokens of {}", n, tokens, c.data);
      c.n = n, c.threads = threads;
      AddPlans(o, c, cases);
    }
  });
}

// Every combination of shapes and data, then those of files.
std::vector<AttentionCase> Cases(const BenchAttentionArguments& o) {
  std::vector<std::string> families = o.families;
  if (families.empty()) families = {"v1"};
  if (o.families.empty() && o.plans.empty()) families = {"standard", "v1", "v2"};
  const std::vector<int64_t> lengths = o.lengths.empty() ? std::vector<int64_t>{2048} : o.lengths;
  std::vector<AttentionCase> cases;
  AttentionCase c = o.all;
  for (const auto& shape :
       std::views::cartesian_product(families, lengths, o.widths, o.heads, o.threads, o.masks, o.data)) {
    std::tie(c.family, c.n, c.d, c.heads, c.threads, c.mask, c.data) = shape;
    AddPlans(o, c, cases);
  }
  if (!o.files.empty()) AddCaptured(o, cases);
  return cases;
}

// Data of files, which have a dot in their names, are apart from those that are made, whose options they do not have.
void TakeFiles(const CLI::App& command, BenchAttentionArguments& o) {
  constexpr std::string_view kMade[] = {"gaussian", "sink", "vbias", "diffuse"};
  for (const std::string& name : o.data) {
    if (!name.contains('.') && !std::ranges::contains(kMade, name))
      FailUsage("--data: got '{}', expected gaussian, sink, vbias, diffuse, or a file of captured q, k and v", name);
  }
  const auto files = std::ranges::stable_partition(o.data, [](const auto& name) { return !name.contains('.'); });
  o.files.assign(files.begin(), files.end());
  o.data.erase(files.begin(), files.end());
  RequireEffect(command, !o.files.empty(), {"--axes"}, "a file in --data");
  RequireEffect(command, !o.data.empty(),
                {"--family", "--keys", "--d", "--heads", "--kv-heads", "--mask", "--lambda", "--seed"},
                "data that are made (--data gaussian): a file has its own");
}

void Print(const AttentionBench& bench) {
  const Roofline& r = bench.roofline;
  PrintLine("{}\n  u8 x s8 {:.0f} Gop/s, f32 {:.0f} GFLOP/s, bf16 {:.0f} GFLOP/s, reading {:.1f} GB/s", bench.isa,
            r.u8s8_gops, r.f32_gflops, r.bf16_gflops, r.read_gbps);
  PrintText("{}\n", TableText(AttentionBenchTable(bench), 2));
  for (const std::string& finding : AttentionFindings(bench)) PrintText("{}", Paragraphs(finding));
  std::map<std::string, std::string> plans;
  for (const AttentionResult& result : bench.results) plans[result.name] = result.measured.plan;
  PrintText("\n");
  for (const auto& [name, plan] : plans) {
    if (!plan.empty()) PrintLine("{}: {}", name, Plan::Parse(plan).canonical());
  }
  PrintText("\n{}{}", QuietText(bench.results), Paragraphs(NotesOf("bench-attention")));
}

void Run(const CLI::App& command, BenchAttentionArguments& o) {
  TakeFiles(command, o);
  std::vector<std::string> inputs = o.files;
  inputs.push_back(o.axes);
  const std::vector<AtomicFile> claims = ClaimFiles(inputs, {{o.json, JsonWith("tare.bench/")}});
  const int processors = static_cast<int>(std::thread::hardware_concurrency());
  for (const int threads : o.threads) {
    if (threads > processors)
      Notice(Formatted("--threads {}: more threads than the {} processors", threads, processors));
  }
  const AttentionBench bench = BenchAttention(Cases(o), ProgressLine("bench attention").Callback());
  if (PrintsTables(o.json)) Print(bench);
  WriteJson(o.json, AttentionBenchJson(bench, CpuName()));
}

// ---- decode

struct BenchDecodeArguments {
  std::vector<std::string> families{"v1"};
  std::vector<std::string> caches{"cache_k=int4/token,cache_v=int4/token", "cache_k=int6/token,cache_v=int6/token",
                                  "cache_k=int8/token,cache_v=int8/token",
                                  "cache_k=fp8e4m3/token,cache_v=fp8e4m3/token"};
  std::vector<int64_t> lengths{16384};
  std::vector<int> widths{128}, heads{8}, threads{1};
  DecodeCase all;  // what the cases have in common
  std::string json;
};

constexpr const char* kBaselines[] = {"cache_k=f32,cache_v=f32", "cache_k=bf16,cache_v=bf16"};

std::vector<DecodeCase> Cases(const BenchDecodeArguments& o) {
  std::vector<CachePlan> plans;
  for (const std::string& text : o.caches) plans.push_back(ParseCachePlan(text));
  for (const char* text : kBaselines) plans.push_back(ParseCachePlan(text));
  std::vector<DecodeCase> cases;
  DecodeCase c = o.all;
  for (const auto& shape : std::views::cartesian_product(o.families, o.lengths, o.widths, o.heads, o.threads)) {
    std::tie(c.shape.family, c.shape.n, c.shape.d, c.shape.heads, c.threads) = shape;
    c.kernel = "tare";
    for (const CachePlan& plan : plans) {
      c.plan = plan;
      cases.push_back(c);
    }
    if (c.shape.batch != 1) continue;
    c.kernel = "onednn-f32";
    cases.push_back(c);
  }
  return cases;
}

void Run(const BenchDecodeArguments& o) {
  const std::vector<AtomicFile> claims = ClaimFiles({}, {{o.json, JsonWith("tare.bench/")}});
  const std::vector<DecodeResult> results = BenchDecode(Cases(o), ProgressLine("bench decode").Callback());
  if (PrintsTables(o.json)) {
    PrintText("{}\n", TableText(DecodeBenchTable(results), 2));
    for (const std::string& finding : DecodeFindings(results)) PrintText("{}", Paragraphs(finding));
    PrintText("\nprefetch on this processor: {}\n\n{}{}", Name(BestReadHint()), QuietText(results),
              Paragraphs(NotesOf("bench-decode")));
  }
  WriteJson(o.json, DecodeBenchJson(results, CpuName()));
}

}  // namespace

void AddBenchAttention(CLI::App& bench) {
  const auto [command, o] = NewCommand<BenchAttentionArguments>(
      bench, "attention", "time attention kernels, verified first, beside baselines", Run);
  AddList(command, "--family standard|v1|v2,...", o.families, "kinds of attention; default: all, with --plan v1");
  Add(command, "--plan RULES", o.plans, "rules for q, k, v, probs or difference, attn_logits; repeatable");
  AddList(command, "--n N,...", o.lengths, "queries (oneDNN: up to 8192); default: 2048, all tokens of a file")
      ->check(WholeNumber(1, 1 << 17));
  AddWhole(command, "--keys N", o.all.keys, "keys and values; 0: as many as queries", 0, 1 << 17);
  AddList(command, "--d N,...", o.widths, "head dimension of q and k")->check(WholeNumber(1, 256));
  AddList(command, "--heads N,...", o.heads, "output heads")->check(WholeNumber(1, 256));
  AddWhole(command, "--kv-heads N", o.all.kv_heads, "KV heads, a divisor of --heads; 0: the same number", 0, 256);
  AddList(command, "--threads N,...", o.threads, "threads")->check(WholeNumber(1, 4096));
  AddList(command, "--mask causal|full,...", o.masks, "which keys a query sees");
  AddList(command, "--data NAME,...", o.data,
          "gaussian, sink, vbias, diffuse; or files of captured q, k and v (.safetensors, .h5, .npz)");
  Add(command, "--axes FILE", o.axes, "JSON with names, axes, heads and lambda of a file's arrays");
  Add(command, "--lambda X", o.all.lambda, "weight of the second map")->capture_default_str();
  AddWhole(command, "--repetitions N", o.all.repetitions, "timed calls", 1, 1000);
  Add(command, "--seed N", o.all.seed, "seed of the values")->capture_default_str();
  AddJson(command, o.json);
  AddQuiet(command);
  command.footer("Without --plan: int8, int6 and int4 of each family.");
}

void AddBenchDecode(CLI::App& bench) {
  const auto [command, o] =
      NewCommand<BenchDecodeArguments>(bench, "decode", "time attention of one query over a low-bit KV cache", Run);
  AddList(command, "--family standard|v1|v2,...", o.families, "kinds of attention");
  Add(command, "--cache RULES", o.caches, "formats, first=N, last=N; repeatable (none: int4, int6, int8, fp8e4m3)");
  AddList(command, "--n N,...", o.lengths, "keys per sequence")->check(WholeNumber(1, 1 << 20));
  AddList(command, "--d N,...", o.widths, "head dimension of q and k")->check(WholeNumber(1, 512));
  AddList(command, "--heads N,...", o.heads, "output heads")->check(WholeNumber(1, 256));
  AddWhole(command, "--kv-heads N", o.all.shape.kv_heads, "KV heads, a divisor of --heads; 0: the same number", 0, 256);
  AddWhole(command, "--batch N", o.all.shape.batch, "sequences", 1, 4096);
  AddList(command, "--threads N,...", o.threads, "threads")->check(WholeNumber(1, 4096));
  AddWhole(command, "--repetitions N", o.all.repetitions, "timed calls", 1, 1000);
  Add(command, "--seed N", o.all.seed, "seed of the values")->capture_default_str();
  AddJson(command, o.json);
  AddQuiet(command);
}

}  // namespace tare
