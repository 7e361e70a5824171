// SPDX-License-Identifier: Apache-2.0
#include "experiments/text/tokenizer/token_input.h"

#include <algorithm>
#include <cstring>
#include <span>

#include "experiments/text/tokenizer/encoded_text.h"
#include "quant/base/error.h"
#include "quant/base/formatted.h"
#include "quant/file/hdf5.h"
#include "quant/file/mapped_file.h"
#include "quant/file/safetensors.h"
#include "quant/file/sha256.h"

namespace tare {
namespace {

constexpr const char* kName = "input_ids";

struct IdTensor {
  std::vector<int64_t> shape;
  std::vector<int64_t> ids;
};

template <typename T>
std::vector<int64_t> Widen(std::span<const std::byte> bytes) {
  std::vector<T> values(bytes.size() / sizeof(T));  // a copy: the bytes are aligned to nothing
  if (!values.empty()) std::memcpy(values.data(), bytes.data(), bytes.size());
  return {values.begin(), values.end()};  // uint64 beyond int64 turns negative, and no id is
}

[[noreturn]] void FailForType(const std::string& where, DType dtype) {
  Fail("{}: got values of type {}, expected integers", where, Name(dtype));
}

std::vector<int64_t> Widen(const TensorView& tensor, const std::string& where) {
  switch (tensor.dtype) {
    case DType::kI8:
      return Widen<int8_t>(tensor.bytes);
    case DType::kU8:
      return Widen<uint8_t>(tensor.bytes);
    case DType::kI16:
      return Widen<int16_t>(tensor.bytes);
    case DType::kU16:
      return Widen<uint16_t>(tensor.bytes);
    case DType::kI32:
      return Widen<int32_t>(tensor.bytes);
    case DType::kU32:
      return Widen<uint32_t>(tensor.bytes);
    case DType::kI64:
      return Widen<int64_t>(tensor.bytes);
    case DType::kU64:
      return Widen<uint64_t>(tensor.bytes);
    default:
      FailForType(where, tensor.dtype);
  }
}

// The first few names tell which file this is.
[[noreturn]] void FailForName(const std::string& where, const char* what, const std::vector<std::string>& names) {
  constexpr size_t kShown = 4;
  std::string found;
  for (size_t i = 0; i < std::min(kShown, names.size()); ++i)
    found += Formatted("{}'{}'", i == 0 ? "" : ", ", names[i]);
  if (names.size() > kShown) found += Formatted(" and {} more", names.size() - kShown);
  Fail(
      "{}: no such {} in the file: got {}, expected the token ids under that name; is the file damaged, or the wrong "
      "one?",
      where, what, found.empty() ? "none" : found);
}

IdTensor ReadSafetensors(const std::filesystem::path& path, const std::string& where) {
  const Safetensors file(path);
  const TensorView* tensor = file.Find(kName);
  if (tensor == nullptr) FailForName(where, "tensor", file.names());
  return {tensor->shape, Widen(*tensor, where)};
}

IdTensor ReadHdf5(const std::filesystem::path& path, const std::string& where) {
  const Hdf5Reader file(path);
  if (!file.Has(kName)) FailForName(where, "dataset", file.datasets());
  const DType type = file.Type(kName);
  if (type == DType::kF32 || type == DType::kF64) FailForType(where, type);
  return {file.Shape(kName), file.Read<int64_t>(kName)};
}

// The rows of [B,T] or [T].
std::vector<std::vector<int32_t>> Rows(const IdTensor& tensor, int vocabulary, const std::string& where) {
  if (tensor.shape.empty() || tensor.shape.size() > 2) {
    Fail("{}: got shape {}, expected [B, T] or [T]", where, ShapeText(tensor.shape));
  }
  if (tensor.ids.empty()) Fail("{}: got shape {}, expected at least one token", where, ShapeText(tensor.shape));
  const auto length = static_cast<size_t>(tensor.shape.back());
  std::vector<std::vector<int32_t>> rows(tensor.ids.size() / length);
  for (size_t i = 0; i < tensor.ids.size(); ++i) {
    if (tensor.ids[i] < 0 || tensor.ids[i] >= vocabulary) {
      Fail("{}: got id {} at row {}, position {}, expected 0 to {}; try ids of this checkpoint's own tokenizer", where,
           tensor.ids[i], i / length, i % length, vocabulary - 1);
    }
    if (i % length == 0) rows[i / length].reserve(length);
    rows[i / length].push_back(static_cast<int32_t>(tensor.ids[i]));
  }
  return rows;
}

void CheckVocabulary(int32_t pieces, const std::filesystem::path& model_folder, int vocabulary) {
  if (pieces > vocabulary) {
    Fail(
        "{}: got a tokenizer of {} pieces, expected at most the model's vocabulary of {}; try the tokenizer that "
        "belongs to this checkpoint",
        model_folder.string(), pieces, vocabulary);
  }
}

void ReadText(const std::filesystem::path& model_folder, int vocabulary, const TextPart& part, TokenInput* input) {
  const std::string where = input->path.string();
  const MappedFile file(input->path);
  const std::string_view text(reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size());
  if (text.empty()) Fail("{}: got an empty file, expected a text", where);
  EncodedText encoded = EncodeText(text, input->sha256, model_folder, part, where);
  CheckVocabulary(encoded.vocabulary, model_folder, vocabulary);
  input->bos = encoded.bos;
  input->in_windows = encoded.in_windows;
  input->sequences = std::move(encoded.rows);
  input->whole = !input->in_windows && input->sequences[0].size() < part.first;
  if (input->sequences[0].empty()) Fail("{}: got nothing but spaces, expected a text", where);
}

}  // namespace

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
  const IdTensor ids = path.extension() == ".safetensors" ? ReadSafetensors(path, where) : ReadHdf5(path, where);
  input.sequences = Rows(ids, vocabulary, where);
  return input;
}

TokenInput EncodeTexts(std::span<const std::string> texts, const std::filesystem::path& path,
                       const std::filesystem::path& model_folder, int vocabulary) {
  const Tokenizer tokenizer = Tokenizer::Load(model_folder);
  CheckVocabulary(tokenizer.vocabulary(), model_folder, vocabulary);
  TokenInput input{.bos = tokenizer.bos(), .path = path, .sha256 = Sha256OfFile(path)};
  for (const std::string& text : texts) {
    if (input.sequences.emplace_back(tokenizer.Encode(text)).empty())
      Fail("{}: got text {} of nothing but spaces, expected a text", path.string(), input.sequences.size());
  }
  return input;
}

}  // namespace tare
