// SPDX-License-Identifier: Apache-2.0
// Pillow's filter, the natural order of names, and the images of a folder.
#include "experiments/arrays/image_folder.h"

#include <algorithm>
#include <cmath>

#include "quant/base/message.h"
#include "quant/file/sha256.h"

namespace tare {
namespace {

namespace fs = std::filesystem;

// ---- Preparation

constexpr int kBits = 22;  // of a weight's fraction

double Cubic(double x) {
  constexpr double a = -0.5;
  if (x < 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  return x < 2 ? (((x - 5) * x + 8) * x - 4) * a : 0;
}

// The weights of an output's taps, and the first tap.
std::vector<int32_t> WeightsOf(int64_t output, int64_t in, int64_t out, int64_t& first) {
  const double scale = static_cast<double>(in) / static_cast<double>(out), width = std::max(scale, 1.0);
  const double centre = (static_cast<double>(output) + 0.5) * scale;
  const auto place = [&](double x) { return std::clamp(static_cast<int64_t>(x + 0.5), int64_t{0}, in); };
  first = place(centre - 2 * width);
  std::vector<double> exact(static_cast<size_t>(place(centre + 2 * width) - first));
  double sum = 0, tap = static_cast<double>(first);
  for (double& weight : exact) sum += weight = Cubic(std::abs((tap++ - centre + 0.5) * (1 / width)));
  std::vector<int32_t> weights;
  for (const double weight : exact)
    weights.push_back(static_cast<int32_t>(weight / sum * (1 << kBits) + (weight / sum < 0 ? -0.5 : 0.5)));
  return weights;
}

// Rows [rows][in][3] become the middle of `out` pixels, transposed: [side][rows][3]. Sums stay below 1.25 * 255 * 2^22.
std::vector<uint8_t> ResizeRows(const std::vector<uint8_t>& pixels, int64_t in, int64_t out, int64_t side) {
  const int64_t rows = std::ssize(pixels) / 3 / in;
  const auto before = static_cast<int64_t>(std::nearbyint(static_cast<double>(out - side) / 2));
  std::vector<uint8_t> resized(static_cast<size_t>(side * rows * 3));
  uint8_t* to = resized.data();
  for (int64_t i = 0; i < side; ++i) {
    int64_t first = 0;
    const std::vector<int32_t> weights = WeightsOf(before + i, in, out, first);
    for (int64_t row = 0; row < rows; ++row) {
      const uint8_t* from = pixels.data() + (row * in + first) * 3;
      int32_t sums[3] = {1 << (kBits - 1), 1 << (kBits - 1), 1 << (kBits - 1)};
      for (const int32_t weight : weights) {
        for (int32_t& sum : sums) sum += weight * *from++;
      }
      for (const int32_t sum : sums) *to++ = static_cast<uint8_t>(std::clamp(sum >> kBits, 0, 255));
    }
  }
  return resized;
}

// ---- Names

// Keys compare as timm's: numbers of up to 64 digits by value, between texts, which end before all that goes on.
std::string NaturalKey(std::string_view name) {
  std::string key;
  for (size_t i = 0; i < name.size();) {
    const size_t end = std::min(name.find_first_not_of("0123456789", i), name.size());
    if (end == i) {
      const char c = name[i++];
      key += c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
      continue;
    }
    key += Formatted("{}{:0>64}", '\0', name.substr(i, end - i));
    i = end;
  }
  return key;
}

bool IsImage(const fs::path& path) {
  const std::string ending = NaturalKey(path.extension().string());
  return ending == ".png" || ending == ".jpg" || ending == ".jpeg";
}

}  // namespace

std::vector<std::byte> MiddleOf(const Picture& picture, int64_t shorter, int64_t side, const std::string& where) {
  const auto [least, most] = std::minmax(picture.width, picture.height);
  const double longer = static_cast<double>(shorter * most) / static_cast<double>(least);
  if (longer * static_cast<double>(shorter) > kMostPixels)
    Fail("{}: got {} x {} pixels, expected sides of similar lengths; try cropping it", where, picture.width,
         picture.height);
  const auto resized = [&](int64_t length) { return length == least ? shorter : static_cast<int64_t>(longer); };
  const std::vector<uint8_t> columns = ResizeRows(picture.rgb, picture.width, resized(picture.width), side);
  const std::vector<uint8_t> rgb = ResizeRows(columns, picture.height, resized(picture.height), side);
  std::vector<std::byte> planes(rgb.size());
  for (size_t i = 0; i < rgb.size(); ++i) planes[i % 3 * (rgb.size() / 3) + i / 3] = std::byte{rgb[i]};
  return planes;
}

std::vector<ImageFile> FindImages(const fs::path& folder) {
  std::vector<ImageFile> classes, images;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    if (entry.is_directory()) {
      classes.push_back({NaturalKey(entry.path().filename().string()), entry.path()});
    } else if (IsImage(entry.path())) {
      Fail("{}: got an image without a class, expected a folder for each class", entry.path().string());
    }
  }
  std::ranges::sort(classes);
  for (int64_t label = 0; const ImageFile& of_class : classes) {
    if (fs::is_empty(of_class.path)) Fail("{}: got no images, expected some of each class", of_class.path.string());
    for (const fs::directory_entry& entry : fs::directory_iterator(of_class.path)) {
      if (!entry.is_regular_file() || !IsImage(entry.path()))
        Fail("{}: got something else among images, expected .png, .jpg or .jpeg; try another place for it",
             entry.path().string());
      images.push_back({NaturalKey(entry.path().lexically_relative(folder).string()), entry.path(), label});
    }
    ++label;
  }
  if (images.empty()) Fail("{}: got no folders, expected one for each class, with its images", folder.string());
  std::ranges::sort(images);
  return images;
}

std::string Sha256OfInput(const fs::path& input) {
  if (!fs::is_directory(input)) return Sha256OfFile(input);
  std::string lines;
  for (const ImageFile& image : FindImages(input))
    lines += Formatted("{}  {}\n", Sha256OfFile(image.path), image.path.lexically_relative(input).string());
  return Sha256OfText(lines);
}

}  // namespace tare
