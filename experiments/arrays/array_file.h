// SPDX-License-Identifier: Apache-2.0
// Arrays of other programs: safetensors, HDF5 (any dataset, contiguous, deflated or shuffled), npz (also compressed)
// and npy. Values become f32 as they are read; mapped data is not copied. Predictions: predictions.cc.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "quant/file/atomic_file.h"
#include "quant/file/dtype.h"
#include "quant/file/mapped_file.h"
#include "quant/file/sha256.h"

namespace tare {

struct ArrayInfo {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<int64_t> shape;
};

bool IsInteger(DType dtype);

// The values of one array in row-major order.
class ArrayValues {
 public:
  // In a mapped file, which must outlive it.
  ArrayValues(DType dtype, std::span<const std::byte> mapped) : dtype_(dtype), bytes_(mapped) {}
  ArrayValues(DType dtype, std::vector<std::byte> owned) : dtype_(dtype), owned_(std::move(owned)), bytes_(owned_) {}
  ArrayValues(ArrayValues&&) = default;

  // out[i] = value first + i * stride, i below count, in the array, as f32. Throws Error for finite F64 beyond f32.
  void Read(int64_t first, int64_t stride, int64_t count, float* out) const;
  int64_t Integer(int64_t index) const;  // only for arrays of integers

 private:
  friend class ArrayFile;
  std::string where_;  // of messages
  DType dtype_;
  std::vector<std::byte> owned_;
  std::span<const std::byte> bytes_;
};

class ArrayFile {
 public:
  // By extension: .safetensors, .h5, .hdf5, .npz, .npy (one array of its name). Throws Error naming file and array.
  static std::unique_ptr<ArrayFile> Open(const std::filesystem::path& path);

  // arrays: in the order of names. load, of some rows or all values, has what keeps the file open.
  using Load = std::function<ArrayValues(const ArrayInfo&, std::optional<RowRange>)>;
  ArrayFile(std::filesystem::path path, std::vector<ArrayInfo> arrays, Load load)
      : path_(std::move(path)), arrays_(std::move(arrays)), load_(std::move(load)) {}

  const std::filesystem::path& path() const { return path_; }
  const std::vector<ArrayInfo>& arrays() const { return arrays_; }  // sorted by name
  const ArrayInfo* Find(std::string_view name) const;               // null if there is none
  // Throws Error for unsupported types: f8, narrower, complex. rows: only these, copied, with one index on the axes
  // before the last two; earlier ones inflate a .npz again. One thread at a time; not for arrays in memory.
  ArrayValues Values(const ArrayInfo& array, std::optional<RowRange> rows = {}) const;

 private:
  std::filesystem::path path_;
  std::vector<ArrayInfo> arrays_;
  Load load_;
};

// The values of an array in a mapped file: all of them in place, or a copy of rows, whose pages are given back.
ArrayValues MappedValues(const MappedFile& file, const ArrayInfo& array, std::span<const std::byte> bytes,
                         std::optional<RowRange> rows);

// numpy's .npz: a ZIP of .npy (numpy.lib.format 1 to 3), stored or deflated. Without Python objects, so no code runs.
std::unique_ptr<ArrayFile> OpenNpz(const std::filesystem::path& path);
std::unique_ptr<ArrayFile> OpenNpy(const std::filesystem::path& path);

// Arrays in memory, which must outlive it, as an array file. name: used in messages instead of a path.
std::unique_ptr<ArrayFile> ArraysInMemory(const std::string& name,
                                          const std::vector<std::pair<ArrayInfo, std::span<const std::byte>>>& arrays);

// Identifies captured arrays: equal names, shapes and f32 values give an equal digest, whatever file and type store
// them. SHA-256 takes four 64-bit sums per 4096 values, h = (rotate(h, 29) + two values) * odd constant: a tenth of the
// time. They collide by chance once in 2^64 but can be forged: the digest tells runs apart, it does not protect them.
void AddArray(Sha256& sha, const ArrayInfo& array, const ArrayValues& values);

// What another program predicted for the tokens of a text, read by rows. A file of arrays has
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
  // Row i, from any thread. Throws Error, naming it, unless its p sum to 1, in base files within 1.2e-4 and V e^-16.
  Prediction Read(const ArrayValues& rows, int64_t i, int64_t window, int64_t position) const;
  std::string Name() const { return file->path().string(); }
};

// Throws Error, naming the file, for other sizes, tokens or types. window: of a text; 0: the reference's, or all.
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
