// SPDX-License-Identifier: Apache-2.0
#include "experiments/text/tokenizer.h"

#include <sentencepiece_processor.h>

#include "experiments/text/character_map.h"
#include "experiments/text/utf8.h"
#include "quant/base/error.h"
#include "quant/base/memory.h"
#include "quant/file/checkpoint.h"
#include "quant/file/json.h"
#include "quant/file/strict_json.h"

namespace tare {
namespace {

// About 1,000 tokens. SentencePiece takes 90 bytes of memory per byte of text (measured on 1.6 MB), and time that grows
// faster than the text.
constexpr size_t kChunkBytes = 4096;

[[noreturn]] void FailForMissingModel(const std::filesystem::path& folder) {
  Fail(
      "{0}: no tokenizer.model in it; expected SentencePiece's model, the one tokenizer that texts are read with. Try "
      "ids instead of a text: these two lines of Python make a file of them with any tokenizer\n"
      "  import torch, transformers, safetensors.torch; ids = transformers.AutoTokenizer.from_pretrained(\"{0}\")"
      "(open(\"text.txt\").read(), add_special_tokens=False).input_ids\n"
      "  safetensors.torch.save_file({{\"input_ids\": torch.tensor([ids])}}, \"ids.safetensors\")",
      folder.string());
}

// transformers' default for Llama's tokenizers is to begin with `<s>`.
bool AddsBos(const std::optional<std::string>& config, const std::string& where) {
  if (!config) return true;
  const nlohmann::json json = ParseJson(*config, where);
  if (!json.is_object()) Fail("{}: got {}, expected an object", where, json.type_name());
  const auto entry = json.find("add_bos_token");
  if (entry == json.end() || entry->is_null()) return true;
  if (!entry->is_boolean()) Fail("{}: add_bos_token: got {}, expected true or false", where, entry->dump());
  return entry->get<bool>();
}

}  // namespace

Tokenizer Tokenizer::Load(const std::filesystem::path& checkpoint) {
  const std::optional<std::string> model = CheckpointText(checkpoint, "tokenizer.model");
  if (!model) FailForMissingModel(checkpoint);
  Tokenizer tokenizer(*model, (checkpoint / "tokenizer.model").string());
  constexpr const char* kConfig = "tokenizer_config.json";
  if (!AddsBos(CheckpointText(checkpoint, kConfig), (checkpoint / kConfig).string())) tokenizer.bos_.reset();
  return tokenizer;
}

Tokenizer::Tokenizer(std::string_view model, const std::string& where)
    : processor_(std::make_unique<sentencepiece::SentencePieceProcessor>()), chunk_rule_(FindChunkRule(model)) {
  RequireRoom();
  if (const auto map = CharacterMapOf(model)) CheckCharacterMap(*map, where);
  constexpr int kFatalOnly = 3;  // what it would print comes back as a status
  sentencepiece::SetMinLogLevel(kFatalOnly);
  const auto status = processor_->LoadFromSerializedProto(model);
  if (!status.ok() || model.empty() || !CharacterMapOf(model)) {
    Fail(
        "{}: got {} bytes that SentencePiece cannot read, expected a tokenizer.model; try copying the checkpoint again",
        where, model.size());
  }
  if (const int id = processor_->bos_id(); id >= 0) bos_ = id;
}

Tokenizer::Tokenizer(Tokenizer&& other) noexcept = default;
Tokenizer& Tokenizer::operator=(Tokenizer&& other) noexcept = default;
Tokenizer::~Tokenizer() = default;

int32_t Tokenizer::vocabulary() const { return processor_->GetPieceSize(); }

std::vector<int32_t> Tokenizer::Encode(std::string_view text) const {
  RequireUtf8(text, "text");
  std::vector<int32_t> ids;
  while (chunk_rule_ != ChunkRule::kWhole && text.size() > kChunkBytes) {
    const size_t cut = FindCut(text, kChunkBytes);
    if (cut == text.size()) break;
    EncodeChunk(text.substr(0, cut), &ids);
    text.remove_prefix(chunk_rule_ == ChunkRule::kDropSpace ? cut + 1 : cut);
  }
  EncodeChunk(text, &ids);
  return ids;
}

void Tokenizer::EncodeChunk(std::string_view chunk, std::vector<int32_t>* ids) const {
  std::vector<int> pieces;
  const auto status = processor_->Encode(chunk, &pieces);
  if (!status.ok()) Fail("text: SentencePiece cannot encode it ({})", status.ToString());
  ids->insert(ids->end(), pieces.begin(), pieces.end());
}

}  // namespace tare
