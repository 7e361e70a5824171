// SPDX-License-Identifier: Apache-2.0
// tare convert: one model in another family's layout, or as a GGUF file; its statistics as an importance matrix.
#include "experiments/export/gguf/export.h"
#include "experiments/export/hugging_face.h"
#include "experiments/plan/model_sites.h"
#include "experiments/quantize/importance.h"
#include "quant/file/output_folder.h"
#include "quant/interchange/gguf/blocks.h"
#include "tools/command.h"

namespace tare {
namespace {

struct ConvertArguments {
  std::string model, to, type = "F16", stats, dex, out, json;
  MachineOptions machine;
};

std::string TypesText(const GgufSummary& s) {
  return Listed(s.types, ", ", [](const auto& of) { return Formatted("{} in {}", of.second, of.first); });
}

void RunToGguf(const ConvertArguments& options) {
  const std::vector<AtomicFile> claims =
      ClaimFiles({options.model}, {{options.out, "GGUF*tare.version"}, {options.json, JsonWith("tare.convert.gguf/")}});
  options.machine.Apply();
  const GgufSummary s =
      ConvertToGguf(options.model, options.type, TARE_VERSION, options.out, ProgressLine("convert").Callback());
  const double bits = 8.0 * static_cast<double>(s.matrix_bytes) / static_cast<double>(s.matrix_values);
  if (PrintsTables(options.json)) {
    PrintLine("{}: {} as gguf, {}", Made(options.out), LoadConfig(options.model).family, SizeText(s.bytes));
    PrintLine("  tensors: {}", TypesText(s));
    PrintLine("  {:.2f} bits per weight, error of the weights {:#.3g}", bits, s.relative_error);
    if (s.rounded_scales > 0)
      PrintLine("  codes as they are, {} of their {} scales rounded to F16", s.rounded_scales, s.scales);
    if (s.lost_blocks > 0)
      PrintLine("  {} whose values are too small for F16 lost over half of their size; try --type BF16 or F32",
                Counted(s.lost_blocks, "block"));
    std::map<std::string, int> short_rows;  // by type
    for (const auto& [name, type] : s.short_rows) ++short_rows[type];
    for (const auto& [type, count] : short_rows)
      PrintLine("  matrices in {}, as their rows are no whole blocks of {}: {}", type, options.type, count);
    if (!s.has_tokenizer) PrintLine("  without a tokenizer: the model has none");
  }
  WriteJson(options.json, {{"schema", "tare.convert.gguf/2"},
                           {"out", options.out},
                           {"type", options.type},
                           {"tensors", s.types},
                           {"short_rows", s.short_rows},
                           {"bits_per_weight", bits},
                           {"relative_error", s.relative_error},
                           {"scales", s.scales},
                           {"rounded_scales", s.rounded_scales},
                           {"lost_blocks", s.lost_blocks},
                           {"has_tokenizer", s.has_tokenizer},
                           {"bytes", s.bytes}});
}

void RunToImatrix(const ConvertArguments& options) {
  if (options.stats.empty()) throw CLI::RequiresError("--to imatrix", "--stats");
  const bool binary = options.out.ends_with(".dat");
  const std::vector<AtomicFile> claims = ClaimFiles(
      {options.model, options.stats},
      {{options.out, binary ? "*sha256 " : "GGUF*sha256 "}, {options.json, JsonWith("tare.convert.imatrix/")}});
  options.machine.Apply();
  const Checkpoint files(options.model);
  const auto set = ReadStatisticsOf(options.stats, files.ContentHash(), files.ConfigHash());
  WriteImatrix(ImatrixOf(*set, LoadConfig(options.model)), options.out);
  if (PrintsTables(options.json))
    PrintLine("{}: sums over {}", Made(options.out), Counted(static_cast<int64_t>(set->positions), "position"));
  WriteJson(options.json, {{"schema", "tare.convert.imatrix/1"}, {"out", options.out}, {"positions", set->positions}});
}

void RunToFolder(const ConvertArguments& options) {
  std::vector<Output> outputs = NewFilesIn({options.model, options.dex}, options.out, ExportedFiles());
  outputs.push_back({options.json, JsonWith("tare.convert/")});
  const std::vector<AtomicFile> claims = ClaimFiles({}, outputs);
  options.machine.Apply();
  const std::filesystem::path folder = WithoutSlash(options.out);
  AtomicFolder made(folder);
  const std::string from = LoadConfig(options.model).family;
  const ConvertSummary s =
      ConvertLayout(options.model, options.to, made.path(), ProgressLine("convert").Callback(), options.dex);
  made.Commit();
  if (PrintsTables(options.json)) {
    PrintLine("{}: {} as {}, {}, {}", options.out, from, options.to, Counted(s.tensors, "tensor"), SizeText(s.bytes));
    std::string changed = Formatted("  {} with rows reordered", s.moved);
    if (s.folded > 0 || s.doubled == 0) changed += Formatted(", {} with a head norm or DEX taken in, in F32", s.folded);
    if (s.doubled > 0) changed += Formatted(", {} doubled: two equal maps for each head, lambda 1/2", s.doubled);
    PrintLine("{}", changed);
  }
  WriteJson(options.json, {{"schema", "tare.convert/1"},
                           {"out", options.out},
                           {"from", from},
                           {"to", options.to},
                           {"tensors", s.tensors},
                           {"moved", s.moved},
                           {"folded", s.folded},
                           {"bytes", s.bytes}});
}

void Run(const CLI::App& command, ConvertArguments& options) {
  const bool to_gguf = options.to == "gguf";
  RequireEffect(command, to_gguf, {"--type"}, "--to gguf");
  const bool to_imatrix = options.to == "imatrix";
  RequireEffect(command, to_imatrix, {"--stats"}, "--to imatrix");
  RequireEffect(command, !to_gguf && !to_imatrix, {"--dex"}, "--to FAMILY");
  to_gguf ? RunToGguf(options) : to_imatrix ? RunToImatrix(options) : RunToFolder(options);
}

}  // namespace

void AddConvert(CLI::App& app) {
  const auto [command, options] =
      NewCommand<ConvertArguments>(app, "convert", "write the same model in another layout, or as a GGUF file", Run);
  AddModel(command, options.model);
  Add(command, "--to FAMILY", options.to,
      "diffllama (Hugging Face's V1), diff_v1 (its authors'), diff_v2 (of a Llama), MODEL's own, gguf, or imatrix")
      ->required();
  Add(command, "--type TYPE", options.type, "of a GGUF file's matrices: " + Listed(gguf::TypesWritten(), ", "))
      ->check(OneOf(Listed(gguf::TypesWritten(), "|")));
  Add(command, "--stats FILE", options.stats, "with --to imatrix: MODEL's (tare stats --out); OUT.dat: binary layout");
  Add(command, "--dex FILE", options.dex,
      "DEX's tensors of MODEL, which o_proj takes in: --to MODEL's family, diff_v2");
  Add(command, "--out DIR", options.out, "folder to create; with --to gguf or imatrix, file to write")->required();
  AddJson(command, options.json);
  options.machine.AddThreadsTo(command);
  AddHashAgain(command);
  AddQuiet(command);
}

}  // namespace tare
