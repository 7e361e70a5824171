// SPDX-License-Identifier: Apache-2.0
// Vector reads, rates of calls, products and reading, the measured roofline, its JSON, and oneDNN's matmul.
#include "experiments/bench/roofline.h"

#include <unistd.h>

#include <unordered_map>

#include <omp.h>
#include <dnnl.hpp>

#include "kernels/product/tile_product.h"
#include "quant/base/aligned.h"
#include "quant/base/memory.h"
#include "quant/base/parallel.h"
#include "quant/file/json.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "experiments/bench/roofline.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "kernels/elementwise/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tare {
namespace HWY_NAMESPACE::read_loop {

using D = hn::CappedTag<uint64_t, 8>;
constexpr size_t kLanes = HWY_MAX_LANES_D(D);
constexpr size_t kPiece = 32;  // values of a stream at a time: four lines

template <int kStreams>
uint64_t Sum(const uint64_t* x, size_t count, int ahead) {
  const D d;
  const size_t part = count / kStreams;
  hn::Vec<D> sums[4] = {hn::Zero(d), hn::Zero(d), hn::Zero(d), hn::Zero(d)};  // a chain of additions each
  for (size_t i = 0; i < part; i += kPiece) {
    for (size_t stream = 0; stream < kStreams; ++stream) {
      const uint64_t* piece = x + stream * part + i;
      for (size_t line = 0; ahead > 0 && line < kPiece; line += 8)
        __builtin_prefetch(reinterpret_cast<const char*>(piece + line) + ahead, 0, 3);
      for (size_t j = 0; j < kPiece / kLanes; ++j) sums[j % 4] = hn::Add(sums[j % 4], hn::Load(d, piece + j * kLanes));
    }
  }
  return hn::ReduceSum(d, hn::Add(hn::Add(sums[0], sums[1]), hn::Add(sums[2], sums[3])));
}

uint64_t SumOfStreams(const uint64_t* x, size_t count, const ReadLoop* loop) {
  const auto sum = loop->streams == 1 ? Sum<1> : loop->streams == 2 ? Sum<2> : loop->streams == 4 ? Sum<4> : Sum<8>;
  return sum(x, count, loop->ahead);
}

}  // namespace HWY_NAMESPACE::read_loop
}  // namespace tare
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tare {
namespace {

// Best of some rounds of `calls` calls on every thread at once, in calls a second over all threads.
double Rate(int threads, int rounds, int calls, const std::function<void(int thread)>& call) {
  double best = 0;
  for (int round = 0; round < rounds; ++round) {
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
  const double calls = Rate(threads, 15, 500, [&](int thread) {
    float* x = memory[thread].data();
    product.Run(x, x + 64 * 128, x + 2 * 64 * 128);
  });
  return calls * 2.0 * m * kN * kK / 1e9;
}

}  // namespace

uint64_t SumRead(const uint64_t* x, size_t count, const ReadLoop& loop) {
  TARE_CHECK(count % kReadStep == 0);
  return TARE_CHOSEN(read_loop::SumOfStreams)(x, count, &loop);
}

double ReadRate(int threads, size_t bytes) {
  AlignedBuffer<uint64_t> memory(std::max<size_t>(bytes / 8, kReadStep * threads));
  AdviseLargePages(std::as_writable_bytes(memory.span()));
  constexpr size_t kLeast = size_t{1} << 23;
  const size_t part = memory.size() / threads / kReadStep * kReadStep;  // without what the threads cannot share
  std::fill_n(memory.data(), memory.size(), uint64_t{1});
  std::vector<uint64_t> sums(threads);
  // 64 MiB per call at least, so that starting the threads is no part of it.
  const int calls = static_cast<int>((kLeast + memory.size() - 1) / memory.size());
  double best = 0;
  for (const ReadLoop& loop : kReadLoops) {
    const double rate = Rate(threads, 2, calls,
                             [&](int thread) { sums[thread] += SumRead(memory.data() + thread * part, part, loop); });
    best = std::max(best, rate);
  }
  if (sums[0] == 0) Fail("bench: memory read back as zeros");
  return best * static_cast<double>(part) * 8 / 1e9;
}

double LastCacheBytes() {
  for (const int level : {_SC_LEVEL4_CACHE_SIZE, _SC_LEVEL3_CACHE_SIZE, _SC_LEVEL2_CACHE_SIZE}) {
    if (const long bytes = sysconf(level); bytes > 0) return static_cast<double>(bytes);
  }
  return 0;
}

Roofline MeasureProducts(int threads) {
  SetThreads(threads);
  Roofline r;
  r.u8s8_gops = ProductRate(ProductTypes::kU8S8, threads, 64);
  r.f32_gflops = ProductRate(ProductTypes::kF32, threads, 32);
  if (UkernelServes(ProductTypes::kBf16)) r.bf16_gflops = ProductRate(ProductTypes::kBf16, threads, 64);
  return r;
}

Roofline MeasureRoofline(int threads) {
  Roofline r = MeasureProducts(threads);
  r.read_gbps = ReadRate(threads, size_t{256} << 20);
  return r;
}

Roofline Better(const Roofline& a, const Roofline& b) {
  return {std::max(a.u8s8_gops, b.u8s8_gops), std::max(a.f32_gflops, b.f32_gflops),
          std::max(a.bf16_gflops, b.bf16_gflops), std::max(a.read_gbps, b.read_gbps)};
}

Json ToJson(const Roofline& r) {
  return {{"u8s8_gops", r.u8s8_gops},
          {"f32_gflops", r.f32_gflops},
          {"bf16_gflops", r.bf16_gflops},
          {"read_gbps", r.read_gbps}};
}

std::function<double()> MatmulOf(Math math, int64_t rows, int64_t out, int64_t in, std::string* implementation) try {
  using dnnl::memory;
  RequireRoom();
  omp_set_num_threads(Threads());
  const auto type = math == Math::kBf16 ? memory::data_type::bf16 : memory::data_type::f32;
  const memory::desc x({rows, in}, type, memory::format_tag::ab), w({in, out}, type, memory::format_tag::any);
  const memory::desc y({rows, out}, memory::data_type::f32, memory::format_tag::ab);
  const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  const dnnl::matmul::primitive_desc descriptor(engine, x, w, y);
  if (implementation != nullptr) *implementation = descriptor.impl_info_str();
  const auto filled = [&](const memory::desc& desc) {
    memory m(desc, engine);
    // 0x3f803f80: pairs of 1.0 in bf16, one 1.002 in f32.
    std::fill_n(static_cast<uint32_t*>(m.get_data_handle()), desc.get_size() / 4, 0x3f803f80u);
    return m;
  };
  const std::unordered_map<int, memory> arguments{{DNNL_ARG_SRC, filled(descriptor.src_desc())},
                                                  {DNNL_ARG_WEIGHTS, filled(descriptor.weights_desc())},
                                                  {DNNL_ARG_DST, filled(descriptor.dst_desc())}};
  return [primitive = dnnl::matmul(descriptor), stream = dnnl::stream(engine), arguments]() mutable {
    const double start = Seconds();
    primitive.execute(stream, arguments);
    stream.wait();
    return Seconds() - start;
  };
} catch (const dnnl::error& error) {
  Fail("oneDNN matmul {} x {} x {}: {}; is memory short?", rows, out, in, error.what());
}

}  // namespace tare
#endif
