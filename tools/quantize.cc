// SPDX-License-Identifier: Apache-2.0
// tare quantize: turns a checkpoint folder into a quantized checkpoint in one file.
#include <memory>

#include "experiments/quantize/export.h"
#include "experiments/quantize/quantize.h"
#include "quant/base/error.h"
#include "quant/base/formatted.h"
#include "quant/file/atomic_folder.h"
#include "quant/plan/grid_files.h"
#include "tools/files.h"
#include "tools/help.h"
#include "tools/run_options.h"

namespace tare {
namespace {

struct QuantizeArguments {
  std::string model, plan, method = "rtn", calibrate, stats, out, format = "h5", json;
  bool resume = false;
  WindowOptions windows{.tokens = 32768};
  MachineOptions machine;
};

// What is wrong with a method; empty if it is valid. Reported as wrong usage, not as a failure.
std::string IsMethod(const std::string& text) {
  try {
    QuantizeMethod::Parse(text);
    return "";
  } catch (const Error& error) {
    const std::string what = error.what();
    return what.starts_with("--method") ? what.substr(std::string("--method").size() + 1) : what;  // who asks says it
  }
}

std::string PartsFolder(const QuantizeArguments& options) { return WithoutSlash(options.out).string() + ".parts"; }

// The file, and the folders: that of safetensors, and the one where calibrated methods keep parts for --resume.
std::vector<AtomicFile> ClaimOutputs(const QuantizeArguments& options) {
  std::vector<std::string> outputs{options.out};
  if (options.format == "safetensors") outputs = NewFilesIn(options.out, ExportedFiles());
  outputs.push_back(options.json);
  std::vector<AtomicFile> claims = ClaimFiles({options.model, options.calibrate, options.stats}, outputs);
  OutputsIn(PartsFolder(options), {});
  return claims;
}

struct Made {
  QuantizeSummary summary;
  std::string types;  // of the tensors that were written: nothing for codes
};

// By way of a file in a folder beside it, which goes away again.
Made QuantizeToFolder(QuantizeJob job, const Progress& progress) {
  const AtomicFolder passing(job.out.string() + ".quantized");
  AtomicFolder folder(job.out);
  job.out = passing.path() / "codes.h5";
  Made made{.summary = Quantize(job, progress), .types = {}};
  const ExportSummary written = ExportDequantized(job.out, job.model, folder.path());
  folder.Commit();
  made.summary.bytes_after = written.bytes;
  made.types = WrittenText(written);
  return made;
}

void PrintSummary(const QuantizeArguments& options, const Plan& plan, const Made& made) {
  const QuantizeSummary& s = made.summary;
  if (s.matrices == 0) {
    PrintLine("{}: equivalent weights, no codes", options.out);
  } else if (made.types.empty()) {
    PrintLine("{}: {} matrices, {:.2f} bits per weight, relative error {:.4f}", options.out, s.matrices,
              s.bits_per_weight, s.relative_error);
    PrintLine("  in {}", plan.canonical());
  } else {
    PrintLine("{}: {} matrices rounded and dequantized, relative error {:.4f}", options.out, s.matrices,
              s.relative_error);
    PrintLine("  rounded to {}", plan.canonical());
  }
  PrintLine("  {} of tensors before, {} after{}", SizeText(s.bytes_before), SizeText(s.bytes_after),
            made.types.empty() ? "" : ": " + made.types);
}

void Run(const CLI::App& command, const QuantizeArguments& options) {
  const QuantizeMethod method = QuantizeMethod::Parse(options.method);
  const bool smooths = method.equivalent == QuantizeMethod::Equivalent::kSmoothQuant;
  RequireEffect(command, smooths || method.RoundsByCalibration(), {"--calibrate"},
                "a method that needs a calibration text");
  const bool calibrates = !options.calibrate.empty();
  RequireEffect(command, calibrates, {"--window", "--tokens", "--limit", "--from"}, "--calibrate");
  const std::vector<AtomicFile> claims = ClaimOutputs(options);
  options.machine.Apply();
  const QuantizeJob job{.model = options.model,
                        .plan = Plan::Parse(options.plan),
                        .out = WithoutSlash(options.out),
                        .method = method,
                        .calibration = options.calibrate,
                        .statistics = options.stats,
                        .windows = options.windows,
                        .parts = PartsFolder(options),
                        .resume = options.resume};
  const Made made = options.format == "h5" ? Made{Quantize(job, ProgressLine("quantize").Callback()), ""}
                                           : QuantizeToFolder(job, ProgressLine("quantize").Callback());
  const QuantizeSummary& s = made.summary;
  if (PrintsTables(options.json)) PrintSummary(options, job.plan, made);
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
  auto options = std::make_shared<QuantizeArguments>();
  CLI::App* command =
      app.add_subcommand("quantize", "quantize a checkpoint into one HDF5 file, which every command takes as MODEL");
  command->add_option("MODEL", options->model, "checkpoint folder, or a file without codes")->required();
  command
      ->add_option("--plan", options->plan,
                   "weights=int4/group64, weights=int8/channel+mse, lm_head.w=..., or a preset: int8 int6 int4; rules "
                   "for activations are stored for later runs of the model")
      ->transform(WithGridFiles);
  command
      ->add_option("--method", options->method,
                   "steps joined by +: hadamard[:SEED] or smoothquant[:ALPHA] (equivalent weights; alone: f32 weights, "
                   "no codes), then rtn (round to nearest), gptq or gptaq, then quantease")
      ->check(IsMethod)
      ->capture_default_str();
  command->add_option("--calibrate", options->calibrate,
                      "calibration text or ids for smoothquant, gptq, gptaq and quantease; not the evaluation text");
  command->add_option("--stats", options->stats,
                      "statistics file of this model: for rules with +static, whose scales the result stores, and "
                      "instead of --calibrate for smoothquant:ALPHA");
  AddWindowOptions(*command, options->windows);
  command->add_option("--out", options->out, "file to write, or with --format safetensors, folder to create")
      ->required();
  command
      ->add_option(
          "--format", options->format,
          "h5: codes; safetensors: a Hugging Face folder, weights dequantized, in BF16 or F16 where the checkpoint is")
      ->check(CLI::IsMember({"h5", "safetensors"}))
      ->capture_default_str();
  command->add_flag("--resume", options->resume, "resume an interrupted job (from OUT.parts)");
  command->add_option("--json", options->json, "write JSON to a file, or - for standard output");
  options->machine.AddTo(*command);
  AddQuiet(*command);
  command->footer(Examples({"tare quantize experiments/pair/novels-differential --plan weights=int8/channel --out Q.h5",
                            "tare quantize experiments/pair/novels-differential --plan weights=int4/channel --method "
                            "hadamard+gptq+quantease --calibrate calibration.txt --out Q.h5",
                            "tare eval Q.h5 --tasks perplexity=experiments/pair/heldout.txt"}));
  command->callback([options, command] { Run(*command, *options); });
}

}  // namespace tare
