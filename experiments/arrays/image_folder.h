// SPDX-License-Identifier: Apache-2.0
// A folder of labelled images, FOLDER/CLASS/*.{png,jpg,jpeg}, numbered and prepared as timm's evaluation does it, bit
// for bit: RGB, the shorter side resized, then the middle S x S. Source: huggingface/pytorch-image-models 1.0.29.
//
// Resized by Pillow's bicubic filter: each row, rounded to 8 bits, then each column (up to version 12; 13 begins with
// the columns of tall images). Output i of an axis, of centre c = (i + 1/2) in / out and with h = max(1, in / out),
// sums the taps from int(c - 2h + 1/2) to int(c + 2h + 1/2) - 1. Their weights w((tap + 1/2 - c) / h) are divided by
// their sum, then rounded to 22 fractional bits; w is the cubic of a = -1/2.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace tare {

struct ImageFile {
  std::string key;  // of its order; equal ones ("01", "1") by their paths
  std::filesystem::path path;
  int64_t label = 0;
  auto operator<=>(const ImageFile&) const = default;
};

// The images in the natural order of names, as labels are: n02 < n10 < n01440764. Throws Error, naming it, for what is
// not a folder of classes that hold images and nothing else.
std::vector<ImageFile> FindImages(const std::filesystem::path& folder);
// The hash of a file's bytes, or of the lines "SHA-256  CLASS/NAME" of a folder's images.
std::string Sha256OfInput(const std::filesystem::path& input);

inline constexpr int64_t kMostPixels = int64_t{1} << 26;  // of an image, also when it is resized: twice a camera's

struct Picture {
  int64_t width = 0, height = 0;
  std::vector<uint8_t> rgb;  // [height][width][3]
};

// A PNG or JPEG: grey is repeated, alpha dropped, of 16 bits the high byte. Throws Error, naming the file, for one that
// is damaged or cut short, has more pixels, is grey of 16 bits, CMYK or animated.
Picture DecodeImage(const std::filesystem::path& file);
// [3][side][side] of a picture whose shorter side becomes `shorter`, at least `side`. Throws Error for many pixels.
std::vector<std::byte> MiddleOf(const Picture& picture, int64_t shorter, int64_t side, const std::string& where);

}  // namespace tare
