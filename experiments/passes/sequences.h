// SPDX-License-Identifier: Apache-2.0
// The input of any model: ids and texts (tokenizer.h), or for a vision tower images, one sequence each. Cuts a text
// or rows of ids into sequences of at most a window's length, and runs them all. Text windows begin with the
// checkpoint's `<s>`. convention_windows.cc cuts as other tools do.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "experiments/model/model.h"
#include "experiments/passes/progress.h"
#include "experiments/text/tokenizer/tokenizer.h"
#include "quant/file/json.h"

namespace tare {

// The sequences of ids that stand for a vision tower's images, which are in the file at `path`.
TokenInput IdsOf(const Images& images, const std::filesystem::path& path);

// Loads the ids for the model in the folder. part: the part of a text to load.
TokenInput LoadInput(const std::filesystem::path& path, const std::filesystem::path& folder, const ModelConfig& config,
                     const TextPart& part = {});
// As LoadInput; a model of images is also shown them.
TokenInput LoadModelInput(const std::filesystem::path& path, Model& model, const TextPart& part = {});

// One of several equal parts of a job or a text, as options name it: "2/5" is the third of five.
struct Shard {
  size_t index = 0, count = 1;
};

// Throws Error, naming the option, unless the text is "i/n" with i from 0 to n - 1.
Shard ParseShard(std::string_view option, std::string_view text);

// Runs tokens through key/value caches as decoding does, many at a time where that gives the same result: every query
// sees the cache as it is when its own token arrives. A batch's sequences have their own caches, a branch a fork of its
// prefix's. body: after each pass, the pass's batch and which row of the whole each of its rows is.
void PassThroughCaches(Model& model, SiteVisitors visitors, const TokenBatch& whole, const CachePlan& plan,
                       const std::function<void(const TokenBatch& pass, const std::vector<int64_t>& rows)>& body);

// Perplexity's convention: windows of at most m of n tokens, each scored once, with all context that its window has.
//
//   windows begin at 0, s, 2s, ... (s the stride, 1 to m) while tokens remain; the last is moved back so that it is
//   full; a window scores the tokens that no window before it held
//
// so every scored token, except in the first window, has at least m - s tokens of its row before it in its window.
//
// A text with `<s>`: W positions are `<s>` and m = W - 1 tokens; `<s>` predicts a window's first token, and all n
// tokens are scored. Without `<s>` (ids, used unchanged, each row separate) m = W and nothing predicts a window's first
// token: with s <= m - 1 only the row's very first token is lost, and n - 1 are scored.
struct Window {
  size_t begin = 0, end = 0;  // tokens [begin, end) of the row
  size_t first_scored = 0;    // in the row: the window scores [first_scored, end)
};

// Throws Error for a --window of fewer positions than `least`, or of more than the model's scaled rotary positions
// reach. A notice says where it has more than max_position_embeddings.
void CheckWindow(int64_t window, int64_t least, const ModelConfig& config);

// No windows for no tokens.
std::vector<Window> CutWindows(size_t n, size_t tokens_per_window, size_t stride);

inline constexpr int64_t kTextWindow = 512;

// Which part of a text, or of a file of items, is taken if not all: whole windows at even distances, which speak for
// the text (or one item drawn from each of as many equal parts of the file), or the first, which speak for its start.
enum class TakeFrom { kSpread, kStart };
std::string_view Name(TakeFrom from);

// Tare's rules (above), or the rules of a tool whose perplexity is to be met (kConventions).
enum class Convention { kTare, kLlamaCpp, kLmEval, kGptq };

struct WindowOptions {
  // Positions per sequence, with `<s>`; 0: 512 for text, whole rows for ids, as far as the model allows.
  int64_t window = 0;
  int64_t stride = 0;         // tokens between the starts of windows; 0: no overlap (without `<s>`, of one token)
  int64_t tokens = 0;         // at most this many tokens of the input; 0: all
  int64_t limit = 0;          // at most this many windows; 0: all
  int64_t short_context = 0;  // tokens, of the task that compares it with the window; 0: that task's own
  Convention convention = Convention::kTare;  // of tasks on texts; others cut as Tare does
  TakeFrom from = TakeFrom::kSpread;

