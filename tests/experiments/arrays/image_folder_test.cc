// SPDX-License-Identifier: Apache-2.0
// Images against timm's transform, bit for bit (tests/data/images); timm's order of a folder; and folders and sizes
// that are refused by name.
#include "experiments/arrays/image_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "quant/base/message.h"
#include "quant/file/json.h"
#include "quant/file/sha256.h"
#include "tests/quant/file/temporary_folder.h"
#include "tests/support/call.h"
#include "tests/support/golden.h"

namespace tare::image_folder_test {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

const fs::path kData = fs::path(TARE_SOURCE_DIR) / "tests/data/images";

// The planes as [S,S,3].
std::vector<uint8_t> Interleaved(const std::vector<std::byte>& planes) {
  std::vector<uint8_t> rgb(planes.size());
  for (size_t i = 0; i < rgb.size(); ++i) rgb[i] = std::to_integer<uint8_t>(planes[i % 3 * (rgb.size() / 3) + i / 3]);
  return rgb;
}

std::vector<int64_t> LabelsOf(const std::vector<ImageFile>& images) {
  std::vector<int64_t> labels;
  for (const ImageFile& image : images) labels.push_back(image.label);
  return labels;
}

class ImageFolderTest : public testing::Test {
 protected:
  // The folder with the files CLASS/NAME, empty ones.
  fs::path Folder(const std::vector<std::string>& files) {
    for (const std::string& file : files) {
      fs::create_directories((folder_ / "f" / file).parent_path());
      PutFile(folder_ / "f" / file, "");
    }
    return folder_ / "f";
  }
  TemporaryFolder folder_;
};

TEST(MiddleOfTest, PixelsAreTimms) {
  const Safetensors expected(kData / "expected.safetensors");
  for (const std::string name : {"long", "odd", "same", "small", "tall", "wide"}) {
    const TensorView& input = *expected.Find(name + ".input");
    const Picture picture{
        .width = input.shape[1], .height = input.shape[0], .rgb = ValuesOf<uint8_t>(expected, name + ".input")};
    for (const int side : {20, 24, 32}) {
      EXPECT_EQ(Interleaved(MiddleOf(picture, static_cast<int64_t>(side / 0.95), side, "x")),
                ValuesOf<uint8_t>(expected, Formatted("{}.{}.cropped", name, side)))
          << name << " " << side;
    }
  }
}

TEST(MiddleOfTest, AStripIsRefused) {
  const Picture strip{.width = 1, .height = 30'000, .rgb = std::vector<uint8_t>(90'000)};
  EXPECT_THAT(Call([&] { (void)MiddleOf(strip, 269, 256, "x.png"); }),
              ThrowsMessage<Error>(HasSubstr("x.png: got 1 x 30000 pixels, expected sides of similar lengths")));
}

TEST_F(ImageFolderTest, OrderClassesAndPixelsAreTimms) {
  const std::vector<ImageFile> folder = FindImages(kData / "folder");
  const Json order = ParseOrderedJson(GetFile(kData / "folder.json"), "")["order"];
  const Safetensors expected(kData / "expected.safetensors");
  const std::vector<float> pixels = ValuesOf<float>(expected, "folder.images");
  EXPECT_EQ(LabelsOf(folder), ValuesOf<int64_t>(expected, "folder.labels"));
  ASSERT_EQ(folder.size(), order.size());
  for (size_t i = 0; i < order.size(); ++i) {
    EXPECT_EQ(folder[i].path, kData / "folder" / order[i].get<std::string>());
    const std::vector<std::byte> planes = MiddleOf(DecodeImage(folder[i].path), 25, 24, "x");
    ASSERT_EQ(planes.size(), pixels.size() / order.size());
    for (size_t p = 0; p < planes.size(); ++p)
      ASSERT_EQ(std::to_integer<int>(planes[p]), std::lround((pixels[i * planes.size() + p] * 0.5f + 0.5f) * 255.0f));
  }
}

TEST_F(ImageFolderTest, NamesAreInNaturalOrder) {
  const std::vector<ImageFile> folder =
      FindImages(Folder({"b/A10.png", "b/a9.JPG", "b/a010.png", "x2-y/1.png", "x2/1.png", "X010/1.jpeg", "x10/1.png",
                         "x9/123456789012345678901.png", "x9/99999999999999999999.png"}));
  std::vector<std::string> names;
  for (const ImageFile& image : folder) names.push_back(fs::relative(image.path, folder_ / "f").string());
  EXPECT_THAT(
      names, ElementsAre("b/a9.JPG", "b/A10.png", "b/a010.png", "x2-y/1.png", "x2/1.png", "x9/99999999999999999999.png",
                         "x9/123456789012345678901.png", "X010/1.jpeg", "x10/1.png"));
  EXPECT_THAT(LabelsOf(folder), ElementsAre(0, 0, 0, 2, 1, 3, 3, 4, 5));  // x2 before x2-y, but x2-y/ before x2/
}

TEST_F(ImageFolderTest, OtherFoldersAreRefused) {
  const auto refused = [&](const std::string& message) {
    EXPECT_THAT(Call([&] { (void)FindImages(folder_ / "f"); }), ThrowsMessage<Error>(HasSubstr(message)));
  };
  fs::create_directory(folder_ / "f");
  refused("f: got no folders, expected one for each class");
  fs::create_directory(folder_ / "f/c");
  refused("f/c: got no images");
  PutFile(folder_ / "f/c/x.webp", "");
  refused("f/c/x.webp: got something else among images, expected .png, .jpg or .jpeg");
  fs::remove(folder_ / "f/c/x.webp");
  Folder({"c/deep/x.png"});
  refused("f/c/deep: got something else among images");
  Folder({"x.png"});
  refused("f/x.png: got an image without a class");
}

TEST_F(ImageFolderTest, TheHashIsOfNamesAndBytes) {
  const fs::path folder = Folder({"b/1.png", "a/1.png", "notes.txt"});
  const std::string empty = Sha256OfText(""), lines = empty + "  a/1.png\n" + empty + "  b/1.png\n";
  EXPECT_EQ(Sha256OfInput(folder), Sha256OfText(lines));
  EXPECT_EQ(Sha256OfInput(folder / "notes.txt"), empty);
  PutFile(folder / "a/1.png", "x");
  EXPECT_NE(Sha256OfInput(folder), Sha256OfText(lines));
}

}  // namespace
}  // namespace tare::image_folder_test
