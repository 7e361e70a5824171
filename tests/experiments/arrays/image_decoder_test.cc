// SPDX-License-Identifier: Apache-2.0
// Images of every form against Pillow's pixels (tests/data/images), and files that are refused by name: whole ones, and
// the beginnings of those that are read.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "experiments/arrays/image_folder.h"
#include "quant/base/message.h"
#include "tests/quant/file/temporary_folder.h"
#include "tests/support/call.h"
#include "tests/support/golden.h"

namespace tare::image_decoder_test {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

const fs::path kData = fs::path(TARE_SOURCE_DIR) / "tests/data/images";

std::vector<fs::path> In(const fs::path& folder) {
  std::vector<fs::path> files;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) files.push_back(entry.path());
  return files;
}

TEST(DecodeImageTest, EveryFormIsPillowsRgb) {
  const Safetensors expected(kData / "forms.safetensors");
  for (const fs::path& file : In(kData / "forms")) {
    const Picture picture = DecodeImage(file);
    EXPECT_EQ(picture.width, 23);
    EXPECT_EQ(picture.height, 17);
    EXPECT_EQ(picture.rgb, ValuesOf<uint8_t>(expected, file.filename().string())) << file;
  }
}

TEST(DecodeImageTest, WhatIsNotReadIsNamed) {
  for (const auto& [name, problem] : std::map<std::string, std::string>{{"grey16.png", "grey of 16 bits"},
                                                                        {"animated.png", "animated"},
                                                                        {"large.png", "got 60000 x 60000 pixels"},
                                                                        {"cmyk.jpg", "CMYK"},
                                                                        {"scans.jpg", "too many scans"}}) {
    EXPECT_THAT(Call([&] { (void)DecodeImage(kData / "refused" / name); }),
                ThrowsMessage<Error>(AllOf(HasSubstr(name + ": "), HasSubstr(problem), HasSubstr("; try "))));
  }
  EXPECT_THAT(Call([] { (void)DecodeImage(kData / "README.md"); }),
              ThrowsMessage<Error>(HasSubstr("README.md: got another format, expected PNG or JPEG")));
}

TEST(DecodeImageTest, NoBeginningOfAFileIsRead) {
  const TemporaryFolder folder;
  for (const fs::path& file : In(kData / "forms")) {
    const std::string whole = GetFile(file), name = file.filename().string();
    const size_t tail = file.extension() == ".png" ? 16 : 0;  // a PNG's last chunks hold no pixels
    for (size_t size = 0; size + tail < whole.size(); size += 13) {
      PutFile(folder / name, whole.substr(0, size));
      EXPECT_THAT(Call([&] { (void)DecodeImage(folder / name); }), ThrowsMessage<Error>(HasSubstr(name + ": ")))
          << size;
    }
  }
}

}  // namespace
}  // namespace tare::image_decoder_test
