// SPDX-License-Identifier: Apache-2.0
// tare bench linear: quantized linear layers beside oneDNN's f32 matmul.
#include <memory>

#include "experiments/bench/linear_bench.h"
#include "quant/base/formatted.h"
#include "quant/base/parallel.h"
#include "quant/plan/grid_files.h"
#include "tools/command.h"
#include "tools/files.h"

namespace tare {
namespace {

struct Options {
  std::string plan, json;
  LinearCase one;
  int threads = 1;
};

void Print(const LinearBench& bench) {
  PrintLine("roofline: u8 x s8 {:.0f} Gop/s, f32 {:.0f} GFLOP/s, reading {:.1f} GB/s", bench.roofline.u8s8_gops,
            bench.roofline.f32_gflops, bench.roofline.read_gbps);
  for (const LinearResult& r : bench.results) {
    const LinearCase& c = r.measured;
    PrintLine(
        "{:<44} {} x {} x {}  {:8.3f} ms  {:5.2f} x f32 ({:.3f} ms)  {:6.1f} Gop/s  {:5.1f} GB/s  roofline {:.2f}  "
        "{:.2f} bits  error {:.2e}  spread {:.0f} %",
        c.plan, c.rows, c.in, c.out, 1e3 * r.seconds, r.f32_seconds / r.seconds, 1e3 * r.f32_seconds, r.gops,
        r.weights_gbps, r.roofline_fraction, r.bits_per_weight, r.rel_l2, 100 * r.spread);
    if (r.bf16_seconds > 0) PrintLine("{:<44} {:.2f} x bf16", "", r.bf16_seconds / r.seconds);
  }
}

void Run(const Options& options) {
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
  const LinearBench bench = BenchLinear(cases);
  if (PrintsTables(options.json)) Print(bench);
  WriteJson(options.json, LinearBenchJson(bench, CpuName()));
}

}  // namespace

void AddBenchLinear(CLI::App& bench) {
  auto options = std::make_shared<Options>();
  CLI::App* command = bench.add_subcommand("linear", "quantized linear layers beside oneDNN's f32 matmul");
  CLI::Option* plan =
      command
          ->add_option("--plan", options->plan,
                       "one case instead of the default ones: weights=int4/group64,linear_in=int8/token, or weights "
                       "alone for one-token steps")
          ->transform(WithGridFiles);
  command->add_option("--rows", options->one.rows, "tokens")
      ->check(WholeNumber(1, 1 << 20))
      ->capture_default_str()
      ->needs(plan);
  command->add_option("--out", options->one.out, "outputs")
      ->check(WholeNumber(1, 1 << 18))
      ->capture_default_str()
      ->needs(plan);
  command->add_option("--in", options->one.in, "inputs")
      ->check(WholeNumber(1, 1 << 18))
      ->capture_default_str()
      ->needs(plan);
  command->add_option("--repetitions", options->one.repetitions)->check(WholeNumber(1, 1000))->capture_default_str();
  command->add_option("--threads", options->threads)->check(WholeNumber(1, 4096))->capture_default_str();
  command->add_option("--json", options->json, "write JSON to a file, or - for standard output");
  command->footer("Example:\n  tare bench linear --plan weights=int4/group64,linear_in=int8/token --rows 512");
  command->callback([options] { Run(*options); });
}

}  // namespace tare
