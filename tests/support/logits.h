// SPDX-License-Identifier: Apache-2.0
// Vocabulary logits of whole batches, and the token rows of the golden checkpoints.
#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

#include "experiments/model/model.h"
#include "tests/support/golden.h"

namespace tare {

// [rows of the batch, V]
inline std::vector<float> LogitsOf(Model& model, const TokenBatch& batch, SiteVisitors visitors = {}) {
  model.Forward(batch, visitors);
  std::vector<int64_t> rows(static_cast<size_t>(batch.Rows()));
  std::iota(rows.begin(), rows.end(), 0);
  const int64_t V = model.config().vocabulary;
  std::vector<float> logits(rows.size() * static_cast<size_t>(V));
  model.VocabularyLogits(rows, [&](size_t i, const float* row, int) {
    std::copy_n(row, V, logits.begin() + static_cast<int64_t>(i) * V);
  });
  return logits;
}

// The rows of input_ids [2, T].
inline std::vector<std::vector<int32_t>> GoldenRows(const std::string& name) {
  const Safetensors file(GoldenFolder(name) / "expected.safetensors");
  const auto ids = ValuesOf<int64_t>(file, "input_ids");
  const int64_t T = file.Find("input_ids")->shape[1];
  std::vector<std::vector<int32_t>> rows;
  for (auto row = ids.begin(); row != ids.end(); row += T) rows.emplace_back(row, row + T);
  return rows;
}

inline TokenBatch GoldenBatch(const std::string& name) {
  TokenBatch batch;
  int64_t index = 0;
  for (const std::vector<int32_t>& row : GoldenRows(name)) batch.Add(index++, row);
  return batch;
}

}  // namespace tare
