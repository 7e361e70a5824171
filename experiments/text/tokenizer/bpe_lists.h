// SPDX-License-Identifier: Apache-2.0
// The two long lists of a byte-pair encoding in a tokenizer.json, its pieces and its merges: nearly the whole file, so
// they are taken as they are read. Held as JSON first, they took half of the time to load a vocabulary.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "experiments/text/tokenizer/piece_table.h"

namespace tare::pipeline {

struct BpeLists {
  PieceTable names;                                         // model.vocab, as spelled in the file
  std::vector<std::pair<std::string, std::string>> merges;  // model.merges, of two pieces each, the first learnt first
};

// The file's JSON, in which model.vocab, if an object, and model.merges, if a list, are empty: their members are in
// *lists. Throws Error for members that are no piece with an id, or no merge.
nlohmann::json ParseWithLists(std::string_view text, const std::string& where, BpeLists* lists);

}  // namespace tare::pipeline
