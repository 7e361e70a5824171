// SPDX-License-Identifier: Apache-2.0
// A panel is unpacked once for up to 512 rows, then multiplied by 64 of them at a time. The reference comes last.
#include "kernels/linear/quantized_linear.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "kernels/elementwise/rows.h"
#include "kernels/linear/product_stage.h"
#include "quant/algorithms/round_to_nearest.h"
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
  const Format& activation = token.format;
  const bool in_blocks = Info(activation).block > 0 && AsStepCodes(activation);
  if (activation != Format::kInt8 && activation != Format::kInt6 && activation != Format::kInt4 && !in_blocks)
    Fail("quantized linear: got {} activations, expected int8, int6, int4 or blocks of integers, as mxfp4 has",
         Name(activation));
  if (token.clip && in_blocks) Fail("quantized linear: got a clip of {}, expected none", Name(activation));
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

// The inputs that share the scales of both sides: a divisor of the weights' groups, and a multiple of 16 as they are.
int64_t QuantizedLinear::PartOf(const PackedMatrix& w) const { return std::gcd(block_, w.GroupInputs()); }

// Tiles may read up to kRowsStep - 1 rows too many: these hold any codes, and their sums are ignored.
void QuantizedLinear::ToCodes(const float* x, int64_t rows, const TokenFormat& activation, const PackedMatrix& w) {
  const int64_t in = w.in(), stride = CodeStride(w);
  const auto bytes = static_cast<size_t>(RoundUp(rows, kRowsStep) * stride);
  if (codes_.size() < bytes) {
    codes_.Reset(bytes);
    std::fill_n(codes_.data(), bytes, uint8_t{128});
  }
  scales_.Reserve(static_cast<size_t>(rows));
  block_ = Info(activation.format).block;
  const int64_t blocks = block_ == 0 ? 0 : CeilDiv(in, block_);
  x_steps_.Reserve(static_cast<size_t>(rows * blocks));
  const float absmax = NeedsTensor(activation.format.scale) ? AbsMax(x, static_cast<size_t>(rows * in)) : 1;
  constexpr int64_t kRowsAtOnce = 16;
  ParallelForBlocks(rows, kRowsAtOnce, [&](int64_t begin, int64_t count) {
    for (int64_t r = begin; r < begin + count; ++r) {
      uint8_t* const codes = codes_.data() + r * stride;
      scales_[r] = block_ == 0 ? ToTokenCodes(x + r * in, in, activation.format, activation.clip, codes, w.PaddedIn())
                               : ToBlockCodes(x + r * in, in, activation.format, absmax, codes, w.PaddedIn(),
                                              x_steps_.data() + r * blocks);
      if (std::isnan(scales_[r])) Fail("quantized linear: row {} of the input holds NaN or infinity", r);
    }
  });
}

// Rows' sums of codes in each part, for weights with offsets. Exact in f32 before the step: at most 127 x 65793 < 2^24.
void QuantizedLinear::SumCodes(const PackedMatrix& w, int64_t rows) {
  if (w.Offsets(0) == nullptr) return;
  const int64_t part = PartOf(w), parts = w.PaddedIn() / part;
  AlignedBuffer<float>& sums = sums_[part];
  sums.Reserve(static_cast<size_t>(parts * rows));
  ParallelFor(static_cast<size_t>(rows), [&](int64_t r, int) {
    for (int64_t p = 0; p < parts; ++p) {
      const uint8_t* codes = codes_.data() + r * CodeStride(w) + p * part;
      int32_t sum = 0;
      for (int64_t i = 0; i < part; ++i) sum += codes[i];
      const float step = block_ == 0 ? 1 : x_steps_[r * CeilDiv(w.in(), block_) + p * part / block_];
      sums[r * parts + p] = static_cast<float>(sum - 128 * static_cast<int32_t>(part)) * step;
    }
  });
}

// A tile would compute 16 rows, and sums of all codes, which take longer than reading. Bit-equal to a tile's rows.
void QuantizedLinear::ProjectRow(std::span<const QuantizedProjection> projections) {
  of_row_.clear();
  for (const QuantizedProjection& p : projections) {
    const std::pair key{p.weight->in(), PartOf(*p.weight)};
    OneToken& token = row_.try_emplace(key, key.first, PackedMatrix::kRecord).first->second;
    token.LoadCodes(codes_.data(), scales_[0], block_ == 0 ? nullptr : x_steps_.data(), block_, key.second);
    of_row_.push_back({{&token, 1}, p});
  }
  OneToken::ProjectAll(of_row_);
}

