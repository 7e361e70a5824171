// SPDX-License-Identifier: Apache-2.0
// LogitStage, LogitTables and LookupStage of score_stage.h; stages.cc compiles this once for each instruction set.
#include "kernels/attention/integer/score_stage.h"

#include <limits>

#include "kernels/attention/exponentials.h"
#include "quant/base/integers.h"
#include "quant/format/round.h"

#include "kernels/attention/exponentials-inl.h"
#include "kernels/attention/integer/score_stage-inl.h"
#include "kernels/elementwise/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tare {
namespace HWY_NAMESPACE::logit_stage {

using namespace score_stage;  // z by vectors

using DU8 = hn::Repartition<uint8_t, DF>;
using VU8 = hn::Vec<DU8>;
constexpr int kBytes = 4 * kLanes;  // codes in a vector
constexpr bool kTableInRegisters = kLogitEntries == 4 * kLanes;

template <class Logits>
HWY_INLINE void LogitsOf(const LogitTile& t, const Logits& logits) {
  const DF d;
  const hn::BlockDFromD<DF> block;
  for (int row = 0; row < t.sums.rows; row += 4) {
    VF largest[4];
    for (int r = 0; r < 4; ++r) {
      const int at = row + r;
      largest[r] = hn::Zero(d);
      for (int i = 0; i < kVectors; ++i) {
        VF z = logits(at, i);
        if (t.sums.begin != nullptr)
          z = hn::IfThenElseZero(Visible(d, t.sums, at, hn::Load(DI(), kColumnKeys.data() + i * kLanes)), z);
        hn::Store(z, d, t.logits + at * kTile + i * kLanes);
        largest[r] = hn::Max(largest[r], hn::Abs(z));
      }
    }
    const auto four = ReduceFour(d, largest[0], largest[1], largest[2], largest[3], Largest());
    hn::Store(hn::Max(four, hn::Load(block, t.absmax + row)), block, t.absmax + row);
  }
}

void LogitRows(const LogitTile& t) {
  WithLogits(t.sums, [&](const auto& logits) HWY_ATTR { LogitsOf(t, logits); });
}

// code + 128 of kBytes keys from place i of exponentials on; z: a row of columns (row_block.h).
HWY_INLINE VU8 Codes(const float* z, int i, VF inv) {
  const DF d;
  const VF magic = hn::Set(d, kToNearest);
  const auto nearest = [&](const float* columns) HWY_ATTR {
    const VI bits = hn::BitCast(DI(), hn::MulAdd(hn::Load(d, columns), inv, hn::Set(d, kToNearest + 128)));
    return hn::Sub(bits, hn::BitCast(DI(), magic));
  };
  const auto words = [&](int at) HWY_ATTR {
    const float* columns = z + at / 32 * 32 + at % 32 / 2;
    return hn::BitCast(DU16(), hn::ReorderDemote2To(DI16(), nearest(columns), nearest(columns + 16)));
  };
  return hn::OrderedTruncate2To(DU8(), words(i), words(i + 2 * kLanes));
}

// Codes of masked keys become 0, which no code + 128 is.
HWY_INLINE VU8 MaskCodes(VU8 codes, int begin, int end, int first) {
  const DU8 d;
  const auto key = hn::Load(d, kExpKeys.data() + first);
  const auto visible =
      hn::And(hn::Ge(key, hn::Set(d, static_cast<uint8_t>(begin))), hn::Lt(key, hn::Set(d, static_cast<uint8_t>(end))));
  return hn::IfThenElseZero(visible, codes);
}

// The largest of each lane's four bytes.
HWY_INLINE VI LargestByte(VU8 x) {
  const DU8 d;
  const DU wide;
  x = hn::Max(x, hn::BitCast(d, hn::ShiftRight<16>(hn::BitCast(wide, x))));
  x = hn::Max(x, hn::BitCast(d, hn::ShiftRight<8>(hn::BitCast(wide, x))));
  return hn::BitCast(DI(), hn::And(hn::BitCast(wide, x), hn::Set(wide, 255)));
}

// Codes of all rows into codes [rows][64], in the order of exponentials, each row's largest into largest [rows].
void CodeRows(const LookupTile& t, uint8_t* codes, int32_t* largest) {
  const DI di;
  const hn::BlockDFromD<DI> block;
  for (int row = 0; row < t.rows; row += 4) {
    VI lanes[4];
    for (int r = 0; r < 4; ++r) {
      const int at = row + r;
      VU8 most = hn::Zero(DU8());
      for (int i = 0; i < kTile; i += kBytes) {
        VU8 code = Codes(t.logits + at * kTile, i, hn::Set(DF(), t.inv[at]));
        if (t.begin != nullptr) code = MaskCodes(code, t.begin[at], t.end[at], i);
        hn::Store(code, DU8(), codes + at * kTile + i);
        most = hn::Max(most, code);
      }
      lanes[r] = LargestByte(most);
    }
    hn::Store(ReduceFour(di, lanes[0], lanes[1], lanes[2], lanes[3], Largest()), block, largest + row);
  }
}

// The table's formula for 2 * kLanes differences of codes.
struct Computed {
  VF step;
  HWY_INLINE explicit Computed(float row_step) : step(hn::Set(DF(), row_step)) {}
  HWY_INLINE hn::Vec<DU16> operator()(hn::Vec<DU16> index) const {
    const DF d;
    const DI di;
    const auto units = [&](auto i) HWY_ATTR {
      const VF x = hn::Min(hn::Mul(hn::ConvertTo(d, hn::BitCast(di, i)), step), hn::Set(d, kExpLargest));
      return hn::BitCast(DU(), hn::Add(x, hn::Set(d, kToNearest)));
    };
    const auto low = units(hn::PromoteLowerTo(DU(), index)), high = units(hn::PromoteUpperTo(DU(), index));
    hn::Vec<DU16> e[] = {hn::OrderedTruncate2To(DU16(), low, high)};
    FixedExp2Of(DU16(), e);
    return e[0];
  }
};

struct InRegisters {
  hn::Vec<DU16> low, high;
  HWY_INLINE explicit InRegisters(const uint16_t* table)
      : low(hn::Load(DU16(), table)), high(hn::Load(DU16(), table + 2 * kLanes)) {}
  HWY_INLINE hn::Vec<DU16> operator()(hn::Vec<DU16> index) const {
    return hn::TwoTablesLookupLanes(DU16(), low, high, hn::IndicesFromVec(DU16(), index));
  }
};

template <class Table>
HWY_INLINE void LookupRow(const LookupTile& t, int row, const uint8_t* codes, int largest, Table table, VI& sum) {
  const DU16 d16;
  const DI16 di16;
  const DI di;
  const hn::Rebind<uint8_t, DU16> half;
  const auto most = hn::Set(d16, static_cast<uint16_t>(largest));
  sum = hn::Zero(di);
  for (int i = 0; i < kTile; i += 2 * kLanes) {
    const auto code = hn::PromoteTo(d16, hn::Load(half, codes + i));
    auto e = table(hn::And(hn::Sub(most, code), hn::Set(d16, t.qmax > 31 ? 255 : 63)));
    if (t.begin != nullptr) e = hn::IfThenZeroElse(hn::Eq(code, hn::Zero(d16)), e);
    hn::Store(hn::BitCast(di16, e), di16, t.exps + row * kTile + i);
    sum = hn::Add(sum, hn::WidenMulPairwiseAdd(di, hn::BitCast(di16, e), hn::Set(di16, 1)));
  }
}

void LookupRows(const LookupTile& t) {
  const DI di;
  const hn::BlockDFromD<DI> block;
  HWY_ALIGN uint8_t codes[kLargestRows * kTile];
  HWY_ALIGN int32_t largest[kLargestRows];
  CodeRows(t, codes, largest);
  for (int row = 0; row < t.rows; row += 4) {
    VI sum[4];
    for (int r = 0; r < 4; ++r) {
      const int at = row + r;
      if (kTableInRegisters && t.qmax <= 31)
        LookupRow(t, at, codes + at * kTile, largest[at], InRegisters(t.table + at * kLogitEntries), sum[r]);
      else
        LookupRow(t, at, codes + at * kTile, largest[at], Computed(t.steps[at]), sum[r]);
      t.max[at] = largest[at] == 0 ? -std::numeric_limits<float>::infinity()
                                   : static_cast<float>(largest[at] - 128) * t.steps[at];
    }
    hn::Store(ReduceFour(di, sum[0], sum[1], sum[2], sum[3], Total()), block, t.exp_sums + row);
  }
}

void TableRows(const LogitScales& s) {
  const DU16 d;
  const float most = static_cast<float>(s.qmax);
  for (int r = 0; r < s.rows; ++r) {
    const float absmax = s.absmax[r];
    s.inv[r] = absmax < kSmallestAbsmax ? 0.0f : most / absmax;
    s.steps[r] = absmax < kSmallestAbsmax ? 0.0f : absmax / most * s.row_factors[r];
    const Computed computed(s.steps[r]);
    for (int i = 0; i < kLogitEntries; i += 2 * kLanes)
      hn::Store(computed(hn::Iota(d, static_cast<uint16_t>(i))), d, s.table + r * kLogitEntries + i);
  }
}

}  // namespace HWY_NAMESPACE::logit_stage
}  // namespace tare
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tare {

void LogitStage(const LogitTile& tile) { TARE_CHOSEN(logit_stage::LogitRows)(tile); }
void LookupStage(const LookupTile& tile) { TARE_CHOSEN(logit_stage::LookupRows)(tile); }
void LogitTables(const LogitScales& scales) { TARE_CHOSEN(logit_stage::TableRows)(scales); }

}  // namespace tare
#endif
