// SPDX-License-Identifier: Apache-2.0
// tare verify: checks whether a file is intact.
#include <memory>

#include "experiments/text/grammar.h"
#include "quant/base/formatted.h"
#include "quant/file/json.h"
#include "quant/file/quantized_checkpoint.h"
#include "tools/command.h"
#include "tools/files.h"
#include "tools/help.h"

namespace tare {
namespace {

struct VerifyArguments {
  std::string file, json;
};

void Check(const std::string& path, const Hdf5Reader& file, const std::string& schema) {
  ProgressLine line("verify");
  const Progress progress = line.Callback();
  if (IsQuantizedSchema(schema)) return QuantizedCheckpoint(path).Verify(progress);
  file.Verify([&](int64_t done, int64_t total) { progress(done, total, "bytes"); });
}

void Run(const VerifyArguments& options) {
  const std::vector<AtomicFile> claims = ClaimFiles({options.file}, {options.json});
  const Hdf5Reader file(options.file);
  const std::string schema = file.HasAttribute("", "schema") ? file.StringAttribute("", "schema") : "none";
  Check(options.file, file, schema);
  const int64_t datasets = std::ssize(file.datasets());
  if (PrintsTables(options.json))
    PrintLine("{}: whole; {}, schema {}", options.file, Counted(datasets, "dataset"), schema);
  WriteJson(options.json,
            {{"schema", "tare.verify/1"}, {"file", options.file}, {"whole", true}, {"datasets", datasets}});
}

}  // namespace

void AddVerify(CLI::App& app) {
  auto options = std::make_shared<VerifyArguments>();
  CLI::App* command = app.add_subcommand(
      "verify",
      "check that an HDF5 file written by Tare is whole: exit code 0 if it is, else 1 and the place of the damage");
  command->add_option("FILE", options->file, "dump, statistics or quantized checkpoint")->required();
  command->add_option("--json", options->json, "write JSON to a file, or - for standard output");
  AddQuiet(*command);
  command->footer(Examples({"tare verify Q.h5", "tare verify S.h5 --json -"}));
  command->callback([options] { Run(*options); });
}

}  // namespace tare
