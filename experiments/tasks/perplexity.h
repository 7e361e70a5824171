// SPDX-License-Identifier: Apache-2.0
// Perplexity of a text: exp of the mean negative log-likelihood per token, in nats. Each token is scored once, given as
// much context as the window allows (experiments/passes/sequences.h); text windows begin with the checkpoint's `<s>`.
// And the divergence of predictions (divergence.cc), and the perplexity of documents (documents.cc).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "experiments/tasks/task.h"
#include "experiments/text/tokenizer/tokenizer.h"

namespace tare {

class ChatTemplate;

extern const TaskKind kPerplexityTask;  // perplexity=TEXT

// Which tokens of a text are scored and with what context, for results.
Json PerplexityConvention(const WindowOptions& windows);

// If a part of a text is scored, AddTaken adds which to its figures ("from", and "of_tokens" if all were counted, or
// "windows_begin"), and TakenText says it for people, " spread over 2001234 tokens".
void AddTaken(const WindowCut& cut, Json& figures);
std::string TakenText(const Json& result);

struct TokenLoss {
  double loss = 0;      // -ln p(token), nats
  int64_t context = 0;  // tokens before it
  size_t window = 0;    // which one scored it
  int64_t rank = 0;     // of the token by its probability (RankOf)
};
// Losses of the scored tokens, in order. cache: tokens pass through one, as in decoding; nothing: ordinary passes.
std::vector<TokenLoss> MeasureLosses(Model& model, SiteVisitors visitors, const std::vector<ScoredSequence>& sequences,
                                     const std::optional<CachePlan>& cache, const Progress& progress);

// Figures of these losses: nll (mean nats per token), nll_stderr (over windows, mean_error.h; null for few), perplexity
// = exp(nll), tokens (scored), windows (that scored some), and each window's losses (window_losses) and count
// (window_tokens), which pair runs. Also by context (by_position, experiments/significance/mean_error.h): {"first",
// "last", "tokens", "nll", "nll_stderr"}. Nothing if the perplexity is not finite.
std::optional<Json> PerplexityFigures(const std::vector<TokenLoss>& tokens);
// "window", "stride", "bos", "cut_to_positions", a tool's "convention" and which part (AddTaken), which the task adds.
Json CutFigures(const WindowCut& cut);

// Throws Error if no token is scored or the perplexity is not finite.
TaskResult MeasurePerplexity(Model& model, SiteVisitors visitors, const std::vector<ScoredSequence>& sequences,
                             const std::optional<CachePlan>& cache, const Progress& progress);

// Perplexity of tokens that need a long context (LongPPL: Fang et al. 2024, arXiv 2410.23771, equations 2 to 5, pieces
// by the authors' code). In a window of m positions, with a short context K and pieces of K/4, token i >= K is key if
//
//   LSD = ln p(i | all before it in the window) - ln p(i | K to K + K/4 - 1 before it) > 2, and
//   LCL = ln p(i | all before it in the window) > -2
//
// The figure is exp of the key tokens' mean loss given the whole window. Which tokens are key is decided once, by
// TaskOptions::reference as stored, or else by the model under test without a plan: every plan is scored on the same
// tokens. Loss over all tokens hardly notices what a model reads far back; these tokens are chosen for it.
extern const TaskKind kLongPerplexityTask;  // longppl=TEXT

inline constexpr int64_t kShortContext = 4096;  // K, if no option gives another

// The pieces that predict a window's tokens from a short context, in the order of the window: each scores up to K/4
// tokens (at least one) from K before the first of them. Together they score tokens[max(K, first_target) ..].
std::vector<ScoredSequence> ShortPieces(const ScoredSequence& window, int64_t short_context);

// For each token with K or more before it in its window, in the order of the text: whether it is a key token.
std::vector<bool> KeyTokens(Model& evaluator, const std::vector<ScoredSequence>& windows, int64_t short_context,
                            const Progress& progress);

// How far a plan, or a quantized checkpoint, moves predictions on a text: Kullback-Leibler divergence from the
// reference, side by side over perplexity's windows. It needs far fewer tokens than perplexity to detect a small
// change, because difficulty shared by both cancels. Definitions are llama.cpp's (`llama-perplexity --kl-divergence`),
// which scores each window's second half; Tare scores what perplexity scores. Errors are over windows (mean_error.h),
// as their tokens are not independent; llama.cpp's are over tokens.
//
// The reference is TaskOptions::reference as stored, else the model without a plan. For many plans it runs once; its
// logits, or else final hidden states, are kept up to 256 MiB.

// For one predicted token, with p the reference's distribution and q that of the model under test.
struct TokenDivergence {
  double kld = 0;             // sum p ln(p / q), nats
  double reference_loss = 0;  // -ln p(token), nats
  double loss = 0;            // -ln q(token)
  bool same_top = false;      // whether both have the same most likely token
  int64_t context = 0;        // number of context tokens
  size_t window = 0;          // which one scored it, in the order of the text
  int64_t rank = 0;           // of the token by q (RankOf)
};

// A quantile of sorted values, with linear interpolation.
double Quantile(std::span<const double> sorted, double share);

extern const TaskKind kDivergenceTask;  // divergence=TEXT

// The reference's results for all scored tokens: logits [tokens, V], or hidden states [tokens, E], which are smaller.
struct ReferenceStates {
  enum class Of { kLogits, kFinalNorm };
  Of of = Of::kFinalNorm;
  std::vector<float> values = {};
  bool complete = false;
};

// options.reference as stored, or `of` without a plan. Throws Error if vocabulary sizes or tokenizers' pieces differ.
std::shared_ptr<Model> ReferenceOf(const Model& of, const TaskOptions& options);

// One per scored token, in order, exact to f32's rounding of logits: a small one may fall below 0 by some 1e-7 of the
// largest logit. Vocabularies are the same. The model may be its own reference, without a second pass. `states`: filled
// by the first run, then used instead of passes; null, or with a cache: the reference runs. All give the same bits.
std::vector<TokenDivergence> MeasureDivergence(Model& model, SiteVisitors visitors, Model& reference,
                                               const std::vector<ScoredSequence>& sequences,
                                               const std::optional<CachePlan>& cache, const Progress& progress,
                                               ReferenceStates* states = nullptr);

// The task's figures of these tokens, with sums of each window, which pair runs. delta_p is q(token) - p(token), and
// perplexity_ratio exp of the mean of loss - reference_loss. of_text: the tested model's by `of` (PerplexityFigures,
// ClassFigures), null if not finite. Throws Error for no tokens or a mean that is not finite.
TaskResult DivergenceResult(const std::vector<TokenDivergence>& tokens,
                            std::optional<Json> (*of)(const std::vector<TokenLoss>&) = PerplexityFigures);

// Perplexity of documents, each by itself, as lm-evaluation-harness measures WikiText (loglikelihood_rolling): per word
// and per byte, so that models with different tokenizers compare.
//
//   word_perplexity = exp(-L / words), byte_perplexity = exp(-L / bytes), bits_per_byte = -L / (bytes ln 2)
//
// L: the log-likelihood of all documents' tokens (TextDocument). As in the harness, a document's first token is
// predicted from `<s>` alone (else the token that ends texts); windows overlap only by the first token, and the last
// moves back to be full. Windows of W positions score W - 1 tokens, as the harness with max_length = W - 1. The harness
// scores a `<s>` its tokenizer puts; --convention lm-eval does both its way (passes/sequences.h).
extern const TaskKind kDocumentsTask;  // documents=DOCUMENTS.jsonl

// One per JSON line:
//
//   {"page": "..."}      WikiText's lines: the text is the page without the marks of its tokenizer (DetokenizeWikitext)
//   {"text": "..."}      as written
//   {"messages": [...]}  a chat (text/chat), as the checkpoint's template writes it
//   lines that the harness logged (items/lines.h)
//
// Words and bytes are those of the page where there is one, as in the harness's wikitext task, of a chat's contents, so
// that models with other templates compare, or of the text.
struct TextDocument {
  std::string text;
  size_t words = 0;  // len(re.split(r"\s+", ...)) in Python
  size_t bytes = 0;
  size_t line = 0;    // in its file, from 1
  std::string where;  // file and line, for messages
};

// Parses one line (LoadLines in items/lines.h). Throws Error, starting with `where`, also for no text.
TextDocument ParseDocument(std::string_view json, const std::string& where, ChatTemplate& chats);
// Its ids after `<s>`. Throws Error if there is none, or one that is no row of the model.
std::vector<int32_t> TokensOf(const TextDocument& document, const Tokenizer& tokenizer, int vocabulary);

// wikitext_detokenizer of the harness (lm_eval/tasks/wikitext/preprocess_wikitext.py); its "/' [0-9]/" never occurs.
std::string DetokenizeWikitext(std::string_view page);

}  // namespace tare
