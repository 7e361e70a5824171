// SPDX-License-Identifier: Apache-2.0
// See quantized_linear.h. A panel is unpacked once for up to 512 rows, then multiplied by 64 of them at a time. The
// reference comes last.
#include "kernels/linear/quantized_linear.h"

#include <algorithm>
#include <cmath>

#include "kernels/linear/product_stage.h"
#include "quant/base/integers.h"
#include "quant/base/message.h"
#include "quant/base/parallel.h"
#include "quant/format/pack.h"
#include "quant/format/round.h"

namespace tare {
namespace {

constexpr int64_t kPanel = PackedMatrix::kPanel;
constexpr int64_t kRows = 64;        // of a tile
constexpr int64_t kPieceRows = 512;  // share an unpacked panel
constexpr int64_t kDepth = 256;      // inputs of one product: 64 x 256 bytes of weights stay in the first cache
constexpr int64_t kRowsStep = 16;    // heights of tiles, so that few kernels serve all

// Codes of neighbouring rows must not fall onto the same cache sets: never a multiple of 1024 bytes apart.
int64_t CodeStride(const PackedMatrix& w) { return RoundUp(w.PaddedIn(), 64) + 64; }

void CheckCall(const float* x, int64_t rows, std::span<const QuantizedProjection> projections,
               const TokenFormat& token) {
  CheckProjections("quantized linear", x, rows, projections);
  if (token.clip && !(*token.clip >= 0 && std::isfinite(*token.clip)))
    Fail("quantized linear: got a clip of {}, expected a finite number of 0 or more", *token.clip);
  const Format activation = token.format;
  if (activation != Format::kInt8 && activation != Format::kInt6 && activation != Format::kInt4)
    Fail("quantized linear: got {} activations, expected int8, int6 or int4", Name(activation));
  for (const QuantizedProjection& p : projections) {
    if (p.weight->GroupInputs() > kLargestGroup) {
      Fail("quantized linear: got {} inputs that share a scale, expected at most {}; try weights of group128",
           p.weight->GroupInputs(), kLargestGroup);
    }
  }
}

}  // namespace

void CheckProjections(const char* where, const float* x, int64_t rows,
                      std::span<const QuantizedProjection> projections) {
  CheckRange(where, "rows", rows, 0, int64_t{1} << 40);
  for (const QuantizedProjection& p : projections) {
    CheckPointer(where, p.weight, 1);
    CheckEqual(where, "inputs", p.weight->in(), projections[0].weight->in());
    CheckPointer(where, x, rows);
    CheckPointer(where, p.y, rows);
  }
}

// Tiles may read up to kRowsStep - 1 rows too many: these hold any codes, and their sums are ignored.
void QuantizedLinear::ToCodes(const float* x, int64_t rows, const TokenFormat& activation, const PackedMatrix& w) {
  const int64_t in = w.in(), stride = CodeStride(w);
  const auto bytes = static_cast<size_t>(RoundUp(rows, kRowsStep) * stride);
  if (codes_.size() < bytes) {
    codes_.Reset(bytes);
    std::fill_n(codes_.data(), bytes, uint8_t{128});
  }
  scales_.Reserve(static_cast<size_t>(rows));
  constexpr int64_t kRowsAtOnce = 16;
  ParallelForBlocks(rows, kRowsAtOnce, [&](int64_t begin, int64_t count) {
    for (int64_t r = begin; r < begin + count; ++r) {
      scales_[r] =
          ToTokenCodes(x + r * in, in, activation.format, activation.clip, codes_.data() + r * stride, w.PaddedIn());
      if (std::isnan(scales_[r])) Fail("quantized linear: row {} of the input holds NaN or infinity", r);
    }
  });
}

// Rows' sums of codes in each group, for weights with offsets. Exact in f32: at most 127 x 65793 < 2^24.
void QuantizedLinear::SumCodes(const PackedMatrix& w, int64_t rows) {
  if (w.Offsets(0) == nullptr) return;
  const int64_t inputs = w.GroupInputs(), stride = CodeStride(w);
  AlignedBuffer<float>& sums = sums_[inputs];
  sums.Reserve(static_cast<size_t>(w.Groups() * rows));
  ParallelFor(static_cast<size_t>(rows), [&](size_t row, int) {
    const auto r = static_cast<int64_t>(row);
    for (int64_t g = 0; g < w.Groups(); ++g) {
      const uint8_t* codes = codes_.data() + r * stride + g * inputs;
      int32_t sum = 0;
      for (int64_t i = 0; i < inputs; ++i) sum += codes[i];
      sums[r * w.Groups() + g] = static_cast<float>(sum - 128 * static_cast<int32_t>(inputs));
    }
  });
}

// A tile would compute 16 rows for the one, and the sums of all codes of the weights, which takes longer than to read
// them. Bit-equal to a tile's rows.
void QuantizedLinear::ProjectRow(std::span<const QuantizedProjection> projections) {
  of_row_.clear();
  for (const QuantizedProjection& p : projections) {
    const std::pair key{p.weight->in(), p.weight->GroupInputs()};
    OneToken& token = row_.try_emplace(key, key.first, PackedMatrix::kRecord).first->second;
    token.LoadCodes(codes_.data(), scales_[0], key.second);
    of_row_.push_back({{&token, 1}, p});
  }
  OneToken::ProjectAll(of_row_);
}

// The products of a tile of `rows` rows: group by group, each in steps of at most kDepth inputs.
void QuantizedLinear::AddSteps(const PackedMatrix& w, int64_t rows) {
  for (int64_t group = 0; group < w.PaddedIn(); group += w.GroupInputs()) {
    const int64_t end = group + w.GroupInputs();
    for (int64_t begin = group; begin < end; begin += kDepth) {
      const int64_t depth = std::min(kDepth, end - begin);
      const ProductShape shape{.types = ProductTypes::kU8S8,
                               .m = static_cast<int>(rows),
                               .n = static_cast<int>(kPanel),
                               .k = static_cast<int>(depth),
                               .lda = CodeStride(w),
                               .ldb = kPanel,
                               .ldc = kPanel,
                               .store = begin == group ? ProductStore::kOverwrite : ProductStore::kAdd};
      steps_.push_back({begin, begin + depth == end, TileProduct(shape)});
    }
  }
}

void QuantizedLinear::AddPieces(const QuantizedProjection& p, int64_t rows) {
  const size_t whole = steps_.size();
  AddSteps(*p.weight, kRows);
  const size_t tail = steps_.size();
  if (rows % kRows != 0) AddSteps(*p.weight, RoundUp(rows % kRows, kRowsStep));
  for (int64_t row = 0; row < rows; row += kPieceRows) {
    for (int64_t panel = 0; panel < p.weight->Panels(); ++panel)
      pieces_.push_back({&p, whole, tail, steps_.size(), row, panel});
  }
}

void QuantizedLinear::RunTile(const Piece& piece, int64_t row, int64_t rows, const int8_t* weights,
                              Scratch& scratch) const {
  const PackedMatrix& w = *piece.projection->weight;
  const uint8_t* codes = codes_.data() + row * CodeStride(w);
  const float* offsets = w.Offsets(piece.panel);
  const float* x_sums = offsets == nullptr ? nullptr : sums_.at(w.GroupInputs()).data() + row * w.Groups();
  int64_t group = 0;
  for (size_t i = rows == kRows ? piece.whole : piece.tail; i < (rows == kRows ? piece.tail : piece.end); ++i) {
    const Step& step = steps_[i];
    step.product.Run(codes + step.begin, weights + step.begin * kPanel, scratch.sums.data());
    if (!step.ends_group) continue;
    const int64_t at = group * kPanel;
    AddGroup(scratch.sums.data(),
             {scratch.code_sums.data() + at, w.Scales(piece.panel) + at, offsets == nullptr ? nullptr : offsets + at},
             {x_sums + (x_sums == nullptr ? 0 : group), w.Groups()}, rows,
             group == 0 ? GroupOrder::kFirst : GroupOrder::kLater, scratch.total.data());
    ++group;
  }
  const int64_t first = piece.panel * kPanel;
  const float* bias = piece.projection->bias == nullptr ? nullptr : piece.projection->bias + first;
  FinishTile(scratch.total.data(), scales_.data() + row, bias, rows, std::min(kPanel, w.out() - first),
             piece.projection->y + row * w.out() + first, w.out());
}

void QuantizedLinear::RunPiece(const Piece& piece, int64_t rows, Scratch& scratch) const {
  const ProductScope scope;
  const PackedMatrix& w = *piece.projection->weight;
  const int8_t* weights = w.Unpacked(piece.panel, scratch.panel.data());
  w.SumCodes(weights, scratch.code_sums.data());
  for (int64_t row = piece.row; row < std::min(piece.row + kPieceRows, rows); row += kRows)
    RunTile(piece, row, std::min(kRows, rows - row), weights, scratch);
}

void QuantizedLinear::Project(const float* x, int64_t rows, const TokenFormat& activation,
                              std::span<const QuantizedProjection> projections) {
  CheckCall(x, rows, projections, activation);
  if (rows == 0 || projections.empty()) return;
  const PackedMatrix& first = *projections[0].weight;
  ToCodes(x, rows, activation, first);
  if (rows == 1) return ProjectRow(projections);
  steps_.clear();
  pieces_.clear();
  int64_t groups = 0;  // of the weight that has the most
  for (const QuantizedProjection& p : projections) {
    groups = std::max(groups, p.weight->Groups());
    SumCodes(*p.weight, rows);
    AddPieces(p, rows);
  }
  scratches_.resize(std::max(scratches_.size(), static_cast<size_t>(Threads())));
  for (Scratch& scratch : scratches_) {
    scratch.panel.Reserve(static_cast<size_t>(first.PaddedIn() * kPanel));
    scratch.code_sums.Reserve(static_cast<size_t>(groups * kPanel));
    scratch.sums.Reserve(kRows * kPanel);
    scratch.total.Reserve(kRows * kPanel);
  }
  ParallelFor(pieces_.size(), [&](size_t i, int thread) { RunPiece(pieces_[i], rows, scratches_[thread]); });
}

LinearReference ReferenceLinear(const float* x, int64_t rows, Format activation, const QuantizedMatrix& w,
                                const float* bias) {
  LinearReference result;
  const double grid_step = double{AsStepCodes(w.format)->step};
  std::vector<float> weights(static_cast<size_t>(w.in));
  std::vector<int16_t> codes(static_cast<size_t>(w.in));
  for (int64_t r = 0; r < rows; ++r) {
    const float x_scale = QuantizeGroup({x + r * w.in, static_cast<size_t>(w.in)}, activation, codes);
    for (int64_t n = 0; n < w.out; ++n) {
      UnpackRow(w, n, weights);
      double y = 0;
      for (int64_t g = 0; g < w.Groups(); ++g) {
        const double step = w.IsEven(n, g) ? 6.0 / 7 : grid_step;
        int64_t sum = 0, inputs = 0;
        for (int64_t i = g * w.group; i < (g + 1) * w.group; ++i) {
          sum += int64_t{codes[i]} * (std::llround(double{weights[i]} / step) - std::llround(w.ZeroOf(n, g)));
          inputs += codes[i];
        }
        result.sums.push_back(sum);
        y += static_cast<double>(sum) * step * double{w.ScaleOf(n, g)} +
             static_cast<double>(inputs) * double{w.MinimumOf(n, g)};
      }
      result.y.push_back(y * double{x_scale} + (bias == nullptr ? 0.0 : double{bias[n]}));
    }
  }
  return result;
}

}  // namespace tare
