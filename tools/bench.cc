// SPDX-License-Identifier: Apache-2.0
// tare bench forward, and linear (beside oneDNN's f32 matmul): speed against the machine's limits in the same run.
#include <unistd.h>

#include <functional>
#include <optional>

#include "experiments/bench/forward_bench.h"
#include "experiments/bench/linear_bench.h"
#include "experiments/model/plan_run.h"
#include "experiments/model/random_checkpoint.h"
#include "experiments/observe/full_observer.h"
#include "experiments/table/table.h"
#include "quant/base/parallel.h"
#include "quant/file/output_folder.h"
#include "tools/command.h"

namespace tare {
namespace {

// ---- forward

struct ForwardOptions {
  std::vector<std::string> families{"llama", "diffllama"};
  std::string json;
  std::vector<std::string> plans;
  ModelConfig config{.family = {},
                     .vocabulary = 2048,
                     .hidden = 1024,
                     .ffn = 2752,
                     .layers = 4,
                     .heads = 16,
                     .norm_eps = 1e-5f,
                     .tied_embeddings = true};
  ForwardBench bench;
  MachineOptions machine;
};

struct Timed {
  const char* what;
  std::string plan, family;
  ForwardTiming timing;
};

Columns<Timed> TimedColumns() {
  const auto of = [](double ForwardTiming::* member) { return [member](const Timed& t) { return t.timing.*member; }; };
  return {{Left("what", "what", 15), &Timed::what},
          {{.name = "plan", .side = Side::kBelow}, &Timed::plan},
          {Left("family", "family", 9), &Timed::family},
          {{"seconds"}, of(&ForwardTiming::seconds)},
          {Number("spread", "spread", "{:.1f}%", 6, 100), of(&ForwardTiming::spread)},
          {Number("tokens_per_second", "tokens/s", "{:.0f}", 8), of(&ForwardTiming::tokens_per_second)},
          {Number("gflops", "GFLOP/s", "{:.1f}", 7), of(&ForwardTiming::gflops)},
          {Number("matmul_gflops", "oneDNN's", "{:.1f}", 8), of(&ForwardTiming::matmul_gflops)},
          {Number("share", "share", "{:.3f}", 6), of(&ForwardTiming::share)}};
}

// ViT-B/16's images: 196 patches and the class token.
void MakeTower(ModelConfig& config, ForwardBench& bench) {
  config.tied_embeddings = false;
  config.projection = 512;
  if (FamilyOf(config).names.class_row.empty()) return;
  config.image_size = 224;
  config.patch_size = 16;
  bench.tokens = 1 + config.Patches();
}

// A family's timings: without statistics, with the paper's, and under each plan. The model's folder goes away again.
void TimeFamily(const ForwardOptions& o, const std::string& family, Math math,
                const std::function<void(const Timed&)>& add) {
  const AtomicFolder folder(std::filesystem::temp_directory_path() / Formatted("tare-bench-{}", getpid()));
  ModelConfig config = o.config;
  config.family = family;
  if (config.kv_heads == 0) config.kv_heads = config.heads;
  config.head_dim = config.hidden / config.heads;
  config.max_positions = static_cast<int>(o.bench.tokens);
  ForwardBench bench = o.bench;
  if (!FamilyOf(config).names.positions.empty()) MakeTower(config, bench);
  WriteRandomCheckpoint(folder.path(), config, WeightType::kBf16, 1);
  Model model(folder.path(), math);
  if (model.config().SeesImages()) ShowRandomImages(model, folder.path(), bench.batch);
  if (model.config().gate != config.gate)
    FailUsage("--gate: got family {}, expected one with a gate; try --family qwen3", family);
  add({"forward", "", family, TimeForward(model, bench)});
  FullObserver observer = OutlierObserver(model.config());
  SiteVisitor* const visitors[] = {&observer};
  add({"forward + stats", "", family, TimeForward(model, bench, visitors)});
  const ModelSites sites = ModelSitesOf(model);
  for (const std::string& plan : o.plans) {
    PlanRun run(Plan::Parse(plan), Carrying::kExecuted, sites);
    run.RefuseCache("bench forward");
    add({"executed", plan, family, TimeForward(model, bench, run.Begin(model))});
  }
}

void RunForward(const ForwardOptions& o) {
  const std::vector<AtomicFile> claims = ClaimFiles({}, {{o.json, JsonWith("tare.bench.forward/")}});
  const ModelConfig& config = o.config;
  if (config.hidden % config.heads != 0)
    FailUsage("--hidden: got {} for {} heads, expected a multiple; try --hidden {}", config.hidden, config.heads,
              (config.hidden / config.heads + 1) * config.heads);
  const Math math = o.machine.Apply();
  Json json{{"schema", "tare.bench.forward/1"},
            {"threads", Threads()},
            {"math", o.machine.math},
            {"hidden", config.hidden},
            {"ffn", config.ffn},
            {"layers", config.layers},
            {"heads", config.heads},
            {"batch", o.bench.batch},
            {"tokens", o.bench.tokens},
            {"plan", Plan::Parse(o.plans.empty() ? "" : o.plans.front()).canonical()}};
  std::vector<Timed> timings;
  std::optional<ProgressLine> line("bench forward");
  const auto add = [&](const Timed& timed) {
    timings.push_back(timed);
    Report(line->Callback(), std::ssize(timings), static_cast<int64_t>(o.families.size() * (2 + o.plans.size())),
           "timings");
  };
  for (const std::string& family : o.families) TimeFamily(o, family, math, add);
  line.reset();
  const Table table = TableOf(TimedColumns(), timings);
  json["timings"] = TableJson(table);
  if (PrintsTables(o.json))
    PrintText(
        "{}\n{}", TableText(table),
        Paragraphs("oneDNN's: GFLOP/s of oneDNN's large matmul in the same run; share: GFLOP/s as a fraction of it."));
  WriteJson(o.json, json);
}

void AddForward(CLI::App& bench) {
  const auto [command, options] =
      NewCommand<ForwardOptions>(bench, "forward", "time whole forward passes of random models", RunForward);
  AddList(command, "--family NAME,...", options.families, "families (tare help model)");
  Group(command, "Shape");
  AddWhole(command, "--hidden N", options.config.hidden, "hidden size", 2, 1 << 16);
  AddWhole(command, "--ffn N", options.config.ffn, "width of the feed-forward layer", 1, 1 << 18);
  AddWhole(command, "--layers N", options.config.layers, "layers", 1, 1000);
  AddWhole(command, "--heads N", options.config.heads, "query heads", 1, 1024);
  AddWhole(command, "--kv-heads N", options.config.kv_heads, "KV heads; 0: like --heads (diff_v2: at most half)", 0,
           1024);
  AddWhole(command, "--vocabulary N", options.config.vocabulary, "tokens of the vocabulary", 2, 1 << 20);
  AddWhole(command, "--batch N", options.bench.batch, "sequences", 1, 1 << 16);
  AddWhole(command, "--tokens N", options.bench.tokens, "tokens per sequence; vision towers: 197", 1, 1 << 20);
  Add(command, "--gate none|head|value", options.config.gate, "gate of attention's output, for family qwen3");
  Group(command, "How it runs");
  AddPlanOption(command, options.plans,
                "also time this plan on integer kernels: int8, int6, int4 or rules; repeatable");
  AddWhole(command, "--repetitions N", options.bench.repetitions, "runs of each", 1, 1000);
  AddJson(command, options.json);
  options.machine.AddTo(command);
}

// ---- linear

struct BenchLinearArguments {
  LinearCase one{.plan = {}};  // without a plan: the default cases
  std::string json;
};

void Run(const BenchLinearArguments& options) {
  const std::vector<AtomicFile> claims = ClaimFiles({}, {{options.json, JsonWith("tare.bench/")}});
  std::vector<LinearCase> cases = options.one.plan.empty() ? DefaultLinearCases() : std::vector{options.one};
  for (LinearCase& c : cases) {
    c.threads = options.one.threads;
    c.repetitions = options.one.repetitions;
  }
  const LinearBench bench = BenchLinear(cases, ProgressLine("bench linear").Callback());
  if (PrintsTables(options.json)) {
    PrintLine("roofline: u8 x s8 {:.0f} Gop/s, f32 {:.0f} GFLOP/s, reading {:.1f} GB/s", bench.roofline.u8s8_gops,
              bench.roofline.f32_gflops, bench.roofline.read_gbps);
    PrintText("{}\n{}{}", TableText(LinearBenchTable(bench), 2), QuietText(bench.results),
              Paragraphs(NotesOf("bench-linear")));
  }
  WriteJson(options.json, LinearBenchJson(bench, CpuName()));
}

void AddLinear(CLI::App& bench) {
  const auto [command, options] = NewCommand<BenchLinearArguments>(
      bench, "linear", "time quantized linear layers, beside oneDNN's f32 matmul", Run);
  CLI::Option* const plan = AddPlanOption(command, options.one.plan,
                                          "one case, not the default ones: weights=int4/group64,linear_in=int8/token");
  AddWhole(command, "--rows N", options.one.rows, "tokens", 1, 1 << 20)->needs(plan);
  AddWhole(command, "--out N", options.one.out, "outputs", 1, 1 << 18)->needs(plan);
  AddWhole(command, "--in N", options.one.in, "inputs", 1, 1 << 18)->needs(plan);
  AddWhole(command, "--repetitions N", options.one.repetitions, "timed calls", 1, 1000);
  AddWhole(command, "--threads N", options.one.threads, "threads", 1, 4096);
  AddJson(command, options.json);
  AddQuiet(command);
}

}  // namespace

void AddBench(CLI::App& app) {
  CLI::App* bench = app.add_subcommand("bench", "measure speed, with limits and baselines of the same run");
  bench->require_subcommand(1);
  AddForward(*bench);
  AddLinear(*bench);
  AddBenchAttention(*bench);
  AddBenchDecode(*bench);
}

}  // namespace tare
