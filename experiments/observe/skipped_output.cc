// SPDX-License-Identifier: Apache-2.0
#include "experiments/observe/full_observer.h"

#include <algorithm>
#include <cmath>

#include "kernels/elementwise/rows.h"

namespace tare {
namespace {

constexpr size_t kShares = kSparsityShares.size();

// Parts of the output by the smallest share that an entry is below; the last part is below none.
using Parts = std::array<std::vector<float>, kShares + 1>;

size_t PartOf(float magnitude, float largest) {
  size_t part = 0;
  while (part < kShares && magnitude >= static_cast<float>(kSparsityShares[part] * largest)) ++part;
  return part;
}

void AddKey(float weight, int64_t key, const ValueSlices& v, std::vector<float>& part) {
  for (int slice = 0; slice < v.Count(); ++slice) {
    const float* const x = v.slices[static_cast<size_t>(slice)] + key * v.width;
    float* const y = part.data() + slice * v.width;
    for (int i = 0; i < v.width; ++i) y[i] += weight * x[i];
  }
}

// ||parts 0 .. i|| / ||all parts|| for every share i; empty if one is not finite.
std::optional<std::array<double, kShares>> Errors(const Parts& parts) {
  std::array<double, kShares + 1> squares{};
  for (size_t i = 0; i < parts[0].size(); ++i) {
    double sum = 0.0;
    for (size_t part = 0; part <= kShares; ++part) {
      sum += parts[part][i];
      squares[part] += sum * sum;
    }
  }
  if (!std::ranges::all_of(squares, [](double x) { return std::isfinite(x); })) return std::nullopt;
  std::array<double, kShares> errors{};
  for (size_t i = 0; i < kShares && squares[kShares] > 0.0; ++i) errors[i] = std::sqrt(squares[i] / squares[kShares]);
  return errors;
}

}  // namespace

std::optional<SkippedOutput> MeasureSkipped(std::span<const float> row, const ValueSlices& v) {
  Parts entries, blocks;
  for (Parts* parts : {&entries, &blocks}) {
    for (std::vector<float>& part : *parts) part.assign(static_cast<size_t>(v.Count() * v.width), 0.0f);
  }
  const float largest = AbsMax(row.data(), row.size());
  for (size_t begin = 0; begin < row.size(); begin += kSparsityBlock) {
    const std::span<const float> block = row.subspan(begin, std::min<size_t>(kSparsityBlock, row.size() - begin));
    std::vector<float>& of_block = blocks[PartOf(AbsMax(block.data(), block.size()), largest)];
    for (size_t i = 0; i < block.size(); ++i) {
      const auto key = static_cast<int64_t>(begin + i);
      AddKey(block[i], key, v, entries[PartOf(std::fabs(block[i]), largest)]);
      AddKey(block[i], key, v, of_block);
    }
  }
  const auto of_entries = Errors(entries), of_blocks = Errors(blocks);
  if (!of_entries || !of_blocks) return std::nullopt;
  return SkippedOutput{*of_entries, *of_blocks};
}

bool ValueStore::Serves(Site site, std::optional<int> layer) const {
  if (!layer || static_cast<size_t>(*layer) >= heads_.size()) return false;
  const bool differential = heads_[static_cast<size_t>(*layer)].front().Differential();
  return site == (differential ? Site::kDifference : Site::kProbs);
}

void ValueStore::Keep(const SiteBlock& v) {
  Values values{.width = static_cast<int>(v.first_columns), .rows = {}};
  for (int64_t r = 0; r < v.rows; ++r) values.rows.insert(values.rows.end(), v.Row(r).begin(), v.Row(r).end());
  const std::lock_guard lock(mutex_);
  if (layer_ != v.layer) values_.clear();
  layer_ = v.layer;
  values_[{v.sequence, *v.head}] = std::move(values);
}

std::optional<ValueSlices> ValueStore::Find(const SiteBlock& map) const {
  if (!Serves(map.site, map.layer)) return std::nullopt;
  const std::lock_guard lock(mutex_);
  const OutputHead& head = heads_[static_cast<size_t>(*map.layer)][static_cast<size_t>(*map.head)];
  ValueSlices slices;
  for (int i = 0; i < head.VSlices(); ++i) {
    const auto found = values_.find({map.sequence, head.v[static_cast<size_t>(i)]});
    if (layer_ != map.layer || found == values_.end()) return std::nullopt;
    // A query sees no key beyond those that were shown.
    const int64_t keys = map.Columns(map.rows - 1);
    if (keys * found->second.width > std::ssize(found->second.rows)) return std::nullopt;
    slices.slices[static_cast<size_t>(i)] = found->second.rows.data();
    slices.width = found->second.width;
  }
  return slices;
}

}  // namespace tare
