// SPDX-License-Identifier: Apache-2.0
// tare judge: what other programs predicted for the tokens of a text, compared by windows as a sweep compares versions
// of a model. Per token that every file has a row for, with p of the reference and q of another file, in double:
//
//   loss = -ln q(token)       kld = sum over ln p(i) > floor of p(i) (ln p(i) - ln q(i))       (as llama-perplexity)
#include <algorithm>
#include <cmath>

#include "experiments/arrays/predictions.h"
#include "experiments/studies/sweep/comparison.h"
#include "experiments/tasks/divergence.h"
#include "experiments/tasks/perplexity.h"
#include "quant/base/error.h"
#include "quant/base/formatted.h"
#include "quant/base/parallel.h"
#include "quant/file/json_value.h"
#include "tools/command.h"
#include "tools/help.h"

namespace tare {
namespace {

struct JudgeArguments {
  std::string reference, json;
  std::vector<std::string> files;
  MachineOptions machine;
};

constexpr int64_t kHeldRows = 64;  // of each file: 32 MiB of a vocabulary of 128k in f32

void RequireSameText(const Predictions& of, const Predictions& reference) {
  const auto same = [&](const std::string& what, int64_t got, int64_t expected) {
    if (got != expected) Fail("{}: {}: got {}, expected {} as in {}", of.Name(), what, got, expected, reference.Name());
  };
  same("vocabulary", of.vocabulary, reference.vocabulary);
  same("windows", of.windows, reference.windows);
  same("tokens of a window", of.positions, reference.positions);
  for (size_t i = 0; i < of.tokens.size(); ++i) {
    // llama-perplexity writes a window's first token, and runs <s> in its place.
    if (static_cast<int64_t>(i) % of.positions > 0 || of.first + reference.first == 0)
      same(Formatted("token {}", i), of.tokens[i], reference.tokens[i]);
  }
}

TokenDivergence CompareRow(const Predictions& of, const Predictions& reference, int64_t window, int64_t position) {
  const Prediction p = reference.Read(window, position);
  const Prediction q = &of == &reference ? p : of.Read(window, position);
  double kld = 0;
  for (size_t i = 0; i < p.values.size(); ++i) {
    if (p.LogP(i) > reference.floor) kld += std::exp(p.LogP(i)) * (p.LogP(i) - q.LogP(i));
  }
  const auto next = static_cast<size_t>(of.tokens[static_cast<size_t>(window * of.positions + position + 1)]);
  return {.kld = kld,
          .reference_loss = -p.LogP(next),
          .loss = -q.LogP(next),
          .same_top = p.top == q.top,
          .context = position + 1,
          .window = static_cast<size_t>(window)};
}

// In the order of the text, from position `first` of each window on.
std::vector<TokenDivergence> CompareFiles(const Predictions& of, const Predictions& reference, int64_t first) {
  const int64_t of_window = of.positions - 1 - first, rows = of.windows * of_window;
  std::vector<TokenDivergence> tokens(static_cast<size_t>(rows));
  ProgressLine line(of.Name());
  for (int64_t begin = 0; begin < rows; begin += kHeldRows) {
    const int64_t end = std::min(begin + kHeldRows, rows);
    ParallelFor(static_cast<size_t>(end - begin), [&](size_t i, int) {
      const int64_t row = begin + static_cast<int64_t>(i);
      tokens[static_cast<size_t>(row)] = CompareRow(of, reference, row / of_window, first + row % of_window);
    });
    of.Release();
    reference.Release();
    line.Callback()(end, rows, "tokens");
  }
  return tokens;
}

// The first file is the reference.
std::vector<SweepCell> JudgedCells(const std::vector<std::string>& files) {
  std::vector<Predictions> all;
  int64_t first = 0;
  for (const std::string& file : files) {
    all.push_back(OpenPredictions(file));
    RequireSameText(all.back(), all.front());
    first = std::max(first, all.back().first);
  }
  std::vector<SweepCell> cells;
  for (const Predictions& of : all) {
    const TaskResult result = DivergenceResult(CompareFiles(of, all.front(), first));
    const auto add = [&](const TaskKind& kind, const Json& figures) {
      cells.push_back({.model = of.Name(),
                       .task = std::string(kind.name),
                       .kind = &kind,
                       .key = {{"plan", "f32"}, {"source", files[0]}},
                       .result = figures,
                       .figures = ReadFigures(figures, kind).value()});
    };
    add(kPerplexityTask, result.of_text);
    add(kDivergenceTask, result.figures);
  }
  return cells;
}

void Run(const JudgeArguments& options) {
  std::vector<std::string> files{options.reference};
  files.insert(files.end(), options.files.begin(), options.files.end());
  const std::vector<AtomicFile> claims = ClaimFiles(files, {{options.json, JsonWith("tare.judge/")}});
  options.machine.Apply();
  const std::vector<SweepCell> cells = JudgedCells(files);
  const Comparisons comparisons = CompareCells(cells);
  if (PrintsTables(options.json)) PrintText("{}\n{}", SweepTable(cells, comparisons), SweepLegend(comparisons));
  Json json = SweepJson(cells, comparisons);
  json["schema"] = "tare.judge/1";
  for (Json& cell : json["cells"]) cell.erase("bits");  // which other programs do not tell
  WriteJson(options.json, json);
}

}  // namespace

void AddJudge(CLI::App& app) {
  const auto [command, options] =
      NewCommand<JudgeArguments>(app, "judge", "compare predictions that other programs wrote", Run);
  Add(command, "REFERENCE", options.reference,
      "of the unquantized model: llama-perplexity's --kl-divergence-base, or .safetensors with logits [windows,T,V] "
      "and input_ids [windows,T]")
      ->required();
  Add(command, "FILE", options.files, "others for the same text, in either form")->required();
  AddJson(command, options.json);
  options.machine.AddThreadsTo(command);
  AddQuiet(command);
  command.footer(Examples({"tare judge f16.kld q4_k.kld", "tare judge f16.kld q4_k.kld vllm.safetensors --json -"}));
}

}  // namespace tare
