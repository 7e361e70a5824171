// SPDX-License-Identifier: Apache-2.0
#include "experiments/tasks/long_perplexity.h"

#include <algorithm>
#include <memory>

#include "experiments/passes/convention_windows.h"
#include "experiments/tasks/divergence.h"
#include "experiments/tasks/perplexity.h"
#include "experiments/text/grammar.h"
#include "quant/base/error.h"
#include "quant/base/formatted.h"

namespace tare {
namespace {

// Nats; the paper's alpha and -beta.
constexpr double kLeastGain = 2, kMostLoss = 2;

int64_t ShortContextOf(const WindowOptions& options) {
  return options.short_context == 0 ? kShortContext : options.short_context;
}

// The windows, of which only tokens with a short context or more before them are scored.
std::vector<ScoredSequence> Behind(std::vector<ScoredSequence> windows, int64_t short_context) {
  for (ScoredSequence& window : windows) window.first_target = std::max(window.first_target, short_context);
  std::erase_if(windows, [](const ScoredSequence& w) { return w.first_target >= std::ssize(w.tokens); });
  return windows;
}

TokenLosses Only(const std::vector<bool>& kept, const TokenLosses& all) {
  TARE_CHECK(kept.size() == all.losses.size());
  TokenLosses some;
  for (size_t i = 0; i < kept.size(); ++i) {
    if (!kept[i]) continue;
    some.losses.push_back(all.losses[i]);
    some.contexts.push_back(all.contexts[i]);
    some.windows.push_back(all.windows[i]);
  }
  return some;
}

}  // namespace

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
  const TokenLosses from_all = MeasureLosses(evaluator, {}, Behind(windows, short_context), {}, progress);
  const TokenLosses from_few = MeasureLosses(evaluator, {}, pieces, {}, progress);
  std::vector<bool> key(from_all.losses.size());
  for (size_t i = 0; i < key.size(); ++i)
    key[i] = from_few.losses[i] - from_all.losses[i] > kLeastGain && from_all.losses[i] < kMostLoss;
  return key;
}

namespace {

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
          .evaluator = ReferenceOf(of, options),
          .key = {}};
}

Json FiguresOf(const TokenLosses& tokens, const LongText& text) {
  const TokenLosses key = Only(text.key, tokens);
  if (key.losses.empty())
    Fail(
        "longppl: got no key token among {}, expected some that the evaluator predicts by {} nats better from the "
        "whole window than from {} tokens; try a longer text or --window, or a smaller --short-context",
        tokens.losses.size(), kLeastGain, text.short_context);
  std::optional<Json> figures = PerplexityFigures(key);
  if (!figures) Fail("longppl: the mean loss is not finite; try `tare stats` to see where");
  (*figures)["longppl"] = figures->at("perplexity");
  figures->erase("perplexity");
  figures->update({{"of_scored", tokens.losses.size()},
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
    const TokenLosses tokens = MeasureLosses(model, run.Begin(model, progress), text->windows, run.cache(), progress);
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

constexpr WindowKeys kLongPerplexityWindows{.losses = "window_losses", .counts = "window_tokens"};
constexpr FigureKeys kLongFigures[] = {
    {.name = "longppl", .windows = kLongPerplexityWindows, .of_mean = OfMean::kExponential, .format = "9.4f"},
    {.name = "nll", .error = "nll_stderr", .windows = kLongPerplexityWindows, .format = ".5f", .in_tables = nullptr}};

}  // namespace

constexpr TaskKind kLongPerplexityTask{.name = "longppl",
                                       .file = "TEXT",
                                       .what = "perplexity of tokens that need a long context",
                                       .read = ReadLongPerplexity,
                                       .figures = kLongFigures,
                                       .count = "tokens",
                                       .unit = "token",
                                       .convention = LongPerplexityConvention,
                                       .how = HowLongPerplexity,
                                       .by_position = "by_position",
                                       .short_context = true,
                                       .reference = true};

}  // namespace tare
