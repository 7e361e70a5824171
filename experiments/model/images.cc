// SPDX-License-Identifier: Apache-2.0
#include "experiments/model/images.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "quant/base/error.h"

namespace tare {
namespace {

constexpr int64_t kColors = 3;

ArrayInfo FindImages(const ArrayFile& file, const ModelConfig& c, const std::string& where) {
  const std::vector<ArrayInfo> arrays = file.arrays();
  const auto found = std::ranges::find(arrays, "images", &ArrayInfo::name);
  if (found == arrays.end())
    Fail("{}: missing; expected an array of shape [N, {}, {}, {}]", where, kColors, c.image_size, c.image_size);
  const std::vector<int64_t>& shape = found->shape;
  if (shape.size() != 4 || shape[0] < 1 || shape[1] != kColors || shape[2] != c.image_size || shape[3] != c.image_size)
    Fail("{}: got shape {}, expected [N, {}, {}, {}] (image_size in config.json)", where, ShapeText(shape), kColors,
         c.image_size, c.image_size);
  if (shape[0] > (std::numeric_limits<int32_t>::max() - 1) / c.Patches())
    Fail("{}: got {} images, expected at most {}; try parts", where, shape[0],
         (std::numeric_limits<int32_t>::max() - 1) / c.Patches());
  return *found;
}

}  // namespace

Images::Images(const std::filesystem::path& file, const ModelConfig& c)
    : where_(file.string() + ": images"),
      file_(ArrayFile::Open(file)),
      array_(FindImages(*file_, c, where_)),
      pixels_(file_->Values(array_)),
      count_(array_.shape[0]),
      side_(c.image_size),
      patch_(c.patch_size),
      patches_(c.Patches()) {}

std::vector<int32_t> Images::Sequence(int64_t image) const {
  std::vector<int32_t> ids{0};
  for (int64_t p = 0; p < patches_; ++p) ids.push_back(static_cast<int32_t>(1 + image * patches_ + p));
  return ids;
}

void Images::ReadPatch(int64_t id, float* values) const {
  const int64_t image = (id - 1) / patches_, patch = (id - 1) % patches_, in_row = side_ / patch_;
  const int64_t corner = patch / in_row * patch_ * side_ + patch % in_row * patch_;
  for (int64_t color = 0; color < kColors; ++color) {
    for (int64_t y = 0; y < patch_; ++y) {
      float* const row = values + (color * patch_ + y) * patch_;
      pixels_.Read(((image * kColors + color) * side_ + y) * side_ + corner, 1, patch_, row);
      if (!std::all_of(row, row + patch_, [](float x) { return std::isfinite(x); }))
        Fail("{}: image {}: NaN or infinity; expected finite pixels", where_, image);
    }
  }
}

}  // namespace tare