  bool TakesPart() const { return tokens != 0 || limit != 0; }
  // Other tools take the first part of a text.
  TakeFrom Part() const { return convention == Convention::kTare ? from : TakeFrom::kStart; }
  // The part of a text that is enough to read.
  TextPart NeededOf(const ModelConfig& config) const;
};

// One sequence for the model, and the tokens in it that are scored.
struct ScoredSequence {
  std::vector<int32_t> tokens;
  int64_t first_target = 1;    // targets are tokens[first_target ..], each predicted by the position before it
  int64_t only_predicted = 0;  // of the last tokens: they are targets, but the model does not run them

  std::span<const int32_t> Run() const {
    return std::span(tokens).first(tokens.size() - static_cast<size_t>(only_predicted));
  }
};

// The options as they apply to an input and a model.
struct WindowCut {
  int64_t window = 0;             // positions
  int64_t stride = 0;             // tokens
  bool bos = false;               // whether the first position is `<s>`
  bool cut_to_positions = false;  // whether the model's positions shortened the windows
  Convention convention = Convention::kTare;
  std::optional<TakeFrom> from;      // if a part of the input was asked for; not by a tool's convention
  std::optional<int64_t> of_tokens;  // that the input has; empty if only a part was read
  bool at_lines = false;             // whether only the windows were read, each from a line on (EncodeWindows)

  size_t Tokens() const { return static_cast<size_t>(window - (bos ? 1 : 0)); }  // of a window
};
WindowCut CutOf(const TokenInput& input, const ModelConfig& config, const WindowOptions& options);

// Cuts by the convention of perplexity. Throws Error for windows beyond the model's positions, or if no token is left.
std::vector<ScoredSequence> CutSequences(const TokenInput& input, const ModelConfig& config,
                                         const WindowOptions& options);
// As CutSequences, without overlap, the last window short: each token is in exactly one, as statistics need it.
std::vector<ScoredSequence> CutDisjoint(const TokenInput& input, const ModelConfig& config,
                                        const WindowOptions& options);

// Sequences per forward pass: as many of the longest as fit 2,048 rows, at least one. Part of every result.
size_t SequencesPerBatch(const std::vector<ScoredSequence>& sequences);

// Sequences [begin, begin + count), or up to the last, whole, with their indices.
TokenBatch BatchOf(const std::vector<ScoredSequence>& sequences, size_t begin, size_t count);

// Runs one batch. If it is a window that takes minutes, reports its tokens after `done` of `total` as its layers end,
// each layer a share of them; the caller reports the whole batch.
void ForwardBatch(Model& model, const TokenBatch& batch, SiteVisitors visitors, const Progress& progress, int64_t done,
                  int64_t total);

// Throws Error if keys are to be chosen when a prompt ends, because a text has none.
void CheckCacheOfTexts(const CachePlan& plan);

// Runs every sequence through the model, batch by batch, or through caches if there is a plan for them; body sees each
// pass's batch. Errors: CheckCacheOfTexts.
void ForwardAll(Model& model, SiteVisitors visitors, const std::vector<ScoredSequence>& sequences,
                const Progress& progress, const std::function<void(const TokenBatch&)>& body,
                const std::optional<CachePlan>& plan = {});

// The rows of a batch that predict a scored token.
struct PredictedTokens {
  std::vector<int64_t> rows;      // in the batch
  std::vector<int32_t> targets;   // ids
  std::vector<int64_t> contexts;  // tokens before the target in its sequence
  std::vector<size_t> windows;    // index of that sequence
  std::vector<size_t> places;     // index among all scored tokens, in the order of the sequences
};
class ScoredTokens {
 public:
  explicit ScoredTokens(const std::vector<ScoredSequence>& sequences);

