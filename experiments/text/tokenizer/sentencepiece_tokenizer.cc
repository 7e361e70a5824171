// SPDX-License-Identifier: Apache-2.0
// What decides whether texts may be cut, the place of a cut, and calls to the library.
#include "experiments/text/tokenizer/sentencepiece_tokenizer.h"

#include <chrono>
#include <functional>
#include <future>
#include <ranges>
#include <thread>

#include <sentencepiece_processor.h>

#include "experiments/text/tokenizer/characters.h"
#include "experiments/text/utf8.h"
#include "quant/base/message.h"

namespace tare {
namespace {

constexpr std::string_view kSpaceSymbol = "\xe2\x96\x81";  // U+2581

// A space or its symbol after another character.
bool HasInnerSpace(std::string_view piece) {
  while (piece.starts_with(kSpaceSymbol)) piece.remove_prefix(kSpaceSymbol.size());
  return piece.contains(kSpaceSymbol) || piece.contains(' ');
}

// A control piece, or the unknown one, which no text becomes.
bool IsSpecial(const PieceModel::Piece& piece) { return piece.kind == 2 || piece.kind == 3; }

// About 1,000 tokens. SentencePiece takes 85 bytes of memory per byte of text, and time that grows faster than the
// text: 16 MB take 1.4 GB and 20 s whole, 70 MB and 4.4 s in chunks.
constexpr size_t kChunkBytes = 4096;
constexpr size_t kLongBytes = size_t{1} << 20;  // some 0.2 s

// The library cannot stop: long calls run on a thread of their own, which Ctrl-C leaves behind with all it uses.
std::vector<int> Encoded(const std::shared_ptr<sentencepiece::SentencePieceProcessor>& processor,
                         std::string_view text) {
  std::packaged_task<std::vector<int>()> task([processor, copy = std::string(text)] {
    std::vector<int> pieces;
    const auto status = processor->Encode(copy, &pieces);
    if (!status.ok()) Fail("text: SentencePiece cannot encode it ({})", status.ToString());
    return pieces;
  });
  std::future<std::vector<int>> pieces = task.get_future();
  text.size() < kLongBytes ? task() : std::thread(std::move(task)).detach();
  while (pieces.wait_for(std::chrono::milliseconds(50)) != std::future_status::ready) ThrowIfStopped();
  return pieces.get();
}

}  // namespace

ChunkRule RuleOf(const PieceModel& model) {
  constexpr int kBpe = 2;
  auto texts =
      model.pieces | std::views::filter(std::not_fn(IsSpecial)) | std::views::transform(&PieceModel::Piece::text);
  const bool separable = !model.damaged && model.type == kBpe && model.character_map.empty() && model.escapes_spaces &&
                         !model.space_is_suffix && std::ranges::contains(texts, kSpaceSymbol) &&
                         std::ranges::none_of(texts, HasInnerSpace);
  if (!separable) return ChunkRule::kWhole;
  if (model.adds_space_in_front) return ChunkRule::kDropSpace;
  return model.removes_extra_spaces ? ChunkRule::kWhole : ChunkRule::kKeepSpace;
}

size_t FindCut(std::string_view text, size_t from) {
  for (size_t at = text.find(' ', from); at < text.size(); at = text.find(' ', at + 1)) {
    const std::string_view before = text.substr(0, at);
    // A chunk of a lone space would lose it where it is dropped: nothing would be left to put another in front of.
    const bool last = at + 1 == text.size();
    if (!before.empty() && !last && !before.ends_with(' ') && !before.ends_with(kSpaceSymbol)) return at;
  }
  return text.size();
}

SentencePieceTokenizer::SentencePieceTokenizer(std::string_view bytes, const std::string& where,
                                               const pipeline::FolderTokens& folder)
    : first_{std::make_unique<sentencepiece::SentencePieceProcessor>()},
      legacy_(folder.legacy),
      as_llama_cpp_(folder.as_llama_cpp) {
  const PieceModel model = ReadPieceModel(bytes);
  first_.rule = RuleOf(model);
  adds_space_ = model.adds_space_in_front && folder.prefix_space;
  as_it_is_ = model.adds_space_in_front && !folder.prefix_space;
  if (!model.damaged) pipeline::CheckCharacterMap(model.character_map, where);
  // SentencePiece's index would end the process.
  if (std::ranges::any_of(model.pieces, [](const auto& piece) { return piece.text.contains('\0'); }))
    Fail("{}: got a piece with a zero byte, expected text; try copying the checkpoint again", where);
  constexpr int kFatalOnly = 3;  // what it would print comes back as a status
  sentencepiece::SetMinLogLevel(kFatalOnly);
  const auto status = first_.processor->LoadFromSerializedProto(bytes);
  if (!status.ok() || bytes.empty() || model.damaged)
    Fail(
        "{}: got {} bytes that SentencePiece cannot read ({}), expected a tokenizer.model; try copying the checkpoint "
        "again",
        where, bytes.size(), status.ToString());
  AddTokens(model, folder, where);
}

void SentencePieceTokenizer::AddTokens(const PieceModel& model, const pipeline::FolderTokens& folder,
                                       const std::string& where) {
  const auto& processor = *first_.processor;
  nlohmann::json own = nlohmann::json::array();
  for (const PieceModel::Piece& piece : model.pieces | std::views::filter(IsSpecial))
    own.push_back({{"id", processor.PieceToId(piece.text)}, {"content", piece.text}, {"special", true}});
  own = WithFolderTokens(
      std::move(own), folder, pieces(), [&](int32_t id) { return processor.IdToPiece(id); }, where + ": added tokens");
  added_ = pipeline::AddedTokens(own, {}, where + ": added tokens", folder);
  const auto around = [&](const char* name, int32_t usual) {
    if (!folder.named.contains(name)) return usual >= 0 ? std::vector{usual} : std::vector<int32_t>{};
    for (const auto& [id, token] : added_.tokens()) {
      if (token.content == folder.Named(name)) return std::vector{id};
    }
    return std::vector<int32_t>{};  // null
  };
  if (folder.adds_bos.value_or(true)) around_.before = around("bos_token", processor.bos_id());
  if (folder.adds_eos.value_or(false)) around_.after = around("eos_token", processor.eos_id());
}

SentencePieceTokenizer::~SentencePieceTokenizer() = default;

const SentencePieceTokenizer::Part& SentencePieceTokenizer::After() const {
  if (after_.processor) return after_;
  // Protobuf merges the fields of a message that comes twice: add_dummy_prefix and remove_extra_whitespaces are false.
  const std::string bytes =
      std::string(first_.processor->serialized_model_proto()) + std::string("\x1a\x04\x18\0\x20\0", 6);
  after_ = {std::make_unique<sentencepiece::SentencePieceProcessor>(), RuleOf(ReadPieceModel(bytes))};
  if (const auto status = after_.processor->LoadFromSerializedProto(bytes); !status.ok())
    Fail("tokenizer.model: SentencePiece cannot read it again ({})", status.ToString());
  return after_;
}

int32_t SentencePieceTokenizer::pieces() const { return first_.processor->GetPieceSize(); }

std::string SentencePieceTokenizer::Piece(int32_t id) const {
  if (const auto added = added_.tokens().find(id); added != added_.tokens().end()) return added->second.content;
  return id >= 0 && id < pieces() ? first_.processor->IdToPiece(id) : "";
}

// Leaves out special tokens and ids without a piece. What follows an added token keeps its space.
std::string SentencePieceTokenizer::Decode(const std::vector<int32_t>& ids) const {
  std::string text;
  std::vector<int> run;
  const auto flush = [&] {
    const Part& part = text.empty() && !as_it_is_ ? first_ : After();
    std::string more;
    if (const auto status = part.processor->Decode(run, &more); !status.ok())
      Fail("ids: SentencePiece cannot decode them ({})", status.ToString());
    text += more;
    run.clear();
  };
  for (const int32_t id : ids) {
    const auto added = added_.tokens().find(id);
    if (added == added_.tokens().end()) {
      if (id >= 0 && id < pieces()) run.push_back(id);
    } else if (!added->second.special) {
      flush();
      text += added->second.content;
    }
  }
  flush();
  return text;
}

std::vector<int32_t> SentencePieceTokenizer::Encode(std::string_view text) const {
  RequireUtf8(text, "text");
  std::vector<int32_t> ids;
  const auto add = [&](const pipeline::AddedTokens::Segment& segment) {
    if (segment.id) return ids.push_back(*segment.id);
    if (segment.text.size() == text.size()) return EncodePart(as_it_is_ ? After() : first_, text, &ids);
    const bool begins = segment.text.data() == text.data() || legacy_;
    const bool has = segment.text.starts_with(' ') && !as_llama_cpp_;
    const char* const space = adds_space_ && begins && !has ? " " : "";
    EncodePart(After(), space + std::string(segment.text), &ids);
  };
  for (const pipeline::AddedTokens::Segment& raw : added_.Split(text)) {
    for (const auto& part : raw.id ? std::vector{raw} : added_.SplitNormalized(raw.text)) add(part);
  }
  return ids;
}

void SentencePieceTokenizer::EncodePart(const Part& part, std::string_view text, std::vector<int32_t>* ids) const {
  const auto encode = [&](std::string_view chunk) {
    ThrowIfStopped();
    const std::vector<int> pieces = Encoded(part.processor, chunk);
    ids->insert(ids->end(), pieces.begin(), pieces.end());
  };
  while (part.rule != ChunkRule::kWhole && text.size() > kChunkBytes) {
    const size_t cut = FindCut(text, kChunkBytes);
    if (cut == text.size()) break;
    encode(text.substr(0, cut));
    text.remove_prefix(part.rule == ChunkRule::kDropSpace ? cut + 1 : cut);
  }
  encode(text);
}

}  // namespace tare
