// SPDX-License-Identifier: Apache-2.0
// Figures by position, readers of perplexity and longppl, losses and figures, cuts of a text, key tokens, TaskKinds.
#include "experiments/tasks/perplexity.h"

#include <algorithm>
#include <cmath>

#include "experiments/passes/sequences.h"
#include "experiments/significance/mean_error.h"
#include "experiments/tasks/classify.h"
#include "kernels/elementwise/rows.h"
#include "quant/base/message.h"
#include "quant/file/json.h"

namespace tare {
namespace {

// Null of too few windows.
Json ErrorJson(const PairedRuns& runs) {
  const std::optional<MeanError> error = PairedError(runs);
  return error ? Json(error->error) : Json();
}

PairedRuns LossesByWindow(const std::vector<TokenLoss>& tokens) {
  return ByWindow(tokens, [](const TokenLoss& token) { return token.loss; });
}

Json ByPosition(const std::vector<TokenLoss>& tokens) {
  Json list = Json::array();
  for (const auto& [first, some] : ByContext(tokens)) {
    const PairedRuns runs = LossesByWindow(some);
    list.push_back({{"first", first},
                    {"last", LastOfRange(first)},
                    {"tokens", some.size()},
                    {"nll", Contrast(runs)},
                    {"nll_stderr", ErrorJson(runs)}});
  }
  return list;
}

double Mean(const std::vector<TokenLoss>& tokens) {
  double mean = 0;
  for (const TokenLoss& token : tokens) mean += token.loss / static_cast<double>(tokens.size());
  return mean;
}

constexpr double kLeastGain = 2, kMostLoss = 2;  // nats; the paper's alpha and -beta

int64_t ShortContextOf(const WindowOptions& options) {
  return options.short_context == 0 ? kShortContext : options.short_context;
}

// The windows, of which only tokens with a short context or more before them are scored.
std::vector<ScoredSequence> Behind(std::vector<ScoredSequence> windows, int64_t short_context) {
  for (ScoredSequence& window : windows) window.first_target = std::max(window.first_target, short_context);
  std::erase_if(windows, [](const ScoredSequence& w) { return w.first_target >= std::ssize(w.tokens); });
  return windows;
}

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

constexpr WindowKeys kPerplexityWindows{.losses = "window_losses"};
constexpr FigureKeys kPerplexityFigures[] = {
    {.name = "perplexity", .windows = kPerplexityWindows, .of_mean = OfMean::kExponential, .format = "9.4f"},
    {.name = "nll", .error = "nll_stderr", .windows = kPerplexityWindows, .format = ".5f", .in_tables = nullptr}};

// The windows behind their short contexts, and from the first run on which of their tokens are key.
struct LongText {
  std::vector<ScoredSequence> windows;
  WindowCut cut;
  int64_t short_context = 0;
  std::shared_ptr<Model> evaluator;
  std::vector<bool> key;
};

LongText LongTextOf(const std::filesystem::path& file, const Model& of, const TaskOptions& options) {
  CutText text = CutFileByConvention(file, of, options.windows);
  const int64_t short_context = ShortContextOf(options.windows);
  if (short_context >= text.cut.window)
    FailUsage(
        "longppl: got windows of {} positions, expected more than the short context of {}; try a longer --window "
        "or a smaller --short-context",
        text.cut.window, short_context);
  return {.windows = Behind(std::move(text.sequences), short_context),
          .cut = text.cut,
          .short_context = short_context,
          .evaluator = ReferenceOf(of, options)};
}

Json FiguresOf(const std::vector<TokenLoss>& tokens, const LongText& text) {
  TARE_CHECK(text.key.size() == tokens.size());
  std::vector<TokenLoss> key;
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (text.key[i]) key.push_back(tokens[i]);
  }
  if (key.empty())
    Fail(
        "longppl: got no key token among {}, expected some that the evaluator predicts by {} nats better from the "
        "whole window than from {} tokens; try a longer text or --window, or a smaller --short-context",
        tokens.size(), kLeastGain, text.short_context);
  std::optional<Json> figures = PerplexityFigures(key);
  if (!figures) Fail("longppl: the mean loss is not finite; try `tare stats` to see where");
  (*figures)["longppl"] = figures->at("perplexity");
  figures->erase("perplexity");
  figures->update({{"of_scored", tokens.size()},
                   {"short_context", text.short_context},
                   {"evaluator_sha256", text.evaluator->files().ContentHash()}});
  figures->update(CutFigures(text.cut));
  return *std::move(figures);
}

RunTask ReadLongPerplexity(const std::filesystem::path& file, const Model& of, const TaskOptions& options) {
  auto text = std::make_shared<LongText>(LongTextOf(file, of, options));
  const TaskSize size = SizeOf(text->windows);
  auto body = [text](Model& model, PlanRun& run, const Progress& progress) {
    if (text->key.empty()) text->key = KeyTokens(*text->evaluator, text->windows, text->short_context, progress);
    const auto tokens = MeasureLosses(model, run.Begin(model, progress), text->windows, run.cache(), progress);
    return TaskResult{.figures = FiguresOf(tokens, *text), .records = {}};
  };
  return {std::move(body), size};
}

Json LongPerplexityConvention(const WindowOptions& windows) {
  Json rules = PerplexityConvention(windows);
  rules["short_context"] = ShortContextOf(windows);
  return rules;
}

std::string HowLongPerplexity(const Json& result) {
  return Formatted("{} of {}{}\n  {} of {} that have {} or more before them need a long context",
                   Counted(result.at("windows"), "window"), result.at("window").dump(), TakenText(result),
                   Counted(result.at("tokens"), "token"), result.at("of_scored").dump(),
                   result.at("short_context").dump());
}

constexpr FigureKeys kLongFigures[] = {
    {.name = "longppl", .windows = kPerplexityWindows, .of_mean = OfMean::kExponential, .format = "9.4f"},
    {.name = "nll", .error = "nll_stderr", .windows = kPerplexityWindows, .format = ".5f", .in_tables = nullptr}};

}  // namespace

