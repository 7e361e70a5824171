// SPDX-License-Identifier: Apache-2.0
// Perplexity of documents, each by itself, as lm-evaluation-harness measures WikiText (loglikelihood_rolling): per word
// and per byte, so that models with different tokenizers compare.
//
//   word_perplexity = exp(-L / words), byte_perplexity = exp(-L / bytes), bits_per_byte = -L / (bytes ln 2)
//
// L the log-likelihood of all tokens of all documents (items/document_items.h). The harness's windows: a document's
// first token is predicted from `<s>` alone (without one, from the token that ends a text); windows do not overlap but
// by the token that the next one begins with, and the last is moved back to be full. A window of W positions has W - 1
// scored tokens, as everywhere in Tare: the harness's with max_length = W - 1. Where its tokenizer puts `<s>` before a
// text, the harness scores that token too; --convention lm-eval does both as the harness does (convention.h).
#pragma once

#include "experiments/passes/sequences.h"
#include "experiments/tasks/items/document_items.h"
#include "experiments/tasks/task.h"

namespace tare {

extern const TaskKind kDocumentsTask;  // documents=DOCUMENTS.jsonl

}  // namespace tare
