// SPDX-License-Identifier: Apache-2.0
// See blocks.h. Sums run in eight lanes, of which compilers make vectors, in one order on every machine.
#include "quant/interchange/gguf/blocks.h"

#include <algorithm>

#include "quant/base/integers.h"
#include "quant/format/grid.h"

namespace tare::gguf {
namespace {

constexpr int kSuperBlock = 256, kLanes = 8;

// The nearest whole number between these; of NaN the least, so that what follows stays defined.
float Code(float x, float least, float most) { return NearestInteger(std::min(most, std::max(least, x))); }

// The codes of a width.
struct Rounding {
  float inverse, shift, least, most;
  float CodeOf(float x) const { return Code(x * inverse + shift, least, most); }
};

// Sums over the values x of a group and their codes q.
struct Sums {
  float q = 0, qq = 0, xq = 0;
};

template <int kGroup>
Sums SumsOf(const float* x, const Rounding& rounding) {
  std::array<float, kLanes> q{}, qq{}, xq{};
  for (int i = 0; i < kGroup; i += kLanes) {
    for (int lane = 0; lane < kLanes; ++lane) {
      const float value = x[i + lane], code = rounding.CodeOf(value);
      q[lane] += code;
      qq[lane] += code * code;
      xq[lane] += value * code;
    }
  }
  Sums sums;
  for (int lane = 0; lane < kLanes; ++lane) sums.q += q[lane], sums.qq += qq[lane], sums.xq += xq[lane];
  return sums;
}

template <int kGroup>
float SumOf(const float* x) {
  std::array<float, kLanes> sums{};
  for (int i = 0; i < kGroup; i += kLanes) {
    for (int lane = 0; lane < kLanes; ++lane) sums[lane] += x[i + lane];
  }
  float sum = 0;
  for (const float lane : sums) sum += lane;
  return sum;
}

float AsF16(float value) { return FloatFromF16(F16FromFloat(value)); }

// Beyond every type's largest scale and codes, 65504 x 128 x 32: sums of what is below stay far inside f32.
bool AnyBeyond(const float* x) {
  return std::any_of(x, x + kSuperBlock, [](float value) { return std::fabs(value) > 65504.0f * 128 * 32; });
}

// ---- Q4_K and Q5_K

constexpr int kGroup = 32, kGroups = kSuperBlock / kGroup;
constexpr float kMostSix = 63;

// x ~ scale q - least, both 0 or more.
struct Line {
  float scale = 0, least = 0;
};

// The least squares' line through the codes, and by how much it explains the values: sum(x^2) less its squared error.
struct Fit {
  Line line;
  float gain = 0;
};
Fit FitOf(const Sums& s, float sum_x) {
  const float n = kGroup, determinant = n * s.qq - s.q * s.q;
  Fit fit;
  if (determinant > 0) {
    fit.line.scale = (n * s.xq - sum_x * s.q) / determinant;
    fit.line.least = (fit.line.scale * s.q - sum_x) / n;
  }
  if (determinant <= 0 || fit.line.least < 0) fit.line = {s.qq > 0 ? s.xq / s.qq : 0.0f, 0.0f};
  if (fit.line.scale < 0) fit.line.scale = 0;
  const auto [scale, least] = fit.line;
  fit.gain = 2 * (scale * s.xq - least * sum_x) - (scale * scale * s.qq - 2 * scale * least * s.q + least * least * n);
  return fit;
}

// Widths from one code less than the range to one and a half more.
constexpr int kWidths = 11;
constexpr float WidthOf(int i) { return 0.25f * static_cast<float>(i - 4); }

Line SearchLine(const float* x, float sum_x, float most_code) {
  float low = 0, high = x[0];
  for (int i = 0; i < kGroup; ++i) low = std::min(low, x[i]), high = std::max(high, x[i]);
  if (!(high > low)) return {0, -low};
  Fit best;
  const float unit = InverseOrZero(high - low);
  const auto consider = [&](const Rounding& rounding) {
    const Fit fit = FitOf(SumsOf<kGroup>(x, rounding), sum_x);
    if (fit.gain > best.gain) best = fit;
  };
  for (int i = 0; i < kWidths; ++i) {
    const float inverse = (most_code + WidthOf(i)) * unit;
    consider({inverse, -low * inverse, 0, most_code});
  }
  const float again = InverseOrZero(best.line.scale);
  consider({again, best.line.least * again, 0, most_code});
  return best.line;
}

// The numbers that a block holds beside the codes of values.
struct Levels {
  float d = 0, dmin = 0;
  std::array<float, kGroups> scales{}, minima{};  // whole numbers to 63

