// SPDX-License-Identifier: Apache-2.0
// Multiple-choice items, as JSON lines, and their tokens, both as in lm-evaluation-harness.
//
//   {"ctx": "...", "endings": ["...", ...], "label": 0}      taken as written
//
// Lines of the harness's common tasks and lines that it logged are told by their fields (choice_forms.h,
// harness_log.h). All other fields that are a number, a string or a boolean are the item's keys ("depth", "length",
// "shots"): they are stored in its record, and accuracies can be grouped by them (tasks/groups.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "experiments/passes/sequences.h"
#include "quant/file/json_value.h"

#include "experiments/text/tokenizer/tokenizer.h"

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

// `limit` items of a file (lines.h); 0: all. Lines of whitespace are skipped. Throws Error with file and line.
std::vector<ChoiceItem> LoadChoiceItems(const std::filesystem::path& path, size_t limit = 0,
                                        TakeFrom from = TakeFrom::kStart);
// Parses one line. `where` starts messages.
ChoiceItem ParseChoiceItem(std::string_view json, const std::string& where);

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

}  // namespace tare
