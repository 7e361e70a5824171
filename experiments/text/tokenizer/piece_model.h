// SPDX-License-Identifier: Apache-2.0
// Whether a text may be cut into chunks that SentencePiece encodes one by one, with the ids of the whole: read from the
// bytes of tokenizer.model (a ModelProto in protobuf's wire format, sentencepiece_model.proto), since the library's
// public interface does not say.
//
// The cut goes between a character c and a space after it, c neither a space nor U+2581, which stands for a space
// inside. It changes no id where
//   - the model is BPE. It merges the best pair of neighbours, the leftmost of equals, as long as a pair is in the
//     vocabulary. Where no piece holds a space after another character, no merge ever spans the cut, and the merges on
//     either side come in the same order with and without the other side;
//   - the normalizer maps no characters, so that nothing reaches across the cut before that;
//   - the space that begins the second chunk is there again after normalizing: it is replaced by the one that the
//     library puts in front of every text (add_dummy_prefix), or left alone (neither that nor
//     remove_extra_whitespaces);
//   - a space is a known piece: unknown characters that follow each other become one token.
#pragma once

#include <optional>
#include <string_view>

namespace tare {

enum class ChunkRule {
  kWhole,      // no cut is known to be safe
  kDropSpace,  // the second chunk drops the space it begins with
  kKeepSpace,  // the second chunk begins with its space
};

// kWhole too where the bytes are not understood.
ChunkRule FindChunkRule(std::string_view model);

// The table by which the normalizer maps characters (character_map.h); "" where it maps none, and nullopt where the
// bytes are not understood.
std::optional<std::string_view> CharacterMapOf(std::string_view model);

// The first safe cut at or after `from`: the offset of a space. text.size() where there is none.
size_t FindCut(std::string_view text, size_t from);

}  // namespace tare
