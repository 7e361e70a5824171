// SPDX-License-Identifier: Apache-2.0
// tare quantize: folders to quantized files. tare levels: of keys and values (experiments/observe/learned_levels.h).
#include <cmath>

#include "experiments/export/compressed_tensors/export.h"
#include "experiments/export/hugging_face.h"
#include "experiments/model/config/config.h"
#include "experiments/observe/learned_levels.h"
#include "experiments/quantize/calibration/calibration_texts.h"
#include "experiments/quantize/quantize.h"
#include "experiments/quantize/steps/table.h"
#include "experiments/table/table.h"
#include "quant/file/output_folder.h"
#include "tools/run_options.h"

namespace tare {
namespace {

// ---- quantize

constexpr const char* kDequantized = "safetensors";
constexpr const char* kCompressed = "compressed-tensors";

struct QuantizeArguments {
  std::string model, plan, method = "rtn", calibrate, cut, stats, imatrix, out, format = "h5", json;
  bool fresh = false;
  WindowOptions windows{.tokens = 32768};
  MachineOptions machine;
};

// What is wrong with a method; empty if it is valid. Reported as a usage error, not as a failure.
std::string IsMethod(const std::string& text) {
  try {
    ParseMethod(text);
    return "";
  } catch (const Error& error) {
    const std::string what = error.what();
    return what.starts_with("--method") ? what.substr(std::string("--method").size() + 1) : what;  // who asks says it
  }
}

std::string PartsFolder(const QuantizeArguments& options) { return WithoutSlash(options.out).string() + ".parts"; }

// The file, and the folders: that of safetensors, and the one where calibrated methods keep parts.
std::vector<AtomicFile> ClaimOutputs(const QuantizeArguments& options, const CalibrationTexts& calibration) {
  std::vector<std::string> inputs{options.model, options.stats, options.imatrix};
  for (const CalibrationTexts::Part& part : calibration.parts) inputs.push_back(part.file.string());
  std::vector<Output> outputs{{options.out, Hdf5With("tare.quantized/")}};
  if (options.format == kDequantized) outputs = NewFilesIn(inputs, options.out, ExportedFiles());
  if (options.format == kCompressed) outputs = NewFilesIn(inputs, options.out, CompressedFiles());
  outputs.push_back({options.json, JsonWith("tare.quantize/")});
  std::vector<AtomicFile> claims = ClaimFiles(inputs, outputs);
  OutputsIn({}, PartsFolder(options), {});
  return claims;
}

struct Outcome {
  QuantizeSummary summary;
  std::string written;  // into a folder: "28 matrices in pack-quantized"
};

// Into a folder by way of a file in a folder beside it, which goes away again.
Outcome MadeBy(QuantizeJob job, const std::string& format, const Progress& progress) {
  if (format != kDequantized && format != kCompressed) return {Quantize(job, progress), ""};
  if (format == kCompressed) {
    if (!job.method.codes)
      FailUsage("--format {}: got a method without codes, expected one with; try {}+rtn", kCompressed,
                job.method.EquivalentText());
    if (job.method.codes->text.starts_with("svdquant"))
      FailUsage("--format {}: got --method {}, expected codes without a low-rank branch; try --format safetensors",
                kCompressed, job.method.codes->text);
    CheckCompressed(job.plan, LoadConfig(job.model));
  }
  const AtomicFolder passing(job.out.string() + ".quantized");
  AtomicFolder folder(job.out);
  job.out = passing.path() / "codes.h5";
  Outcome made{.summary = Quantize(job, progress), .written = {}};
  if (format == kDequantized) {
    const ExportSummary written = ExportDequantized(job.out, job.model, folder.path());
    made.summary.bytes_after = written.bytes, made.written = WrittenText(written);
  } else {
    const CompressedSummary written = ExportCompressed(job.out, folder.path(), TARE_VERSION);
    made.summary.bytes_after = written.bytes, made.written = FormatsText(written);
  }
  folder.Commit();
  return made;
}

std::vector<size_t> UnreachedOf(const ReachedExperts& layer) {
  return std::views::iota(size_t{0}, layer.tokens.size()) |
         std::views::filter([&](size_t expert) { return layer.tokens[expert] == 0; }) | std::ranges::to<std::vector>();
}

// "  experts: 0 to 460 calibration tokens each", and a line for each layer where no token reached some.
std::string ReachedText(const std::vector<ReachedExperts>& layers) {
  const auto [least, most] =
      std::ranges::minmax(layers | std::views::transform(&ReachedExperts::tokens) | std::views::join);
  std::string none;
  for (const ReachedExperts& layer : layers) {
    const std::vector<size_t> unreached = UnreachedOf(layer);
    constexpr size_t kNamed = 8;  // as many as a line holds; JSON names all
    if (!unreached.empty())
      none += Formatted(
          "\n    layer {}: no token reached {}, rounded to nearest", layer.layer,
          unreached.size() <= kNamed ? "expert " + RangesText(unreached) : Formatted("{} experts", unreached.size()));
  }
  return Formatted("  experts: {} to {} calibration tokens each{}", least, most, none);
}

// "a.txt, 21504 tokens in 42 windows; b.jsonl, 10982 tokens in 61 windows", and of each, where whole windows miss what
// the weights ask for by more than a hundredth of all tokens, " (67 %, asked 75 %)".
std::string CalibratedText(const std::vector<CalibratedOn>& files) {
  int64_t tokens = 0;
  for (const CalibratedOn& on : files) tokens += on.tokens;
  std::string text;
  for (const CalibratedOn& on : files) {
    text += (text.empty() ? "" : "; ") +
            Formatted("{}, {} in {}", on.file, Counted(on.tokens, "token"), Counted(on.windows, "window"));
    const double share = static_cast<double>(on.tokens) / static_cast<double>(tokens);
    if (std::abs(share - on.asked) > 0.01)
      text += Formatted(" ({:.0f} %, asked {:.0f} %)", 100 * share, 100 * on.asked);
  }
  return text;
}

// First what decides between methods: the states after the layers.
std::string ErrorText(const QuantizeSummary& s) {
  const std::string weights = Formatted("of the weights {:#.3g}", s.weight_error);
  if (s.output_error) return Formatted("error of the layers' outputs {:#.3g}, {}", *s.output_error, weights);
  return Formatted("error {}; outputs not measured: no text, try --calibrate", weights);
}

void PrintSummary(const QuantizeArguments& options, const QuantizeJob& job, const Outcome& made) {
  const QuantizeSummary& s = made.summary;
  if (s.matrices == 0) {
    PrintLine("{}: equivalent weights, no codes", Made(options.out));
  } else if (options.format != kDequantized) {
    PrintLine("{}: {} matrices, {:.2f} bits per weight", Made(options.out), s.matrices, s.bits_per_weight);
    PrintLine("  in {}", job.plan.canonical());
  } else {
    PrintLine("{}: {} matrices rounded and dequantized", Made(options.out), s.matrices);
    PrintLine("  rounded to {}", job.plan.canonical());
  }
  if (s.matrices > 0) PrintLine("  {}", ErrorText(s));
  if (!s.calibration.empty())
    PrintLine("  {} on {}", job.method.TakesCalibration() ? "calibrated" : "measured", CalibratedText(s.calibration));
  if (!s.experts.empty()) PrintLine("{}", ReachedText(s.experts));
  PrintLine("  {} of tensors before, {} after{}", SizeText(s.bytes_before), SizeText(s.bytes_after),
            made.written.empty() ? "" : ": " + made.written);
}

void Run(const CLI::App& command, QuantizeArguments& options) {
  const QuantizeMethod method = ParseMethod(options.method);
  RequireEffect(command, method.codes || method.TakesCalibration(), {"--calibrate"}, "a method that rounds");
  const bool calibrates = !options.calibrate.empty();
  RequireEffect(command, calibrates, {"--window", "--tokens", "--limit", "--from", "--cut"}, "--calibrate");
  const CalibrationTexts calibration =
      CalibrationTexts::Parse(options.calibrate, options.cut.empty() ? Shard{} : ParseShard("--cut", options.cut));
  const std::vector<AtomicFile> claims = ClaimOutputs(options, calibration);
  options.machine.Apply();
  const QuantizeJob job{.model = options.model,
                        .plan = Plan::Parse(options.plan),
                        .out = WithoutSlash(options.out),
                        .method = method,
                        .calibration = calibration,
                        .statistics = options.stats,
                        .imatrix = options.imatrix,
                        .windows = options.windows,
                        .parts = PartsFolder(options),
                        .fresh = options.fresh};
  const Outcome made = MadeBy(job, options.format, ProgressLine("quantize").Callback());
  const QuantizeSummary& s = made.summary;
  if (PrintsTables(options.json)) PrintSummary(options, job, made);
  Json json{{"schema", "tare.quantize/3"},
            {"out", options.out},
            {"plan", job.plan.canonical()},
            {"method", options.method},
            {"matrices", s.matrices},
            {"bits_per_weight", s.bits_per_weight},
            {"output_error", s.output_error ? Json(*s.output_error) : Json()},
            {"weight_error", s.weight_error},
            {"bytes_before", s.bytes_before},
            {"bytes_after", s.bytes_after}};
  for (const CalibratedOn& on : s.calibration)
    json["calibration"].push_back({{"file", on.file}, {"tokens", on.tokens}, {"windows", on.windows}});
  for (const ReachedExperts& layer : s.experts)
    json["experts"].push_back(
        {{"layer", layer.layer}, {"tokens", layer.tokens}, {"rounded_to_nearest", UnreachedOf(layer)}});
  WriteJson(options.json, json);
}

// ---- levels

struct LevelsArguments {
  std::string model, plan, calibrate, out, json;
  WindowOptions windows{.tokens = 32768};
  MachineOptions machine;
};

Table TableOfLevels(const LearnedLevels& learned) {
  const Columns<LayerLevels> columns{{Left("site", "site"), [](const LayerLevels& l) { return Name(l.site); }},
                                     {{.name = "layer", .title = "layer"}, &LayerLevels::layer},
                                     {{.name = "rule"}, &LayerLevels::rule},
                                     {{.name = "values", .title = "values"}, &LayerLevels::values},
                                     {Number("loss", "loss", "{:.4f}"), &LayerLevels::loss},
                                     {Number("learned_loss", "learned", "{:.4f}"), &LayerLevels::learned_loss},
                                     {{.name = "levels"}, &LayerLevels::levels}};
  return TableOf(columns, learned.layers);
}

void Run(const LevelsArguments& options) {
  const CalibrationTexts texts = CalibrationTexts::Parse(options.calibrate);
  if (texts.empty()) FailUsage("--calibrate: got no text, expected one; try --calibrate FILE");
  std::vector<std::string> inputs{options.model};
  for (const CalibrationTexts::Part& part : texts.parts) inputs.push_back(part.file.string());
  const std::vector<AtomicFile> claims =
      ClaimFiles(inputs, {{options.out, "?=grid("}, {options.json, JsonWith("tare.levels/")}});
  const Plan plan = Plan::Parse(options.plan);
  Model model(options.model, options.machine.Apply());
  const CalibrationWindows windows = CutCalibration(texts, model.folder(), model.config(), options.windows);
  model.Show(windows.images);
  ProgressLine line("levels");
  const LearnedLevels learned = LearnLevels(model, plan, windows.sequences, line.Callback());
  const Table table = TableOfLevels(learned);
  if (PrintsTables(options.json))
    PrintText("{}: levels of {}\n\n{}\n{}{}", model.Name(), plan.canonical(), TableText(table),
              Paragraphs(NotesOf("levels")), options.out.empty() ? "\n" + learned.plan.canonical() + "\n" : "");
  if (!options.out.empty()) WriteFileAtomically(options.out, learned.plan.canonical() + "\n");
  WriteJson(options.json, {{"schema", "tare.levels/1"},
                           {"model", model.Name()},
                           {"calibration", windows.provenance},
                           {"plan", plan.canonical()},
                           {"learned_plan", learned.plan.canonical()},
                           {"layers", TableJson(table)}});
}

}  // namespace

void AddQuantize(CLI::App& app) {
  const auto [command, options] =
      NewCommand<QuantizeArguments>(app, "quantize", "write a quantized copy of a checkpoint", Run);
  AddModel(command, options.model);
  Group(command, "What to quantize");
  AddPlanOption(command, options.plan,
                "weights=int4/group16, or int8, int6, int4 for a whole model; rules for "
                "activations are stored in the file");
  Add(command, "--method STEPS", options.method, "steps joined by +, e.g. gptaq+quantease (tare help methods)")
      ->check(IsMethod);
  Add(command, "--stats FILE", options.stats, "statistics of MODEL (tare stats --out), for +static and smoothquant");
  Add(command, "--imatrix FILE", options.imatrix, "llama.cpp's importance matrix, which weighs the errors of +mse");
  Group(command, "Calibration");
  Add(command, "--calibrate FILE[:WEIGHT],...", options.calibrate, "texts, documents (.jsonl) or token IDs");
  Add(command, "--cut I/N", options.cut, "calibrate on fold I of N of each text only, e.g. 0/5");
  AddWindowOptions(command, options.windows);
  Group(command, "Output");
  Add(command, "--out FILE", options.out, "file, or folder for the other formats")->required();
  Add(command, "--format h5|safetensors|compressed-tensors", options.format, "safetensors: a dequantized copy");
  AddFresh(command, options.fresh, "OUT.parts");
  AddJson(command, options.json);
  options.machine.AddTo(command, AddHashAgain);
}

void AddLevels(CLI::App& app) {
  const auto [command, options] =
      NewCommand<LevelsArguments>(app, "levels", "learn codebooks of keys and values on a text, as KVQuant does", Run);
  AddModel(command, options.model);
  AddPlanOption(command, options.plan, "k and v with +mean, e.g. k=normal3/channel+mean+outliers1")->required();
  Add(command, "--calibrate FILE[:WEIGHT],...", options.calibrate, "text or token IDs, not the evaluated text")
      ->required();
  Add(command, "--out FILE", options.out, "the plan with the learned codebooks");
  AddJson(command, options.json);
  AddWindowOptions(command, options.windows);
  options.machine.AddTo(command);
}

}  // namespace tare
