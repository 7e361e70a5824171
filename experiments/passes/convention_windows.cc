// SPDX-License-Identifier: Apache-2.0
#include "experiments/passes/sequences.h"

#include <algorithm>
#include <set>

#include "experiments/passes/generate.h"
#include "quant/base/message.h"

namespace tare {
namespace {

WindowCut CutAsTool(const TokenInput& input, const ModelConfig& config, const WindowOptions& options, int64_t usual,
                    int64_t least) {
  const std::string_view name = InfoOf(options.convention).name;
  if (input.kind != TokenInput::Kind::kText)
    FailUsage("--convention {}: got ids, expected a text, as that tool reads; try without it", name);
  if (options.stride != 0)
    FailUsage("--stride: got {}, expected 0 with --convention {}, which has its own", options.stride, name);
  const int64_t window = options.window == 0 ? std::min<int64_t>(usual, config.max_positions) : options.window;
  CheckWindow(window, least, config);
  return {.window = window,
          .stride = window,
          .bos = input.bos.has_value(),
          .cut_to_positions = options.window == 0 && usual > config.max_positions,
          .convention = options.convention};
}

// Consecutive windows, without the text's end. llama.cpp scores second halves, begins each with `<s>`, and needs two.
CutText InWholeWindows(const TokenInput& input, const std::vector<int32_t>& tokens, const ModelConfig& config,
                       const WindowOptions& options) {
  const bool halves = options.convention == Convention::kLlamaCpp;
  CutText text{{}, CutAsTool(input, config, options, halves ? kTextWindow : 2048, halves ? 3 : 2)};
  const int64_t window = text.cut.window, got = std::ssize(tokens), least = halves ? 2 * window : window;
  if (got < least)
    Fail("{}: got {} tokens, expected at least {}, {}, as {} does; try a smaller --window", input.path.string(), got,
         least, halves ? "two windows" : "one window", InfoOf(options.convention).name);
  for (auto begin = tokens.begin(); tokens.end() - begin >= window; begin += window) {
    ScoredSequence& cut = text.sequences.emplace_back();
    cut.tokens.assign(begin, begin + window);
    if (halves && input.bos) cut.tokens.front() = *input.bos;
    cut.first_target = halves ? window / 2 + 1 : 1;
  }
  return text;
}

CutText AsLmEval(const TokenInput& input, const std::vector<int32_t>& tokens, const Model& model,
                 const WindowOptions& options) {
  const WindowCut cut = CutAsTool(input, model.config(), options, model.config().max_positions, 1);
  return {RollingWindows(tokens, PrefixToken(input.bos, model), static_cast<size_t>(cut.window)), cut};
}

}  // namespace

const ConventionInfo& InfoOf(Convention convention) {
  return *std::ranges::find(kConventions, convention, &ConventionInfo::convention);
}

Convention ConventionNamed(std::string_view name) {
  const auto info = std::ranges::find(kConventions, name, &ConventionInfo::name);
  if (info == std::end(kConventions)) FailUsage("--convention: got '{}', expected {}", name, ConventionNames());
  return info->convention;
}

std::string ConventionNames() { return Listed(kConventions, ", ", &ConventionInfo::name, " or "); }

Json RulesOf(const WindowOptions& options) {
  const ConventionInfo& info = InfoOf(options.convention);
  return {{"window", options.window},
          {"stride", options.stride},
          {"tokens", options.tokens},
          {"convention",
           {{"name", info.name},
            {"window", info.window},
            {"stride", info.stride},
            {"scored", info.scored},
            {"bos", info.bos}}}};
}

int32_t PrefixToken(std::optional<int32_t> bos, const Model& model) {
  if (bos) return *bos;
  if (const auto named = Tokenizer::Load(model.folder()).prefix()) return *named;
  const std::set<int32_t> ends = EndTokens(model.folder());
  if (ends.size() != 1)
    Fail(
        "{}: got no <s>, no eos_token of the tokenizer and {} ids as eos_token_id, expected one token to predict a "
        "text's first one from",
        model.Name(), ends.size());
  return *ends.begin();
}

std::vector<ScoredSequence> RollingWindows(const std::vector<int32_t>& tokens, int32_t prefix, size_t most) {
  std::vector<ScoredSequence> windows;
  for (size_t predicted = 0; predicted < tokens.size();) {
    const size_t scored = std::min(tokens.size() - predicted, most), end = predicted + scored;
    ScoredSequence& window = windows.emplace_back();
    if (predicted == 0) window.tokens.push_back(prefix);
    const size_t begin = predicted == 0 ? 0 : end - most - 1;
    window.tokens.insert(window.tokens.end(), tokens.begin() + static_cast<ptrdiff_t>(begin),
                         tokens.begin() + static_cast<ptrdiff_t>(end));
    window.first_target = std::ssize(window.tokens) - static_cast<int64_t>(scored);
    predicted = end;
  }
  return windows;
}

CutText CutByConvention(const TokenInput& input, const Model& model, const WindowOptions& options) {
  if (options.convention == Convention::kTare)
    return {CutSequences(input, model.config(), options), CutOf(input, model.config(), options)};
  std::vector<int32_t> tokens = input.sequences.front();
  if (input.bos) tokens.insert(tokens.begin(), *input.bos);
  if (options.tokens != 0) tokens.resize(std::min(tokens.size(), static_cast<size_t>(options.tokens)));
  CutText text = options.convention == Convention::kLmEval ? AsLmEval(input, tokens, model, options)
                                                           : InWholeWindows(input, tokens, model.config(), options);
  for (ScoredSequence& s : text.sequences) s.only_predicted = options.convention == Convention::kLmEval ? 1 : 0;
  if (options.limit != 0) text.sequences.resize(std::min(text.sequences.size(), static_cast<size_t>(options.limit)));
  return text;
}

CutText CutFileByConvention(const std::filesystem::path& file, const Model& model, const WindowOptions& options) {
  const TokenInput input =
      LoadTokenInput(file, model.folder(), model.config().vocabulary, options.NeededOf(model.config()));
  return CutByConvention(input, model, options);
}

}  // namespace tare
