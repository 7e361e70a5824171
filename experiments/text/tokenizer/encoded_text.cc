// SPDX-License-Identifier: Apache-2.0
#include "experiments/text/tokenizer/encoded_text.h"

#include <algorithm>
#include <list>
#include <mutex>
#include <span>

#include "experiments/text/tokenizer/tokenizer.h"
#include "experiments/text/utf8.h"
#include "quant/base/formatted.h"
#include "quant/checkpoint/checkpoint.h"
#include "quant/file/sha256.h"

namespace tare {
namespace {

constexpr size_t kTexts = 4;                  // that are kept
constexpr size_t kMostIds = size_t{1} << 22;  // of each: 16 MiB, a text of some 20 MB

struct KeptText {
  std::string key;
  EncodedText text;
};

std::mutex mutex;
std::list<KeptText> kept;  // the last used first

std::string KeyOf(const std::string& sha256, const std::filesystem::path& model_folder, const TextPart& part) {
  std::string key = Formatted("{} {} {} {}", sha256, part.first, part.windows, part.positions);
  for (const char* name : {"tokenizer.json", "tokenizer.model", "tokenizer_config.json"}) {
    const std::optional<std::string> contents = CheckpointText(model_folder, name);
    key += " " + (contents ? Sha256Hex(std::as_bytes(std::span(*contents))) : "none");
  }
  return key;
}

}  // namespace

EncodedText EncodeText(std::string_view text, const std::string& sha256, const std::filesystem::path& model_folder,
                       const TextPart& part, std::string_view where) {
  const std::string key = KeyOf(sha256, model_folder, part);
  const std::lock_guard lock(mutex);
  const auto found = std::ranges::find(kept, key, &KeptText::key);
  if (found != kept.end()) {
    kept.splice(kept.begin(), kept, found);
    return found->text;
  }
  const Tokenizer tokenizer = Tokenizer::Load(model_folder);
  EncodedText encoded{.rows = {}, .bos = tokenizer.bos(), .vocabulary = tokenizer.vocabulary()};
  if (ReadInWindows(part, text.size())) encoded.rows = EncodeWindows(tokenizer, text, part, where);
  encoded.in_windows = !encoded.rows.empty();
  if (!encoded.in_windows) {
    RequireUtf8(text, where);
    encoded.rows.push_back(tokenizer.EncodeFirst(text, part.first));
  }
  size_t ids = 0;
  for (const std::vector<int32_t>& row : encoded.rows) ids += row.size();
  if (ids > kMostIds) return encoded;
  kept.push_front({key, encoded});
  if (kept.size() > kTexts) kept.pop_back();
  return encoded;
}

}  // namespace tare
