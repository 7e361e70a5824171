// SPDX-License-Identifier: Apache-2.0
// The table of e8p's entries, the entry nearest to a vector, a code's point, a point's code, and the nearest point.
#include "quant/format/grid.h"

namespace tare {
namespace {

constexpr size_t kEntries = 256, kWidth = kLatticeWidth;
constexpr int kPatterns = 6561;  // 3^8: magnitudes 1/2, 3/2, 5/2 as digits

// The entries whose squares sum to 12, by the places of their three magnitudes of 1/2; the other five are 3/2.
constexpr uint8_t kHalves[29][3] = {
    {1, 2, 3}, {0, 2, 3}, {0, 1, 3}, {0, 1, 2}, {3, 6, 7}, {3, 5, 7}, {3, 4, 7}, {3, 5, 6}, {3, 4, 6}, {3, 4, 5},
    {2, 6, 7}, {2, 5, 7}, {2, 4, 7}, {2, 5, 6}, {2, 4, 6}, {2, 4, 5}, {1, 6, 7}, {1, 5, 7}, {1, 4, 7}, {1, 5, 6},
    {1, 4, 6}, {0, 4, 5}, {0, 6, 7}, {0, 5, 7}, {0, 4, 7}, {0, 5, 6}, {0, 4, 6}, {0, 1, 4}, {2, 3, 7}};

int PatternOf(const float* magnitudes) {
  int pattern = 0;
  for (size_t i = 0; i < kWidth; ++i) pattern = 3 * pattern + static_cast<int>(magnitudes[i] - 0.5f);
  return pattern;
}

struct Entries {
  std::array<float, kEntries * kWidth> rows;
  std::array<std::array<float, kEntries>, kWidth> columns;  // the rows turned, for loops over all entries
  std::array<float, kEntries> half_square;                  // half the sum of squares
  std::array<uint8_t, kEntries> odd;                        // whether the sum of magnitudes is
  std::array<int16_t, kPatterns> of_pattern;                // -1: none

  Entries() {
    size_t entry = 0;
    of_pattern.fill(-1);
    for (int pattern = 0; pattern < kPatterns; ++pattern) {  // in lexicographic order of the magnitudes
      std::array<float, kWidth> magnitudes{};
      float squares = 0;
      for (int rest = pattern, i = kWidth - 1; i >= 0; --i, rest /= 3) {
        magnitudes[static_cast<size_t>(i)] = static_cast<float>(rest % 3) + 0.5f;
        squares += magnitudes[static_cast<size_t>(i)] * magnitudes[static_cast<size_t>(i)];
      }
      if (squares <= 10) Put(entry++, magnitudes);
    }
    for (const auto& halves : kHalves) {
      std::array<float, kWidth> magnitudes;
      magnitudes.fill(1.5f);
      for (const uint8_t i : halves) magnitudes[i] = 0.5f;
      Put(entry++, magnitudes);
    }
  }

