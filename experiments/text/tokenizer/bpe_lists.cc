// SPDX-License-Identifier: Apache-2.0
#include "experiments/text/tokenizer/bpe_lists.h"

#include <array>

#include "quant/base/error.h"
#include "quant/file/json.h"
#include "quant/file/strict_json.h"

namespace tare::pipeline {
namespace {

// The two pieces of "left right" or ["left", "right"], or empty ones.
std::pair<std::string_view, std::string_view> PiecesOf(const nlohmann::json& merge) {
  if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string())
    return {merge[0].get_ref<const std::string&>(), merge[1].get_ref<const std::string&>()};
  if (!merge.is_string()) return {};
  const std::string_view text = merge.get_ref<const std::string&>();
  const size_t space = text.find(' ');
  if (space == text.npos || text.find(' ', space + 1) != text.npos) return {};
  return {text.substr(0, space), text.substr(space + 1)};
}

}  // namespace

nlohmann::json ParseWithLists(std::string_view text, const std::string& where, BpeLists* lists) {
  const std::string place = where + ": model";  // of a type that is not known yet
  const std::string vocab = place + ": vocab";
  const auto add_piece = [&](const std::string& piece, const nlohmann::json& id) {
    if (!id.is_number_integer()) Fail("{}: '{}': got {}, expected an id", vocab, piece, id.dump());
    lists->names.Add(piece, id.get<int64_t>(), vocab);
  };
  const auto add_merge = [&](const std::string&, const nlohmann::json& merge) {
    const auto [left, right] = PiecesOf(merge);
    if (left.empty() || right.empty())
      Fail("{}: merges: {}: got {}, expected two pieces", place, lists->merges.size(), merge.dump());
    lists->merges.emplace_back(left, right);
  };
  const std::array<JsonStream, 2> streams{{{"model", "vocab", JsonStream::Kind::kObject, add_piece},
                                           {"model", "merges", JsonStream::Kind::kList, add_merge}}};
  return ParseJson(text, where, streams);
}

}  // namespace tare::pipeline
