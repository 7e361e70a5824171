// SPDX-License-Identifier: Apache-2.0
// What goes into the first layer, against the golden towers' tensors in double: rows plus positions of the text tower;
// class row, patch product, positions and norm of the vision tower.
#include "experiments/model/input_embedding.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "experiments/model/model.h"
#include "quant/base/error.h"
#include "tests/support/golden.h"

namespace tare {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

// What a model gives for the batch before its first layer.
std::vector<float> Embedded(Model& model, const TokenBatch& batch) {
  std::vector<float> x(static_cast<size_t>(batch.Rows() * model.config().hidden));
  model.EmbedInto(batch, x.data());
  return x;
}

TEST(InputEmbeddingTest, TextIsRowsAndPositions) {
  Model tower(GoldenFolder("clip-text"));
  const Safetensors file(GoldenFolder("clip-text") / "model.safetensors");
  const std::vector<float> rows = ValuesOf<float>(file, "text_model.embeddings.token_embedding.weight"),
                           positions = ValuesOf<float>(file, "text_model.embeddings.position_embedding.weight");
  const int64_t E = tower.config().hidden;
  TokenBatch batch;
  batch.Add(0, std::vector<int32_t>{7, 60, 7});
  batch.Add(1, std::vector<int32_t>{5});
  const std::vector<float> x = Embedded(tower, batch);
  constexpr int kIds[] = {7, 60, 7, 5}, kPositions[] = {0, 1, 2, 0};
  for (int64_t row = 0; row < 4; ++row) {
    for (int64_t i = 0; i < E; ++i)
      EXPECT_EQ(x[row * E + i], rows[kIds[row] * E + i] + positions[kPositions[row] * E + i]);
  }
}

TEST(InputEmbeddingTest, ImagesArePatchProductsAfterTheClassRow) {
  const std::filesystem::path folder = GoldenFolder("clip-vision");
  Model tower(folder);
  const ModelConfig& c = tower.config();
  const auto images = std::make_shared<const Images>(folder / "expected.safetensors", c);
  tower.Show(images);
  const Safetensors file(folder / "model.safetensors");
  const std::string names = "vision_model.embeddings.", norm = "vision_model.pre_layrnorm.";
  const std::vector<float> patches = ValuesOf<float>(file, names + "patch_embedding.weight"),
                           class_row = ValuesOf<float>(file, names + "class_embedding"),
                           positions = ValuesOf<float>(file, names + "position_embedding.weight"),
                           weight = ValuesOf<float>(file, norm + "weight"), bias = ValuesOf<float>(file, norm + "bias");
  TokenBatch batch;
  const std::vector<int32_t> ids = images->Sequence(2);
  batch.Add(0, ids);
  const std::vector<float> x = Embedded(tower, batch);
  const int64_t E = c.hidden, values = images->PatchValues();
  std::vector<float> patch(static_cast<size_t>(values));
  for (size_t t = 0; t < ids.size(); ++t) {
    if (t > 0) images->ReadPatch(ids[t], patch.data());
    std::vector<double> row(static_cast<size_t>(E));
    double mean = 0, variance = 0;
    for (int64_t e = 0; e < E; ++e) {
      double sum = t == 0 ? class_row[e] : 0;
      for (int64_t i = 0; t > 0 && i < values; ++i) sum += double{patches[e * values + i]} * patch[i];
      row[e] = sum + positions[static_cast<int64_t>(t) * E + e];
      mean += row[e] / static_cast<double>(E);
    }
    for (const double v : row) variance += (v - mean) * (v - mean) / static_cast<double>(E);
    for (int64_t e = 0; e < E; ++e) {
      const double expected = (row[e] - mean) / std::sqrt(variance + 1e-5) * weight[e] + bias[e];
      EXPECT_NEAR(x[static_cast<int64_t>(t) * E + e], expected, 1e-5) << "row " << t;
    }
  }
}

TEST(InputEmbeddingTest, IdsThatAreNoneAreRefused) {
  const std::filesystem::path folder = GoldenFolder("clip-vision");
  Model vision(folder), text(GoldenFolder("clip-text"));
  vision.Show(std::make_shared<const Images>(folder / "expected.safetensors", vision.config()));
  const auto embed = [](Model& tower, int32_t id) {
    TokenBatch batch;
    batch.Add(0, std::vector<int32_t>{0, id});
    Embedded(tower, batch);
  };
  embed(vision, 48);  // three images of 16 patches
  EXPECT_THAT([&] { embed(vision, 49); }, ThrowsMessage<Error>(HasSubstr("token 1: got id 49, expected 0 to 48")));
  EXPECT_THAT([&] { embed(text, 61); }, ThrowsMessage<Error>(HasSubstr("token 1: got id 61, expected 0 to 60")));
  EXPECT_THAT([&] { embed(text, -1); }, ThrowsMessage<Error>(HasSubstr("got id -1")));
}

}  // namespace
}  // namespace tare
