// SPDX-License-Identifier: Apache-2.0
// The golden images and prompts of CLIP's towers as items of zero_shot and retrieval.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

#include "quant/file/safetensors.h"
#include "tests/support/golden.h"

namespace tare {

// Writes the items of both towers into one file, with these labels and the images `times` times.
inline void PutClipItems(const std::filesystem::path& path, const std::vector<int64_t>& labels, int64_t times = 1) {
  const Safetensors vision(GoldenFolder("clip-vision") / "expected.safetensors"),
      text(GoldenFolder("clip-text") / "expected.safetensors");
  TensorView images = *vision.Find("images"), prompts = *text.Find("input_ids");
  prompts.name = "prompts";
  std::vector<std::byte> bytes;
  for (int64_t i = 0; i < times; ++i) bytes.insert(bytes.end(), images.bytes.begin(), images.bytes.end());
  images.shape[0] *= times;
  images.bytes = bytes;
  WriteSafetensors(path,
                   {images, {"labels", DType::kI64, {std::ssize(labels)}, std::as_bytes(std::span(labels))}, prompts});
}

}  // namespace tare
