// SPDX-License-Identifier: Apache-2.0
// tare convert: one model in another family's layout.
#include <memory>

#include "experiments/model/config.h"
#include "experiments/quantize/export.h"
#include "experiments/quantize/layout.h"
#include "experiments/text/grammar.h"
#include "quant/base/formatted.h"
#include "quant/file/atomic_folder.h"
#include "tools/command.h"
#include "tools/files.h"
#include "tools/help.h"

namespace tare {
namespace {

struct ConvertArguments {
  std::string model, to, out, json;
  MachineOptions machine;
};

void Run(const ConvertArguments& options) {
  std::vector<std::string> outputs = NewFilesIn(options.out, ExportedFiles());
  outputs.push_back(options.json);
  const std::vector<AtomicFile> claims = ClaimFiles({options.model}, outputs);
  options.machine.Apply();
  const std::filesystem::path folder = WithoutSlash(options.out);
  AtomicFolder made(folder);
  const std::string from = LoadConfig(options.model).family;
  const ConvertSummary s = ConvertLayout(options.model, options.to, made.path(), ProgressLine("convert").Callback());
  made.Commit();
  if (PrintsTables(options.json)) {
    PrintLine("{}: {} as {}, {}, {}", options.out, from, options.to, Counted(s.tensors, "tensor"), SizeText(s.bytes));
    PrintLine("  {} with rows reordered, {} multiplied by a head norm, in F32", s.moved, s.folded);
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

}  // namespace

void AddConvert(CLI::App& app) {
  auto options = std::make_shared<ConvertArguments>();
  CLI::App* command =
      app.add_subcommand("convert", "convert a checkpoint to another family's layout; it computes the same");
  command->add_option("MODEL", options->model, "checkpoint folder, or a file without codes")->required();
  command
      ->add_option("--to", options->to,
                   "target family: diffllama (Hugging Face's V1), diff_v1 (its authors' V1), or MODEL's own, for its "
                   "official names and layout")
      ->required();
  command->add_option("--out", options->out, "folder to create")->required();
  command->add_option("--json", options->json, "write JSON to a file, or - for standard output");
  options->machine.AddThreadsTo(*command);
  AddQuiet(*command);
  command->footer(Examples({"tare convert experiments/pair/novels-differential --to diff_v1 --out authors",
                            "tare convert authors --to diffllama --out again"}));
  command->callback([options] { Run(*options); });
}

}  // namespace tare
