// SPDX-License-Identifier: Apache-2.0
#include "experiments/tasks/documents.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <set>

#include "experiments/passes/generate.h"
#include "experiments/tasks/perplexity.h"
#include "experiments/text/grammar.h"
#include "quant/base/error.h"
#include "quant/base/formatted.h"

namespace tare {
namespace {

// Documents cut into windows.
struct CutDocuments {
  std::vector<TextDocument> documents;
  std::vector<ScoredSequence> windows;
  std::vector<size_t> counts;  // windows of each document
  int64_t positions = 0;       // of a window
  bool bos = false;
};

int32_t PrefixOf(const Tokenizer& tokenizer, const Model& model) {
  if (tokenizer.bos()) return *tokenizer.bos();
  const std::set<int32_t> ends = EndTokens(model.folder());
  if (ends.empty())
    Fail("{}: got neither a <s> nor an eos_token_id, expected a token to predict a document's first one from",
         model.Name());
  return *ends.begin();
}

int64_t PositionsOf(const WindowOptions& options, const ModelConfig& config) {
  const int64_t positions = options.window > 0 ? options.window : config.max_positions;
  if (positions < 2 || positions > config.max_positions)
    Fail("documents: got windows of {}, expected 2 to max_position_embeddings {}", positions, config.max_positions);
  return positions;
}

CutDocuments Cut(const std::filesystem::path& file, const Model& model, const WindowOptions& options) {
  const Tokenizer tokenizer = Tokenizer::Load(model.folder());
  const int32_t prefix = PrefixOf(tokenizer, model);
  CutDocuments cut{.documents = LoadDocuments(file, static_cast<size_t>(options.limit), options.from),
                   .windows = {},
                   .counts = {},
                   .positions = PositionsOf(options, model.config()),
                   .bos = tokenizer.bos().has_value()};
  for (const TextDocument& document : cut.documents) {
    const std::vector<ScoredSequence> windows =
        RollingWindows(tokenizer.Encode(document.text), prefix, static_cast<size_t>(cut.positions - 1));
    if (windows.empty()) Fail("{}: got a document without a token, expected text", document.where);
    cut.windows.insert(cut.windows.end(), windows.begin(), windows.end());
    cut.counts.push_back(windows.size());
  }
  return cut;
}

TaskResult Measured(const CutDocuments& cut, const Json& perplexity) {
  const auto of_windows = perplexity.at("window_losses").get<std::vector<double>>();
  TaskResult result;
  std::vector<double> losses, words, bytes;
  size_t window = 0;
  double total = 0, all_words = 0, all_bytes = 0;
  for (size_t d = 0; d < cut.documents.size(); ++d) {
    double loss = 0;
    for (size_t i = 0; i < cut.counts[d]; ++i) loss += of_windows[window++];
    const TextDocument& document = cut.documents[d];
    losses.push_back(loss);
    words.push_back(static_cast<double>(document.words));
    bytes.push_back(static_cast<double>(document.bytes));
    total += loss, all_words += words.back(), all_bytes += bytes.back();
    result.records.push_back(
        {{"line", document.line}, {"log_likelihood", -loss}, {"words", document.words}, {"bytes", document.bytes}});
  }
  std::vector<double> bits;
  for (const double loss : losses) bits.push_back(loss / std::numbers::ln2);
  result.figures = {{"word_perplexity", std::exp(total / all_words)},
                    {"byte_perplexity", std::exp(total / all_bytes)},
                    {"bits_per_byte", total / all_bytes / std::numbers::ln2},
                    {"documents", cut.documents.size()},
                    {"tokens", perplexity.at("tokens")},
                    {"document_losses", losses},
                    {"document_bits", bits},
                    {"document_words", words},
                    {"document_bytes", bytes},
                    {"windows", cut.windows.size()},
                    {"window", cut.positions},
                    {"bos", cut.bos}};
  return result;
}

RunTask Read(const std::filesystem::path& file, const Model& of, const TaskOptions& options) {
  return [cut = Cut(file, of, options.windows)](Model& model, PlanRun& run, const Progress& progress) {
    const TaskResult perplexity = MeasurePerplexity(model, run.Begin(model), cut.windows, run.cache(), progress);
    return Measured(cut, perplexity.figures);
  };
}

Json Convention(const WindowOptions& windows) {
  return {{"window", windows.window},
          {"convention", "each document by itself, in the windows of lm-evaluation-harness's loglikelihood_rolling"}};
}

std::string How(const Json& result) {
  return Formatted("{}, each by itself after {}, in windows of {}: {} scored",
                   Counted(result.at("documents"), "document"),
                   result.at("bos").get<bool>() ? "<s>" : "the token that ends a text", result.at("window").dump(),
                   Counted(result.at("tokens"), "token"));
}

constexpr WindowKeys kWords{.losses = "document_losses", .counts = "document_words", .kind = Units::kIndependent},
    kBytes{.losses = "document_losses", .counts = "document_bytes", .kind = Units::kIndependent},
    kBits{.losses = "document_bits", .counts = "document_bytes", .kind = Units::kIndependent};
constexpr FigureKeys kFigures[] = {{.name = "word_perplexity", .windows = kWords, .of_mean = OfMean::kExponential},
                                   {.name = "byte_perplexity", .windows = kBytes, .of_mean = OfMean::kExponential},
                                   {.name = "bits_per_byte", .windows = kBits, .in_tables = nullptr}};

}  // namespace

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

constexpr TaskKind kDocumentsTask{.name = "documents",
                                  .file = "DOCUMENTS.jsonl",
                                  .read = Read,
                                  .figures = kFigures,
                                  .count = "tokens",
                                  .unit = "token",
                                  .convention = Convention,
                                  .how = How,
                                  .of_documents = true};

}  // namespace tare
