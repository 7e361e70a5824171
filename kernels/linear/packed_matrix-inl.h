// SPDX-License-Identifier: Apache-2.0
// stages.cc compiles this file, once for each instruction set.
#include "kernels/linear/packed_matrix.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "quant/base/message.h"
#include "quant/base/parallel.h"
#include "quant/format/pack.h"

#include "kernels/linear/panel_codes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tare {
namespace HWY_NAMESPACE::packed_matrix {

// A panel's records to [groups][64][4], signed.
template <class Bits>
HWY_INLINE void UnpackRecords(const uint8_t* in, int64_t groups, int8_t* out) {
  const hn::CappedTag<uint8_t, 64> d;
  const hn::RebindToSigned<decltype(d)> d8;
  const auto offset = hn::Set(d, Bits::kOffset);
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t g = 0; g < groups; g += Bits::kGroups, in += Bits::kRecordBytes) {
    for (int64_t i = 0; i < kPanelGroupBytes; i += lanes) {
      hn::Vec<decltype(d)> codes[Bits::kGroups];
      Bits::Unpack(d, in, i, codes);
      for (int j = 0; j < Bits::kGroups; ++j)
        hn::Store(hn::BitCast(d8, hn::Sub(codes[j], offset)), d8, out + (g + j) * kPanelGroupBytes + i);
    }
  }
}

void UnpackBits(int bits, const uint8_t* in, int64_t groups, int8_t* out) {
  bits == 6 ? UnpackRecords<SixBits>(in, groups, out) : UnpackRecords<FourBits>(in, groups, out);
}

