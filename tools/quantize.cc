// SPDX-License-Identifier: Apache-2.0
// tare quantize: a checkpoint folder to a quantized checkpoint in one file.
#include <memory>
#include <print>

#include <nlohmann/json.hpp>

#include "experiments/quantize/quantize.h"
#include "tools/command.h"

namespace tare {
namespace {

struct Options {
  std::string model, plan, method = "rtn", out, json;
  MachineOptions machine;
};

void Run(const Options& options) {
  CheckWritable(options.json);
  options.machine.Apply();
  const QuantizeJob job{options.model, Plan::Parse(options.plan), options.out};
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
  command->add_option("--method", options->method, "rtn: round to nearest")
      ->check(CLI::IsMember({"rtn"}))
      ->capture_default_str();
  command->add_option("--out", options->out, "the file to make")->required();
  command->add_option("--json", options->json, "write JSON to a file, or - for standard output");
  options->machine.AddTo(*command);
  command->footer(
      "Example:\n  tare quantize experiments/pair/novels-differential --plan weights=int4/group64 --out Q.h5\n"
      "  tare eval Q.h5 --tasks perplexity=experiments/pair/heldout.txt");
  command->callback([options] { Run(*options); });
}

}  // namespace tare
