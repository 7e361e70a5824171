// SPDX-License-Identifier: Apache-2.0
// Which values share a scale, as plans and files spell it: "tensor", "group64", "block64.channel". granularity.cc lists
// the kinds and what they mean.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace tare {

struct Granularity {
  enum class Kind { kTensor, kHead, kRow, kToken, kHeads, kChannel, kGroup, kBlock, kBlockChannel };
  static constexpr int kMaxN = 65536;

  Kind kind = Kind::kTensor;
  int n = 0;  // 1 .. kMaxN for the kinds spelled with <N>, 0 for the others

  friend bool operator==(const Granularity&, const Granularity&) = default;
};

// "group64" for {kGroup, 64}; ParseGranularity(Name(g)) == g.
std::string Name(Granularity granularity);

// nullopt unless the text is exactly one of the spellings above; N has no sign and no leading zero.
std::optional<Granularity> ParseGranularity(std::string_view text);

// "tensor", "group<N>": a kind's spelling in messages; and which values share a scale, for docs/reference/plans.md.
std::string_view Spelling(Granularity::Kind kind);
std::string_view Meaning(Granularity::Kind kind);

}  // namespace tare
