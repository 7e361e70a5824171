// SPDX-License-Identifier: Apache-2.0
#include "experiments/arrays/array_file.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "kernels/elementwise/rows.h"
#include "quant/base/message.h"

namespace tare {
namespace {

void TakeTokens(const ArrayValues& ids, Predictions& all) {
  for (int64_t i = 0; i < all.windows * all.positions; ++i) {
    const int64_t id = ids.Integer(i);
    if (id < 0 || id >= all.vocabulary)
      Fail("{}: token {}: got id {}, expected 0 to {}", all.Name(), i, id, all.vocabulary - 1);
    all.tokens.push_back(static_cast<int32_t>(id));
  }
}

Predictions OpenBase(const std::filesystem::path& path) {
  const auto file = std::make_shared<const MappedFile>(path);
  const std::span<const std::byte> bytes = file->bytes();
  if (bytes.size() < BaseShape::kHead || std::memcmp(bytes.data(), kBaseMagic.data(), kBaseMagic.size()) != 0)
    Fail("{}: got {} bytes, expected {} or more that begin with {}", path.string(), bytes.size(), BaseShape::kHead,
         kBaseMagic);
  const ArrayValues head(DType::kI32, bytes);
  const BaseShape shape{head.Integer(2), head.Integer(3), head.Integer(4)};
  if (shape.windows < 1 || shape.positions < 3 || shape.vocabulary < 1)
    Fail("{}: got {} windows of {} tokens and a vocabulary of {}, expected at least 1, 3 and 1", path.string(),
         shape.windows, shape.positions, shape.vocabulary);
  if (ElementCount(std::vector{shape.windows, shape.WindowBytes()}) != std::ssize(bytes) - BaseShape::kHead)
    Fail("{}: got {} bytes, expected {} and {} for each of {} windows; was it cut short?", path.string(), bytes.size(),
         BaseShape::kHead, shape.WindowBytes(), shape.windows);
  Predictions all{.windows = shape.windows,
                  .positions = shape.positions,
                  .vocabulary = shape.vocabulary,
                  .first = shape.First(),
                  .floor = -16,
                  .array = {"rows", DType::kU16, {shape.windows, shape.Rows(), shape.RowCodes()}},
                  .of_window = shape.Rows()};
  const auto tokens = static_cast<size_t>(shape.windows * shape.positions);
  all.file = std::make_shared<const ArrayFile>(
      path, std::vector{all.array}, [file, tokens](const ArrayInfo& array, auto rows) {
        return MappedValues(*file, array, file->bytes().subspan(BaseShape::kHead + 4 * tokens), rows);
      });
  TakeTokens({DType::kI32, bytes.subspan(BaseShape::kHead)}, all);
  return all;
}

// Throws Error unless there are logits of tokens; the shape of the tokens.
std::vector<int64_t> TextShape(const std::string& where, const ArrayInfo* logits, const ArrayInfo* ids,
                               bool has_reference) {
  using enum DType;
  const auto text = [](const ArrayInfo* of) {
    return of == nullptr ? "none" : Formatted("{} {}", Name(of->dtype), ShapeText(of->shape));
  };
  std::vector<int64_t> shape = logits == nullptr ? std::vector<int64_t>() : logits->shape;
  const bool full = !std::ranges::contains(shape, 0);
  if (!shape.empty()) shape.pop_back();
  const bool floats = logits != nullptr && std::ranges::contains(std::vector{kF32, kF16, kBF16, kF64}, logits->dtype);
  const bool same = ids == nullptr ? has_reference : IsInteger(ids->dtype) && ids->shape == shape;
  if (!floats || !same || !full || shape.empty() || shape.size() > 2 || shape.back() < 2)
    Fail("{}: got logits {} and input_ids {}, expected f32, f16, bf16 or f64 [windows, T, V] and integers [windows, T]",
         where, text(logits), text(ids));
  return shape;
}

Predictions OpenLogits(const std::filesystem::path& path, int64_t window, const Predictions* reference) {
  const std::shared_ptr<const ArrayFile> file = ArrayFile::Open(path);
  const ArrayInfo *logits = file->Find("logits"), *const ids = file->Find("input_ids");
  if (logits == nullptr && file->arrays().size() == 1) logits = &file->arrays().front();  // of an .npy
  const std::vector<int64_t> shape = TextShape(path.string(), logits, ids, reference != nullptr);
  Predictions all{.windows = shape.front(), .positions = shape.back(), .vocabulary = logits->shape.back()};
  if (shape.size() == 1) {
    if (window > 0 || reference != nullptr) all.positions = window > 0 ? window : reference->positions;
    all.windows = shape[0] / all.positions;
    if (all.windows == 0 || all.positions < 2)
      Fail("{}: got {} tokens, expected windows of {}", path.string(), shape[0], all.positions);
    if (const int64_t rest = shape[0] % all.positions; rest > 0)
      Notice(
          Formatted("{}: its last {} of {} tokens fill no window of {}", path.string(), rest, shape[0], all.positions));
  }
  all.file = file;
  all.array = *logits;
  all.of_window = all.positions;
  if (ids != nullptr) {
    TakeTokens(file->Values(*ids), all);
  } else {
    all.tokens = reference->tokens;
    Notice(Formatted("{}: has no input_ids; read as of the tokens of {}", path.string(), reference->Name()));
  }
  return all;
}

std::string_view BytesOf(const auto& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof values[0]};
}

// Codes after their scale, to the bits of llama.cpp's: in f32, with the sum in double.
std::vector<uint16_t> CodesOf(std::span<const float> logits, const BaseShape& shape) {
  const auto [least, largest] = std::ranges::minmax(logits);
  const float lo = std::max(least, largest - 16.0f), scale = (largest - lo) / 65535.0f, inverse = 1 / scale;
  double sum = 0;
  for (const float x : logits) sum += std::exp(x - largest);
  const float numbers[] = {scale, lo - largest - static_cast<float>(std::log(sum))};
  std::vector<uint16_t> row(static_cast<size_t>(shape.RowCodes()));
  std::memcpy(row.data(), numbers, sizeof numbers);
  for (size_t i = 0; i < logits.size() && scale > 0; ++i)
    row[4 + i] = logits[i] > lo ? static_cast<uint16_t>(std::nearbyint(inverse * (logits[i] - lo))) : 0;
  return row;
}

}  // namespace

