// SPDX-License-Identifier: Apache-2.0
// The units of attention's work and their memory: blocks of query rows of one output head, against tiles of 64 keys.
// Says which tiles a block needs, which keys each row sees, and in which order a tile has its keys.
//
// One call's memory is the caller's: shared by threads, then a scratch each. Layouts take pieces from an arena,
//
//   Packed TakePacked(Arena&) const      K and V of all heads, as the products read them
//   Scratch TakeScratch(Arena&) const    what one thread works with: a list of pieces, each declared where it is taken
//
// and an arena from base 0 only counts, so that one function gives both size and layout.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numbers>
#include <span>

#include "kernels/attention/heads.h"
#include "quant/base/integers.h"
#include "quant/base/message.h"
#include "quant/base/parallel.h"

namespace tare {

inline constexpr int kTile = 64;     // keys of a tile, and columns of V in a product
inline constexpr int kRowStep = 16;  // rows of a block are a multiple of this, computed sixteen at a time
inline constexpr int kLargestRows = 64;

// Rows of a block where nothing asks for fewer.
int RowsFor(int64_t queries);

struct RowBlock {
  int head = 0;       // output head
  int64_t first = 0;  // query row
  int count = 0;      // rows that exist
  int64_t begin_tile = 0;
  int64_t end_tile = 0;  // == begin_tile: the rows see nothing
};

// Block `index` of all, row_blocks per output head, last rows first: they see most keys, so the last blocks are short.
RowBlock BlockOfRows(const AttentionProblem& problem, int rows, int64_t row_blocks, int64_t index);

// Writes `rows` rows' visible keys begin[r] .. end[r] - 1, none past the last row; false, unwritten, if all see all 64.
bool MaskTile(const AttentionProblem& problem, const RowBlock& block, int rows, int64_t tile, int32_t* begin,
              int32_t* end);

// lambda [rows] of a block's rows; 0 for those that do not exist, and for a head with one map.
void LoadLambda(const AttentionProblem& problem, const RowBlock& block, int rows, float* lambda);

// The output of rows that see nothing.
void WriteZeros(const AttentionProblem& problem, const RowBlock& block);

// A map's lse of a block's rows, from each tile's maximum, in `unit`ths of an octave, and its sum of exponentials,
// where `one` is the maximum's own: both [tiles][rows].
template <typename Sum>
void WriteTilesLse(const AttentionProblem& problem, const RowBlock& block, int map, int rows, int tiles,
                   const float* max, const Sum* sums, double unit, double one) {
  if (problem.lse.data == nullptr) return;
  for (int r = 0; r < block.count; ++r) {
    double largest = -std::numeric_limits<double>::infinity(), sum = 0;
    for (int i = r; i < tiles * rows; i += rows) largest = std::max(largest, double{max[i]});
    for (int i = r; i < tiles * rows; i += rows) sum += std::exp2((max[i] - largest) / unit) * sums[i] / one;
    WriteLse(problem, block.first + r, block.head, map, (largest / unit + std::log2(sum)) * std::numbers::ln2);
  }
}

// The order of a tile's 64 keys between the two products of the integer kernels. x86 packs two vectors of 32 bits into
// one of 16, and those into bytes, within each 128 bits, in one instruction each; a pack that keeps the order takes
// three. So the tile of K has its keys in the order that two such packs undo:
//
//   product of Q and K    column 16 w + 4 b + i     is key 16 b + 4 w + i       b, w, i of 0 to 3
//   exponentials          place 32 (w / 2) + 8 b + 4 (w mod 2) + i
//   codes, V              place 16 b + 4 w + i      the key itself

// The order is its own inverse: groups of four keys transposed. Four keys from a multiple of 4 on stay neighbours.
constexpr int ColumnOfKey(int key) { return key / 4 % 4 * 16 + key / 16 * 4 + key % 4; }
constexpr int KeyOfColumn(int column) { return ColumnOfKey(column); }

constexpr int KeyOfExp(int place) { return place / 8 % 4 * 16 + (place / 32 * 2 + place / 4 % 2) * 4 + place % 4; }
constexpr int ExpOfKey(int key) { return key / 8 % 2 * 32 + key / 16 * 8 + key / 4 % 2 * 4 + key % 4; }

// KeyOfColumn and KeyOfExp as tables, which vectors load.
template <typename T>
constexpr std::array<T, kTile> InOrder(int (*key_of)(int)) {
  std::array<T, kTile> keys{};
  for (int i = 0; i < kTile; ++i) keys[static_cast<size_t>(i)] = static_cast<T>(key_of(i));
  return keys;
}
alignas(64) inline constexpr std::array<int32_t, kTile> kColumnKeys = InOrder<int32_t>(KeyOfColumn);
alignas(64) inline constexpr std::array<uint8_t, kTile> kExpKeys = InOrder<uint8_t>(KeyOfExp);

// What a first pass over a row's keys keeps for the second, per thread; leaves room for the rest in 4 MiB.
inline constexpr int64_t kMostKept = int64_t{3} << 20;

// Hands out pieces on 64-byte boundaries.
class Arena {
 public:
  explicit Arena(uintptr_t base) : base_(base) {}

  template <typename T>
  T* Take(int64_t count) {
    T* piece = reinterpret_cast<T*>(base_ + used_);
    used_ += (static_cast<uintptr_t>(count) * sizeof(T) + 63) / 64 * 64;
    return piece;
  }
  size_t used() const { return used_; }
  uintptr_t end() const { return base_ + used_; }

 private:
  uintptr_t base_;
  uintptr_t used_ = 0;
};

template <class Layout>
size_t BytesOf(const Layout& layout) {
  Arena arena(0);
  layout.TakePacked(arena);
  for (int thread = 0; thread < Threads(); ++thread) layout.TakeScratch(arena);
  return arena.used();
}

template <class Layout>
class Workspace {
 public:
  // Throws Error for memory that is too small or off the 64-byte boundary.
  Workspace(const Layout& layout, std::span<std::byte> memory)
      : layout_(layout), base_(reinterpret_cast<uintptr_t>(memory.data())), packed_(base_), one_(0) {
    if (base_ % 64 != 0) Fail("attention workspace: got a pointer off the 64-byte boundary");
    if (const size_t bytes = BytesOf(layout); memory.size() < bytes)
      Fail("attention workspace: got {} bytes, expected {}", memory.size(), bytes);
    layout.TakePacked(packed_);
    layout.TakeScratch(one_);
  }

  auto Packed() const {
    Arena arena(base_);
    return layout_.TakePacked(arena);
  }
  auto Scratch(int thread) const {
    Arena arena(packed_.end() + static_cast<uintptr_t>(thread) * one_.used());
    return layout_.TakeScratch(arena);
  }

 private:
  const Layout& layout_;
  uintptr_t base_;
  Arena packed_, one_;  // used up: where scratches begin, and how large each is
};

}  // namespace tare
