// SPDX-License-Identifier: Apache-2.0
// What another program predicted for the tokens of a text, in one of two files; either is mapped, and read by rows.
//
// safetensors: logits [windows, T, V] or [T, V], f32, f16 or bf16, and input_ids [windows, T] or [T], the tokens. As in
// transformers, the logits at position t predict token t + 1; those of a window's last position are not used.
//
// llama.cpp's base file (llama-perplexity --kl-divergence-base), little-endian:
//
//   "_logits_", i32 T, i32 V, i32 windows, i32 tokens[windows][T]
//   per window T - 1 - T/2 rows for positions T/2 to T - 2, each of 2 ceil(V/2) + 4 u16:
//   f32 scale, f32 lowest, u16 code[V], padding        ln p(i) = scale code[i] + lowest, within scale / 2 <= 1.23e-4
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "quant/file/dtype.h"
#include "quant/file/mapped_file.h"

namespace tare {

struct Prediction {
  std::vector<float> values;
  size_t top = 0;  // the first of the largest logits, or codes
  double total = 0;

  double LogP(size_t i) const { return double{values[i]} - total; }  // nats
};

struct Predictions {
  int64_t windows = 1, positions = 0, vocabulary = 0;
  int64_t first = 0;            // the first position of a window that has a row; positions - 2 is the last
  std::vector<int32_t> tokens;  // [windows, positions], 0 to vocabulary - 1
  // ln p that are no larger stand for what is smaller (code 0): llama.cpp's divergences leave them out.
  double floor = -std::numeric_limits<double>::infinity();

  std::shared_ptr<const MappedFile> file;
  std::span<const std::byte> rows;  // [windows, of_window, row_bytes]
  int64_t of_window = 0, row_bytes = 0;
  DType dtype = DType::kU16;  // codes, after their scale; or logits

  // The row that predicts the token after `position`. Throws Error, naming it, if its p do not sum to 1. A base file's
  // sum may be off by 1.2e-4 of itself and by V e^-16, 0.02 of 200,000 tokens.
  Prediction Read(int64_t window, int64_t position) const;
  std::string Name() const { return file->path().string(); }
  void Release() const { file->Release(file->bytes()); }  // the memory of what was read
};

// Throws Error, naming the file, where its sizes, tokens or types are not those above.
Predictions OpenPredictions(const std::filesystem::path& path);

}  // namespace tare