ArrayValues Predictions::Rows(int64_t window, int64_t position, int64_t count) const {
  return file->Values(array, RowRange{window * of_window + position - first, count});
}

Prediction Predictions::Read(const ArrayValues& rows, int64_t i, int64_t window, int64_t position) const {
  const bool coded = array.dtype == DType::kU16;
  const int64_t row = i * array.shape.back();
  Prediction read{.values = std::vector<float>(static_cast<size_t>(vocabulary))};
  std::vector<float>& values = read.values;
  rows.Read(row + (coded ? 4 : 0), 1, vocabulary, values.data());
  read.top = static_cast<size_t>(std::ranges::max_element(values) - values.begin());
  if (coded) {
    const auto number = [&](int64_t at) {
      return std::bit_cast<float>(static_cast<uint32_t>(rows.Integer(row + at) | rows.Integer(row + at + 1) << 16));
    };
    const float scale = number(0), lowest = number(2);
    for (float& x : values) x = scale * x + lowest;
  } else {
    read.total = LogSumExp(values.data(), values.size());
  }
  double sum = 0, least = 0;
  for (size_t at = 0; at < values.size(); ++at) sum += std::exp(read.LogP(at)), least = std::min(least, read.LogP(at));
  if (!(std::abs(sum - 1) < 0.1) || std::isinf(least))
    Fail("{}: window {}, position {}: got p that sum to {}, the least ln p {}; expected 1, and a finite one{}", Name(),
         window, position, sum, least, array.dtype == DType::kF16 ? "; f16 overflows above 65504: try f32 logits" : "");
  return read;
}

BaseFileWriter::BaseFileWriter(const std::filesystem::path& path, BaseShape shape, std::span<const int64_t> tokens)
    : shape_(shape), file_(path) {
  if (shape.positions < 3) Fail("{}: got windows of {} tokens, expected 3 or more", path.string(), shape.positions);
  std::vector<int32_t> head{static_cast<int32_t>(shape.positions), static_cast<int32_t>(shape.vocabulary),
                            static_cast<int32_t>(shape.windows)};
  for (const int64_t token : tokens) head.push_back(static_cast<int32_t>(token));
  file_.Write(kBaseMagic);
  file_.Write(BytesOf(head));
}

void BaseFileWriter::Write(int64_t window, int64_t position, std::span<const float> logits) {
  const auto odd = std::ranges::find_if(logits, [](float x) { return !std::isfinite(x); });
  if (odd != logits.end())
    Fail("{}: window {}, position {}: got logit {} of token {}, expected a finite number", file_.final_path().string(),
         window, position, *odd, odd - logits.begin());
  const int64_t row = window * shape_.Rows() + position - shape_.First();
  file_.WriteAt(BaseShape::kHead + 4 * shape_.windows * shape_.positions + 2 * row * shape_.RowCodes(),
                BytesOf(CodesOf(logits, shape_)));
}

Predictions OpenPredictions(const std::filesystem::path& path, int64_t window, const Predictions* reference) {
  const bool base = IsBaseFile(path) || Beginning(path, kBaseMagic.size()) == kBaseMagic;
  return base ? OpenBase(path) : OpenLogits(path, window, reference);
}

}  // namespace tare