std::optional<Json> PerplexityFigures(const std::vector<TokenLoss>& tokens) {
  const double nll = Mean(tokens), perplexity = std::exp(nll);
  if (!std::isfinite(nll)) return std::nullopt;  // of a finite one, perplexity may be infinite
  const PairedRuns runs = LossesByWindow(tokens);
  const std::vector<int64_t> counts(runs.counts.begin(), runs.counts.end());
  return Json{{"nll", nll},
              {"perplexity", perplexity},
              {"tokens", tokens.size()},
              {"nll_stderr", ErrorJson(runs)},
              {"windows", counts.size()},
              {"window_losses", runs.sums.front()},
              {"window_tokens", counts},
              {"by_position", ByPosition(tokens)}};
}

std::vector<TokenLoss> MeasureLosses(Model& model, SiteVisitors visitors, const std::vector<ScoredSequence>& sequences,
                                     const std::optional<CachePlan>& cache, const Progress& progress) {
  const ScoredTokens scored(sequences);
  std::vector<TokenLoss> tokens(scored.size());  // in the order of the text, so that sums do not depend on threads
  const auto score = [&](const TokenBatch& batch) {
    const PredictedTokens predicted = scored.In(batch);
    model.VocabularyLogits(predicted.rows, [&](size_t i, const float* logits, int) {
      const double loss =
          LogSumExp(logits, model.config().vocabulary) - static_cast<double>(logits[predicted.targets[i]]);
      const int64_t rank = RankOf({logits, static_cast<size_t>(model.config().vocabulary)}, predicted.targets[i]);
      tokens[predicted.places[i]] = {loss, predicted.contexts[i], predicted.windows[i], rank};
    });
  };
  ForwardAll(model, visitors, sequences, progress, score, cache);
  return tokens;
}

TaskResult MeasurePerplexity(Model& model, SiteVisitors visitors, const std::vector<ScoredSequence>& sequences,
                             const std::optional<CachePlan>& cache, const Progress& progress) {
  const std::vector<TokenLoss> tokens = MeasureLosses(model, visitors, sequences, cache, progress);
  if (tokens.empty()) Fail("perplexity: the input leaves no token to predict; expected at least two tokens");
  std::optional<Json> figures = PerplexityFigures(tokens);
  if (!figures)
    Fail("perplexity: the mean loss is {} nats, expected a finite number; try `tare stats` to see where", Mean(tokens));
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

constexpr TaskKind kPerplexityTask{.name = "perplexity",
                                   .file = "TEXT",
                                   .what = "perplexity of a text, or of token IDs",
                                   .read = ReadPerplexity,
                                   .figures = kPerplexityFigures,
                                   .convention = PerplexityConvention,
                                   .how = HowPerplexity,
                                   .by_position = "by_position",
                                   .compared = &kDivergenceTask};

std::vector<ScoredSequence> ShortPieces(const ScoredSequence& window, int64_t short_context) {
  const int64_t end = std::ssize(window.tokens), most = std::max<int64_t>(1, short_context / 4);
  std::vector<ScoredSequence> pieces;
  for (int64_t scored = std::max(short_context, window.first_target); scored < end; scored += most) {
    const auto begin = window.tokens.begin() + (scored - short_context);
    pieces.push_back(
        {.tokens = {begin, begin + short_context + std::min(most, end - scored)}, .first_target = short_context});
  }
  return pieces;
}

std::vector<bool> KeyTokens(Model& evaluator, const std::vector<ScoredSequence>& windows, int64_t short_context,
                            const Progress& progress) {
  std::vector<ScoredSequence> pieces;
  for (const ScoredSequence& window : windows)
    std::ranges::move(ShortPieces(window, short_context), std::back_inserter(pieces));
  const auto from_all = MeasureLosses(evaluator, {}, Behind(windows, short_context), {}, progress);
  const auto from_few = MeasureLosses(evaluator, {}, pieces, {}, progress);
  std::vector<bool> key(from_all.size());
  for (size_t i = 0; i < key.size(); ++i)
    key[i] = from_few[i].loss - from_all[i].loss > kLeastGain && from_all[i].loss < kMostLoss;
  return key;
}

constexpr TaskKind kLongPerplexityTask{.name = "longppl",
                                       .file = "TEXT",
                                       .what = "perplexity of tokens that need a long context",
                                       .read = ReadLongPerplexity,
                                       .figures = kLongFigures,
                                       .convention = LongPerplexityConvention,
                                       .how = HowLongPerplexity,
                                       .by_position = "by_position",
                                       .short_context = true,
                                       .reference = true};

}  // namespace tare
