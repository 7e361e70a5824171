// SPDX-License-Identifier: Apache-2.0
// Whether a text may be cut into chunks that SentencePiece encodes one by one without changing any id. Decided from the
// bytes of tokenizer.model (a ModelProto in protobuf's wire format, sentencepiece_model.proto), because the library's
// public interface does not say.
//
// The cut is between a character c and a space after it, where c is neither a space nor U+2581, which stands for a
// space inside. It changes no id if
//   - the model is BPE: it merges the best pair of neighbours, the leftmost of equals, as long as a pair is in the
//     vocabulary. If no piece has a space after another character, no merge ever spans the cut, and the merges on
//     either side come in the same order with and without the other side;
//   - the normalizer maps no characters, so nothing reaches across the cut earlier;
//   - normalizing restores the space that begins the second chunk: it is replaced by the one that the library puts
//     before every text (add_dummy_prefix), or left alone (neither that nor remove_extra_whitespaces);
//   - a space is a known piece: neighbouring unknown characters become one token.
#pragma once

#include <optional>
#include <string_view>

namespace tare {

enum class ChunkRule {
  kWhole,      // no cut is known to be safe
  kDropSpace,  // the second chunk drops the space it begins with
  kKeepSpace,  // the second chunk begins with its space
};

// kWhole also if the bytes are not understood.
ChunkRule FindChunkRule(std::string_view model);

// The table with which the normalizer maps characters (character_table.h); "" if it maps none, nullopt if the bytes are
// not understood.
std::optional<std::string_view> CharacterMapOf(std::string_view model);

// Whether a piece has a zero byte, for which SentencePiece's index ends the process.
bool HasZeroByteInPiece(std::string_view bytes);

// The first safe cut at or after `from`: the offset of a space, or text.size().
size_t FindCut(std::string_view text, size_t from);

}  // namespace tare
