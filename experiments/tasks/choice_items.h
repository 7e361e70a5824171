// SPDX-License-Identifier: Apache-2.0
// Multiple-choice items, as JSON lines with HellaSwag's fields, and their tokens, as lm-evaluation-harness makes both.
//
//   {"ctx": "...", "endings": ["...", ...], "label": 0}                      taken as written
//   {"activity_label": "...", "ctx_a": "...", "ctx_b": "...", "endings": [...], "label": "0"}
//
// The second is prepared as the harness's hellaswag task does (process_docs in its utils.py), also where `ctx` is there
// too: the context is "ACTIVITY: CTX_A Ctx_b", and "[title]", text in brackets and double spaces are taken out of
// it and of the endings. One space separates context and ending.
//
// All other fields that are a number, a string or a boolean are the item's keys ("depth", "length", "shots"): they go
// into its record, and accuracies can be grouped by them (groups.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>
#include "experiments/text/tokenizer/tokenizer.h"

namespace tare {

struct ChoiceItem {
  std::string context;
  std::vector<std::string> endings;  // at least two, without the space in front
  int label = 0;                     // the true ending
  nlohmann::ordered_json keys = nlohmann::ordered_json::object();
  size_t line = 0;    // of its file, from 1
  std::string where;  // file and line, for messages
};

// The first `limit` items of a file, all for 0. Lines of whitespace are passed over. Throws Error with file and line.
std::vector<ChoiceItem> LoadChoiceItems(const std::filesystem::path& path, size_t limit = 0);
// One line. `where` begins messages.
ChoiceItem ParseChoiceItem(std::string_view json, const std::string& where);

// Context and ending are encoded together, without `<s>`, and split where the context encoded alone ends; the
// whitespace that the context ends in goes to the ending first. What is before the split may differ between endings
// of one item.
struct EncodedChoice {
  struct Ending {
    std::vector<int32_t> tokens;  // of context and ending
    size_t first_scored = 0;      // tokens[first_scored ..] are the ending; at least one
    size_t characters = 0;        // code points of the ending as written: what acc_norm divides by
  };
  std::vector<Ending> endings;
  bool shares_context = false;  // all endings have the same tokens before first_scored
};

EncodedChoice EncodeChoice(const ChoiceItem& item, const Tokenizer& tokenizer);

}  // namespace tare
