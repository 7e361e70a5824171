// SPDX-License-Identifier: Apache-2.0
// See quantized_linear.h. A unit of work is up to 512 rows by one panel of 64 outputs: the panel is unpacked once into
// scratch of the thread, then multiplied by 64 rows at a time.
#include "kernels/linear/quantized_linear.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <vector>

#include "kernels/linear/product_epilogue.h"
#include "kernels/linear/token_codes.h"
#include "kernels/product/tile_product.h"
#include "quant/base/error.h"
#include "quant/base/parallel.h"

namespace tare {
namespace {

constexpr int64_t kPanel = PackedMatrix::kPanel;
constexpr int64_t kRows = 64;       // of a tile
constexpr int64_t kUnitRows = 512;  // share an unpacked panel
constexpr int64_t kDepth = 256;     // inputs of one product: 64 x 256 bytes of weights stay in the first cache
constexpr int64_t kRowsStep = 16;   // heights of tiles, so that few kernels serve all

// Codes of neighbouring rows must not fall onto the same cache sets: never a multiple of 1024 bytes apart.
int64_t CodeStride(int64_t padded_in) { return (padded_in + 63) / 64 * 64 + 64; }

// The products of a tile of given height: group by group, each in steps of at most kDepth inputs.
struct Step {
  int64_t begin = 0;  // input
  bool ends_group = false;
  TileProduct product;
};

std::vector<Step> StepsOf(const PackedMatrix& w, int64_t rows) {
  std::vector<Step> steps;
  for (int64_t group = 0; group < w.PaddedIn(); group += w.GroupInputs()) {
    const int64_t end = group + w.GroupInputs();
    for (int64_t begin = group; begin < end; begin += kDepth) {
      const int64_t depth = std::min(kDepth, end - begin);
      const ProductShape shape{.types = ProductTypes::kU8S8,
                               .m = static_cast<int>(rows),
                               .n = static_cast<int>(kPanel),
                               .k = static_cast<int>(depth),
                               .lda = CodeStride(w.PaddedIn()),
                               .ldb = kPanel,
                               .ldc = kPanel,
                               .store = begin == group ? ProductStore::kOverwrite : ProductStore::kAdd};
      steps.push_back({begin, begin + depth == end, TileProduct(shape)});
    }
  }
  return steps;
}

int64_t TileRows(int64_t rows) { return std::min(kRows, (rows + kRowsStep - 1) / kRowsStep * kRowsStep); }

struct Scratch {
  AlignedBuffer<int8_t> panel;
  AlignedBuffer<int32_t> sums{kRows * kPanel};
  AlignedBuffer<float> total{kRows * kPanel};
};

struct Tile {
  const uint8_t* codes;
  const float* x_scales;
  int64_t rows;
};

void RunTile(const Tile& tile, const QuantizedProjection& p, int64_t panel, const int8_t* weights,
             const std::vector<Step>& steps, Scratch& scratch, float* y) {
  const PackedMatrix& w = *p.weight;
  int64_t group = 0;
  for (const Step& step : steps) {
    step.product.Run(tile.codes + step.begin, weights + step.begin * kPanel, scratch.sums.data());
    if (!step.ends_group) continue;
    AddGroup(scratch.sums.data(), w.CodeSums(panel) + group * kPanel, w.Scales(panel) + group * kPanel, tile.rows,
             group == 0 ? GroupOrder::kFirst : GroupOrder::kLater, scratch.total.data());
    ++group;
  }
  const int64_t first = panel * kPanel;
  FinishTile(scratch.total.data(), tile.x_scales, p.bias == nullptr ? nullptr : p.bias + first, tile.rows,
             std::min(kPanel, w.out() - first), y, w.out());
}

void CheckProjections(std::span<const QuantizedProjection> projections, const TokenFormat& token) {
  const Format activation = token.format;
  if (activation != Format::kInt8 && activation != Format::kInt6 && activation != Format::kInt4)
    Fail("quantized linear: got {} activations, expected int8, int6 or int4", Info(activation).name);
  for (const QuantizedProjection& p : projections) {
    TARE_CHECK(p.weight->in() == projections[0].weight->in());
    if (p.weight->GroupInputs() > kLargestGroup) {
      Fail("quantized linear: got {} inputs that share a scale, expected at most {}; try weights of group128",
           p.weight->GroupInputs(), kLargestGroup);
    }
  }
}

}  // namespace

void QuantizedLinear::Project(const float* x, int64_t rows, const TokenFormat& activation,
                              std::span<const QuantizedProjection> projections) {
  if (rows == 0 || projections.empty()) return;
  CheckProjections(projections, activation);
  const int64_t in = projections[0].weight->in(), padded = projections[0].weight->PaddedIn();
  const int64_t stride = CodeStride(padded);
  // Tiles read up to kRowsStep - 1 rows more than there are: any codes, their sums are not looked at.
  const int64_t padded_rows = (rows + kRowsStep - 1) / kRowsStep * kRowsStep;
  if (codes_.size() < static_cast<size_t>(padded_rows * stride)) {
    codes_.Reset(static_cast<size_t>(padded_rows * stride));
    std::fill_n(codes_.data(), codes_.size(), uint8_t{128});
  }
  scales_.Reserve(static_cast<size_t>(rows));
  constexpr int64_t kRowsAtOnce = 16;
  ParallelFor(static_cast<size_t>((rows + kRowsAtOnce - 1) / kRowsAtOnce), [&](size_t block, int) {
    const int64_t begin = static_cast<int64_t>(block) * kRowsAtOnce;
    for (int64_t r = begin; r < std::min(begin + kRowsAtOnce, rows); ++r) {
      scales_[r] = ToTokenCodes(x + r * in, in, activation.format, activation.clip, codes_.data() + r * stride, padded);
      if (std::isnan(scales_[r])) Fail("quantized linear: row {} of the input holds NaN or infinity", r);
    }
  });

  struct Unit {
    const QuantizedProjection* projection;
    const std::vector<Step>* whole;  // 64 rows
    const std::vector<Step>* tail;   // what is left of them
    int64_t row, panel;
  };
  std::vector<std::vector<Step>> steps;
  steps.reserve(2 * projections.size());
  std::vector<Unit> units;
  for (const QuantizedProjection& p : projections) {
    const auto* whole = &steps.emplace_back(StepsOf(*p.weight, kRows));
    const auto* tail = rows % kRows == 0 ? whole : &steps.emplace_back(StepsOf(*p.weight, TileRows(rows % kRows)));
    for (int64_t row = 0; row < rows; row += kUnitRows) {
      for (int64_t panel = 0; panel < p.weight->Panels(); ++panel) units.push_back({&p, whole, tail, row, panel});
    }
  }
  std::vector<Scratch> scratches(static_cast<size_t>(Threads()));
  ParallelFor(units.size(), [&](size_t i, int thread) {
    const Unit& u = units[i];
    const ProductScope scope;
    Scratch& scratch = scratches[thread];
    scratch.panel.Reserve(static_cast<size_t>(padded * kPanel));
    const int8_t* weights = u.projection->weight->Unpacked(u.panel, scratch.panel.data());
    for (int64_t row = u.row; row < std::min(u.row + kUnitRows, rows); row += kRows) {
      const Tile tile{codes_.data() + row * stride, scales_.data() + row, std::min(kRows, rows - row)};
      float* y = u.projection->y + row * u.projection->weight->out() + u.panel * kPanel;
      RunTile(tile, *u.projection, u.panel, weights, tile.rows == kRows ? *u.whole : *u.tail, scratch, y);
    }
  });
}

}  // namespace tare
