// SPDX-License-Identifier: Apache-2.0
// The windows of a text by the convention that WindowOptions name (convention.h). --tokens and --limit take the first
// tokens, `<s>` included, and the first windows, as the tools do.
//
// llama.cpp drops one newline at the end of the file before it cuts the text; here it stays. That matters only where it
// completes the last window.
#pragma once

#include <vector>

#include "experiments/model/model.h"
#include "experiments/passes/sequences.h"
#include "quant/file/json_value.h"

namespace tare {

// The windows of a text, and what became of the options.
struct CutText {
  std::vector<ScoredSequence> sequences;
  WindowCut cut;
};
// "window", "stride" and "tokens" as asked for, and the convention's rules: which tokens of a text a result is of.
Json RulesOf(const WindowOptions& options);

// Throws Error as CutSequences does, for ids and for --stride with a tool's convention, and for a text that the tool
// refuses or of which nothing is scored.
CutText CutByConvention(const TokenInput& input, const Model& model, const WindowOptions& options);
// Of a file. Throws Error as LoadTokenInput does, too.
CutText CutFileByConvention(const std::filesystem::path& file, const Model& model, const WindowOptions& options);

// `<s>`, or without one a token that ends a text: what lm-evaluation-harness predicts a text's first token from.
// Throws Error if the checkpoint has neither.
int32_t PrefixToken(std::optional<int32_t> bos, const Model& model);

// The windows of lm-evaluation-harness, which predict each token once, at most `most` per window.
std::vector<ScoredSequence> RollingWindows(const std::vector<int32_t>& tokens, int32_t prefix, size_t most);

// The windows of llama-perplexity with n_ctx = positions >= 3. tokens: the text's, with its `<s>`.
std::vector<ScoredSequence> SecondHalves(const std::vector<int32_t>& tokens, std::optional<int32_t> bos,
                                         size_t positions);

}  // namespace tare
