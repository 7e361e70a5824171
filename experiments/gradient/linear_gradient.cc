// SPDX-License-Identifier: Apache-2.0
#include "experiments/gradient/linear_gradient.h"

#include <algorithm>
#include <array>

#include "experiments/model/weights.h"
#include "kernels/elementwise/rows.h"
#include "quant/base/parallel.h"

namespace tare {
namespace {

// [columns, rows] from [rows, columns], rows of `to` so far apart. A block at a time, in a place of its own: the rows
// that a block is written to lie in the same cache sets where `stride` is a power of two.
void Transpose(const float* from, int64_t rows, int64_t columns, int64_t stride, float* to) {
  constexpr int64_t kBlock = 32;
  ParallelFor(static_cast<size_t>((columns + kBlock - 1) / kBlock), [&](size_t index, int) {
    std::array<std::array<float, kBlock>, kBlock> block;
    const int64_t begin = static_cast<int64_t>(index) * kBlock, width = std::min(kBlock, columns - begin);
    for (int64_t first = 0; first < rows; first += kBlock) {
      const int64_t height = std::min(kBlock, rows - first);
      for (int64_t r = 0; r < height; ++r) {
        for (int64_t c = 0; c < width; ++c)
          block[static_cast<size_t>(c)][static_cast<size_t>(r)] = from[(first + r) * columns + begin + c];
      }
      for (int64_t c = 0; c < width; ++c)
        std::copy_n(block[static_cast<size_t>(c)].data(), height, to + (begin + c) * stride + first);
    }
  });
}

// The same into `memory`, as the rows of a product: columns of zeros to `stride`, and rows of zeros to the last padded.
const float* Turned(const float* from, int64_t rows, int64_t columns, int64_t stride, AlignedBuffer<float>& memory) {
  const auto size = static_cast<size_t>(PaddedRows(columns) * stride);
  memory.Reserve(size);
  if (rows < stride) std::fill_n(memory.data(), columns * stride, 0.0f);
  std::fill(memory.data() + columns * stride, memory.data() + size, 0.0f);
  Transpose(from, rows, columns, stride, memory.data());
  return memory.data();
}

}  // namespace

LinearGradient::LinearGradient(const WeightMatrix& stored) : out_(stored.out), in_(stored.in) {
  for (AlignedBuffer<float>* buffer : {&weight_, &gradient_}) buffer->Reset(static_cast<size_t>(out_ * in_));
  ParallelFor(static_cast<size_t>(out_), [&](size_t row, int) {
    RowAsFloat(stored, static_cast<int64_t>(row), weight_.data() + static_cast<int64_t>(row) * in_);
  });
  Clear();
}

void LinearGradient::Clear() { std::fill_n(gradient_.data(), gradient_.size(), 0.0f); }

void LinearGradient::Add(const float* dy, const float* x, int64_t rows, float* dx, LinearGradientMemory& memory) {
  const int64_t padded = PaddedRows(rows);  // products of few shapes
  const float* const outputs = Turned(dy, rows, out_, padded, memory.outputs);
  const float* const inputs = Turned(x, rows, in_, padded, memory.inputs);
  memory.product.Reserve(static_cast<size_t>(PaddedRows(out_) * in_));
  float* const product = memory.product.data();
  const Projection by_weight{.weight = {inputs, WeightType::kF32, in_, padded}, .y = product};
  memory.projector.Project(outputs, out_, {&by_weight, 1});
  ParallelFor(static_cast<size_t>(out_), [&](size_t row, int) {
    const int64_t at = static_cast<int64_t>(row) * in_;
    AddTo(gradient_.data() + at, product + at, static_cast<size_t>(in_));
  });
  if (dx == nullptr) return;
  memory.weight.Reserve(weight_.size());
  Transpose(weight_.data(), out_, in_, out_, memory.weight.data());
  const Projection by_input{.weight = {memory.weight.data(), WeightType::kF32, in_, out_}, .y = dx};
  memory.projector.Project(dy, rows, {&by_input, 1});
}

}  // namespace tare
