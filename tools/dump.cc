// SPDX-License-Identifier: Apache-2.0
// tare dump: writes the tensors that a model computes to an HDF5 file, or its logits for llama-perplexity.
#include "experiments/observe/dump.h"
#include "experiments/arrays/predictions.h"
#include "experiments/passes/sequences.h"
#include "quant/base/message.h"
#include "quant/plan/plan.h"
#include "tools/run_options.h"

namespace tare {
namespace {

struct DumpArguments {
  std::string model, input, out, plan, stats;
  std::vector<std::string> sites{"logits"};
  Carrying carrying = Carrying::kSimulated;
  WindowOptions windows{.from = TakeFrom::kStart};
  MachineOptions machine;
};

void Run(const CLI::App& command, DumpArguments& options) {
  Plan plan = Plan::Parse(options.plan);
  RequireEffect(command, !plan.empty(), {"--executed"}, "a --plan");
  RequireEffect(command, plan.HasStaticScales(), {"--stats"}, "a rule with +static");
  const bool base = IsBaseFile(options.out);
  RequireEffect(command, !base, {"--sites", "--stride"},
                "an --out named .h5: " + options.out + " holds logits of windows side by side");
  const std::vector<AtomicFile> claims =
      ClaimFiles({options.model, options.input, options.stats},
                 {{options.out, base ? std::string(kBaseMagic) : Hdf5With("tare.dump/")}});
  Model model(options.model, options.machine.Apply());
  PlanRun run(std::move(plan), options.carrying, ModelSitesOf(model), StaticSourceOf(options.stats, model.files()));
  const TokenInput input = LoadModelInput(options.input, model, options.windows.NeededOf(model.config()));
  std::vector<ScoredSequence> sequences = CutSequences(input, model.config(), options.windows);
  if (const ScoredSequence& last = sequences.back(); base && sequences.size() > 1 && last.first_target > 1) {
    Notice(options.out + ": without the last window, which shares tokens with the one before; its rows have no place");
    sequences.pop_back();
  }
  const WindowOptions& w = options.windows;
  const DumpOrigin origin{
      {"version", TARE_VERSION},
      {"input_sha256", input.sha256},
      {"windows", Formatted("window {}, stride {}, tokens {}, limit {}, from {}{}", w.window, w.stride, w.tokens,
                            w.limit, Name(w.from), input.in_windows ? ", each beginning at a line or word" : "")}};
  Dump(model, run, sequences, {options.sites.begin(), options.sites.end()}, options.out,
       ProgressLine("dump").Callback(), origin);
  PrintLine("{}: {} of {}", Made(options.out), Counted(std::ssize(sequences), "sequence"),
            Counted(std::ssize(sequences.at(0).tokens), "token"));
}

}  // namespace

void AddDump(CLI::App& app) {
  const auto [command, options] =
      NewCommand<DumpArguments>(app, "dump", "write what a model computes at named sites to an HDF5 file", Run);
  AddModel(command, options.model);
  Add(command, "--input FILE", options.input, "UTF-8 text, or token IDs: .safetensors or .h5 with input_ids [B,T]")
      ->required();
  AddList(command, "--sites NAME,...", options.sites, "also embed, layer_out, final_norm, attn_logits")
      ->check(OneOf("logits|embed|layer_out|final_norm|attn_logits"));
  Add(command, "--out FILE", options.out, "HDF5 file to write; F.kld: as llama-perplexity's --kl-divergence-base")
      ->required();
  AddPlanAndHow(command, options.plan, options.carrying, options.stats);
  AddWindowOptions(command, options.windows);
  AddStrideOption(command, options.windows);
  options.machine.AddWithHashesTo(command);
  command.footer(Examples(
      {"tare dump experiments/pair/novels-differential --input experiments/pair/heldout.txt --limit 1 --sites "
       "logits,attn_logits --out dump.h5",
       "tare dump experiments/pair/novels-differential --input experiments/pair/heldout.txt --limit 1 --sites "
       "layer_out --plan attn_logits=int4/row --out planned.h5",
       "tare dump experiments/pair/novels-standard --input experiments/pair/heldout.txt --limit 40 --out f.kld"}));
}

}  // namespace tare
