// SPDX-License-Identifier: Apache-2.0
#include "kernels/linear/product_gradient.h"

#include <new>
#include <vector>

#include <dnnl.h>

#include "quant/base/memory.h"
#include "quant/base/message.h"
#include "quant/base/parallel.h"

namespace tare {
namespace {

// The largest blocks of dW, each a product over all rows. With AVX2 oneDNN 3.7 reads the factors of a small product
// where they lie, which takes twice as long where their rows are many KiB apart, and copies those of a larger one
// first (5504 x 2048, 2,048 rows, Zen 3, GFLOP/s: 512 x 512 32, 512 x 1024 64, whole 80). Small layers need blocks for
// every thread (256 x 256: 128 x 256 59, whole 60 to 73).
constexpr int64_t kBlockIn = 1024, kBlockOut = 512, kBlockOutOfFew = 128;

// The largest rows of a block of dx, with all its columns (256 to 1,024 rows: the same time within 10 %).
constexpr int64_t kBlockRows = 512;

// c = a b + beta c, or a^T b + beta c: c [m, n] with b's stride, a sum over k.
struct Block {
  char transposed;  // 'T' or 'N': whether a is [k, m]
  int64_t m, n, k;
  const float* a;
  int64_t a_stride;
  const float* b;
  int64_t b_stride;
  float beta;
  float* c;
};

void Run(const Block& x) {
  const dnnl_status_t status =
      dnnl_sgemm(x.transposed, 'N', x.m, x.n, x.k, 1.0f, x.a, x.a_stride, x.b, x.b_stride, x.beta, x.c, x.b_stride);
  if (status == dnnl_out_of_memory) throw std::bad_alloc();
  if (status != dnnl_success)
    Fail("oneDNN sgemm {} x {} x {}: got status {}, expected success", x.m, x.n, x.k, static_cast<int>(status));
}

// Calls body(begin, count) for parts of n of nearly equal size, at most `most` each.
void ForParts(int64_t n, int64_t most, const auto& body) {
  const int64_t parts = CeilDiv(n, most);
  for (int64_t part = 0; part < parts; ++part) body(n * part / parts, n * (part + 1) / parts - n * part / parts);
}

void AddBlocks(const ProductGradient& p, int64_t rows, std::vector<Block>& blocks) {
  if (p.d_weight != nullptr) {
    ForParts(p.out, p.in <= kBlockIn ? kBlockOutOfFew : kBlockOut, [&](int64_t o, int64_t out) {
      ForParts(p.in, kBlockIn, [&](int64_t i, int64_t in) {
        blocks.push_back({'T', out, in, rows, p.dy + o, p.out, p.x + i, p.in, 1.0f, p.d_weight + o * p.in + i});
      });
    });
  }
  if (p.dx != nullptr) {
    ForParts(rows, kBlockRows, [&](int64_t r, int64_t count) {
      blocks.push_back({'N', count, p.in, p.out, p.dy + r * p.out, p.out, p.weight, p.in, 0.0f, p.dx + r * p.in});
    });
  }
}

}  // namespace

void AddProductGradients(std::span<const ProductGradient> products, int64_t rows) {
  if (rows == 0) return;
  RequireRoom();
  std::vector<Block> blocks;
  for (const ProductGradient& p : products) AddBlocks(p, rows, blocks);
  ParallelFor(blocks.size(), [&](size_t i, int) { Run(blocks[i]); });
}

}  // namespace tare
