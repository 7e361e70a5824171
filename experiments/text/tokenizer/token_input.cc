// SPDX-License-Identifier: Apache-2.0
#include "experiments/text/tokenizer/tokenizer.h"

#include <algorithm>
#include <ranges>

#include "experiments/arrays/array_file.h"
#include "experiments/text/utf8.h"
#include "quant/base/message.h"
#include "quant/file/json.h"
#include "quant/file/mapped_file.h"
#include "quant/file/sha256.h"

namespace tare {
namespace {

constexpr size_t kBytesPerToken = 16;  // at most, in most texts; where there are more, more is read
constexpr size_t kNear = 65536;        // bytes in which a line or a word is looked for
constexpr size_t kLongWord = 64;       // tokens; what a piece of text ends in may be cut within a word

// From `at` on, where a character begins: at once in UTF-8, within 4 bytes.
size_t CharacterFrom(std::string_view text, size_t at) {
  for (int i = 0; i < 3 && at < text.size() && (static_cast<unsigned char>(text[at]) & 0xC0U) == 0x80U; ++i) ++at;
  return at;
}

// The first place from `at` on, before `end`, where a line that is not empty begins, else a word, else a character.
size_t LineFrom(std::string_view text, size_t at, size_t end) {
  const std::string_view near = text.substr(0, std::min({text.size(), end, at + kNear}));
  const size_t line = near.find('\n', at);
  const size_t begin = line == std::string_view::npos ? line : near.find_first_not_of("\r\n", line);
  if (begin != std::string_view::npos) return begin;
  const size_t word = near.find(' ', at);
  return word != std::string_view::npos ? word + 1 : CharacterFrom(text, at);
}

// part: from where the window begins.
std::vector<int32_t> FirstOf(const Tokenizer& tokenizer, std::string_view part, size_t tokens, std::string_view text,
                             std::string_view where) {
  for (size_t bytes = kBytesPerToken * tokens + kNear;; bytes *= 4) {
    const std::string_view piece =
        part.substr(0, bytes < part.size() ? LineFrom(part, bytes, part.size()) : part.size());
    if (FindInvalidUtf8(piece)) RequireUtf8(text, where);  // which says where in the text
    std::vector<int32_t> ids = tokenizer.EncodeAfterBos(piece);
    if (piece.size() < part.size() && ids.size() < tokens + kLongWord) continue;
    ids.resize(std::min(ids.size(), tokens));
    return ids;
  }
}

// The first ids of a text: exact, unless it is so long that only what is needed is read.
std::vector<int32_t> BeginningOf(const Tokenizer& tokenizer, std::string_view text, size_t tokens,
                                 std::string_view where) {
  if (text.size() >= kLongText && tokens < text.size()) return FirstOf(tokenizer, text, tokens, text, where);
  RequireUtf8(text, where);
  std::vector<int32_t> ids = tokenizer.EncodeAfterBos(text);
  ids.resize(std::min(ids.size(), tokens));
  return ids;
}

constexpr const char* kName = "input_ids";

// The first few names tell which file this is.
[[noreturn]] void FailForName(const std::string& where, const ArrayFile& file) {
  constexpr size_t kShown = 4;
  const std::vector<ArrayInfo>& arrays = file.arrays();
  std::string found =
      arrays.empty() ? "none" : "'" + Listed(arrays | std::views::take(kShown), "', '", &ArrayInfo::name) + "'";
  if (arrays.size() > kShown) found += Formatted(" and {} more", arrays.size() - kShown);
  Fail(
      "{}: no such array in the file: got {}, expected the token ids under that name; is the file damaged, or the "
      "wrong one?",
      where, found);
}

// The rows of [B,T] or [T].
std::vector<std::vector<int32_t>> Rows(const std::filesystem::path& path, int vocabulary, const std::string& where) {
  const std::unique_ptr<ArrayFile> file = ArrayFile::Open(path);
  const ArrayInfo* const found = file->Find(kName);
  if (found == nullptr) FailForName(where, *file);
  const ArrayInfo& tensor = *found;
  if (!IsInteger(tensor.dtype)) Fail("{}: got values of type {}, expected integers", where, Name(tensor.dtype));
  if (tensor.shape.empty() || tensor.shape.size() > 2)
    Fail("{}: got shape {}, expected [B, T] or [T]", where, ShapeText(tensor.shape));
  const int64_t length = tensor.shape.back(), count = length * (tensor.shape.size() > 1 ? tensor.shape[0] : 1);
  if (count == 0) Fail("{}: got shape {}, expected at least one token", where, ShapeText(tensor.shape));
  const ArrayValues values = file->Values(tensor);
  std::vector<std::vector<int32_t>> rows(static_cast<size_t>(count / length));
  for (int64_t i = 0; i < count; ++i) {
    const int64_t id = values.Integer(i);  // of uint64 beyond int64 negative, and no id is
    if (id < 0 || id >= vocabulary)
      Fail("{}: got id {} at row {}, position {}, expected 0 to {}; try ids of this checkpoint's own tokenizer", where,
           id, i / length, i % length, vocabulary - 1);
    rows[static_cast<size_t>(i / length)].push_back(static_cast<int32_t>(id));
  }
  return rows;
}

// Items and documents: names and marks would be scored as text.
void RefuseObjects(std::string_view text, const std::string& where) {
  const size_t begin = std::min(text.find_first_not_of(" \t\r\n"), text.size());
  if (text.substr(begin).starts_with('{') && Json::accept(text.substr(begin, text.find('\n', begin) - begin)))
    Fail("{}: got lines of JSON, expected a text; try a task of items or documents (tare help tasks)", where);
}

void ReadText(const std::filesystem::path& model_folder, int vocabulary, const TextPart& part, TokenInput* input) {
  const std::string where = input->path.string();
  const MappedFile file(input->path);
  const std::string_view text = file.text();
  if (text.empty()) Fail("{}: got an empty file, expected a text", where);
  RefuseObjects(text, where);
  const Tokenizer tokenizer = Tokenizer::Load(model_folder);
  input->bos = tokenizer.bos();
  if (ReadInWindows(part, text.size())) input->sequences = EncodeWindows(tokenizer, text, part, where);
  input->in_windows = !input->sequences.empty();
  if (!input->in_windows) input->sequences.push_back(BeginningOf(tokenizer, text, part.first, where));
  for (const std::vector<int32_t>& row : input->sequences) RequireRows(row, vocabulary, where);
  input->whole = !input->in_windows && input->sequences[0].size() < part.first;
  if (input->sequences[0].empty()) Fail("{}: got nothing but spaces, expected a text", where);
}

}  // namespace

void RequireRows(std::span<const int32_t> ids, int vocabulary, const std::string& where) {
  const auto over = std::ranges::find_if(ids, [&](int32_t id) { return id >= vocabulary; });
  if (over != ids.end())
    Fail("{}: got id {} at token {}, expected 0 to {}, the rows of the model; try the tokenizer of this checkpoint",
         where, *over, over - ids.begin(), vocabulary - 1);
}

bool ReadInWindows(const TextPart& part, size_t bytes) {
  if (part.windows == 0 || bytes < kLongText) return false;
  return bytes / part.windows / (2 * kBytesPerToken) >= part.positions;
}

std::vector<std::vector<int32_t>> EncodeWindows(const Tokenizer& tokenizer, std::string_view text, const TextPart& part,
                                                std::string_view where) {
  const size_t tokens = std::max<size_t>(1, part.positions - (tokenizer.bos() ? 1 : 0));
  std::vector<std::vector<int32_t>> windows;
  const size_t bytes = text.size() / part.windows;
  // A window may go on to where the next one's part has its middle.
  const auto middle = [&](size_t i) {
    return i < part.windows ? CharacterFrom(text, i * bytes + bytes / 2) : text.size();
  };
  for (size_t i = 0; i < part.windows; ++i) {
    const size_t begin = LineFrom(text, middle(i), middle(i) + bytes / 4), end = middle(i + 1);
    std::vector<int32_t> ids = FirstOf(tokenizer, text.substr(begin, end - begin), tokens, text, where);
    if (!ids.empty()) windows.push_back(std::move(ids));
  }
  return windows;
}

bool HoldsIds(const std::filesystem::path& path) {
  return path.extension() == ".safetensors" || path.extension() == ".h5" || path.extension() == ".hdf5";
}

TokenInput LoadTokenInput(const std::filesystem::path& path, const std::filesystem::path& model_folder, int vocabulary,
                          const TextPart& part) {
  TokenInput input;
  input.path = path;
  input.sha256 = Sha256OfFile(path);
  if (!HoldsIds(path)) {
    ReadText(model_folder, vocabulary, part, &input);
    return input;
  }
  const std::string where = path.string() + ": " + kName;
  input.kind = TokenInput::Kind::kIds;
  input.sequences = Rows(path, vocabulary, where);
  return input;
}

}  // namespace tare
