// SPDX-License-Identifier: Apache-2.0
// The first layer's input, against the golden towers' tensors in double: rows plus positions for the text tower; class
// row, patch product, positions and norm for the vision tower.
#include "experiments/model/model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <span>

#include "quant/base/message.h"
#include "quant/file/safetensors.h"
#include "tests/quant/file/temporary_folder.h"
#include "tests/support/call.h"
#include "tests/support/golden.h"

namespace tare::input_embedding_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

// Patches against the definition (image i, patch (r, c), color, y, x), in f32 and in the types that other programs
// store; files without such images.

class ImagesTest : public testing::Test {
 protected:
  std::filesystem::path File(const char* name, const std::vector<int64_t>& shape, const std::vector<float>& pixels) {
    WriteSafetensors(file_, {{name, DType::kF32, shape, std::as_bytes(std::span(pixels))}});
    return file_;
  }
  // Pixel i is i.
  static std::vector<float> Counted(size_t n) {
    std::vector<float> pixels(n);
    for (size_t i = 0; i < n; ++i) pixels[i] = static_cast<float>(i);
    return pixels;
  }
  TemporaryFolder folder_;
  std::filesystem::path file_ = folder_.path() / "images.safetensors";
  ModelConfig config_{.image_size = 6, .patch_size = 2};
};

TEST_F(ImagesTest, PatchesMatchTheConvolution) {
  const Images images(File("images", {3, 3, 6, 6}, Counted(3 * 3 * 36)), config_);
  EXPECT_EQ(images.size(), 3);
  EXPECT_EQ(images.Ids(), 1 + 3 * 9);
  EXPECT_EQ(images.PatchValues(), 12);
  for (int i = 0; i < 3; ++i) {
    const std::vector<int32_t> ids = images.Sequence(i);
    ASSERT_EQ(ids.size(), 10u);
    EXPECT_EQ(ids[0], 0);
    for (int p = 0; p < 9; ++p) {
      std::vector<float> patch(12), expected;
      images.ReadPatches({&ids[1 + p], 1}, patch.data());
      for (int color = 0; color < 3; ++color) {
        for (int y = 0; y < 2; ++y) {
          for (int x = 0; x < 2; ++x)
            expected.push_back(static_cast<float>(((i * 3 + color) * 6 + p / 3 * 2 + y) * 6 + p % 3 * 2 + x));
        }
      }
      EXPECT_EQ(patch, expected) << "image " << i << " patch " << p;
    }
  }
}

TEST_F(ImagesTest, OneImageOfOnePatch) {
  config_.patch_size = 6;
  const Images images(File("images", {1, 3, 6, 6}, Counted(108)), config_);
  EXPECT_THAT(images.Sequence(0), ElementsAre(0, 1));
  std::vector<float> patch(108);
  images.ReadPatches(std::array{1}, patch.data());
  EXPECT_EQ(patch, Counted(108));
}

TEST_F(ImagesTest, OtherFilesAreRefused) {
  const auto open = [&] { Images images(file_, config_); };
  File("pictures", {1, 3, 6, 6}, Counted(108));
  EXPECT_THAT(open, ThrowsMessage<Error>(HasSubstr("images: missing; expected an array of shape [N, 3, 6, 6]")));
  File("images", {1, 6, 6, 3}, Counted(108));
  EXPECT_THAT(open, ThrowsMessage<Error>(HasSubstr("got shape [1, 6, 6, 3], expected [N, 3, 6, 6]")));
  File("images", {3, 6, 6}, Counted(108));
  EXPECT_THAT(open, ThrowsMessage<Error>(HasSubstr("got shape [3, 6, 6]")));
  File("images", {0, 3, 6, 6}, {});
  EXPECT_THAT(open, ThrowsMessage<Error>(HasSubstr("got shape [0, 3, 6, 6]")));
}

TEST_F(ImagesTest, PixelsThatAreNotFiniteNameTheImage) {
  std::vector<float> pixels = Counted(2 * 108);
  pixels[108 + 5] = std::numeric_limits<float>::quiet_NaN();
  const Images images(File("images", {2, 3, 6, 6}, pixels), config_);
  std::vector<float> patch(12);
  images.ReadPatches(std::array{images.Sequence(0)[3]}, patch.data());
  EXPECT_THAT(Call([&] { images.ReadPatches(std::array{images.Sequence(1)[3]}, patch.data()); }),
              ThrowsMessage<Error>(HasSubstr("images: image 1: NaN or infinity")));
}

// What a model gives for the batch before its first layer.
std::vector<float> Embedded(Model& model, const TokenBatch& batch) {
  Stream stream;
  model.EmbedInto(batch, stream);
  return {stream.x.data(), stream.x.data() + stream.x.size()};
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
    if (t > 0) images->ReadPatches({&ids[t], 1}, patch.data());
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

TEST(InputEmbeddingTest, InvalidIdsAreRefused) {
  const std::filesystem::path folder = GoldenFolder("clip-vision");
  Model vision(folder), text(GoldenFolder("clip-text"));
  vision.Show(std::make_shared<const Images>(folder / "expected.safetensors", vision.config()));
  const auto embed = [](Model& tower, int32_t id) {
    TokenBatch batch;
    batch.Add(0, std::vector<int32_t>{0, id});
    Embedded(tower, batch);
  };
  embed(vision, 48);  // three images of 16 patches
  EXPECT_THAT(Call([&] { embed(vision, 49); }),
              ThrowsMessage<Error>(HasSubstr("token 1: got id 49, expected 0 to 48")));
  EXPECT_THAT(Call([&] { embed(text, 61); }), ThrowsMessage<Error>(HasSubstr("token 1: got id 61, expected 0 to 60")));
  EXPECT_THAT(Call([&] { embed(text, -1); }), ThrowsMessage<Error>(HasSubstr("got id -1")));
}

}  // namespace

}  // namespace tare::input_embedding_test
