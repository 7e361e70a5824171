// SPDX-License-Identifier: Apache-2.0
// tare stats: the outliers of a model's attention logits and hidden states; several models side by side.
#include <cstdio>
#include <memory>
#include <print>

#include <nlohmann/json.hpp>

#include "experiments/sites/outlier_report.h"
#include "experiments/tasks/sequences.h"
#include "quant/file/atomic_file.h"
#include "tools/run_options.h"

namespace tare {
namespace {

using Json = nlohmann::ordered_json;

struct Options {
  std::vector<std::string> models;
  std::string input, json, csv;
  WindowOptions windows;
  MachineOptions machine;
};

Json Observe(const std::string& folder, const Options& options, ProgressLine& line) {
  Model model(folder, options.machine.Apply());
  line.Rename(model.Name());
  const TokenInput input = LoadTokenInput(options.input, folder, model.config().vocabulary);
  const std::vector<ScoredSequence> sequences = CutDisjoint(input, model.config(), options.windows);
  OutlierObserver observer(model.config());
  SiteVisitor* const visitors[] = {&observer};
  int64_t positions = 0;
  ForwardAll(model, visitors, sequences, line.Callback(),
             [&](const TokenBatch& batch, size_t) { positions += batch.Rows(); });
  const int64_t tokens = positions - (input.bos ? std::ssize(sequences) : 0);
  Json json = OutlierJson(observer, model.config(), model.Name(), tokens);
  json["positions"] = positions;
  json["sequences"] = sequences.size();
  json["window"] = options.windows.window;
  json["math"] = options.machine.math;
  json["weights_sha256"] = model.files().ContentHash();
  json["input_sha256"] = input.sha256;
  return json;
}

void Run(const Options& options) {
  CheckWritable(options.json);
  CheckWritable(options.csv);
  for (const std::string& folder : options.models) LoadConfig(folder);
  std::vector<Json> models;
  {
    ProgressLine line("");
    for (const std::string& folder : options.models) models.push_back(Observe(folder, options, line));
  }
  if (PrintsTables(options.json)) {
    std::print("{}", OutlierTable(models));
    std::println(
        "{} tokens of {}; attention logits scaled, before the softmax, masked ones left out; hidden states: every "
        "layer's output",
        models[0]["tokens"].get<int64_t>(), options.input);
  }
  if (!options.csv.empty()) WriteFileAtomically(options.csv, OutlierCsv(models));
  WriteJson(options.json, models.size() == 1 ? models[0] : Json(models));
}

}  // namespace

void AddStats(CLI::App& app) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand(
      "stats", "outliers of attention logits and hidden states (the table of the Differential Transformer's paper)");
  command->add_option("MODEL", options->models, "checkpoint folders, side by side")->required();
  command->add_option("--input", options->input, "UTF-8 text, or ids: a .safetensors or .h5 file with input_ids [B,T]")
      ->required();
  command->add_option("--json", options->json,
                      "write JSON to a file, or - for standard output; an array where several models are given");
  command->add_option("--csv", options->csv, "write a row a model, site, layer, head and map to this file");
  AddWindowOptions(*command, options->windows);
  options->machine.AddTo(*command);
  command->footer(
      "Example:\n  tare stats experiments/pair/novels-standard experiments/pair/novels-differential --input "
      "experiments/pair/heldout.txt --tokens 20440");
  command->callback([options] { Run(*options); });
}

}  // namespace tare
