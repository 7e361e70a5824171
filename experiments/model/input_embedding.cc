// SPDX-License-Identifier: Apache-2.0
#include "experiments/model/model.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "experiments/model/config/family.h"
#include "kernels/elementwise/rows.h"
#include "quant/base/message.h"
#include "quant/base/parallel.h"

namespace tare {
namespace {

constexpr int64_t kColors = 3;

ArrayInfo CheckedImages(const ArrayFile& file, const ModelConfig& c, const std::string& where) {
  const ArrayInfo* const found = file.Find("images");
  if (found == nullptr)
    Fail("{}: missing; expected an array of shape [N, {}, {}, {}]", where, kColors, c.image_size, c.image_size);
  const std::vector<int64_t>& shape = found->shape;
  if (shape.size() != 4 || shape[0] < 1 || shape[1] != kColors || shape[2] != c.image_size || shape[3] != c.image_size)
    Fail("{}: got shape {}, expected [N, {}, {}, {}] (image_size in config.json)", where, ShapeText(shape), kColors,
         c.image_size, c.image_size);
  const bool in_bytes = c.pixel_std[0] > 0;
  if (found->dtype == DType::kU8 ? !in_bytes
                                 : !IsHalf(found->dtype) && found->dtype != DType::kF32 && found->dtype != DType::kF64)
    Fail("{}: got {}, expected {}normalized floats", where, Name(found->dtype), in_bytes ? "U8, or " : "");
  return *found;
}

}  // namespace

Images::Images(const std::filesystem::path& input, const ModelConfig& c)
    : where_(input.string() + ": images"),
      side_(c.image_size),
      shorter_(c.shorter_side),
      patch_(c.patch_size),
      patches_(c.Patches()),
      before_(c.FirstPatch()),
      mean_(c.pixel_mean),
      deviation_(c.pixel_std) {
  if (std::filesystem::is_directory(input)) {
    if (shorter_ == 0)
      Fail("{}: got a folder for {}, expected a file with `images`; try a timm model", input.string(), c.family);
    folder_ = FindImages(input);
    count_ = std::ssize(folder_);
    const int64_t classes = std::ranges::max(folder_, {}, &ImageFile::label).label + 1;
    if (classes > c.vocabulary)
      Fail("{}: got {} classes, expected at most the model's {}", input.string(), classes, c.vocabulary);
    if (classes < c.vocabulary)
      Notice(Formatted("{}: its {} classes are taken for the first of {}", input.string(), classes, c.vocabulary));
  } else {
    file_ = ArrayFile::Open(input);
    const ArrayInfo array = CheckedImages(*file_, c, where_);
    pixels_.emplace(file_->Values(array));
    count_ = array.shape[0];
    if (array.dtype != DType::kU8) deviation_ = {};
  }
  const int64_t most = (std::numeric_limits<int32_t>::max() - before_) / patches_;
  if (count_ > most) Fail("{}: got {} images, expected at most {}; try parts", where_, count_, most);
}

std::vector<int32_t> Images::Sequence(int64_t image) const {
  std::vector<int32_t> ids(static_cast<size_t>(before_ + patches_));
  std::iota(ids.begin(), ids.end(), 0);
  for (int64_t p = before_; p < std::ssize(ids); ++p)
    ids[static_cast<size_t>(p)] += static_cast<int32_t>(image * patches_);
  return ids;
}

void Images::ReadPatches(std::span<const int32_t> ids, float* values) const {
  std::optional<ArrayValues> decoded;
  int64_t of_image = -1;
  for (const int64_t id : ids) {
    const int64_t image = (id - before_) / patches_;
    if (id >= before_ && !pixels_ && std::exchange(of_image, image) != image) {
      const std::filesystem::path& file = folder_[static_cast<size_t>(image)].path;
      decoded.emplace(DType::kU8, MiddleOf(DecodeImage(file), shorter_, side_, file.string()));
    }
    if (id < before_)
      std::fill_n(values, PatchValues(), 0.0f);
    else
      ReadPatch(id, pixels_ ? *pixels_ : *decoded, pixels_ ? image * kColors * side_ * side_ : 0, values);
    values += PatchValues();
  }
}

void Images::ReadPatch(int64_t id, const ArrayValues& pixels, int64_t first, float* values) const {
  const int64_t patch = (id - before_) % patches_, in_row = side_ / patch_;
  const int64_t corner = first + patch / in_row * patch_ * side_ + patch % in_row * patch_;
  for (int64_t color = 0; color < kColors; ++color) {
    for (int64_t y = 0; y < patch_; ++y) {
      float* const row = values + (color * patch_ + y) * patch_;
      pixels.Read((color * side_ + y) * side_ + corner, 1, patch_, row);
      if (!std::all_of(row, row + patch_, [](float x) { return std::isfinite(x); }))
        Fail("{}: image {}: NaN or infinity; expected finite pixels", where_, (id - before_) / patches_);
      const float mean = mean_[static_cast<size_t>(color)], deviation = deviation_[static_cast<size_t>(color)];
      if (deviation > 0) std::transform(row, row + patch_, row, [&](float x) { return (x / 255 - mean) / deviation; });
    }
  }
}

InputEmbedding::InputEmbedding(Weights& weights, const ModelConfig& c) : config_(c) {
  const TensorNames& names = FamilyOf(c).names;
  const int64_t E = c.hidden, p = c.patch_size;
  if (c.SeesImages()) {
    const std::string patches(names.embedding);
    patches_ = weights.Flattened(patches, {E, 3, p, p});
    before_ = weights.Vector(std::string(names.class_row), LeadingShape(c));
    if (const std::string bias = patches.substr(0, patches.rfind('.')) + ".bias"; weights.Has(bias))
      bias_ = weights.Vector(bias, {E});
  } else {
    rows_ = weights.Stored(std::string(names.embedding), c.vocabulary, E);
  }
  if (!names.positions.empty()) positions_ = weights.Vector(std::string(names.positions), PositionsShape(c));
  if (const std::string norm(names.input_norm); !norm.empty() && weights.Has(norm + ".weight")) {
    norm_weight_ = weights.Vector(norm + ".weight", {E});
    norm_bias_ = weights.Vector(norm + ".bias", {E});
  }
}

void InputEmbedding::Show(std::shared_ptr<const Images> images) {
  TARE_CHECK(images == nullptr || config_.SeesImages());
  images_ = std::move(images);
}

void InputEmbedding::CheckIds(const TokenBatch& batch) const {
  if (config_.SeesImages() && images_ == nullptr) Fail("{}: got token ids, expected images", config_.family);
  const int64_t ids = images_ == nullptr ? config_.vocabulary : images_->Ids();
  for (size_t i = 0; i < batch.tokens.size(); ++i) {
    if (batch.tokens[i] < 0 || batch.tokens[i] >= ids)
      Fail("token {}: got id {}, expected 0 to {}", i, batch.tokens[i], ids - 1);
  }
}

void InputEmbedding::EmbedPatches(const TokenBatch& batch, Projector& projector, float* x) {
  const int64_t rows = batch.Rows();
  GrowRows(pixels_, rows, images_->PatchValues());
  ParallelFor(batch.sequences.size(), [&](size_t i, int) {
    const int64_t first = batch.sequences[i].first_row, end = batch.sequences[i].EndRow();
    images_->ReadPatches(std::span(batch.tokens).subspan(first, end - first),
                         pixels_.data() + first * images_->PatchValues());
  });
  const Projection projection{.weight = patches_, .bias = bias_.empty() ? nullptr : bias_.data(), .y = x};
  projector.Project(pixels_.data(), rows, {&projection, 1});
  for (int64_t row = 0; row < rows; ++row) {
    const int32_t id = batch.tokens[static_cast<size_t>(row)];
    if (id < config_.FirstPatch())
      std::copy_n(before_.data() + id * config_.hidden, config_.hidden, x + row * config_.hidden);
  }
}

void InputEmbedding::Embed(const TokenBatch& batch, std::span<const int64_t> positions, Projector& projector,
                           float* x) {
  const int64_t E = config_.hidden;
  if (config_.SeesImages()) EmbedPatches(batch, projector, x);
  ParallelFor(batch.tokens.size(), [&](int64_t row, int) {
    float* const values = x + row * E;
    if (!config_.SeesImages()) RowAsFloat(rows_, batch.tokens[row], values);
    if (config_.embedding_scale != 1) ScaleInto(values, config_.embedding_scale, E, values);
    const int64_t position = positions[row] - config_.registers;
    if (!positions_.empty() && position >= 0) AddTo(values, positions_.data() + position * E, E);
    if (!norm_weight_.empty()) LayerNorm(values, norm_weight_.data(), norm_bias_.data(), config_.norm_eps, E, values);
  });
}

}  // namespace tare
