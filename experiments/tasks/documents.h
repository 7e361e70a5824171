// SPDX-License-Identifier: Apache-2.0
// Perplexity of documents, each by itself, as lm-evaluation-harness measures WikiText (loglikelihood_rolling): per word
// and per byte, so that models with different tokenizers compare.
//
//   word_perplexity = exp(-L / words), byte_perplexity = exp(-L / bytes), bits_per_byte = -L / (bytes ln 2)
//
// L the log-likelihood of all tokens of all documents (TextDocument). The harness's windows: a document's
// first token is predicted from `<s>` alone (without one, from the token that ends a text); windows do not overlap but
// by the token that the next one begins with, and the last is moved back to be full. A window of W positions has W - 1
// scored tokens, as everywhere in Tare: the harness's with max_length = W - 1. Where its tokenizer puts `<s>` before a
// text, the harness scores that token too; --convention lm-eval does both as the harness does (passes/sequences.h).
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "experiments/tasks/task.h"
#include "experiments/text/chat/chat_template.h"

namespace tare {

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

// Parses one line of a file (LoadLines in items/lines.h). Throws Error, starting with `where`, also for a document
// without text.
TextDocument ParseDocument(std::string_view json, const std::string& where, ChatTemplate& chats);
// Its ids after `<s>`. Throws Error if there is none, or one that is no row of the model.
std::vector<int32_t> TokensOf(const TextDocument& document, const Tokenizer& tokenizer, int vocabulary);

// The harness's wikitext_detokenizer (lm_eval/tasks/wikitext/preprocess_wikitext.py), whose rule for "/' [0-9]/" is a
// text that does not occur.
std::string DetokenizeWikitext(std::string_view page);

}  // namespace tare
