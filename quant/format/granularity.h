// SPDX-License-Identifier: Apache-2.0
// Which values share a scale, as plans and files spell it:
//
//   tensor             the whole tensor
//   head               one head
//   row                one query's row
//   token              one token; at sites of heads, one token of one head
//   heads              one token of all heads
//   channel            one channel
//   group<N>           N neighbouring values of a row: N input channels of a weight, N channels of a token
//   block<N>           one query's row x N keys
//   block<N>.channel   N tokens x one channel
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

// "tensor", "group<N>": a kind's spelling in messages.
std::string_view Spelling(Granularity::Kind kind);

}  // namespace tare
