// SPDX-License-Identifier: Apache-2.0
// SumRead of roofline.h.
#include "experiments/bench/roofline.h"

#include "quant/base/message.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "experiments/bench/read_loop.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
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

uint64_t SumRead(const uint64_t* x, size_t count, const ReadLoop& loop) {
  TARE_CHECK(count % kReadStep == 0);
  return TARE_CHOSEN(read_loop::SumOfStreams)(x, count, &loop);
}

}  // namespace tare
#endif
