// SPDX-License-Identifier: Apache-2.0
// What another program predicted for the tokens of a text, read by rows. A file of arrays (array_file.h) has
//
//   logits       [windows, T, V], or [T, V] of one text, which is cut into windows; f32, f16, bf16 or f64
//   input_ids    [windows, T] or [T], the tokens; without them, those of the reference
//
// As in transformers, the logits at position t predict token t + 1; those of a window's last position are not used.
//
// llama.cpp's base file (llama-perplexity --kl-divergence-base), little-endian, as its perplexity.cpp rounds in f32:
//
//   "_logits_", i32 T, i32 V, i32 windows, i32 tokens[windows][T]
//   per window T - 1 - T/2 rows for positions T/2 to T - 2, each of 2 ceil(V/2) + 4 u16:
//   f32 scale, f32 lowest, u16 code[V], padding        ln p(i) = scale code[i] + lowest, within scale / 2 <= 1.23e-4
//
//   lo = max(least, largest - 16)    scale = (largest - lo) / 65535    lowest = lo - largest - ln sum exp(x - largest)
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "experiments/arrays/array_file.h"
#include "quant/file/atomic_file.h"

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

  std::shared_ptr<const ArrayFile> file;
  ArrayInfo array;        // of rows: logits; or u16, codes after their scale
  int64_t of_window = 0;  // rows

  // The rows that predict the tokens after `count` positions of a window. From one thread; in the order of the text.
  ArrayValues Rows(int64_t window, int64_t position, int64_t count) const;
  // Row i of these, from any thread. Throws Error, naming it, if its p do not sum to 1. A base file's sum may be off by
  // 1.2e-4 of itself and by V e^-16, 0.02 of 200,000 tokens.
  Prediction Read(const ArrayValues& rows, int64_t i, int64_t window, int64_t position) const;
  std::string Name() const { return file->path().string(); }
};

// Throws Error, naming the file, where its sizes, tokens or types are not those above. window: tokens of a text's
// windows; 0: as many as the reference has, else all.
Predictions OpenPredictions(const std::filesystem::path& path, int64_t window = 0,
                            const Predictions* reference = nullptr);

inline constexpr std::string_view kBaseMagic = "_logits_";
inline bool IsBaseFile(const std::filesystem::path& path) { return path.extension() == ".kld"; }  // by its name

struct BaseShape {
  int64_t positions = 0, vocabulary = 0, windows = 0;  // T, V

  static constexpr int64_t kHead = 20;  // bytes before the tokens
  int64_t First() const { return positions / 2; }
  int64_t Rows() const { return positions - 1 - First(); }  // of a window
  int64_t RowCodes() const { return (vocabulary + 1) / 2 * 2 + 4; }
  int64_t WindowBytes() const { return 4 * positions + 2 * Rows() * RowCodes(); }  // below 2^63
};

class BaseFileWriter {
 public:
  // tokens: [windows, positions], three positions or more.
  BaseFileWriter(const std::filesystem::path& path, BaseShape shape, std::span<const int64_t> tokens);
  // The logits [V] at a position of which the file has a row; from any thread. Throws Error for one that is not finite.
  void Write(int64_t window, int64_t position, std::span<const float> logits);
  void Commit() { file_.Commit(); }

 private:
  BaseShape shape_;
  AtomicFile file_;
};

}  // namespace tare
