// SPDX-License-Identifier: Apache-2.0
#include "kernels/decode/decode_heads.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <ranges>

#include "quant/base/message.h"

namespace tare {
namespace {

// Which heads of the output hang together: the smallest output head with shared keys or values, by union.
std::vector<int> GroupOfEach(std::span<const OutputHead> heads, const CacheShape& shape) {
  std::vector<int> parent(shape.k_heads + shape.v_heads);
  std::iota(parent.begin(), parent.end(), 0);
  const auto root = [&](int i) {
    while (parent[i] != i) i = parent[i] = parent[parent[i]];
    return i;
  };
  for (const OutputHead& head : heads) {
    for (int map = 0; map < head.Maps(); ++map) {
      for (int slice = 0; slice < head.VSlices(); ++slice)
        parent[root(shape.k_heads + head.v[slice])] = root(head.K(map));
    }
  }
  return heads | std::views::transform([&](const OutputHead& h) { return root(h.k1); }) |
         std::ranges::to<std::vector>();
}

void CheckTable(std::span<const OutputHead> heads, int q_heads, const CacheShape& shape) {
  if (heads.empty()) Fail("decode head table: got no rows, expected at least one");
  for (size_t row = 0; row < heads.size(); ++row) {
    const OutputHead& head = heads[row];
    const std::string where = Formatted("decode head table, row {}", row);
    for (int map = 0; map < head.Maps(); ++map) {
      CheckRange(where, "query head", head.Q(map), 0, q_heads - 1);
      CheckRange(where, "key head", head.K(map), 0, shape.k_heads - 1);
    }
    for (int slice = 0; slice < head.VSlices(); ++slice)
      CheckRange(where, "value head", head.v[slice], 0, shape.v_heads - 1);
    if (head.VSlices() != heads[0].VSlices())
      Fail("decode head table, row {}: got {} slices of V, expected the first row's {}", row, head.VSlices(),
           heads[0].VSlices());
  }
}

// The place of the first that equals x, x itself at the end where there is none.
template <typename T>
int PlaceOf(std::vector<T>& list, const T& x) {
  const auto found = std::ranges::find(list, x);
  if (found != list.end()) return static_cast<int>(found - list.begin());
  list.push_back(x);
  return static_cast<int>(list.size()) - 1;
}

}  // namespace

DecodeHeads::DecodeHeads(std::span<const OutputHead> heads, int q_heads, const CacheShape& shape, float scale,
                         int64_t window, float skip, float softcap)
    : shape_(shape),
      q_heads_(q_heads),
      heads_(static_cast<int>(heads.size())),
      scale_(scale),
      window_(window),
      skip_(skip),
      softcap_(softcap) {
  CheckTable(heads, q_heads, shape);
  if (!(scale > 0) || !std::isfinite(scale))
    Fail("decode, attention scale: got {}, expected a finite number more than 0", scale);
  CheckSoftcap(softcap, "decode");
  if (!(skip >= 0 && skip < 1)) Fail("decode, skip: got {}, expected a number of 0 or more below 1", skip);
  if (window < 0) Fail("decode, window: got {}, expected at least 1, or 0 for none", window);
  slices_ = heads[0].VSlices();
  const std::vector<int> group_of = GroupOfEach(heads, shape);
  std::vector<int> numbers;  // roots, in order of their first head
  for (size_t h = 0; h < heads.size(); ++h) {
    const auto number = static_cast<size_t>(PlaceOf(numbers, group_of[h]));
    if (number == groups_.size()) groups_.emplace_back();
    const OutputHead& head = heads[h];
    Group& group = groups_[number];
    Difference difference{.head = static_cast<int>(h)};
    for (int map = 0; map < head.Maps(); ++map) difference.row[map] = PlaceOf(group.rows, {head.Q(map), head.K(map)});
    for (int slice = 0; slice < head.VSlices(); ++slice)
      group.products.push_back({static_cast<int>(group.differences.size()), slice, head.v[slice]});
    group.differences.push_back(difference);
    differential_ = differential_ || head.Differential();
  }
  for (Group& group : groups_) {
    const std::vector<Row> rows = group.rows;
    std::ranges::stable_sort(group.rows, {}, &Row::k);
    for (Difference& difference : group.differences) {
      for (int& row : difference.row) row = row == kNoMap ? kNoMap : PlaceOf(group.rows, rows[row]);
    }
    std::ranges::stable_sort(group.products, {}, &Product::v);
    group.first_row = rows_;
    group.first_product = products_;
    rows_ += static_cast<int>(group.rows.size());
    products_ += static_cast<int>(group.products.size());
  }
}

}  // namespace tare
