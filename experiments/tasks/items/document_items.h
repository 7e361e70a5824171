// SPDX-License-Identifier: Apache-2.0
// Documents whose perplexity is measured each by itself, one per JSON line, as lm-evaluation-harness has them
// (output_type: loglikelihood_rolling):
//
//   {"page": "..."}      WikiText's lines: the text is the page without the marks of its tokenizer (DetokenizeWikitext)
//   {"text": "..."}      as written
//   lines that the harness logged (harness_log.h)
//
// Words and bytes are those of the page where there is one, as in the harness's wikitext task, or of the text.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "experiments/passes/sequences.h"

namespace tare {

struct TextDocument {
  std::string text;
  size_t words = 0;  // len(re.split(r"\s+", ...)) in Python
  size_t bytes = 0;
  size_t line = 0;    // in its file, from 1
  std::string where;  // file and line, for messages
};

// `limit` documents (lines.h); 0: all. Throws Error with file and line, also for a document without text.
std::vector<TextDocument> LoadDocuments(const std::filesystem::path& path, size_t limit = 0,
                                        TakeFrom from = TakeFrom::kStart);
TextDocument ParseDocument(std::string_view json, const std::string& where);

// The harness's wikitext_detokenizer (lm_eval/tasks/wikitext/preprocess_wikitext.py), whose rule for "/' [0-9]/" is a
// text that does not occur.
std::string DetokenizeWikitext(std::string_view page);

}  // namespace tare
