// SPDX-License-Identifier: Apache-2.0
#include "kernels/linear/product_gradient.h"

#include <algorithm>
#include <functional>
#include <vector>

#include <dnnl.hpp>

#include "quant/base/error.h"
#include "quant/base/memory.h"
#include "quant/base/parallel.h"

namespace tare {
namespace {

// Of dW, with all rows of dy and x. oneDNN 3.7 copies both factors of a large product first and reads those of a small
// one where they lie, at half the speed if their rows are 8 KiB apart (5504 x 2048, 2,048 rows, Zen 3, GFLOP/s: 512 x
// 1024 64, 512 x 512 32, whole 80); small layers need blocks for every thread (256 x 256: 59 in 128 x 256, whole 60).
constexpr int64_t kWideBlock[]{512, 1024}, kNarrowBlock[]{128, 1024};
constexpr int64_t kNarrow = 1024;  // inputs of which rows are at most 4 KiB apart

// Of dx, with all its columns (256 to 1,024 rows: the same within 10 %).
constexpr int64_t kBlockRows = 512;

void Product(char transposed, int64_t m, int64_t n, int64_t k, const float* a, int64_t a_stride, const float* b,
             int64_t b_stride, float beta, float* c) {
  const dnnl_status_t status = dnnl_sgemm(transposed, 'N', m, n, k, 1.0f, a, a_stride, b, b_stride, beta, c, b_stride);
  if (status != dnnl_success) Fail("oneDNN sgemm {} x {} x {}: got status {}", m, n, k, static_cast<int>(status));
}

}  // namespace

void AddProductGradients(std::span<const ProductGradient> products, int64_t rows) {
  if (rows == 0) return;
  RequireRoom();
  std::vector<std::function<void()>> blocks;
  for (const ProductGradient& p : products) {
    const auto& [most_out, most_in] = p.in <= kNarrow ? kNarrowBlock : kWideBlock;
    for (int64_t o = 0; p.d_weight != nullptr && o < p.out; o += most_out) {
      for (int64_t i = 0; i < p.in; i += most_in) {
        blocks.push_back([&p, rows, o, i, out = std::min(most_out, p.out - o), in = std::min(most_in, p.in - i)] {
          Product('T', out, in, rows, p.dy + o, p.out, p.x + i, p.in, 1.0f, p.d_weight + o * p.in + i);
        });
      }
    }
    for (int64_t r = 0; p.dx != nullptr && r < rows; r += kBlockRows) {
      blocks.push_back([&p, r, count = std::min(kBlockRows, rows - r)] {
        Product('N', count, p.in, p.out, p.dy + r * p.out, p.out, p.weight, p.in, 0.0f, p.dx + r * p.in);
      });
    }
  }
  ParallelFor(blocks.size(), [&](size_t i, int) { blocks[i](); });
}

}  // namespace tare
