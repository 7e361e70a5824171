// SPDX-License-Identifier: Apache-2.0
#include "experiments/text/tokenizer/tokenizer.h"

#include <algorithm>

#include "experiments/text/tokenizer/sentencepiece_tokenizer.h"
#include "experiments/text/tokenizer/tokenizer_json.h"
#include "quant/base/message.h"
#include "quant/checkpoint/checkpoint.h"
#include "quant/file/json.h"
#include "quant/file/mapped_file.h"

namespace tare {
namespace {

constexpr const char* kJson = "tokenizer.json";
constexpr const char* kModel = "tokenizer.model";

[[noreturn]] void FailForMissingModel(const std::filesystem::path& folder) {
  Fail(
      "{0}: no tokenizer.json or tokenizer.model in it, expected one to read a text. Try ids instead of a text: these "
      "two lines of Python write them to a file with any tokenizer\n"
      "  import torch, transformers, safetensors.torch; ids = "
      "transformers.AutoTokenizer.from_pretrained(\"{0}\")(open(\"text.txt\").read(), "
      "add_special_tokens=False).input_ids\n"
      "  safetensors.torch.save_file({{\"input_ids\": torch.tensor([ids])}}, \"ids.safetensors\")",
      folder.string());
}

std::unique_ptr<const TokenizerModel> Parse(std::string_view bytes, const std::filesystem::path& path,
                                            const pipeline::FolderTokens& folder = {}) {
  if (path.extension() == ".json") return std::make_unique<pipeline::TokenizerJson>(bytes, path.string(), folder);
  return std::make_unique<SentencePieceTokenizer>(bytes, path.string(), folder);
}

}  // namespace

Tokenizer::Tokenizer(std::unique_ptr<const TokenizerModel> model, std::string where)
    : model_(std::move(model)), where_(std::move(where)), before_(model_->before()) {}

std::vector<std::string> TokenizersOf(const std::filesystem::path& checkpoint) {
  std::vector<std::string> names;
  for (const char* name : {kJson, kModel}) {
    if (CheckpointText(checkpoint, name)) names.emplace_back(name);
  }
  return names;
}

Tokenizer Tokenizer::Load(const std::filesystem::path& checkpoint) {
  for (const char* name : {kJson, kModel}) {
    const std::optional<std::string> bytes = CheckpointText(checkpoint, name);
    if (!bytes) continue;
    pipeline::FolderTokens folder = pipeline::ReadFolderTokens(checkpoint);
    Tokenizer tokenizer(Parse(*bytes, checkpoint / name, folder), (checkpoint / name).string());
    tokenizer.prefix_ = folder.Named("bos_token").or_else([&] { return folder.Named("eos_token"); });
    if (name == kJson && folder.adds_bos.value_or(!tokenizer.before_.empty()) == tokenizer.before_.empty())
      Notice(Formatted(
          "{}: add_bos_token: {} is not read beside a tokenizer.json, as in transformers 5: texts begin {} <s>",
          (checkpoint / "tokenizer_config.json").string(), *folder.adds_bos,
          tokenizer.before_.empty() ? "without" : "with"));
    return tokenizer;
  }
  FailForMissingModel(checkpoint);
}

Tokenizer Tokenizer::LoadFile(const std::filesystem::path& path) {
  if (path.extension() != ".json" && path.extension() != ".model") return Load(path);
  const MappedFile file(path);
  return {Parse(file.text(), path), path.string()};
}

std::vector<int32_t> Tokenizer::EncodeAfterBos(std::string_view text) const {
  const std::optional<int32_t> first = bos();
  std::vector<int32_t> ids = Encode(text);
  if (first && !ids.empty() && ids.front() == *first) {
    Notice(Formatted("{}: a text begins with {} itself; it gets no second one", where_, Piece(*first)));
    ids.erase(ids.begin());
  }
  return ids;
}

std::vector<int32_t> Tokenizer::EncodeWithBos(std::string_view text) const {
  std::vector<int32_t> ids = EncodeAfterBos(text);
  if (const std::optional<int32_t> first = bos()) ids.insert(ids.begin(), *first);
  return ids;
}

std::optional<int32_t> Tokenizer::prefix() const {
  for (int32_t id = 0; prefix_ && id < vocabulary(); ++id) {
    if (Piece(id) == *prefix_) return id;
  }
  return std::nullopt;
}

void RequireSamePieces(const std::filesystem::path& checkpoint, const std::filesystem::path& reference) {
  if (TokenizersOf(checkpoint).empty() || TokenizersOf(reference).empty()) return;
  const Tokenizer own = Tokenizer::Load(checkpoint), other = Tokenizer::Load(reference);
  for (int32_t id = 0; id < std::min(own.vocabulary(), other.vocabulary()); ++id) {
    const std::string piece = own.Piece(id), of_other = other.Piece(id);
    if (piece == of_other || piece.empty() || of_other.empty()) continue;
    Fail("{}: tokenizer: got piece {} for id {}, expected {} as in {}; try models of one tokenizer", reference.string(),
         JsonText(of_other), id, JsonText(piece), checkpoint.string());
  }
}

std::optional<int32_t> Tokenizer::bos() const {
  if (before_.size() > 1)
    Fail("{}: got {} tokens before a text, expected at most one; try ids that include them", where_, before_.size());
  return before_.empty() ? std::nullopt : std::optional(before_.front());
}

}  // namespace tare
