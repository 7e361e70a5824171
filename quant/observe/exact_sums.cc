// SPDX-License-Identifier: Apache-2.0
#include "quant/observe/row_measures.h"

#include <algorithm>
#include <cmath>

#include "quant/base/message.h"

namespace tare {
namespace {

constexpr int kBias = 1088;  // a multiple of 32 beyond the smallest double's 1074
constexpr int64_t kBase = int64_t{1} << 32;
constexpr uint64_t kMostPending = uint64_t{1} << 30;

// value = +-mantissa 2^(shift - kBias)
struct Parts {
  uint64_t mantissa;
  int shift;
};

Parts Split(double value) {
  const auto bits = std::bit_cast<uint64_t>(value);
  const int exponent = static_cast<int>(bits >> 52 & 0x7ff);
  const uint64_t fraction = bits & ((uint64_t{1} << 52) - 1);
  TARE_CHECK(exponent != 0x7ff);
  return exponent == 0 ? Parts{fraction, kBias - 1074} : Parts{fraction | uint64_t{1} << 52, exponent - 1075 + kBias};
}

}  // namespace

void ExactSums::Cover(int first, int last) {
  if (width_ != 0) {
    first = std::min(first, first_);
    last = std::max(last, first_ + width_ - 1);
  }
  const int width = last - first + 1;
  if (first == first_ && width == width_) return;
  TARE_CHECK(first >= 0 && last < kLimbs);
  std::vector<int64_t> limbs(sums_ * static_cast<size_t>(width));
  for (size_t s = 0; s < sums_; ++s)
    std::ranges::copy(Limbs(s), limbs.begin() + static_cast<ptrdiff_t>(s) * width + (first_ - first) * (width_ != 0));
  limbs_ = std::move(limbs);
  first_ = first;
  width_ = width;
}

void ExactSums::Carry() {
  if (width_ == 0) return;
  // Two limbs above hold what 2^62 in the last one carries over, and its sign.
  Cover(first_, std::min(first_ + width_ + 1, kLimbs - 1));
  for (size_t s = 0; s < sums_; ++s) {
    const std::span<int64_t> limbs = Limbs(s);
    for (size_t i = 0; i + 1 < limbs.size(); ++i) {
      limbs[i + 1] += limbs[i] >> 32;
      limbs[i] &= kBase - 1;
    }
    TARE_CHECK(limbs.back() == 0 || limbs.back() == -1);
  }
  pending_ = 1;
}

double ExactSums::TakeSign() {
  Carry();
  if (limbs_.empty() || limbs_.back() >= 0) return 1;
  for (int64_t& limb : limbs_) limb = -limb;
  Carry();
  return -1;
}

void ExactSums::Add(size_t sum, double value) {
  if (value == 0.0) return;
  const Parts parts = Split(value);
  const int limb = parts.shift / 32;
  if (width_ == 0 || limb < first_ || limb + 2 >= first_ + width_) Cover(limb, limb + 2);
  if (pending_ >= kMostPending) Carry();
  ++pending_;
  using Wide = unsigned __int128;
  const Wide shifted = static_cast<Wide>(parts.mantissa) << parts.shift % 32;
  const int64_t sign = value < 0 ? -1 : 1;
  int64_t* const at = limbs_.data() + sum * Width() + (limb - first_);
  at[0] += sign * static_cast<int64_t>(static_cast<uint64_t>(shifted) & 0xffffffff);
  at[1] += sign * static_cast<int64_t>(static_cast<uint64_t>(shifted >> 32) & 0xffffffff);
  at[2] += sign * static_cast<int64_t>(static_cast<uint64_t>(shifted >> 64));
}

void ExactSums::AddMultiple(size_t sum, const ExactSums& other, size_t of, double factor) {
  ExactSums one = other.Slice(of, 1);
  factor *= one.TakeSign();
  for (int i = 0; i < one.width_; ++i) {
    const auto limb = static_cast<double>(one.limbs_[static_cast<size_t>(i)]);
    Add(sum, std::ldexp(factor * limb, 32 * (one.first_ + i) - kBias));
  }
}

void ExactSums::Merge(const ExactSums& other) {
  if (other.sums_ != sums_)
    Fail("exact sums: got {} sums to merge into {}, expected equal numbers", other.sums_, sums_);
  if (other.width_ == 0) return;
  if (other.pending_ > kMostPending / 2) {
    ExactSums carried = other;
    carried.Carry();
    return Merge(carried);
  }
  if (pending_ > kMostPending / 2) Carry();
  Cover(other.first_, other.first_ + other.width_ - 1);
  pending_ += other.pending_;
  for (size_t s = 0; s < sums_; ++s) {
    int64_t* const at = limbs_.data() + s * Width() + (other.first_ - first_);
    for (int i = 0; i < other.width_; ++i) at[i] += other.limbs_[s * other.Width() + static_cast<size_t>(i)];
  }
}

ExactSums::Digits ExactSums::Canonical() const {
  ExactSums sums = *this;
  sums.Carry();
  const size_t n = sums_;
  const auto all = [&](int limb, auto&& test) {
    for (size_t s = 0; s < n; ++s) {
      if (!test(sums.Limbs(s)[static_cast<size_t>(limb)])) return false;
    }
    return true;
  };
  int begin = 0, end = sums.width_;
  while (begin < end && all(begin, [](int64_t limb) { return limb == 0; })) ++begin;
  while (end - begin > 1 && all(end - 1, [](int64_t limb) { return limb == 0 || limb == -1; })) {
    --end;
    for (size_t s = 0; s < n; ++s)
      sums.Limbs(s)[static_cast<size_t>(end) - 1] += sums.Limbs(s)[static_cast<size_t>(end)] * kBase;
  }
  Digits digits;
  if (begin == end) return digits;
  digits.first = sums.first_ + begin;
  digits.width = end - begin;
  for (size_t s = 0; s < n; ++s) {
    const auto limbs = sums.Limbs(s);
    digits.limbs.insert(digits.limbs.end(), limbs.begin() + begin, limbs.begin() + end);
  }
  return digits;
}

ExactSums ExactSums::From(size_t sums, const Digits& digits) {
  if (digits.first < 0 || digits.width < 0 || digits.width > kLimbs || digits.first > kLimbs - digits.width ||
      digits.limbs.size() != sums * static_cast<size_t>(digits.width)) {
    Fail("exact sums: got {} limbs from {} of width {} for {} sums, expected them within 0 to {}", digits.limbs.size(),
         digits.first, digits.width, sums, kLimbs - 1);
  }
  for (size_t i = 0; i < digits.limbs.size(); ++i) {
    const bool last = (i + 1) % static_cast<size_t>(digits.width) == 0;
    if (digits.limbs[i] >= kBase || digits.limbs[i] < (last ? -kBase : 0))
      Fail("exact sums: got limb {}, expected {} to {}", digits.limbs[i], last ? -kBase : 0, kBase - 1);
  }
  ExactSums result(sums);
  if (digits.width == 0) return result;
  result.first_ = digits.first;
  result.width_ = digits.width;
  result.limbs_ = digits.limbs;
  result.pending_ = 1;
  return result;
}

ExactSums ExactSums::Slice(size_t begin, size_t count) const {
  TARE_CHECK(begin <= sums_ && count <= sums_ - begin);
  ExactSums slice(count);
  slice.first_ = first_;
  slice.width_ = width_;
  slice.pending_ = pending_;
  slice.limbs_.assign(limbs_.begin() + static_cast<ptrdiff_t>(begin * Width()),
                      limbs_.begin() + static_cast<ptrdiff_t>((begin + count) * Width()));
  return slice;
}

ExactSums ExactSums::Concatenated(std::span<const ExactSums* const> parts) {
  size_t count = 0;
  for (const ExactSums* part : parts) count += part->sums_;
  ExactSums all(count);
  for (const ExactSums* part : parts) {
    if (part->width_ != 0) all.Cover(part->first_, part->first_ + part->width_ - 1);
    all.pending_ = std::max(all.pending_, part->pending_);
  }
  size_t begin = 0;
  for (const ExactSums* part : parts) {
    for (size_t s = 0; s < part->sums_; ++s) {
      for (size_t i = 0; i < part->Width(); ++i)
        all.Limbs(begin + s)[static_cast<size_t>(part->first_ - all.first_) + i] = part->limbs_[s * part->Width() + i];
    }
    begin += part->sums_;
  }
  return all;
}

long double ExactSums::Value(size_t sum) const {
  if (width_ == 0) return 0.0L;
  ExactSums one = Slice(sum, 1);
  const long double sign = one.TakeSign();
  long double value = 0.0L;
  for (int i = one.width_ - 1; i >= 0; --i)
    value += std::ldexp(static_cast<long double>(one.limbs_[static_cast<size_t>(i)]), 32 * (one.first_ + i) - kBias);
  return sign * value;
}

}  // namespace tare