// Sums of a group's codes [inputs / 4][64][4]. Four sums at once hide the latency of an addition.
void SumGroup(const int8_t* codes, int64_t inputs, int32_t* sums) {
  const hn::CappedTag<int32_t, 16> d;
  const hn::Repartition<int8_t, decltype(d)> d8;
  const auto ones = hn::Set(hn::RebindToUnsigned<decltype(d8)>(), uint8_t{1});
  constexpr int64_t kLanes = HWY_MAX_LANES_D(decltype(d)), kSums = 4;
  for (int64_t n = 0; n < PackedMatrix::kPanel; n += kSums * kLanes) {
    hn::Vec<decltype(d)> sum[kSums] = {hn::Zero(d), hn::Zero(d), hn::Zero(d), hn::Zero(d)};
    for (int64_t i = 0; i < inputs / 4; ++i) {
      const int8_t* const at = codes + (i * PackedMatrix::kPanel + n) * 4;
      for (int64_t s = 0; s < kSums; ++s)
        sum[s] = hn::SumOfMulQuadAccumulate(d, ones, hn::Load(d8, at + s * kLanes * 4), sum[s]);
    }
    for (int64_t s = 0; s < kSums; ++s) hn::Store(sum[s], d, sums + n + s * kLanes);
  }
}

}  // namespace HWY_NAMESPACE::packed_matrix
}  // namespace tare
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tare {

namespace {

constexpr size_t kGroupBytes = 4 * PackedMatrix::kPanel;

void PackFour(const int8_t* codes, int64_t groups, uint8_t* out) {
  for (int64_t g = 0; g < groups; g += 2, codes += 2 * kGroupBytes, out += kGroupBytes) {
    for (size_t i = 0; i < kGroupBytes; ++i)
      out[i] = static_cast<uint8_t>((codes[i] + 8) | (codes[kGroupBytes + i] + 8) << 4);
  }
}

void PackSix(const int8_t* codes, int64_t groups, uint8_t* out) {
  for (int64_t g = 0; g < groups; g += 4, codes += 4 * kGroupBytes, out += 3 * kGroupBytes) {
    for (size_t i = 0; i < kGroupBytes; ++i) {
      int u[4];
      for (size_t j = 0; j < 4; ++j) u[j] = codes[j * kGroupBytes + i] + 32;
      out[i] = static_cast<uint8_t>((u[0] & 15) | (u[1] & 15) << 4);
      out[kGroupBytes + i] = static_cast<uint8_t>((u[2] & 15) | (u[3] & 15) << 4);
      out[2 * kGroupBytes + i] = static_cast<uint8_t>(u[0] >> 4 | u[1] >> 4 << 2 | u[2] >> 4 << 4 | u[3] >> 4 << 6);
    }
  }
}

// A group's values are integers times the step of its grid.
float StepOf(const QuantizedMatrix& m, int64_t row, int64_t g, float step) {
  return m.IsEven(row, g) ? kSevenths[8] : step;
}

// A row's integers, signed.
class SignedRow {
 public:
  SignedRow(const QuantizedMatrix& m, float step, int bits) : m_(m), step_(step) {
    if (!IsInteger(m.format)) {
      values_.resize(static_cast<size_t>(m.in));
    } else if (HasOffset(m.format)) {
      unsigned_.resize(static_cast<size_t>(m.in));
      lowest_ = 1 << (bits - 1);
    }
  }

  // Reads a row into codes [m.in].
  void Read(int64_t row, std::span<int8_t> codes) {
    const std::span<const uint8_t> packed(m_.codes + static_cast<size_t>(row) * m_.RowBytes(), m_.RowBytes());
    if (!values_.empty()) {
      UnpackRow(m_, row, values_);
      for (int64_t g = 0; g < m_.Groups(); ++g) {
        const float steps = 1 / StepOf(m_, row, g, step_);
        for (int64_t i = g * m_.group; i < m_.GroupEnd(g); ++i)
          codes[i] = static_cast<int8_t>(NearestInteger(values_[i] * steps));
      }
    } else if (!unsigned_.empty()) {
      Unpack<uint8_t>(m_.format, packed, unsigned_);
      for (size_t i = 0; i < codes.size(); ++i) codes[i] = static_cast<int8_t>(unsigned_[i] - lowest_);
    } else {
      Unpack<int8_t>(m_.format, packed, codes);
    }
  }
  int lowest() const { return lowest_; }

 private:
  const QuantizedMatrix& m_;
  float step_;
  int lowest_ = 0;
  std::vector<float> values_;      // of formats on a grid
  std::vector<uint8_t> unsigned_;  // of +zero and +min
};

StepCodes StepCodesOf(Format format) {
  const std::optional<StepCodes> codes = AsStepCodes(format);
  if (!codes) Fail("packed weights: got {}, expected values that are integers of 8 bits times a step", Name(format));
  return *codes;
}

}  // namespace

bool PackedMatrix::Takes(const QuantizedMatrix& m) {
  const bool whole = m.group > 0 && m.in % m.group == 0;
  return AsStepCodes(m.format).has_value() && whole && (m.in == m.group || m.group % kRecord == 0);
}

PackedMatrix::PackedMatrix(const QuantizedMatrix& m)
    : format_(StepCodesOf(m.format).format), bits_(Info(format_).bits), out_(m.out), in_(m.in), groups_(1) {
  CheckShape(m, "packed weights");
  CheckData(m, "packed weights");
  if (m.in % m.group != 0) Fail("packed weights: got blocks of {} in rows of {}, expected a divisor", m.group, m.in);
  groups_ = m.Groups();
  if (groups_ > 1 && m.group % kRecord != 0) {
    Fail("packed weights: got groups of {}, expected a multiple of {} or one scale per channel; try group64", m.group,
         kRecord);
  }
  const auto panels = static_cast<size_t>(Panels());
  codes_.Reset(panels * PanelBytes());
  scales_.Reset(panels * static_cast<size_t>(groups_ * kPanel));
  if (HasOffset(m.format)) offsets_.Reset(scales_.size());
  ParallelFor(panels,
              [&](size_t panel, int) { PackPanel(m, StepCodesOf(m.format).step, static_cast<int64_t>(panel)); });
}

void PackedMatrix::PackPanel(const QuantizedMatrix& m, float step, int64_t panel) {
  const int64_t groups_of_four = PaddedIn() / 4, first = panel * kPanel;
  std::vector<int8_t> codes(static_cast<size_t>(groups_of_four) * kGroupBytes);
  float* scales = scales_.data() + panel * groups_ * kPanel;
  std::fill_n(scales, groups_ * kPanel, 0.0f);
  float* offsets = offsets_.size() == 0 ? nullptr : offsets_.data() + panel * groups_ * kPanel;
  if (offsets != nullptr) std::fill_n(offsets, groups_ * kPanel, 0.0f);
  SignedRow row(m, step, bits_);
  std::vector<int8_t> signed_row(static_cast<size_t>(PaddedIn()));
  for (int64_t n = 0; n < std::min(kPanel, out_ - first); ++n) {
    row.Read(first + n, std::span(signed_row).first(static_cast<size_t>(in_)));
    for (int64_t i = 0; i < groups_of_four; ++i) std::memcpy(&codes[(i * kPanel + n) * 4], &signed_row[4 * i], 4);
    CheckScales(m, first + n, "packed weights");
    for (int64_t g = 0; g < groups_; ++g) {
      const float scale = m.ScaleOf(first + n, g);
      scales[g * kPanel + n] = scale * StepOf(m, first + n, g, step);
      if (offsets == nullptr) continue;
      offsets[g * kPanel + n] =
          ValueOf(static_cast<float>(row.lowest()), {{0.0f, scale}, m.ZeroOf(first + n, g), m.MinimumOf(first + n, g)});
    }
  }
  uint8_t* out = codes_.data() + static_cast<size_t>(panel) * PanelBytes();
  if (bits_ == 8) std::memcpy(out, codes.data(), codes.size());
  if (bits_ == 6) PackSix(codes.data(), groups_of_four, out);
  if (bits_ == 4) PackFour(codes.data(), groups_of_four, out);
}

const int8_t* PackedMatrix::Unpacked(int64_t panel, int8_t* scratch) const {
  const uint8_t* codes = Codes(panel);
  if (bits_ == 8) return reinterpret_cast<const int8_t*>(codes);
  TARE_CHOSEN(packed_matrix::UnpackBits)(bits_, codes, PaddedIn() / 4, scratch);
  return scratch;
}

void PackedMatrix::SumCodes(const int8_t* unpacked, int64_t part, int32_t* sums) const {
  for (int64_t begin = 0; begin < PaddedIn(); begin += part, sums += kPanel)
    TARE_CHOSEN(packed_matrix::SumGroup)(unpacked + begin * kPanel, part, sums);
}

}  // namespace tare
#endif
