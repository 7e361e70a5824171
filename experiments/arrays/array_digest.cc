// SPDX-License-Identifier: Apache-2.0
#include "experiments/arrays/array_digest.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "quant/base/formatted.h"
#include "quant/base/parallel.h"

namespace tare {
namespace {

constexpr int64_t kBlock = 4096;         // 16 KiB: stays in the first cache
constexpr size_t kLanes = 4, kWord = 2;  // values in a word
using Lanes = std::array<uint64_t, kLanes>;

// Values beyond the last are zeros: the shape tells how many there are.
Lanes DigestOf(std::span<const float> values) {
  constexpr uint64_t kOdd = 0x9e3779b97f4a7c15;  // 2^64 / golden ratio
  Lanes lanes{1, 2, 3, 4};
  const auto add = [&](const float* from) {
    Lanes words;
    std::memcpy(words.data(), from, sizeof words);
    for (size_t i = 0; i < kLanes; ++i) lanes[i] = (std::rotl(lanes[i], 29) + words[i]) * kOdd;
  };
  size_t i = 0;
  for (; i + kLanes * kWord <= values.size(); i += kLanes * kWord) add(&values[i]);
  if (i < values.size()) {
    std::array<float, kLanes * kWord> tail{};
    std::ranges::copy(values.subspan(i), tail.begin());
    add(tail.data());
  }
  return lanes;
}

}  // namespace

void AddArray(Sha256& sha, const ArrayInfo& array, const ArrayValues& values) {
  const std::string heading = Formatted("{} {}\n", array.name, ShapeText(array.shape));
  sha.Add(std::as_bytes(std::span(heading)));
  const int64_t count = ElementCount(array.shape).value();
  std::vector<Lanes> digests(static_cast<size_t>((count + kBlock - 1) / kBlock));
  ParallelFor(digests.size(), [&](size_t block, int) {
    const int64_t first = static_cast<int64_t>(block) * kBlock;
    std::array<float, kBlock> room;
    const auto part = std::span(room).first(static_cast<size_t>(std::min(kBlock, count - first)));
    values.Read(first, 1, std::ssize(part), part.data());
    digests[block] = DigestOf(part);
  });
  sha.Add(std::as_bytes(std::span(digests)));
}

}  // namespace tare
