// SPDX-License-Identifier: Apache-2.0
#include "quant/format/granularity.h"

#include <array>

#include "quant/base/formatted.h"

namespace tare {
namespace {

using Kind = Granularity::Kind;

// A name is prefix, N where there is one, suffix.
struct KindInfo {
  Kind kind;
  std::string_view prefix;
  bool has_n;
  std::string_view suffix;
  std::string_view spelling, meaning;
};

// In the order of the enum. block<N>.channel differs from block<N> by its suffix.
constexpr std::array<KindInfo, 9> kKinds{{
    {Kind::kTensor, "tensor", false, "", "tensor", "the whole tensor: all that one rule selects in a layer"},
    {Kind::kHead, "head", false, "", "head", "one head"},
    {Kind::kRow, "row", false, "", "row", "one query's row"},
    {Kind::kToken, "token", false, "", "token", "one token; at sites of heads, one token of one head"},
    {Kind::kHeads, "heads", false, "", "heads", "one token of all heads that one rule selects"},
    {Kind::kChannel, "channel", false, "", "channel", "one channel"},
    {Kind::kGroup, "group", true, "", "group<N>",
     "N neighbouring values of a row: input channels of a weight, channels of a token"},
    {Kind::kBlock, "block", true, "", "block<N>", "one query's row x N keys"},
    {Kind::kBlockChannel, "block", true, ".channel", "block<N>.channel", "N tokens x one channel"},
}};

const KindInfo& Info(Kind kind) { return kKinds[static_cast<size_t>(kind)]; }

std::optional<int> ParseN(std::string_view digits) {
  if (digits.empty() || digits[0] < '1' || digits[0] > '9') return std::nullopt;
  const std::optional<int> n = ParseNumber<int>(digits);
  return n && *n <= Granularity::kMaxN ? n : std::nullopt;
}

}  // namespace

std::string_view Spelling(Kind kind) { return Info(kind).spelling; }
std::string_view Meaning(Kind kind) { return Info(kind).meaning; }

std::string Name(Granularity granularity) {
  const KindInfo& info = Info(granularity.kind);
  std::string name(info.prefix);
  if (info.has_n) name += std::to_string(granularity.n);
  return name.append(info.suffix);
}

std::optional<Granularity> ParseGranularity(std::string_view text) {
  for (const KindInfo& info : kKinds) {
    if (!info.has_n && text == info.prefix) return Granularity{info.kind};
    if (!info.has_n || !text.starts_with(info.prefix) || !text.ends_with(info.suffix)) continue;
    if (text.size() < info.prefix.size() + info.suffix.size()) continue;
    const std::string_view digits =
        text.substr(info.prefix.size(), text.size() - info.prefix.size() - info.suffix.size());
    if (const std::optional<int> n = ParseN(digits)) return Granularity{info.kind, *n};
  }
  return std::nullopt;
}

}  // namespace tare
