// SPDX-License-Identifier: Apache-2.0
// Files of token ids.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

#include "quant/file/safetensors.h"

namespace tare {

inline void PutIds(const std::filesystem::path& path, int64_t rows, const std::vector<int64_t>& ids) {
  WriteSafetensors(path, {{"input_ids", DType::kI64, {rows, std::ssize(ids) / rows}, std::as_bytes(std::span(ids))}});
}

// Ids [rows, length] below 91, which every golden checkpoint's vocabulary has.
inline void PutManyIds(const std::filesystem::path& path, int64_t rows, int64_t length) {
  std::vector<int64_t> ids(static_cast<size_t>(rows * length));
  for (size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<int64_t>(i * i % 91);
  PutIds(path, rows, ids);
}

}  // namespace tare
