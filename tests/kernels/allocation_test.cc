// SPDX-License-Identifier: Apache-2.0
// A call allocates nothing: operator new is counted, except for oneDNN's own calls. The first call of a shape is set-up
// (generated products, memory that an object keeps). Projector is not tested: oneDNN's matmul needs its arguments in a
// std::unordered_map.
// In the released build alone: sanitizers have their own operator new.
#if !defined(__SANITIZE_THREAD__)
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <new>

#include "kernels/attention/float/fused_attention.h"
#include "kernels/attention/integer/executed_attention.h"
#include "kernels/linear/one_token.h"
#include "kernels/linear/quantized_linear.h"
#include "quant/base/aligned.h"
#include "quant/base/parallel.h"
#include "tests/support/random_attention.h"
#include "tests/support/random_decode.h"
#include "tests/support/random_quantized.h"

namespace {

// The calling thread's: calls are on one thread, and others of the pool may just be starting. Of other tests nothing is
// counted: dladdr takes microseconds, and oneDNN allocates 67,000 times as it is loaded.
thread_local bool counts = false;
thread_local int64_t allocations = 0;

void Count(const void* caller) {
  if (!counts) return;
  Dl_info info;
  const bool known = dladdr(caller, &info) != 0 && info.dli_fname != nullptr;
  if (!known || std::strstr(info.dli_fname, "libdnnl") == nullptr) ++allocations;
}

}  // namespace

// Never inlined: their callers are what Count looks at, and g++ would take a malloc in one place and a delete in
// another for a mistake.
[[gnu::noinline]] void* operator new(size_t size) {
  Count(__builtin_return_address(0));
  if (void* memory = std::malloc(size)) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void* operator new(size_t size, std::align_val_t alignment) {
  Count(__builtin_return_address(0));
  const auto step = static_cast<size_t>(alignment);
  if (void* memory = std::aligned_alloc(step, (size + step - 1) / step * step)) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, size_t) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, size_t, std::align_val_t) noexcept { std::free(memory); }

namespace tare::allocation_test {
namespace {

// On one thread: a thread that gets no share of the first call keeps its memory from the second on.
template <typename Call>
int64_t AllocationsOf(Call call) {
  SetThreads(1);
  call();
  allocations = 0;
  counts = true;
  call();
  counts = false;
  return allocations;
}

TEST(Allocation, IsCounted) {
  EXPECT_EQ(AllocationsOf([] { AlignedBuffer<float> buffer(100); }), 1);
  EXPECT_EQ(AllocationsOf([] { const std::vector<int> values(100); }), 1);
}

TEST(Allocation, NoneInAttention) {
  using Order = AttentionPlan::Order;
  RandomAttention in({.queries = 130, .keys = 200});
  const size_t q = static_cast<size_t>(in.problem.q.heads) * 16;
  std::vector<float> mean(q);
  EXPECT_EQ(AllocationsOf([&] { MeanOfPrefix(in.problem.q, mean.data()); }), 0);
  for (const AttentionPlan& plan :
       {AttentionPlan{.block = 64}, AttentionPlan{.logits = Format::kInt6, .q_mean = mean.data()},
        AttentionPlan{.v_scale = AttentionPlan::ValueScale::kSequence, .order = Order::kEarly, .block = 128}}) {
    AlignedBuffer<std::byte> workspace(WorkspaceBytes(plan, in.problem));
    EXPECT_EQ(AllocationsOf([&] { ExecutedAttention(plan, in.problem, workspace.span()); }), 0);
  }
  for (const ProductTypes types : {ProductTypes::kF32, ProductTypes::kBf16}) {
    AlignedBuffer<std::byte> workspace(FusedWorkspaceBytes(in.problem, types));
    EXPECT_EQ(AllocationsOf([&] { FusedAttention(in.problem, workspace.span(), types); }), 0);
  }
}

TEST(Allocation, NoneInDecoding) {
  RandomDecode c({.queries = 2, .keys = 1100}, {.k = {Format::kInt4}, .v = {Format::kInt8}, .last = 70});
  const DecodeSequence sequence = c.sequence();
  AlignedBuffer<std::byte> workspace(DecodeWorkspaceBytes(c.table, {&sequence, 1}));
  EXPECT_EQ(AllocationsOf([&] { DecodeAttention(c.table, {&sequence, 1}, workspace.span()); }), 0);
}

TEST(Allocation, NoneInLinearLayersOfAShapeSeenBefore) {
  constexpr int64_t kRows = 70, kIn = 96, kOut = 130;
  const QuantizedMatrixBuffer matrix = RandomQuantized(Format::kInt4, kOut, kIn, 32, 1);
  const PackedMatrix weight(matrix.view());
  const std::vector<float> x = RandomNormal(kRows * kIn, 2);
  std::vector<float> y(kRows * kOut);
  const QuantizedProjection projection{&weight, nullptr, y.data()};
  QuantizedLinear linear;
  EXPECT_EQ(AllocationsOf([&] { linear.Project(x.data(), kRows, {}, {&projection, 1}); }), 0);
  OneToken token(kIn, OneToken::BlockOf(weight));
  EXPECT_EQ(AllocationsOf([&] {
              token.Load(x.data());
              token.Project(weight, nullptr, y.data());
            }),
            0);
}

}  // namespace
}  // namespace tare::allocation_test
#endif
