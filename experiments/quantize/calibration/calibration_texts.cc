// SPDX-License-Identifier: Apache-2.0
#include "experiments/quantize/calibration/calibration_texts.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "experiments/tasks/items/lines.h"
#include "experiments/tasks/perplexity.h"
#include "experiments/text/chat/chat_template.h"
#include "quant/base/message.h"
#include "quant/file/files_of_run.h"
#include "quant/file/sha256.h"

namespace tare {
namespace {

using Part = CalibrationTexts::Part;

bool IsFile(std::string_view name) {
  std::error_code too_long;  // as a list of files may be
  return std::filesystem::exists(std::filesystem::path(name), too_long);
}

Part ParsePart(const std::string& text) {
  const size_t colon = text.rfind(':');
  if (colon == text.npos || IsFile(text)) return {FileOf(text)};
  const auto weight = ParseNumber<double>(text.substr(colon + 1));
  if (!weight || !(*weight >= 1e-6 && *weight <= 1e6))
    FailUsage("--calibrate: {}: got weight '{}', expected a number from 1e-6 to 1e6, as in a.txt:2,b.txt:1", text,
              text.substr(colon + 1));
  return {FileOf(text.substr(0, colon)), *weight};
}

bool AreDocuments(const std::filesystem::path& path) { return path.extension() == ".jsonl"; }

// Each document a row, whose windows end where it does.
TokenInput LoadDocumentRows(const std::filesystem::path& path, const std::filesystem::path& model_folder,
                            int vocabulary) {
  const Tokenizer tokenizer = Tokenizer::Load(model_folder);
  ChatTemplate chats(model_folder);
  TokenInput input{.bos = tokenizer.bos(), .path = path, .sha256 = Sha256OfFile(path)};
  for (const TextDocument& document : LoadLines<ParseDocument>(path, 0, TakeFrom::kStart, chats))
    input.sequences.push_back(TokensOf(document, tokenizer, vocabulary));
  return input;
}

// The cut's part of a single row, or of several rows.
void KeepCut(TokenInput& input, const Shard& cut) {
  if (cut.count == 1) return;
  const auto keep = [&](auto& all, const char* what) {
    if (all.size() < cut.count)
      Fail("{}: got {} {}, expected at least {}, one for each cut", input.path.string(), all.size(), what, cut.count);
    const size_t begin = all.size() * cut.index / cut.count, end = all.size() * (cut.index + 1) / cut.count;
    all = {all.begin() + static_cast<ptrdiff_t>(begin), all.begin() + static_cast<ptrdiff_t>(end)};
  };
  if (input.sequences.size() == 1) return keep(input.sequences[0], "tokens");
  keep(input.sequences, AreDocuments(input.path) ? "documents" : "rows");
}

int64_t TokensOf(const TokenInput& input) {
  int64_t tokens = 0;
  for (const std::vector<int32_t>& row : input.sequences) tokens += std::ssize(row);
  return tokens;
}

// Windows of documents are of any length: so many, at even distances, as hold about these tokens.
std::vector<ScoredSequence> CutDocuments(const TokenInput& input, const ModelConfig& config, WindowOptions options) {
  if (options.tokens == 0 || options.from == TakeFrom::kStart) return CutDisjoint(input, config, options);
  WindowOptions whole = options;
  whole.tokens = whole.limit = 0;
  const double windows = static_cast<double>(CutDisjoint(input, config, whole).size()),
               share = static_cast<double>(options.tokens) / static_cast<double>(TokensOf(input));
  const auto count = static_cast<int64_t>(std::max(1.0, std::round(windows * std::min(1.0, share))));
  options.tokens = 0;
  options.limit = options.limit == 0 ? count : std::min(options.limit, count);
  return CutDisjoint(input, config, options);
}

// ", cut 0/5 by 16384 tokens, window 0, limit 0, spread, weight 1": the cut, and by what its windows were chosen, which
// cuts of one text share (studies/sweep/spreads.cc).
std::string CutText(const Shard& cut, double weight, const WindowOptions& options) {
  if (cut.count == 1) return "";
  return Formatted(", cut {}/{} by {} tokens, window {}, limit {}, {}, weight {}", cut.index, cut.count, options.tokens,
                   options.window, options.limit, Name(options.from), weight);
}

void Add(CalibrationWindows& all, const TokenInput& input, double share, const std::string& cut,
         std::vector<ScoredSequence> sequences) {
  CalibratedOn& on = all.files.emplace_back(
      CalibratedOn{.file = input.path.filename().string(), .windows = std::ssize(sequences), .asked = share});
  std::vector<int32_t> seen;  // lengths and ids: the same text in other windows is another calibration
  for (const ScoredSequence& s : sequences) {
    on.tokens += std::ssize(s.tokens);
    seen.push_back(static_cast<int32_t>(s.tokens.size()));
    for (const int32_t token : s.tokens) seen.push_back(token);
  }
  all.provenance += (all.provenance.empty() ? "" : "; ") +
                    Formatted("{}, sha256 {}{}, {} tokens in {} windows, sha256 {}", on.file, input.sha256, cut,
                              on.tokens, on.windows, Sha256Hex(std::as_bytes(std::span(seen))));
  std::ranges::move(sequences, std::back_inserter(all.sequences));
}

// How many tokens all files give together, in proportion to the weights.
double TokensInProportion(const std::vector<Part>& parts, const std::vector<TokenInput>& inputs, double weights,
                          int64_t asked) {
  double tokens = asked == 0 ? std::numeric_limits<double>::infinity() : static_cast<double>(asked);
  for (size_t i = 0; i < parts.size(); ++i)
    tokens = std::min(tokens, static_cast<double>(TokensOf(inputs[i])) * weights / parts[i].weight);
  return tokens;
}

CalibrationWindows CutInputs(const CalibrationTexts& texts, std::vector<TokenInput> inputs, const ModelConfig& config,
                             const WindowOptions& options) {
  for (TokenInput& input : inputs) KeepCut(input, texts.cut);
  CalibrationWindows all;
  double weights = 0;
  for (const Part& part : texts.parts) weights += part.weight;
  const double tokens = TokensInProportion(texts.parts, inputs, weights, options.tokens);
  for (size_t i = 0; i < inputs.size(); ++i) {
    WindowOptions own = options;
    if (inputs.size() > 1) own.tokens = static_cast<int64_t>(tokens * texts.parts[i].weight / weights);
    if (inputs.size() > 1 && own.tokens == 0)
      Fail("{}: got no token, its share of {:.0f} tokens of all texts; try more --tokens, or another weight",
           inputs[i].path.string(), tokens);
    Add(all, inputs[i], texts.parts[i].weight / weights, CutText(texts.cut, texts.parts[i].weight, options),
        AreDocuments(inputs[i].path) ? CutDocuments(inputs[i], config, own) : CutDisjoint(inputs[i], config, own));
  }
  return all;
}

}  // namespace

CalibrationTexts CalibrationTexts::Parse(const std::string& text, const Shard& cut) {
  CalibrationTexts texts(IsFile(text) ? FileOf(text) : "");
  texts.cut = cut;
  if (text.empty() || !texts.empty()) return texts;
  for (const std::string& one : SplitNames(text)) {
    const Part part = ParsePart(one);
    if (part.file.empty()) FailUsage("--calibrate: got '{}', expected a file's name between commas", text);
    if (std::ranges::contains(texts.parts, part.file, &Part::file))
      FailUsage("--calibrate: got {} twice, expected each text once", part.file.string());
    texts.parts.push_back(part);
  }
  return texts;
}

void NoticeFewTokens(const CalibrationWindows& windows, const ModelConfig& config) {
  int64_t tokens = 0;
  for (const CalibratedOn& on : windows.files) tokens += on.tokens;
  if (tokens < config.hidden && !config.SeesImages())
    Notice(Formatted(
        "--calibrate: got {} tokens, fewer than the {} inputs of most weights: what a method learns may serve "
        "these tokens alone; try more --tokens, or a longer text",
        tokens, config.hidden));
}

CalibrationWindows CutCalibration(const CalibrationTexts& texts, const std::filesystem::path& model_folder,
                                  const ModelConfig& config, const WindowOptions& options) {
  if (texts.parts.size() > 1 && config.SeesImages())
    FailUsage("--calibrate: got {} files of images, expected one", texts.parts.size());
  if (texts.parts.size() > 1 && options.limit != 0)
    FailUsage("--limit: got {} with several texts, expected --tokens, which the weights share", options.limit);
  if (config.SeesImages()) {
    const std::filesystem::path& file = texts.parts.front().file;
    const auto images = std::make_shared<const Images>(file, config);
    CalibrationWindows windows = CutInputs(texts, {IdsOf(*images, file)}, config, options);
    windows.images = images;
    return windows;
  }
  // Weights and cuts are of whole texts.
  const TextPart part = texts.parts.size() == 1 && texts.cut.count == 1 ? options.NeededOf(config) : TextPart{};
  std::vector<TokenInput> inputs;
  for (const Part& text : texts.parts) {
    inputs.push_back(AreDocuments(text.file) ? LoadDocumentRows(text.file, model_folder, config.vocabulary)
                                             : LoadTokenInput(text.file, model_folder, config.vocabulary, part));
  }
  return CutInputs(texts, std::move(inputs), config, options);
}

}  // namespace tare
