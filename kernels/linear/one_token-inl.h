// SPDX-License-Identifier: Apache-2.0
// See one_token.h. Weights are the unsigned factor (their codes raised by 8, 32 or 128), so the accumulators start with
// the negative of what that adds.
// stages.cc compiles this file, once for each instruction set.
#include "kernels/linear/one_token.h"

#include <algorithm>
#include <cmath>

#include "kernels/linear/product_stage.h"
#include "kernels/product/read_ahead.h"
#include "quant/base/integers.h"
#include "quant/base/message.h"
#include "quant/base/parallel.h"

#include "kernels/elementwise/lanes-inl.h"
#include "kernels/linear/panel_codes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tare {
namespace HWY_NAMESPACE::one_token {

using D8 = hn::Repartition<uint8_t, DF>;
constexpr int64_t kLanes = HWY_MAX_LANES_D(DF);
constexpr int64_t kBytes = 4 * kLanes;
constexpr int kVectors = 4;  // of outputs at once: two planes of sums stay in registers

// high_sum, low_sum [kVectors].
template <class Format>
HWY_INLINE void Step(const uint8_t* w, const int8_t* high, const int8_t* low, VI* high_sum, VI* low_sum) {
  for (int v = 0; v < kVectors; ++v) {
    hn::Vec<D8> codes[Format::kGroups];
    Format::Unpack(D8(), w, v * kBytes, codes);
    for (int g = 0; g < Format::kGroups; ++g)
      FourInputs(high + 4 * g, low + 4 * g).Accumulate<Format>(codes[g], high_sum[v], low_sum[v]);
  }
}

struct Call {
  const int8_t *high, *low;
  const OneToken::Block* blocks;
  int64_t padded, block, group;  // inputs; group: that share a scale of the weights
  ReadHint hint;
};

// The weights of a panel.
struct Panel {
  const uint8_t* codes;
  const float *scales, *offsets;  // [groups][64]; offsets may be null
};

template <class Format, bool kOffsets>
HWY_INLINE void Columns(const Call& c, const Panel& panel, float* y) {
  const uint8_t* w = panel.codes;
  const DF d;
  const DI di;
  hn::Vec<DF> total[kVectors];
  for (int v = 0; v < kVectors; ++v) total[v] = hn::Zero(d);
  const auto hundred = hn::Set(d, 128.0f);
  for (int64_t begin = 0; begin < c.padded; begin += c.block) {
    const OneToken::Block& block = c.blocks[begin / c.block];
    VI high[kVectors], low[kVectors];
    for (int v = 0; v < kVectors; ++v) {
      high[v] = hn::Set(di, -Format::kRaisedBy * block.high_sum);
      low[v] = hn::Set(di, -Format::kRaisedBy * block.low_sum);
    }
    for (int64_t i = begin; i < std::min(begin + c.block, c.padded);
         i += 4 * Format::kGroups, w += Format::kRecordBytes) {
      if (c.hint != ReadHint::kNear) AskForWeights(w, Format::kRecordBytes, c.hint);
      Step<Format>(w, c.high + i, c.low + i, high, low);
    }
    const auto x_scale = hn::Set(d, block.scale);
    const int64_t at = begin / c.group * PackedMatrix::kPanel;
    for (int v = 0; v < kVectors; ++v) {
      const auto scale = hn::Mul(hn::Load(d, panel.scales + at + v * kLanes), x_scale);
      const auto sum = hn::MulAdd(hn::ConvertTo(d, high[v]), hundred, hn::ConvertTo(d, low[v]));
      total[v] = hn::MulAdd(sum, scale, total[v]);
    }
    if constexpr (kOffsets) {
      const auto x_sum = hn::Set(d, static_cast<float>(128 * block.high_sum + block.low_sum) * block.scale);
      for (int v = 0; v < kVectors; ++v)
        total[v] = hn::MulAdd(x_sum, hn::Load(d, panel.offsets + at + v * kLanes), total[v]);
    }
  }
  for (int v = 0; v < kVectors; ++v) hn::Store(total[v], d, y + v * kLanes);
}

template <class Format, bool kOffsets>
void AllColumns(const Call& c, const Panel& panel, float* y) {
  for (int64_t n = 0; n < PackedMatrix::kPanel; n += kVectors * kLanes) {
    const float* offsets = kOffsets ? panel.offsets + n : nullptr;
    Columns<Format, kOffsets>(c, {panel.codes + 4 * n, panel.scales + n, offsets}, y + n);
  }
}

// y [64], aligned.
void ProjectPanel(int bits, const int8_t* high, const int8_t* low, const OneToken::Block* blocks, int64_t padded,
                  int64_t block, int64_t group, const uint8_t* codes, const float* scales, const float* offsets,
                  float* y) {
  const Call c{high, low, blocks, padded, block, group, BestReadHint()};
  const Panel panel{codes, scales, offsets};
  const auto run = [&](auto format) HWY_ATTR {
    if (offsets == nullptr) return AllColumns<decltype(format), false>(c, panel, y);
    AllColumns<decltype(format), true>(c, panel, y);
  };
  if (bits == 8) return WithFactor<EightBits>(run);
  if (bits == 6) return WithFactor<SixBits>(run);
  WithFactor<FourBits>(run);
}

// x [count] as codes and their sums; x inv is below 2^22.
HWY_INLINE void LoadBlock(const float* x, size_t count, float inv, int8_t* high, int8_t* low, OneToken::Block& block) {
  const DF d;
  const DI di;
  const hn::Rebind<int8_t, DF> d8;
  VI high_sum = hn::Zero(di), low_sum = hn::Zero(di);
  for (size_t i = 0; i < count; i += kLanes) {
    const size_t n = std::min<size_t>(kLanes, count - i);
    const VI code = hn::NearestInt(hn::Mul(hn::LoadN(d, x + i, n), hn::Set(d, inv)));
    const VI h = hn::ShiftRight<7>(hn::Add(code, hn::Set(di, 64)));
    const VI l = hn::Sub(code, hn::ShiftLeft<7>(h));
    hn::StoreN(hn::DemoteTo(d8, h), d8, high + i, n);
    hn::StoreN(hn::DemoteTo(d8, l), d8, low + i, n);
    high_sum = hn::Add(high_sum, h);
    low_sum = hn::Add(low_sum, l);
  }
  block.high_sum = hn::ReduceSum(di, high_sum);
  block.low_sum = hn::ReduceSum(di, low_sum);
}

// x [in]. False where a value is not finite.
bool LoadToken(const float* x, int64_t in, int64_t size, int8_t* high, int8_t* low, OneToken::Block* blocks) {
  for (int64_t begin = 0; begin < in; begin += size, ++blocks) {
    const auto count = static_cast<size_t>(std::min(size, in - begin));
    const float absmax = AbsMaxRow(x + begin, count);
    if (std::isinf(absmax)) return false;
    const bool zero = absmax < 0x1p-100f;  // as in quant/format/round.h
    blocks->scale = zero ? 0.0f : absmax / static_cast<float>(OneToken::kLargestCode);
    LoadBlock(x + begin, count, zero ? 0.0f : static_cast<float>(OneToken::kLargestCode) / absmax, high + begin,
              low + begin, *blocks);
  }
  return true;
}

}  // namespace HWY_NAMESPACE::one_token
}  // namespace tare
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tare {

OneToken::OneToken(int64_t in, int64_t block)
    : in_((CheckSizes(in, block), in)),
      block_(block),
      padded_(RoundUp(in, PackedMatrix::kRecord)),
      high_(static_cast<size_t>(padded_), 0),
      low_(static_cast<size_t>(padded_), 0),
      blocks_(static_cast<size_t>(CeilDiv(in, block))) {}

void OneToken::CheckSizes(int64_t in, int64_t block) {
  CheckRange("one token", "inputs", in, 0, int64_t{1} << 40);
  if (block != 64 && block != 32 && block != 16) Fail("one token: got blocks of {}, expected 64, 32 or 16", block);
}

void OneToken::Load(const float* x) {
  CheckPointer("one token, x", x, in_);
  if (TARE_CHOSEN(one_token::LoadToken)(x, in_, block_, high_.data(), low_.data(), blocks_.data())) return;
  const auto wrong = std::find_if_not(x, x + in_, [](float value) { return std::isfinite(value); });
  Fail("one token: input {} is NaN or infinity", wrong - x);
}

// All of x is its low plane: the high one, which nothing else wrote, is 0.
void OneToken::LoadCodes(const uint8_t* x, float scale, const float* steps, int64_t of_step, int64_t part) {
  block_ = part;
  scale_ = scale;
  blocks_.resize(static_cast<size_t>(padded_ / part));
  for (int64_t begin = 0; begin < padded_; begin += part) {
    int32_t sum = 0;
    for (int64_t i = begin; i < begin + part; ++i) sum += low_[i] = static_cast<int8_t>(x[i] - 128);
    blocks_[begin / part] = {.scale = steps == nullptr ? 1 : steps[begin / of_step], .low_sum = sum};
  }
}

int64_t OneToken::BlockOf(const PackedMatrix& weight) {
  if (weight.Groups() == 1) return 64;
  const int64_t group = weight.GroupInputs();
  return group % 64 == 0 ? 64 : group % 32 == 0 ? 32 : 16;
}

void OneToken::ProjectPanelOf(const PackedMatrix& w, int64_t panel, const float* bias, float* y) const {
  alignas(64) float sums[PackedMatrix::kPanel];
  TARE_CHOSEN(one_token::ProjectPanel)(Info(w.format()).bits, high_.data(), low_.data(), blocks_.data(), padded_,
                                       block_, w.GroupInputs(), w.Codes(panel), w.Scales(panel), w.Offsets(panel),
                                       sums);
  const int64_t first = panel * PackedMatrix::kPanel;
  FinishTile(sums, &scale_, bias == nullptr ? nullptr : bias + first, 1,
             std::min(PackedMatrix::kPanel, w.out() - first), y + first, w.out());
}

void OneToken::CheckWeight(const PackedMatrix& w) const {
  CheckEqual("one token", "inputs", in_, w.in());
  if (w.Groups() > 1 && w.GroupInputs() % block_ != 0)
    Fail("one token: got blocks of {}, expected a divisor of the weights' groups of {}", block_, w.GroupInputs());
}

void OneToken::Project(const PackedMatrix& weight, const float* bias, float* y) const {
  CheckPointer("one token, y", y, 1);
  const TokenProjection all{{this, 1}, {&weight, bias, y}};
  ProjectAll({&all, 1});
}

// A panel meets all tokens while a cache holds it.
void OneToken::ProjectAll(std::span<const TokenProjection> all) {
  int64_t panels = 0;
  for (const auto& [tokens, to] : all) {
    for (const OneToken& token : tokens) token.CheckWeight(*to.weight);
    panels += to.weight->Panels();
  }
  ParallelFor(static_cast<size_t>(panels), [&](size_t index, int) {
    auto panel = static_cast<int64_t>(index);
    const TokenProjection* part = all.data();
    for (; panel >= part->to.weight->Panels(); ++part) panel -= part->to.weight->Panels();
    float* y = part->to.y;
    for (const OneToken& token : part->tokens) {
      token.ProjectPanelOf(*part->to.weight, panel, part->to.bias, y);
      y += part->to.weight->out();
    }
  });
}

void OneTokenProjector::Project(const float* x, int64_t tokens, std::span<const QuantizedProjection> projections) {
  CheckProjections("one token", x, tokens, projections);
  std::vector<OneToken::TokenProjection> all;
  for (const QuantizedProjection& p : projections) {
    const std::pair key{p.weight->in(), OneToken::BlockOf(*p.weight)};
    std::vector<OneToken>& of_key = tokens_[key];
    while (std::ssize(of_key) < tokens) of_key.emplace_back(key.first, key.second);
    const std::span loaded = std::span(of_key).first(static_cast<size_t>(tokens));
    if (!std::ranges::contains(all, loaded.data(), [](const auto& one) { return one.tokens.data(); }))
      ParallelFor(loaded.size(), [&](size_t t, int) { loaded[t].Load(x + static_cast<int64_t>(t) * key.first); });
    all.push_back({loaded, p});
  }
  OneToken::ProjectAll(all);
}

}  // namespace tare
#endif
