// SPDX-License-Identifier: Apache-2.0
// Files of named f32 arrays, as another program would write them.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "quant/file/safetensors.h"

namespace tare {

struct TestArray {
  std::vector<int64_t> shape;
  std::vector<float> values;
};

inline void PutArrays(const std::filesystem::path& path, const std::map<std::string, TestArray>& arrays) {
  std::vector<TensorView> views;
  for (const auto& [name, array] : arrays)
    views.push_back({name, DType::kF32, array.shape, std::as_bytes(std::span(array.values))});
  WriteSafetensors(path, views);
}

// Different values of both signs.
inline TestArray SomeArray(const std::vector<int64_t>& shape, float scale = 1.0f) {
  TestArray array{shape, std::vector<float>(static_cast<size_t>(*ElementCount(shape)))};
  for (size_t i = 0; i < array.values.size(); ++i)
    array.values[i] = scale * static_cast<float>(static_cast<int>(i * 37 % 101) - 50) / 16.0f;
  return array;
}

}  // namespace tare
