// SPDX-License-Identifier: Apache-2.0
// Multiple-choice items and continuations, as JSON lines, and their tokens, all as in lm-evaluation-harness.
//
//   {"ctx": "...", "endings": ["...", ...], "label": 0}      taken as written
//
// Lines that the harness logged (lines.h) and those of the data sets of its common tasks
// (`datasets.load_dataset(...).to_json(FILE)`) are told by their fields, the latter in the harness's words
// (lm_eval/tasks/<task> at its commit 4e7e0d4; zero-shot):
//
//   hellaswag           activity_label, ctx_a, ctx_b, endings, label    "ACTIVITY: CTX_A Ctx_b" (HellaswagContext)
//   arc_easy, _challenge  question, choices {text, label}, answerKey    "Question: QUESTION\nAnswer:"
//   openbookqa          question_stem, choices {text, label}, answerKey "QUESTION_STEM"
//   mmlu_*              question, subject, choices, answer              the subject's description, the question, four
//                                                                       choices by letter, "Answer:"
//   piqa                goal, sol1, sol2, label                         "Question: GOAL\nAnswer:"
//   winogrande          sentence, option1, option2, answer              the sentence up to each option, and its rest
//   boolq               passage, question, label or answer              "PASSAGE\nQuestion: QUESTION?\nAnswer:" no, yes
//
// Where contexts differ and endings do not (winogrande), acc_norm is acc: the harness reports none.
//
// All other fields that are a number, a string or a boolean are the item's keys ("depth", "length",
// "shots"): they are stored in its record, and accuracies can be grouped by them (tasks/groups.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "experiments/passes/sequences.h"
#include "experiments/text/tokenizer/tokenizer.h"
#include "quant/file/json.h"

namespace tare {

struct ChoiceItem {
  std::vector<std::string> contexts;  // one for all endings, or one for each
  std::vector<std::string> endings;
  std::string between = " ";  // context and ending
  int label = 0;              // the true ending
  Json keys = Json::object();
  size_t line = 0;    // in its file, from 1
  std::string where;  // file and line, for messages

  const std::string& Context(size_t ending) const { return contexts[contexts.size() == 1 ? 0 : ending]; }
};

// Parses one line of a file (LoadLines in lines.h). Throws Error, starting with `where`.
ChoiceItem ParseChoiceItem(std::string_view json, const std::string& where);

// Continuations whose log-likelihood is asked for, one per JSON line, as lm-evaluation-harness asks for them
// (output_type: loglikelihood):
//
//   {"context": "...", "continuation": " ..."}     scored right after the context, without a space of ours; or a list
//   {"text": "..."}                                LAMBADA's lines: the last word, and the space before it
//   lines that the harness logged                  (lines.h)
//
// An item with an ending for each continuation; errors as in ParseChoiceItem.
ChoiceItem ParseContinuation(std::string_view json, const std::string& where);

// Context and ending are encoded together, without `<s>`, and split where the context encoded alone ends; whitespace at
// the end of the context is first moved to the ending. The tokens before the split may differ between endings of one
// item. After an empty context, `<s>` alone predicts the ending.
struct EncodedChoice {
  struct Ending {
    std::vector<int32_t> tokens;  // context and ending
    size_t first_scored = 0;      // tokens[first_scored ..] are the ending; at least one
    size_t characters = 0;        // code points of the ending as written, the divisor of acc_norm
  };
  std::vector<Ending> endings;
  bool shares_context = false;  // all endings have the same tokens before first_scored
};

// Throws Error for a context or an ending without a token, and for an empty context of a tokenizer without `<s>`.
EncodedChoice EncodeChoice(const ChoiceItem& item, const Tokenizer& tokenizer);

// HellaSwag's texts as lm-evaluation-harness prepares them (lm_eval/tasks/hellaswag/utils.py): WikiHow's artifacts in
// brackets are removed; activity, previous sentences and the beginning of the last one form the context.
//
// Letters change case one to one, by Unicode's simple mappings. Python's capitalize() differs for Greek's final sigma,
// for letters whose capital is several letters or a title form (ligatures, the German sharp s, digraphs), and for
// Georgian; HellaSwag is in English.

// The harness's preprocess(): strips, turns " [title]" into ". ", removes text in brackets on one line, and turns two
// spaces into one, in a single pass.
std::string PrepareHellaswag(std::string_view text);

// preprocess(activity + ": " + ctx_a + " " + ctx_b.capitalize())
std::string HellaswagContext(std::string_view activity, std::string_view ctx_a, std::string_view ctx_b);

// Python's str.capitalize(): the first letter upper-case, the others lower-case.
std::string Capitalize(std::string_view text);

}  // namespace tare
