// SPDX-License-Identifier: Apache-2.0
#include "experiments/model/input_embedding.h"

#include <algorithm>

#include "experiments/model/family.h"
#include "kernels/elementwise/rows.h"
#include "quant/base/error.h"
#include "quant/base/parallel.h"

namespace tare {

InputEmbedding::InputEmbedding(Weights& weights, const ModelConfig& c) : config_(c) {
  const TensorNames& names = FamilyOf(c).names;
  const int64_t E = c.hidden, p = c.patch_size;
  if (c.SeesImages()) {
    const std::string patches(names.embedding);
    patches_ = weights.Flattened(patches, {E, 3, p, p});
    class_ = weights.Vector(std::string(names.class_row), {E});
    if (const std::string bias = patches.substr(0, patches.rfind('.')) + ".bias"; weights.Has(bias))
      bias_ = weights.Vector(bias, {E});
  } else {
    rows_ = weights.Stored(std::string(names.embedding), c.vocabulary, E);
  }
  if (!names.positions.empty()) positions_ = weights.Stored(std::string(names.positions), c.max_positions, E);
  if (const std::string norm(names.input_norm); !norm.empty() && weights.Has(norm + ".weight")) {
    norm_weight_ = weights.Vector(norm + ".weight", {E});
    norm_bias_ = weights.Vector(norm + ".bias", {E});
  }
}

void InputEmbedding::Show(std::shared_ptr<const Images> images) {
  TARE_CHECK(config_.SeesImages());
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
  const int64_t rows = batch.Rows(), values = images_->PatchValues();
  if (pixels_.size() < static_cast<size_t>(PaddedRows(rows) * values)) {
    pixels_.Reset(static_cast<size_t>(PaddedRows(rows) * values));
    std::fill_n(pixels_.data(), pixels_.size(), 0.0f);
  }
  ParallelFor(batch.tokens.size(), [&](size_t row, int) {
    float* const patch = pixels_.data() + static_cast<int64_t>(row) * values;
    if (batch.tokens[row] == 0) return std::fill_n(patch, values, 0.0f), void();
    images_->ReadPatch(batch.tokens[row], patch);
  });
  const Projection projection{.weight = patches_, .bias = bias_.empty() ? nullptr : bias_.data(), .y = x};
  projector.Project(pixels_.data(), rows, {&projection, 1});
  for (int64_t row = 0; row < rows; ++row) {
    if (batch.tokens[static_cast<size_t>(row)] == 0) std::ranges::copy(class_, x + row * config_.hidden);
  }
}

void InputEmbedding::Embed(const TokenBatch& batch, std::span<const int64_t> positions, Projector& projector,
                           float* x) {
  const int64_t E = config_.hidden;
  if (config_.SeesImages()) EmbedPatches(batch, projector, x);
  ParallelFor(batch.tokens.size(), [&](size_t row, int) {
    float* const values = x + static_cast<int64_t>(row) * E;
    if (!config_.SeesImages()) RowAsFloat(rows_, batch.tokens[row], values);
    if (config_.embedding_scale != 1) ScaleInto(values, config_.embedding_scale, E, values);
    if (positions_.out > 0) {
      thread_local std::vector<float> position;
      position.resize(static_cast<size_t>(E));
      RowAsFloat(positions_, positions[row], position.data());
      AddTo(values, position.data(), E);
    }
    if (!norm_weight_.empty()) LayerNorm(values, norm_weight_.data(), norm_bias_.data(), config_.norm_eps, E, values);
  });
}

}  // namespace tare