  Rounding Of(int g, float most_code) const {
    const float inverse = InverseOrZero(d * scales[g]);
    return {inverse, dmin * minima[g] * inverse, 0, most_code};
  }
};

Levels LevelsOf(const std::array<Line, kGroups>& lines) {
  Levels levels;
  for (const Line& line : lines)
    levels.d = std::max(levels.d, line.scale), levels.dmin = std::max(levels.dmin, line.least);
  levels.d /= kMostSix, levels.dmin /= kMostSix;
  const float inverse = InverseOrZero(levels.d), inverse_min = InverseOrZero(levels.dmin);
  for (int g = 0; g < kGroups; ++g) {
    levels.scales[g] = Code(lines[g].scale * inverse, 0, kMostSix);
    levels.minima[g] = Code(lines[g].least * inverse_min, 0, kMostSix);
  }
  return levels;
}

// d and dmin anew: the least squares' with all codes given, in double.
void Solve(const float* x, const std::array<float, kGroups>& sum_x, float most_code, Levels& levels) {
  double ss = 0, sm = 0, mm = 0, xs = 0, xm = 0;
  for (int g = 0; g < kGroups; ++g) {
    const Sums sums = SumsOf<kGroup>(x + g * kGroup, levels.Of(g, most_code));
    const double s = levels.scales[g], m = levels.minima[g];
    ss += s * s * sums.qq, sm += s * m * sums.q, mm += m * m * kGroup;
    xs += s * sums.xq, xm += m * sum_x[g];
  }
  const double determinant = ss * mm - sm * sm;
  const double d = determinant > 0 ? (xs * mm - xm * sm) / determinant : ss > 0 ? xs / ss : 0;
  const double dmin = determinant > 0 ? (xs * sm - xm * ss) / determinant : 0;
  if (d > 0 && dmin >= 0) levels.d = static_cast<float>(d), levels.dmin = static_cast<float>(dmin);
}

// Six bits each as ScalesOfQ4 in blocks.cc reads them.
void PutScales(const Levels& levels, uint8_t* b) {
  for (int g = 0; g < kGroups; ++g) {
    const int s = static_cast<int>(levels.scales[g]), m = static_cast<int>(levels.minima[g]);
    if (g < 4) {
      b[g] = static_cast<uint8_t>(s);
      b[g + 4] = static_cast<uint8_t>(m);
    } else {
      b[g + 4] = static_cast<uint8_t>((s & 15) | (m & 15) << 4);
      b[g - 4] = static_cast<uint8_t>(b[g - 4] | s >> 4 << 6);
      b[g] = static_cast<uint8_t>(b[g] | m >> 4 << 6);
    }
  }
}

// The head of a block, and the codes of its values.
bool Quantize(const float* x, int most_code, uint8_t* b, std::array<uint8_t, kSuperBlock>& codes) {
  if (AnyBeyond(x)) return false;
  const auto most = static_cast<float>(most_code);
  std::array<Line, kGroups> lines;
  std::array<float, kGroups> sum_x;
  for (int g = 0; g < kGroups; ++g) {
    sum_x[g] = SumOf<kGroup>(x + g * kGroup);
    lines[g] = SearchLine(x + g * kGroup, sum_x[g], most);
  }
  Levels levels = LevelsOf(lines);
  Solve(x, sum_x, most, levels);
  levels.d = AsF16(levels.d), levels.dmin = AsF16(levels.dmin);
  for (int g = 0; g < kGroups; ++g) {
    const Rounding rounding = levels.Of(g, most);
    for (int i = g * kGroup; i < (g + 1) * kGroup; ++i) codes[i] = static_cast<uint8_t>(rounding.CodeOf(x[i]));
  }
  PutScales(levels, b + 4);
  return PutHalf(levels.d, b) && PutHalf(levels.dmin, b + 2);
}

// Groups 2i and 2i + 1 in the halves of 32 bytes.
void PutNibbles(const std::array<uint8_t, kSuperBlock>& codes, uint8_t* b) {
  for (int i = 0; i < kSuperBlock / 2; ++i) {
    const int first = i / kGroup * 2 * kGroup + i % kGroup;
    b[i] = static_cast<uint8_t>((codes[first] & 15) | (codes[first + kGroup] & 15) << 4);
  }
}

// ---- Q6_K

constexpr int kSmallGroup = 16, kSmallGroups = kSuperBlock / kSmallGroup;

// The scale of a group, of either sign: the value of the largest magnitude gets a code near -32, the lowest.
float SearchScale(const float* x) {
  float extreme = 0;
  for (int i = 0; i < kSmallGroup; ++i) {
    if (std::fabs(x[i]) > std::fabs(extreme)) extreme = x[i];
  }
  const float unit = InverseOrZero(extreme);
  float best = 0, gain = 0;
  for (int i = 0; i < kWidths; ++i) {
    const Sums s = SumsOf<kSmallGroup>(x, {-(31.0f + WidthOf(i)) * unit, 0, -32, 31});
    if (s.xq * s.xq > gain * s.qq) gain = s.xq * s.xq / s.qq, best = s.xq / s.qq;
  }
  return best;
}

}  // namespace

bool PutQ4_K(const float* x, uint8_t* b) {
  std::array<uint8_t, kSuperBlock> codes;
  if (!Quantize(x, 15, b, codes)) return false;
  PutNibbles(codes, b + 16);
  return true;
}

bool PutQ5_K(const float* x, uint8_t* b) {
  std::array<uint8_t, kSuperBlock> codes;
  if (!Quantize(x, 31, b, codes)) return false;
  for (int i = 0; i < kGroup; ++i) {
    int fifth = 0;
    for (int g = 0; g < kGroups; ++g) fifth |= codes[g * kGroup + i] >> 4 << g;
    b[16 + i] = static_cast<uint8_t>(fifth);
  }
  PutNibbles(codes, b + 48);
  return true;
}

bool PutQ6_K(const float* x, uint8_t* b) {
  if (AnyBeyond(x)) return false;
  std::array<float, kSmallGroups> scales;
  float extreme = 0;
  for (int g = 0; g < kSmallGroups; ++g) {
    scales[g] = SearchScale(x + g * kSmallGroup);
    if (std::fabs(scales[g]) > std::fabs(extreme)) extreme = scales[g];
  }
  float d = extreme / -128.0f;
  const float inverse = InverseOrZero(d);
  double xs = 0, ss = 0;
  for (int g = 0; g < kSmallGroups; ++g) {
    scales[g] = Code(scales[g] * inverse, -128, 127);
    const Sums sums = SumsOf<kSmallGroup>(x + g * kSmallGroup, {InverseOrZero(d * scales[g]), 0, -32, 31});
    xs += double{scales[g]} * sums.xq, ss += double{scales[g]} * scales[g] * sums.qq;
  }
  if (ss > 0) d = static_cast<float>(xs / ss);
  d = AsF16(d);
  std::array<uint8_t, kSuperBlock> codes;
  for (int g = 0; g < kSmallGroups; ++g) {
    const Rounding rounding{InverseOrZero(d * scales[g]), 0, -32, 31};
    for (int i = g * kSmallGroup; i < (g + 1) * kSmallGroup; ++i)
      codes[i] = static_cast<uint8_t>(static_cast<int>(rounding.CodeOf(x[i])) + 32);
    b[192 + g] = static_cast<uint8_t>(static_cast<int>(scales[g]));
  }
  // Each half of the values: 64 bytes with its first 64 in their low halves, then 32 with two high bits of every value.
  for (int half = 0; half < 2; ++half) {
    const uint8_t* const c = codes.data() + 128 * half;
    for (int i = 0; i < 64; ++i) b[64 * half + i] = static_cast<uint8_t>((c[i] & 15) | (c[i + 64] & 15) << 4);
    for (int i = 0; i < 32; ++i)
      b[128 + 32 * half + i] =
          static_cast<uint8_t>(c[i] >> 4 | c[i + 32] >> 4 << 2 | c[i + 64] >> 4 << 4 | c[i + 96] >> 4 << 6);
  }
  return PutHalf(d, b + 208);
}

}  // namespace tare::gguf
