// SPDX-License-Identifier: Apache-2.0
// Multiple-choice items, as JSON lines with HellaSwag's fields, and their tokens, both as in lm-evaluation-harness.
//
//   {"ctx": "...", "endings": ["...", ...], "label": 0}                      taken as written
//   {"activity_label": "...", "ctx_a": "...", "ctx_b": "...", "endings": [...], "label": "0"}
//
// The second form is prepared like the harness's hellaswag task (process_docs in its utils.py), even if `ctx` is
// present: the context is "ACTIVITY: CTX_A Ctx_b", and "[title]", text in brackets and double spaces are removed from
// it and from the endings. One space separates context and ending.
//
// All other fields that are a number, a string or a boolean are the item's keys ("depth", "length", "shots"): they are
// stored in its record, and accuracies can be grouped by them (groups.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "quant/file/json_value.h"

#include "experiments/text/tokenizer/tokenizer.h"

namespace tare {

struct ChoiceItem {
  std::string context;
  std::vector<std::string> endings;  // at least two, without the space in front
  int label = 0;                     // the true ending
  Json keys = Json::object();
  size_t line = 0;    // in its file, from 1
  std::string where;  // file and line, for messages
};

// The first `limit` items of a file; 0: all. Lines of whitespace are skipped. Throws Error with file and line.
std::vector<ChoiceItem> LoadChoiceItems(const std::filesystem::path& path, size_t limit = 0);
// Parses one line. `where` starts messages.
ChoiceItem ParseChoiceItem(std::string_view json, const std::string& where);

// Context and ending are encoded together, without `<s>`, and split where the context encoded alone ends; whitespace at
// the end of the context is first moved to the ending. The tokens before the split may differ between endings of one
// item.
struct EncodedChoice {
  struct Ending {
    std::vector<int32_t> tokens;  // context and ending
    size_t first_scored = 0;      // tokens[first_scored ..] are the ending; at least one
    size_t characters = 0;        // code points of the ending as written, the divisor of acc_norm
  };
  std::vector<Ending> endings;
  bool shares_context = false;  // all endings have the same tokens before first_scored
};

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
