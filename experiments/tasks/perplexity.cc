// SPDX-License-Identifier: Apache-2.0
#include "experiments/tasks/perplexity.h"

#include <cmath>

#include "experiments/passes/convention_windows.h"
#include "experiments/significance/paired_runs.h"
#include "experiments/significance/token_divergence.h"
#include "experiments/tasks/divergence.h"
#include "experiments/text/grammar.h"
#include "kernels/elementwise/rows.h"
#include "quant/base/error.h"
#include "quant/base/formatted.h"
#include "quant/file/json_value.h"

namespace tare {
namespace {

// Null of too few windows.
Json ErrorJson(const PairedRuns& runs) {
  const std::optional<MeanError> error = PairedError(runs);
  return error ? Json(error->error) : Json();
}

Json ByPosition(const TokenLosses& tokens) {
  Json list = Json::array();
  for (const ContextRange& range : RangesOf(tokens.contexts)) {
    std::vector<double> some;
    std::vector<size_t> own;
    for (const size_t i : range.tokens) some.push_back(tokens.losses[i]), own.push_back(tokens.windows[i]);
    const PairedRuns runs = ByWindow(some, own);
    list.push_back({{"first", range.first},
                    {"last", range.last},
                    {"tokens", range.tokens.size()},
                    {"nll", Contrast(runs)},
                    {"nll_stderr", ErrorJson(runs)}});
  }
  return list;
}

double Mean(const std::vector<double>& losses) {
  double mean = 0;
  for (const double loss : losses) mean += loss / static_cast<double>(losses.size());
  return mean;
}

}  // namespace

std::optional<Json> PerplexityFigures(const TokenLosses& tokens) {
  const double nll = Mean(tokens.losses), perplexity = std::exp(nll);
  if (!std::isfinite(perplexity)) return std::nullopt;
  const PairedRuns runs = ByWindow(tokens.losses, tokens.windows);
  const std::vector<int64_t> counts(runs.counts.begin(), runs.counts.end());
  return Json{{"nll", nll},
              {"perplexity", perplexity},
              {"tokens", tokens.losses.size()},
              {"nll_stderr", ErrorJson(runs)},
              {"windows", counts.size()},
              {"window_losses", runs.sums.front()},
              {"window_tokens", counts},
              {"by_position", ByPosition(tokens)}};
}

TokenLosses MeasureLosses(Model& model, SiteVisitors visitors, const std::vector<ScoredSequence>& sequences,
                          const std::optional<CachePlan>& cache, const Progress& progress) {
  const ScoredTokens scored(sequences);
  // In the order of the text, so that sums do not depend on threads.
  TokenLosses tokens{.losses = std::vector<double>(scored.size()),
                     .contexts = std::vector<int64_t>(scored.size()),
                     .windows = scored.Windows()};
  const auto score = [&](const TokenBatch& batch) {
    const PredictedTokens predicted = scored.In(batch);
    for (size_t i = 0; i < predicted.places.size(); ++i) tokens.contexts[predicted.places[i]] = predicted.contexts[i];
    model.VocabularyLogits(predicted.rows, [&](size_t i, const float* logits, int) {
      tokens.losses[predicted.places[i]] =
          LogSumExp(logits, model.config().vocabulary) - static_cast<double>(logits[predicted.targets[i]]);
    });
  };
  ForwardThroughCaches(model, visitors, sequences, cache, progress, score);
  return tokens;
}

TaskResult MeasurePerplexity(Model& model, SiteVisitors visitors, const std::vector<ScoredSequence>& sequences,
                             const std::optional<CachePlan>& cache, const Progress& progress) {
  const TokenLosses tokens = MeasureLosses(model, visitors, sequences, cache, progress);
  if (tokens.losses.empty()) Fail("perplexity: the input leaves no token to predict; expected at least two tokens");
  std::optional<Json> figures = PerplexityFigures(tokens);
  if (!figures)
    Fail("perplexity: the mean loss is {} nats, expected a finite number; try `tare stats` to see where",
         Mean(tokens.losses));
  return {.figures = *std::move(figures), .records = {}};
}

Json CutFigures(const WindowCut& cut) {
  Json figures{
      {"window", cut.window}, {"stride", cut.stride}, {"bos", cut.bos}, {"cut_to_positions", cut.cut_to_positions}};
  if (cut.convention != Convention::kTare) figures["convention"] = InfoOf(cut.convention).name;
  AddTaken(cut, figures);
  return figures;
}

void AddTaken(const WindowCut& cut, Json& figures) {
  if (cut.from) figures["from"] = Name(*cut.from);
  if (cut.from && cut.of_tokens) figures["of_tokens"] = *cut.of_tokens;
  if (cut.from && cut.at_lines) figures["windows_begin"] = "lines";
}

std::string TakenText(const Json& result) {
  if (!result.contains("from")) return "";
  const std::string how = result.at("from") == "spread" ? "spread over" : "from the start of";
  if (result.contains("of_tokens")) return Formatted(" {} {}", how, Counted(result.at("of_tokens"), "token"));
  return Formatted(" {} the text{}", how, result.contains("windows_begin") ? ", each beginning at a line or word" : "");
}

Json PerplexityConvention(const WindowOptions& w) {
  if (w.convention != Convention::kTare) return RulesOf(w);
  return {{"window", w.window},
          {"stride", w.stride},
          {"tokens", w.tokens},
          {"convention",
           "each token is scored once, by the first window that holds it; text windows begin with <s>; windows advance "
           "by stride tokens (0: all that a window holds, where there is no <s> all but one), the last is moved back "
           "to be full"}};
}

namespace {

RunTask ReadPerplexity(const std::filesystem::path& file, const Model& of, const TaskOptions& options) {
  CutText text = CutFileByConvention(file, of, options.windows);
  const TaskSize size = SizeOf(text.sequences);
  auto body = [text = std::move(text)](Model& model, PlanRun& run, const Progress& progress) {
    TaskResult result = MeasurePerplexity(model, run.Begin(model, progress), text.sequences, run.cache(), progress);
    result.figures.update(CutFigures(text.cut));
    return result;
  };
  return {std::move(body), size};
}

std::string HowPerplexity(const Json& result) {
  if (result.contains("convention"))
    return Formatted("{} of {} by the convention of {}, {} <s>: {} scored", Counted(result.at("windows"), "window"),
                     result.at("window").dump(), result.at("convention").get<std::string>(),
                     result.at("bos").get<bool>() ? "with" : "without", Counted(result.at("tokens"), "token"));
  const std::string taken = TakenText(result);
  return Formatted("{} of {}{}{}stride {}, {} <s>: {} scored", Counted(result.at("windows"), "window"),
                   result.at("window").dump(),
                   result.at("cut_to_positions").get<bool>() ? " (all of the model's positions)" : "",
                   taken.empty() ? ", " : taken + "\n  ", result.at("stride").dump(),
                   result.at("bos").get<bool>() ? "each after" : "without", Counted(result.at("tokens"), "token"));
}

constexpr WindowKeys kPerplexityWindows{.losses = "window_losses", .counts = "window_tokens"};
constexpr FigureKeys kPerplexityFigures[] = {
    {.name = "perplexity", .windows = kPerplexityWindows, .of_mean = OfMean::kExponential, .format = "9.4f"},
    {.name = "nll", .error = "nll_stderr", .windows = kPerplexityWindows, .format = ".5f", .in_tables = nullptr}};

}  // namespace

constexpr TaskKind kPerplexityTask{.name = "perplexity",
                                   .file = "TEXT",
                                   .what = "perplexity of a text, or of token IDs",
                                   .read = ReadPerplexity,
                                   .figures = kPerplexityFigures,
                                   .count = "tokens",
                                   .unit = "token",
                                   .convention = PerplexityConvention,
                                   .how = HowPerplexity,
                                   .by_position = "by_position",
                                   .compared = &kDivergenceTask};

}  // namespace tare
