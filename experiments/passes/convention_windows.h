// SPDX-License-Identifier: Apache-2.0
// The windows of a text by the convention that WindowOptions name: by which rules it is cut and which of its tokens are
// scored. The figures of two conventions must not be compared. --tokens and --limit take the first tokens, `<s>`
// included, and the first windows, as the tools do.
//
// llama.cpp drops one newline at the end of the file before it cuts the text; here it stays. That matters only where it
// completes the last window.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "experiments/model/model.h"
#include "experiments/passes/sequences.h"
#include "quant/file/json.h"

namespace tare {

struct ConventionInfo {
  Convention convention;
  std::string_view name;
  std::string_view window;  // positions, unless --window says otherwise
  std::string_view stride;
  std::string_view scored;
  std::string_view bos;
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

// Throws Error as CutSequences does, for ids and for --stride with a tool's convention, and for a text that the tool
// refuses or of which nothing is scored.
CutText CutByConvention(const TokenInput& input, const Model& model, const WindowOptions& options);
// As CutByConvention, for a file. Also throws Error as LoadTokenInput does.
CutText CutFileByConvention(const std::filesystem::path& file, const Model& model, const WindowOptions& options);

// `<s>`, or without one a token that ends a text: what lm-evaluation-harness predicts a text's first token from.
// Throws Error if the checkpoint has neither.
int32_t PrefixToken(std::optional<int32_t> bos, const Model& model);

// The windows of lm-evaluation-harness, which predict each token once, at most `most` per window.
std::vector<ScoredSequence> RollingWindows(const std::vector<int32_t>& tokens, int32_t prefix, size_t most);

}  // namespace tare
