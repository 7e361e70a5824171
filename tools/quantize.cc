// SPDX-License-Identifier: Apache-2.0
// tare quantize: a checkpoint folder to a quantized checkpoint in one file.
#include <memory>
#include <print>

#include <nlohmann/json.hpp>

#include "experiments/quantize/quantize.h"
#include "tools/run_options.h"

namespace tare {
namespace {

struct Options {
  std::string model, plan, method = "rtn", calibrate, out, json;
  WindowOptions windows{.tokens = 32768};
  MachineOptions machine;
};

void Run(const Options& options) {
  CheckWritable(options.json);
  options.machine.Apply();
  const QuantizeJob job{.model = options.model,
                        .plan = Plan::Parse(options.plan),
                        .out = options.out,
                        .method = options.method == "gptq" ? QuantizeMethod::kGptq : QuantizeMethod::kNearest,
                        .calibration = options.calibrate,
                        .windows = options.windows};
  const QuantizeSummary s = Quantize(job, ProgressLine("quantize").Callback());
  if (PrintsTables(options.json)) {
    std::println("{}: {} matrices in {}, {:.2f} bits a weight, relative error {:.4f}", options.out, s.matrices,
                 job.plan.canonical(), s.bits_per_weight, s.relative_error);
    std::println("  {} bytes of tensors before, {} after", s.bytes_before, s.bytes_after);
  }
  WriteJson(options.json, {{"schema", "tare.quantize/1"},
                           {"out", options.out},
                           {"plan", job.plan.canonical()},
                           {"method", options.method},
                           {"matrices", s.matrices},
                           {"bits_per_weight", s.bits_per_weight},
                           {"relative_error", s.relative_error},
                           {"bytes_before", s.bytes_before},
                           {"bytes_after", s.bytes_after}});
}

}  // namespace

void AddQuantize(CLI::App& app) {
  auto options = std::make_shared<Options>();
  CLI::App* command =
      app.add_subcommand("quantize", "a quantized checkpoint in one HDF5 file, a MODEL for every command");
  command->add_option("MODEL", options->model, "checkpoint folder")->required();
  command
      ->add_option("--plan", options->plan,
                   "weights=int4/group64, weights=int8/channel+mse, lm_head.w=..., with commas between")
      ->required();
  command->add_option("--method", options->method, "rtn: round to nearest; gptq: errors made up for, on --calibrate")
      ->check(CLI::IsMember({"rtn", "gptq"}))
      ->capture_default_str();
  command->add_option("--calibrate", options->calibrate, "text or ids that gptq looks at; not what is evaluated later");
  AddWindowOptions(*command, options->windows);
  command->add_option("--out", options->out, "the file to make")->required();
  command->add_option("--json", options->json, "write JSON to a file, or - for standard output");
  options->machine.AddTo(*command);
  command->footer(
      "Example:\n  tare quantize experiments/pair/novels-differential --plan weights=int4/group64 --out Q.h5\n"
      "  tare eval Q.h5 --tasks perplexity=experiments/pair/heldout.txt");
  command->callback([options] { Run(*options); });
}

}  // namespace tare
