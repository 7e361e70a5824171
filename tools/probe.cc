// SPDX-License-Identifier: Apache-2.0
// tare probe: what guesses score on items, without a model.
#include <memory>

#include "experiments/tasks/probes.h"
#include "quant/base/formatted.h"
#include "quant/file/json_value.h"
#include "tools/command.h"
#include "tools/files.h"
#include "tools/help.h"

namespace tare {
namespace {

struct ProbeArguments {
  std::string items, json;
};

void RunProbe(const ProbeArguments& options) {
  const std::vector<AtomicFile> claims = ClaimFiles({options.items}, {options.json});
  const ProbeReport report = ProbeItems(options.items);
  if (PrintsTables(options.json)) PrintText("{}", ProbeText(report));
  WriteJson(options.json, ProbeJson(report));
}

}  // namespace

void AddProbe(CLI::App& app) {
  auto options = std::make_shared<ProbeArguments>();
  CLI::App* command = app.add_subcommand("probe", "show what guesses score on items without a model");
  command
      ->add_option("ITEMS", options->items,
                   "JSON lines: multiple choice, in any form that --tasks choice=FILE reads, or answers to generate")
      ->required();
  command->add_option("--json", options->json, "write JSON to a file, or - for standard output");
  command->footer(Examples({"tare probe experiments/pair/needles-4.jsonl",
                            "tare probe experiments/pair/continuations.jsonl --json probes.json"}));
  command->callback([options] { RunProbe(*options); });
}

}  // namespace tare
