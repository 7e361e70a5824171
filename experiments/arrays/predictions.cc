// SPDX-License-Identifier: Apache-2.0
#include "experiments/arrays/predictions.h"

#include <algorithm>
#include <cmath>

#include "experiments/arrays/array_file.h"
#include "kernels/elementwise/rows.h"
#include "quant/base/error.h"
#include "quant/base/formatted.h"
#include "quant/file/safetensors.h"

namespace tare {
namespace {

constexpr std::string_view kMagic = "_logits_";
constexpr size_t kHead = 20;  // bytes before the tokens

void TakeTokens(const ArrayValues& ids, Predictions& all) {
  for (int64_t i = 0; i < all.windows * all.positions; ++i) {
    const int64_t id = ids.Integer(i);
    if (id < 0 || id >= all.vocabulary)
      Fail("{}: token {}: got id {}, expected 0 to {}", all.Name(), i, id, all.vocabulary - 1);
    all.tokens.push_back(static_cast<int32_t>(id));
  }
}

Predictions OpenBase(const std::filesystem::path& path) {
  Predictions all{.floor = -16, .file = std::make_shared<const MappedFile>(path)};
  const std::span<const std::byte> bytes = all.file->bytes();
  if (bytes.size() < kHead) Fail("{}: got {} bytes, expected {} or more", path.string(), bytes.size(), kHead);
  const ArrayValues head(DType::kI32, bytes);
  all.positions = head.Integer(2), all.vocabulary = head.Integer(3), all.windows = head.Integer(4);
  if (all.windows < 1 || all.positions < 3 || all.vocabulary < 1)
    Fail("{}: got {} windows of {} tokens and a vocabulary of {}, expected at least 1, 3 and 1", path.string(),
         all.windows, all.positions, all.vocabulary);
  all.first = all.positions / 2;
  all.of_window = all.positions - 1 - all.first;
  all.row_bytes = 8 + (all.vocabulary + 1) / 2 * 4;
  const int64_t window_bytes = 4 * all.positions + all.of_window * all.row_bytes;  // below 2^63
  if (ElementCount(std::vector{all.windows, window_bytes}) != std::ssize(bytes.subspan(kHead)))
    Fail("{}: got {} bytes, expected {} and {} for each of {} windows; was it cut short?", path.string(), bytes.size(),
         kHead, window_bytes, all.windows);
  TakeTokens({DType::kI32, bytes.subspan(kHead)}, all);
  all.rows = bytes.subspan(kHead + 4 * all.tokens.size());
  return all;
}

Predictions OpenLogits(const std::filesystem::path& path) {
  const auto file = std::make_shared<const Safetensors>(path);
  const TensorView *const logits = file->Find("logits"), *const ids = file->Find("input_ids");
  const auto text = [](const TensorView* of) {
    return of == nullptr ? "none" : Formatted("{} {}", Name(of->dtype), ShapeText(of->shape));
  };
  const std::vector<int64_t> shape = ids == nullptr ? std::vector<int64_t>() : ids->shape;
  using enum DType;
  const bool both = logits != nullptr && std::ranges::contains(std::vector{kF32, kF16, kBF16}, logits->dtype) &&
                    ids != nullptr && IsInteger(ids->dtype);
  if (!both || shape.empty() || shape.size() > 2 || shape.back() < 2 || logits->elements() == 0 ||
      logits->shape.size() != shape.size() + 1 || !std::equal(shape.begin(), shape.end(), logits->shape.begin()))
    Fail("{}: got logits {} and input_ids {}, expected f32, f16 or bf16 [windows, T, V] and integers [windows, T]",
         path.string(), text(logits), text(ids));
  Predictions all{.windows = shape.size() == 2 ? shape[0] : 1,
                  .positions = shape.back(),
                  .vocabulary = logits->shape.back(),
                  .file = {file, &file->file()},
                  .rows = logits->bytes,
                  .of_window = shape.back(),
                  .row_bytes = logits->shape.back() * Bits(logits->dtype) / 8,
                  .dtype = logits->dtype};
  TakeTokens({ids->dtype, ids->bytes}, all);
  return all;
}

}  // namespace

Prediction Predictions::Read(int64_t window, int64_t position) const {
  const auto row = rows.subspan(static_cast<size_t>((window * of_window + position - first) * row_bytes));
  const bool coded = dtype == DType::kU16;
  Prediction read{.values = std::vector<float>(static_cast<size_t>(vocabulary))};
  std::vector<float>& values = read.values;
  ArrayValues(dtype, row).Read(coded ? 4 : 0, 1, vocabulary, values.data());
  read.top = static_cast<size_t>(std::ranges::max_element(values) - values.begin());
  if (coded) {
    float scaling[2];
    ArrayValues(DType::kF32, row).Read(0, 1, 2, scaling);
    for (float& x : values) x = scaling[0] * x + scaling[1];
  } else {
    read.total = LogSumExp(values.data(), values.size());
  }
  double sum = 0, least = 0;
  for (size_t i = 0; i < values.size(); ++i) sum += std::exp(read.LogP(i)), least = std::min(least, read.LogP(i));
  if (!(std::abs(sum - 1) < 0.1) || std::isinf(least))
    Fail("{}: window {}, position {}: got p that sum to {}, the least ln p {}; expected 1, and a finite one", Name(),
         window, position, sum, least);
  return read;
}

Predictions OpenPredictions(const std::filesystem::path& path) {
  return Beginning(path, kMagic.size()) == kMagic ? OpenBase(path) : OpenLogits(path);
}

}  // namespace tare
