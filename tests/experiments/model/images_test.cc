// SPDX-License-Identifier: Apache-2.0
// Patches against the definition (image i, patch (r, c), color, y, x), in f32 and as other programs store pixels; files
// that hold no such images.
#include "experiments/model/images.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <span>

#include "quant/base/error.h"
#include "quant/file/safetensors.h"
#include "tests/quant/file/temporary_folder.h"

namespace tare {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

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

TEST_F(ImagesTest, APatchIsWhatTheConvolutionSees) {
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
      images.ReadPatch(ids[1 + p], patch.data());
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
  images.ReadPatch(1, patch.data());
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

TEST_F(ImagesTest, PixelsThatAreNoNumberNameTheImage) {
  std::vector<float> pixels = Counted(2 * 108);
  pixels[108 + 5] = std::numeric_limits<float>::quiet_NaN();
  const Images images(File("images", {2, 3, 6, 6}, pixels), config_);
  std::vector<float> patch(12);
  images.ReadPatch(images.Sequence(0)[3], patch.data());
  EXPECT_THAT([&] { images.ReadPatch(images.Sequence(1)[3], patch.data()); },
              ThrowsMessage<Error>(HasSubstr("images: image 1: NaN or infinity")));
}

}  // namespace
}  // namespace tare
