// SPDX-License-Identifier: Apache-2.0
// See roofline.h.
#include "experiments/bench/roofline.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "experiments/bench/timing.h"
#include "kernels/product/tile_product.h"
#include "quant/base/aligned.h"
#include "quant/base/error.h"
#include "quant/base/memory.h"
#include "quant/base/parallel.h"
#include "quant/file/json.h"

namespace tare {
namespace {

// Best of several rounds of `calls` calls on every thread at once, in calls a second over all threads.
double Rate(int threads, int calls, const std::function<void(int thread)>& call) {
  double best = 0;
  for (int round = 0; round < 15; ++round) {
    const double start = Seconds();
    ParallelFor(static_cast<size_t>(threads), [&](size_t, int thread) {
      for (int i = 0; i < calls; ++i) call(thread);
    });
    best = std::max(best, threads * calls / (Seconds() - start));
  }
  return best;
}

// 10^9 operations per second of a product on operands that stay in cache.
double ProductRate(ProductTypes types, int threads, int m) {
  constexpr int kN = 64, kK = 128;
  const TileProduct product({types, m, kN, kK, kK, kN, kN});
  std::vector<AlignedBuffer<float>> memory(threads);
  for (AlignedBuffer<float>& x : memory) {
    x.Reset(3 * 64 * 128);
    std::fill_n(x.data(), x.size(), 0.0f);
  }
  const double calls = Rate(threads, 500, [&](int thread) {
    float* x = memory[thread].data();
    product.Run(x, x + 64 * 128, x + 2 * 64 * 128);
  });
  return calls * 2.0 * m * kN * kK / 1e9;
}

// GB/s of reading all of it, but for what does not divide by the threads.
double RateOfReading(int threads, AlignedBuffer<uint64_t>& memory) {
  constexpr size_t kLine = 8, kLeast = size_t{1} << 23;
  const size_t part = memory.size() / threads / kLine * kLine;
  std::fill_n(memory.data(), memory.size(), uint64_t{1});
  std::vector<uint64_t> sums(threads);
  // 64 MiB per call at least, so that starting the threads is no part of it.
  const int calls = static_cast<int>((kLeast + memory.size() - 1) / memory.size());
  const double rate = Rate(threads, calls, [&](int thread) {
    uint64_t sum[kLine] = {};  // a chain of additions each: from near caches one would be the limit
    for (const uint64_t* x = memory.data() + thread * part; x < memory.data() + (thread + 1) * part; x += kLine)
      for (size_t i = 0; i < kLine; ++i) sum[i] += x[i];
    for (const uint64_t s : sum) sums[thread] += s;
  });
  if (sums[0] == 0) Fail("bench: memory read back as zeros");
  return rate * static_cast<double>(part) * 8 / 1e9;
}

}  // namespace

double ReadRate(int threads, size_t bytes) {
  AlignedBuffer<uint64_t> memory(std::max<size_t>(bytes / 8, 8 * threads));
  AdviseLargePages(std::as_writable_bytes(memory.span()));
  return RateOfReading(threads, memory);
}

Roofline MeasureRoofline(int threads) {
  SetThreads(threads);
  Roofline r;
  r.u8s8_gops = ProductRate(ProductTypes::kU8S8, threads, 64);
  r.f32_gflops = ProductRate(ProductTypes::kF32, threads, 32);
  if (UkernelServes(ProductTypes::kBf16)) r.bf16_gflops = ProductRate(ProductTypes::kBf16, threads, 64);
  AlignedBuffer<uint64_t> memory(size_t{32} << 20);  // 256 MiB, far more than caches hold
  r.read_gbps = RateOfReading(threads, memory);
  return r;
}

Roofline Better(const Roofline& a, const Roofline& b) {
  return {std::max(a.u8s8_gops, b.u8s8_gops), std::max(a.f32_gflops, b.f32_gflops),
          std::max(a.bf16_gflops, b.bf16_gflops), std::max(a.read_gbps, b.read_gbps)};
}

nlohmann::ordered_json ToJson(const Roofline& r) {
  return {{"u8s8_gops", r.u8s8_gops},
          {"f32_gflops", r.f32_gflops},
          {"bf16_gflops", r.bf16_gflops},
          {"read_gbps", r.read_gbps}};
}

}  // namespace tare