  size_t size() const { return first_.back(); }
  PredictedTokens In(const TokenBatch& batch) const;

 private:
  const std::vector<ScoredSequence>& sequences_;
  std::vector<size_t> first_;  // place of each sequence's first token; then the number of all
};

// The windows of a text by the convention that WindowOptions name: by which rules it is cut and which of its tokens are
// scored. The figures of two conventions must not be compared. --tokens and --limit take the first tokens, `<s>`
// included, and the first windows, as the tools do.
//
// llama.cpp drops a newline at the file's end; here it stays, and matters only if it completes the last window.
struct ConventionInfo {
  Convention convention;
  std::string_view name;
  std::string_view window;  // positions, unless --window says otherwise
  std::string_view stride, scored, bos;
};

// llama.cpp: its perplexity.cpp at commit 050fc7f (`llama-perplexity -c N --chunks LIMIT`). lm-eval:
// loglikelihood_rolling and get_rolling_token_windows of the harness at commit 4e7e0d4 (max_length=N). gptq:
// llama_eval of IST-DASLab/gptq at commit 4fe02ad (model.seqlen = N), whose perplexities papers on quantization print.
// `<s>` only where the checkpoint's tokenizer puts it before a text.
inline constexpr ConventionInfo kConventions[] = {
    {.convention = Convention::kTare,
     .name = "tare",
     .window = "512",
     .stride = "all that a window holds, or --stride; the last window is moved back to be full",
     .scored = "each token once, by the first window that holds it",
     .bos = "before every window"},
    {.convention = Convention::kLlamaCpp,
     .name = "llama.cpp",
     .window = "512",
     .stride = "N; what is left at the end is not read",
     .scored = "of each window the tokens behind place N/2 (from 0)",
     .bos = "before the text, and in place of the first token of every window"},
    {.convention = Convention::kLmEval,
     .name = "lm-eval",
     .window = "all of the model's positions",
     .stride = "N; the last window is moved back to be full",
     .scored = "each token once, and <s>; N in a window, whose last is not run",
     .bos = "before the text; its first token is predicted from another <s>, or from the token that ends a text"},
    {.convention = Convention::kGptq,
     .name = "gptq",
     .window = "2048",
     .stride = "N; what is left at the end is not read",
     .scored = "of each window all tokens but the first",
     .bos = "before the text, as the first window's first token; before no other"}};

const ConventionInfo& InfoOf(Convention convention);
// Throws Error for another name.
Convention ConventionNamed(std::string_view name);
// "tare, llama.cpp, lm-eval or gptq"
std::string ConventionNames();

// The windows of a text, and what became of the options. Of images (tasks/classify.h) each is a window.
struct CutText {
  std::vector<ScoredSequence> sequences;
  WindowCut cut;
  std::shared_ptr<const Images> images = {};  // for Model::Show
};
// "window", "stride" and "tokens" as asked for, and the convention's rules: which tokens of a text a result covers.
Json RulesOf(const WindowOptions& options);

// Throws Error as CutSequences, for ids or --stride with a tool's convention, and a text refused or without scores.
CutText CutByConvention(const TokenInput& input, const Model& model, const WindowOptions& options);
// As CutByConvention, for a file. Also throws Error as LoadTokenInput does.
CutText CutFileByConvention(const std::filesystem::path& file, const Model& model, const WindowOptions& options);

// `<s>`, else a token that ends a text: lm-evaluation-harness's first context. Throws Error if there is neither.
int32_t PrefixToken(std::optional<int32_t> bos, const Model& model);

// The windows of lm-evaluation-harness, which predict each token once, at most `most` per window.
std::vector<ScoredSequence> RollingWindows(const std::vector<int32_t>& tokens, int32_t prefix, size_t most);

}  // namespace tare