// The products of a tile of `rows` rows: part by part, each in steps of at most kDepth inputs.
void QuantizedLinear::AddSteps(const PackedMatrix& w, int64_t rows) {
  for (int64_t part = 0; part < w.PaddedIn(); part += PartOf(w)) {
    const int64_t end = part + PartOf(w);
    for (int64_t begin = part; begin < end; begin += kDepth) {
      const int64_t depth = std::min(kDepth, end - begin);
      const ProductShape shape{.types = ProductTypes::kU8S8,
                               .m = static_cast<int>(rows),
                               .n = static_cast<int>(kPanel),
                               .k = static_cast<int>(depth),
                               .lda = CodeStride(w),
                               .ldb = kPanel,
                               .ldc = kPanel,
                               .store = begin == part ? ProductStore::kOverwrite : ProductStore::kAdd};
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
  const int64_t part = PartOf(w), parts = w.PaddedIn() / part, blocks = block_ == 0 ? 0 : CeilDiv(w.in(), block_);
  PartInputs x{.stride = parts, .step_stride = blocks};
  int64_t begin = 0;  // of a part
  for (size_t i = rows == kRows ? piece.whole : piece.tail; i < (rows == kRows ? piece.tail : piece.end); ++i) {
    const Step& step = steps_[i];
    step.product.Run(codes + step.begin, weights + step.begin * kPanel, scratch.sums.data());
    if (!step.ends_part) continue;
    const int64_t at = begin / w.GroupInputs() * kPanel;
    if (offsets != nullptr) x.sums = sums_.at(part).data() + row * parts + begin / part;
    if (block_ > 0) x.steps = x_steps_.data() + row * blocks + begin / block_;
    AddGroup(scratch.sums.data(),
             {scratch.code_sums.data() + begin / part * kPanel, w.Scales(piece.panel) + at,
              offsets == nullptr ? nullptr : offsets + at},
             x, rows, begin == 0 ? GroupOrder::kFirst : GroupOrder::kLater, scratch.total.data());
    begin += part;
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
  w.SumCodes(weights, PartOf(w), scratch.code_sums.data());
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
  int64_t parts = 0;  // of the weight that has the most
  for (const QuantizedProjection& p : projections) {
    parts = std::max(parts, p.weight->PaddedIn() / PartOf(*p.weight));
    SumCodes(*p.weight, rows);
    AddPieces(p, rows);
  }
  scratches_.resize(std::max(scratches_.size(), static_cast<size_t>(Threads())));
  for (Scratch& scratch : scratches_) {
    scratch.panel.Reserve(static_cast<size_t>(first.PaddedIn() * kPanel));
    scratch.code_sums.Reserve(static_cast<size_t>(parts * kPanel));
    scratch.sums.Reserve(kRows * kPanel);
    scratch.total.Reserve(kRows * kPanel);
  }
  ParallelFor(pieces_.size(), [&](size_t i, int thread) { RunPiece(pieces_[i], rows, scratches_[thread]); });
}

LinearReference ReferenceLinear(const float* x, int64_t rows, const Format& activation, const QuantizedMatrix& w,
                                const float* bias, float tensor_absmax) {
  LinearReference result;
  const double grid_step = double{AsStepCodes(w.format)->step}, x_grid_step = double{AsStepCodes(activation)->step};
  const int64_t block = Info(activation).block == 0 ? w.in : Info(activation).block;
  std::vector<float> weights(static_cast<size_t>(w.in));
  for (int64_t r = 0; r < rows; ++r) {
    std::vector<int64_t> codes;  // of each input
    std::vector<double> steps;   // likewise
    for (int64_t begin = 0; begin < w.in; begin += block) {
      const std::span values(x + r * w.in + begin, static_cast<size_t>(std::min(block, w.in - begin)));
      const float end = BlockEnd(values.data(), std::ssize(values), activation, AbsMax(values), tensor_absmax);
      const Scale scale = ScaleFor(end, activation, tensor_absmax);
      const double step = scale.inv < 0 ? 6.0 / 7 : x_grid_step;
      for (const float value : values)
        codes.push_back(std::llround(double{Rounded(value, scale.inv, activation)} / step));
      steps.resize(codes.size(), double{scale.scale} * step);
    }
    for (int64_t n = 0; n < w.out; ++n) {
      UnpackRow(w, n, weights);
      double y = bias == nullptr ? 0.0 : double{bias[n]};
      for (int64_t begin = 0, end = 0; begin < w.in; begin = end) {
        const int64_t g = begin / w.group;
        end = std::min((begin / block + 1) * block, w.GroupEnd(g));
        const double step = w.IsEven(n, g) ? 6.0 / 7 : grid_step;
        int64_t sum = 0, inputs = 0;
        for (int64_t i = begin; i < end; ++i) {
          sum += codes[i] * (std::llround(double{weights[i]} / step) - std::llround(w.ZeroOf(n, g)));
          inputs += codes[i];
        }
        result.sums.push_back(sum);
        y += (static_cast<double>(sum) * step * double{w.ScaleOf(n, g)} +
              static_cast<double>(inputs) * double{w.MinimumOf(n, g)}) *
             steps[begin];
      }
      result.y.push_back(y);
    }
  }
  return result;
}

}  // namespace tare
