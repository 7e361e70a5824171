// SPDX-License-Identifier: Apache-2.0
#include "experiments/text/tokenizer/tokenizer.h"

#include "experiments/text/tokenizer/sentencepiece_tokenizer.h"
#include "experiments/text/tokenizer/tokenizer_json.h"
#include "quant/base/error.h"
#include "quant/checkpoint/checkpoint.h"
#include "quant/file/json.h"
#include "quant/file/mapped_file.h"
#include "quant/file/strict_json.h"

namespace tare {
namespace {

constexpr const char* kJson = "tokenizer.json";
constexpr const char* kModel = "tokenizer.model";
constexpr const char* kConfig = "tokenizer_config.json";

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

std::unique_ptr<const TokenizerModel> Parse(std::string_view bytes, const std::filesystem::path& path) {
  if (path.extension() == ".json") return std::make_unique<pipeline::TokenizerJson>(bytes, path.string());
  return std::make_unique<SentencePieceTokenizer>(bytes, path.string());
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
    Tokenizer tokenizer(Parse(*bytes, checkpoint / name), (checkpoint / name).string());
    if (!AddsBos(CheckpointText(checkpoint, kConfig), (checkpoint / kConfig).string())) tokenizer.before_.clear();
    return tokenizer;
  }
  FailForMissingModel(checkpoint);
}

Tokenizer Tokenizer::LoadFile(const std::filesystem::path& path) {
  if (path.extension() != ".json" && path.extension() != ".model") return Load(path);
  const MappedFile file(path);
  return {Parse({reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()}, path), path.string()};
}

std::optional<int32_t> Tokenizer::bos() const {
  if (before_.size() > 1)
    Fail("{}: got {} tokens before a text, expected at most one; try ids that include them", where_, before_.size());
  return before_.empty() ? std::nullopt : std::optional(before_.front());
}

}  // namespace tare
