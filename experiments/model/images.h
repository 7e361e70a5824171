// SPDX-License-Identifier: Apache-2.0
// Images as a vision tower reads them: the array `images` [N,3,S,S] of a file, each cut into patches of p x p pixels,
// row by row. To the rest of Tare a patch is a token: id 0 is the class token, image i has 1 + i P .. i P + P, P its
// patches, and a sequence is the class token and one image.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <vector>

#include "experiments/arrays/array_file.h"
#include "experiments/model/config.h"

namespace tare {

class Images {
 public:
  // Throws Error where the file has no `images` of the size that the tower takes.
  Images(const std::filesystem::path& file, const ModelConfig& config);

  int64_t size() const { return count_; }
  int64_t Ids() const { return 1 + count_ * patches_; }  // ids are below
  std::vector<int32_t> Sequence(int64_t image) const;    // of ids
  int64_t PatchValues() const { return 3 * patch_ * patch_; }
  // values [3][p][p] of the patch that an id above 0 is. Throws Error for NaN and infinities.
  void ReadPatch(int64_t id, float* values) const;

 private:
  std::string where_;
  std::unique_ptr<ArrayFile> file_;
  ArrayInfo array_;
  ArrayValues pixels_;
  int64_t count_ = 0, side_ = 0, patch_ = 0, patches_ = 0;
};

}  // namespace tare