 private:
  void Put(size_t entry, const std::array<float, kWidth>& magnitudes) {
    float sum = 0, squares = 0;
    for (size_t i = 0; i < kWidth; ++i) {
      rows[entry * kWidth + i] = columns[i][entry] = magnitudes[i];
      sum += magnitudes[i];
      squares += magnitudes[i] * magnitudes[i];
    }
    half_square[entry] = squares / 2;
    odd[entry] = static_cast<uint8_t>(static_cast<int>(sum) % 2);
    of_pattern[static_cast<size_t>(PatternOf(magnitudes.data()))] = static_cast<int16_t>(entry);
  }
};

const Entries& All() {
  static const Entries entries;
  return entries;
}

struct Found {
  float score;  // half of |y|^2 - |y - p|^2: the largest is the nearest
  size_t entry;
};

// The entry whose best signs bring it nearest to y; sizes: |y|, negative: how many values of y are below 0. Signs are
// those of y where that makes the sum even, else the cheapest one is turned.
Found NearestEntry(const float* sizes, int negative) {
  const Entries& all = All();
  std::array<float, kEntries> product{}, least;
  least.fill(INFINITY);
  for (size_t i = 0; i < kWidth; ++i) {
    for (size_t e = 0; e < kEntries; ++e) {
      const float term = all.columns[i][e] * sizes[i];
      product[e] += term;
      least[e] = std::min(least[e], term);
    }
  }
  Found best{-INFINITY, 0};
  for (size_t e = 0; e < kEntries; ++e) {
    const bool turned = ((negative + all.odd[e]) & 1) != 0;
    const float score = product[e] - all.half_square[e] - (turned ? 2 * least[e] : 0.0f);
    if (score > best.score) best = {score, e};
  }
  return best;
}

}  // namespace

std::span<const float> LatticeMagnitudes() { return All().rows; }

void LatticePoint(uint16_t code, float* point) {
  const size_t entry = code & 255;
  const float* const magnitudes = &All().rows[entry * kWidth];
  int negative = 0;
  for (size_t i = 0; i + 1 < kWidth; ++i) negative += code >> (8 + i) & 1;
  const bool last = ((negative + All().odd[entry]) & 1) != 0;
  const float shift = (code & 0x8000) != 0 ? -0.25f : 0.25f;
  for (size_t i = 0; i < kWidth; ++i) {
    const bool minus = i + 1 < kWidth ? (code >> (8 + i) & 1) != 0 : last;
    point[i] = (minus ? -magnitudes[i] : magnitudes[i]) + shift;
  }
}

std::optional<uint16_t> LatticeCode(const float* point) {
  for (const bool below : {false, true}) {
    std::array<float, kWidth> magnitudes;
    int code = below ? 0x8000 : 0;
    bool fits = true;
    for (size_t i = 0; i < kWidth; ++i) {
      const float value = point[i] + (below ? 0.25f : -0.25f);
      magnitudes[i] = std::fabs(value);
      fits = fits && (magnitudes[i] == 0.5f || magnitudes[i] == 1.5f || magnitudes[i] == 2.5f);
      if (i + 1 < kWidth && value < 0) code |= 0x100 << i;
    }
    if (!fits) continue;
    const int entry = All().of_pattern[static_cast<size_t>(PatternOf(magnitudes.data()))];
    if (entry < 0) return std::nullopt;
    std::array<float, kWidth> back;
    LatticePoint(static_cast<uint16_t>(code | entry), back.data());
    if (back.back() == point[kWidth - 1]) return static_cast<uint16_t>(code | entry);
  }
  return std::nullopt;
}

void NearestLatticePoint(const float* x, float* point) {
  std::array<float, kWidth> sizes[2];
  Found found[2];
  float offset[2];  // half of |x|^2 - |y|^2, without x's own square
  for (size_t s = 0; s < 2; ++s) {
    const float shift = s == 0 ? 0.25f : -0.25f;
    int negative = 0;
    float sum = 0;
    for (size_t i = 0; i < kWidth; ++i) {
      const float y = x[i] - shift;
      sizes[s][i] = std::fabs(y);
      negative += y < 0 ? 1 : 0;
      sum += y * y;
    }
    offset[s] = -sum / 2;
    found[s] = NearestEntry(sizes[s].data(), negative);
  }
  const size_t s = found[1].score + offset[1] > found[0].score + offset[0] ? 1 : 0;
  const float shift = s == 0 ? 0.25f : -0.25f;
  const float* const magnitudes = &All().rows[found[s].entry * kWidth];
  int negative = 0;
  size_t cheapest = 0;
  for (size_t i = 0; i < kWidth; ++i) {
    const bool minus = x[i] - shift < 0;
    negative += minus ? 1 : 0;
    point[i] = (minus ? -magnitudes[i] : magnitudes[i]) + shift;
    if (magnitudes[i] * sizes[s][i] < magnitudes[cheapest] * sizes[s][cheapest]) cheapest = i;
  }
  if (((negative + All().odd[found[s].entry]) & 1) != 0) point[cheapest] = 2 * shift - point[cheapest];
}

}  // namespace tare
