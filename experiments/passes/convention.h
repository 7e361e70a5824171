// SPDX-License-Identifier: Apache-2.0
// By which rules a text is cut into windows and which of its tokens are scored: Tare's (sequences.h), or those of a
// tool whose perplexity is to be met. The figures of two conventions must not be compared.
#pragma once

#include <string>
#include <string_view>

namespace tare {

enum class Convention { kTare, kLlamaCpp, kLmEval };

struct ConventionInfo {
  Convention convention;
  std::string_view name;
  std::string_view window;  // positions, unless --window says otherwise
  std::string_view stride;
  std::string_view scored;
  std::string_view bos;
};

// llama.cpp: its perplexity.cpp at commit 050fc7f (`llama-perplexity -c N --chunks LIMIT`). lm-eval:
// loglikelihood_rolling and get_rolling_token_windows of the harness at commit
// 4e7e0d4 (max_length=N). `<s>` only where the checkpoint's tokenizer puts it before a text.
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
     .bos = "before the text; its first token is predicted from another <s>, or from the token that ends a text"}};

const ConventionInfo& InfoOf(Convention convention);
// Throws Error for another name.
Convention ConventionNamed(std::string_view name);
// "tare, llama.cpp or lm-eval"
std::string ConventionNames();

}  // namespace tare
