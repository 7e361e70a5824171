// SPDX-License-Identifier: Apache-2.0
// tare bench linear: time quantized linear layers and compare them with oneDNN's f32 matmul.
#include "experiments/bench/linear_bench.h"
#include "experiments/bench/timing.h"
#include "quant/base/formatted.h"
#include "quant/plan/plan.h"
#include "tools/command.h"
#include "tools/files.h"
#include "tools/help.h"

namespace tare {
namespace {

struct BenchLinearArguments {
  std::string plan, json;
  LinearCase one;
  int threads = 1;
};

constexpr const char* kLinearLegend =
    "ms: median time of a call, with quantizing the inputs; spread: (largest - smallest) / median;\n"
    "f32 ms: oneDNN's f32 matmul in the same run; x f32, x bf16: its time, and that of its bf16 matmul, over ours;\n"
    "Gop/s: 2 rows in out / seconds; GB/s: bytes of the weights / seconds; roofline: the share of this run's u8 x s8\n"
    "rate, or for one token (rows 1, weights not in any cache) of its rate of reading memory; error: relative error\n"
    "of the output against the layer before quantization, in double. Every case is checked before it is timed.";

void Print(const LinearBench& bench) {
  PrintLine("roofline: u8 x s8 {:.0f} Gop/s, f32 {:.0f} GFLOP/s, reading {:.1f} GB/s", bench.roofline.u8s8_gops,
            bench.roofline.f32_gflops, bench.roofline.read_gbps);
  PrintText("{}\n{}{}", TableText(LinearBenchTable(bench), 2), QuietText(LargestSpread(bench.results)),
            Paragraph(kLinearLegend));
}

void Run(const BenchLinearArguments& options) {
  const std::vector<AtomicFile> claims = ClaimFiles({}, {options.json});
  std::vector<LinearCase> cases = DefaultLinearCases();
  if (!options.plan.empty()) {
    cases = {options.one};
    cases[0].plan = options.plan;
  }
  for (LinearCase& c : cases) {
    c.threads = options.threads;
    c.repetitions = options.one.repetitions;
  }
  const LinearBench bench = BenchLinear(cases, ProgressLine("bench linear").Callback());
  if (PrintsTables(options.json)) Print(bench);
  WriteJson(options.json, LinearBenchJson(bench, CpuName()));
}

}  // namespace

void AddBenchLinear(CLI::App& bench) {
  const auto [command, options] = NewCommand<BenchLinearArguments>(
      bench, "linear", "time quantized linear layers, beside oneDNN's f32 matmul", Run);
  CLI::Option* const plan =
      AddPlanOption(command, options.plan, "one case, not the default ones: weights=int4/group64,linear_in=int8/token");
  AddWhole(command, "--rows N", options.one.rows, "tokens", 1, 1 << 20)->needs(plan);
  AddWhole(command, "--out N", options.one.out, "outputs", 1, 1 << 18)->needs(plan);
  AddWhole(command, "--in N", options.one.in, "inputs", 1, 1 << 18)->needs(plan);
  AddWhole(command, "--repetitions N", options.one.repetitions, "timed calls", 1, 1000);
  AddWhole(command, "--threads N", options.threads, "threads", 1, 4096);
  AddJson(command, options.json);
  AddQuiet(command);
  command.footer(std::string(kLinearLegend) + "\n\n" +
                 Examples({"tare bench linear --plan weights=int4/group64,linear_in=int8/token --rows 512",
                           "tare bench linear --plan weights=int4/group64 --rows 1 --threads 2"}));
}

}  // namespace tare
