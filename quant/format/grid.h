// SPDX-License-Identifier: Apache-2.0
// A grid: the values of codes before their scale. Steps double with each power of two from smallest_normal on and are
// constant below it (subnormals); or the values are a list.
//
//   E2M1    0 0.5 1 1.5 2 3 4 6
//   E1M2    0 1 2 .. 7: integers, with a sign
//   E2M3    steps of 1/8 below 2, of 1/4 below 4, of 1/2 up to 7.5
//   E3M2    steps of 1/16 below 0.5, doubling up to 28
//   E4M3    steps of 2^-9 below 2^-5, doubling up to 448; its two NaN codes are not values
//   E5M2    steps of 2^-16 below 2^-13, doubling up to 57344; its codes of infinity and NaN are not values
//   1/64    steps of 1/64 up to 127/64, symmetric: MXINT8 without its lowest code
//   NF4     16 quantiles of the normal law, 0 among them: Dettmers et al., arXiv 2305.14314, appendix E
//   normal  2, 4, 8 or 16 values at which a normal variable of variance 1 loses least: each is the mean of what is
//           rounded to it (Lloyd, Max 1960; TurboQuant, arXiv 2504.19874, and HIGGS, arXiv 2411.17525, use them after
//           a rotation)
//
//   E8P     odd quarters up to 11/4; eight neighbours together are a point of a lattice (below)
//   ternary -1 0 1: BitNet b1.58, arXiv 2402.17764
//
// Rounds to the nearest value. Ties go to the value with an even last bit, or as the grid's ties say; in a list, to the
// lower one. Values beyond the largest become the largest. The sign of zero stays, except in a list; NaN stays NaN.
// Source: OCP Microscaling Formats (MX) 1.0, tables 1 and 5; OCP 8-bit Floating Point 1.0.
//
// Scales that are formats themselves, of grids:
//
// E8M0 is a power of two from 2^-127 to 2^127. For a block with largest magnitude a, a grid with largest value L, and p
// = floor(log2 L) (E2M1: L 6, p 2):
//
//   floor   2^(floor(log2 a) - p)       OCP's rule: values between L and 2^(p + 1) are clipped
//   ceil    2^(ceil(log2 a) - p)        clips nothing
//   rceil   2^ceil(log2(a / L))         the smallest that clips nothing
//   even    as floor, with a first rounded to as many bits as the grid's values have, half up
//
// For E2M1 and a = 7: floor 1 (7 becomes 6), ceil 2 (8), rceil 2, even 2 (7 has two bits as 8); a = 6.5: 1, 2, 2, 1.
//
// E4M3 with an f32 per tensor (NVFP4): t = T / (448 L) for the tensor's largest magnitude T; the block's scale is a / L
// / t, rounded to the nearest E4M3 value, at least 2^-9; scale = block * t. With 256 instead of 448, the largest block
// scale, 256, times 6 / 4 is still an E4M3 value. "Four over six" takes that scale, whose largest code 4 stands for a,
// for the blocks that lose less by it (BlockEnd, quant/algorithms/round_to_nearest.h). SageAttention 3 has t = 1, and
// block scales below 2^-10 become 0, as then do the values. Sources: OCP MX 1.0, 6.3; the rules' names are
// torchao's; Alvarez et al., Introducing NVFP4, NVIDIA 2025; Cook et al., arXiv 2512.02010, and mit-han-lab/fouroversix
// dadfad6, reference.py; thu-ml/SageAttention d1a57a5, fp4_quantization_4d.cu.
//
// IF4, of the same repository, has NVFP4's scales, and for each block the values that lose less: those of E2M1, or the
// integers from -7 to 7 times 6/7, which spread the same range evenly. The sign of the block's scale says which.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <compare>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tare {

// E8P: 65,536 points of the lattice E8, shifted by 1/4, as codes of eight neighbouring values: two bits each. The
// densest packing of eight dimensions leaves less error than two bits of each value by itself.
//
//   point = signs x magnitudes + shift          magnitudes 1/2, 3/2 and 5/2, shift 1/4 or -1/4 in all eight values
//   code  = entry | signs of the first seven << 8 | (shift < 0) << 15           a sign's bit is 1 where it is negative
//
// The eighth sign makes the sum of signs x magnitudes even. Entries 0 to 226 are the magnitudes whose squares sum to at
// most 10, in lexicographic order; 227 to 255 are 29 of the 56 with a sum of 12. A code is a point, no point has two.
//
// Source: Tseng et al., QuIP#, arXiv 2402.04396, section 4.2; which 29 entries: Cornell-RelaxML/quip-sharp,
// lib/codebook/latticee8_padded12.py. The bits of a code are Tare's own.
inline constexpr int64_t kLatticeWidth = 8;

// Values that a point may have: the odd quarters up to 11/4.
inline constexpr float kOddQuarters[] = {-2.75f, -2.25f, -1.75f, -1.25f, -0.75f, -0.25f,
                                         0.25f,  0.75f,  1.25f,  1.75f,  2.25f,  2.75f};

// [256][kLatticeWidth]
std::span<const float> LatticeMagnitudes();

void LatticePoint(uint16_t code, float* point);
// The code of a point; empty for values that are none.
std::optional<uint16_t> LatticeCode(const float* point);

// Writes the point nearest to x, [kLatticeWidth] finite values, as far as f32 tells: its squared distance is at most
// 2^-18 (1 + |x| + |x|^2) above the least. Ties: shift 1/4, then the lowest entry. Some 8,000 operations.
void NearestLatticePoint(const float* x, float* point);

enum class Ties : uint8_t { kToEven, kAwayFromZero, kTowardZero };

struct Grid {
  int mantissa_bits = 0;
  float smallest_normal = 0.0f;  // a power of two
  float largest = 0.0f;
  std::span<const float> levels{};  // of a list: its values, rising
  bool twos_complement = false;     // how its codes are stored (pack.h)
  Ties ties = Ties::kToEven;        // ignored by lists
  // Values from -7 to 7 steps that a block may have instead; a list in use, and empty for all formats but IF4.
  std::span<const float> evenly{};

  // The distance of the smallest values.
  constexpr float Step() const { return smallest_normal / static_cast<float>(1 << mantissa_bits); }
};

inline constexpr std::array<float, 16> kNf4Levels{-1.0000000000f, -0.6961928010f, -0.5250730515f, -0.3949174881f,
                                                  -0.2844413817f, -0.1847734302f, -0.0910500363f, 0.0000000000f,
                                                  0.0795802996f,  0.1609302014f,  0.2461123019f,  0.3379152417f,
                                                  0.4407098293f,  0.5626170039f,  0.7229568362f,  1.0000000000f};

inline constexpr std::array<float, 2> kLloydMax1Levels{-0.7978845608f, 0.7978845608f};
inline constexpr std::array<float, 4> kLloydMax2Levels{-1.5104176085f, -0.4527800346f, 0.4527800346f, 1.5104176085f};
inline constexpr std::array<float, 8> kLloydMax3Levels{-2.1519457045f, -1.3439092785f, -0.7560052812f, -0.2450941789f,
                                                       0.2450941789f,  0.7560052812f,  1.3439092785f,  2.1519457045f};
inline constexpr std::array<float, 16> kLloydMax4Levels{-2.7325895710f, -2.0690172265f, -1.6180463860f, -1.2562311973f,
                                                        -0.9423404565f, -0.6567591185f, -0.3880482995f, -0.1283950299f,
                                                        0.1283950299f,  0.3880482995f,  0.6567591185f,  0.9423404565f,
                                                        1.2562311973f,  1.6180463860f,  2.0690172265f,  2.7325895710f};

// The authors' constant, of ten digits.
inline constexpr std::array<float, 15> kSevenths = [] {
  std::array<float, 15> values{};
  for (int i = -7; i <= 7; ++i) values[static_cast<size_t>(i + 7)] = static_cast<float>(i) * 0.8571428571f;
  return values;
}();

inline constexpr Grid kE2M1{1, 1.0f, 6.0f};
inline constexpr Grid kE2M1OrSevenths{1, 1.0f, 6.0f, {}, false, Ties::kToEven, kSevenths};
inline constexpr Grid kE1M2{2, 4.0f, 7.0f};
inline constexpr Grid kE2M3{3, 1.0f, 7.5f};
inline constexpr Grid kE3M2{2, 0.25f, 28.0f};
inline constexpr Grid kE4M3{3, 0x1p-6f, 448.0f};
inline constexpr Grid kE5M2{2, 0x1p-14f, 57344.0f};
inline constexpr Grid kSixtyFourths{6, 1.0f, 127.0f / 64.0f, {}, true};
inline constexpr Grid kSigns{0, 1.0f, 1.0f};
inline constexpr Grid kNormalQuantiles{0, 0.0f, 1.0f, kNf4Levels};
inline constexpr Grid kLloydMax1{0, 0.0f, kLloydMax1Levels.back(), kLloydMax1Levels};
inline constexpr Grid kLloydMax2{0, 0.0f, kLloydMax2Levels.back(), kLloydMax2Levels};
inline constexpr Grid kLloydMax3{0, 0.0f, kLloydMax3Levels.back(), kLloydMax3Levels};
inline constexpr Grid kLloydMax4{0, 0.0f, kLloydMax4Levels.back(), kLloydMax4Levels};
inline constexpr Grid kLatticeValues{0, 0.0f, 2.75f, kOddQuarters};

// Adding 1.5 * 2^(23 - mantissa_bits) times the magnitude's power of two gives a sum whose last bit is the grid's step,
// so f32's own rounding rounds to the grid. The difference is exact, half a step at a tie. Compilers vectorize it.
inline float NearestStep(float x, const Grid& grid) {
  const float magnitude = std::min(std::fabs(x), grid.largest);
  const float above = std::max(magnitude, grid.smallest_normal);
  const float power = std::bit_cast<float>(std::bit_cast<uint32_t>(above) & 0x7f800000u);
  const float magic = power * (1.5f * static_cast<float>(1 << (23 - grid.mantissa_bits)));
  const float nearest = (magnitude + magic) - magic;
  if (grid.ties == Ties::kToEven) return std::copysign(nearest, x);
  const float step = power / static_cast<float>(1 << grid.mantissa_bits), half = step / 2;
  if (grid.ties == Ties::kAwayFromZero) return std::copysign(magnitude - nearest == half ? nearest + step : nearest, x);
  return std::copysign(nearest - magnitude == half ? nearest - step : nearest, x);
}

inline float NearestLevel(float x, std::span<const float> levels) {
  if (std::isnan(x)) return x;
  const auto above = std::ranges::lower_bound(levels, x);
  if (above == levels.end()) return levels.back();
  if (above == levels.begin()) return levels.front();
  const float below = *(above - 1);
  return 2.0 * double{x} > double{below} + double{*above} ? *above : below;
}

inline float Nearest(float x, const Grid& grid) {
  return grid.levels.empty() ? NearestStep(x, grid) : NearestLevel(x, grid.levels);
}

// For a block's value and the inverse of its scale; of IF4 a negative one asks for sevenths.
inline float NearestTimes(float x, float inv, const Grid& grid) {
  return inv < 0 ? NearestLevel(x * -inv, grid.evenly) : Nearest(x * inv, grid);
}

enum class ScaleType : uint8_t {
  kF32,
  kE8M0Floor,
  kE8M0Ceil,
  kE8M0Rceil,
  kE8M0Even,
  kTwoLevel,
  kTwoLevel256,
  kFourOverSix,
  kTwoLevelOne,    // t = 1
  kTwoLevelSigned  // IF4's
};

constexpr bool IsTwoLevel(ScaleType type) { return type >= ScaleType::kTwoLevel; }
// Whether a block's scale depends on its tensor's largest magnitude.
constexpr bool NeedsTensor(ScaleType type) { return IsTwoLevel(type) && type != ScaleType::kTwoLevelOne; }

// absmax > 0, finite. The result is -127 to 127.
inline int E8M0Exponent(float absmax, const Grid& grid, ScaleType rule) {
  constexpr uint32_t kMantissa = 0x7fffff;
  const bool subnormal = absmax < 0x1p-126f;
  const auto bits = std::bit_cast<uint32_t>(subnormal ? absmax * 0x1p24f : absmax);
  const auto largest = std::bit_cast<uint32_t>(grid.largest);
  const uint32_t part = bits & kMantissa;  // the position between two powers of two
  bool up = false;
  if (rule == ScaleType::kE8M0Ceil) up = part > 0;
  if (rule == ScaleType::kE8M0Rceil) up = part > (largest & kMantissa);
  if (rule == ScaleType::kE8M0Even) up = part > kMantissa - (1u << (22 - grid.mantissa_bits));
  const int power = static_cast<int>(bits >> 23) - static_cast<int>(largest >> 23) - (subnormal ? 24 : 0);
  return std::clamp(power + (up ? 1 : 0), -127, 127);
}

// 2^exponent, for exponents from -127 to 127.
inline float PowerOfTwo(int exponent) {
  return exponent < -126 ? 0x1p-127f : std::bit_cast<float>(static_cast<uint32_t>(exponent + 127) << 23);
}

// What the scale of the block with the largest magnitude is.
constexpr float LargestBlockScale(ScaleType type) {
  return type == ScaleType::kTwoLevel256 || type == ScaleType::kFourOverSix ? 256.0f : kE4M3.largest;
}

// t, the scale per tensor of two-level scales.
inline float TensorScale(float tensor_absmax, const Grid& grid, ScaleType type) {
  if (type == ScaleType::kTwoLevelOne) return 1.0f;
  return tensor_absmax / (LargestBlockScale(type) * grid.largest);
}

// Scales of a block and of its tensor.
struct TwoLevels {
  float of_block, of_tensor;

  float Scale() const { return of_block * of_tensor; }
  // In torchao's order, for equal codes and ties.
  float Inverse() const { return of_block == 0 ? 0.0f : 1.0f / of_tensor / of_block; }
};

// Both magnitudes > 0.
inline TwoLevels TwoLevelsOf(float absmax, float tensor_absmax, const Grid& grid, ScaleType type) {
  const float of_tensor = TensorScale(tensor_absmax, grid, type);
  const float least = type == ScaleType::kTwoLevelOne ? 0.0f : 0x1p-9f;
  return {std::max(Nearest(absmax / grid.largest / of_tensor, kE4M3), least), of_tensor};
}

// ---- Lists of values, of which a format's grid may consist, with an f32 scale for the values that the plan names:
//
//   grid(-1 -0.25 0 0.5 1)     2 to 256 values, rising; the largest magnitude of a group becomes the list's largest
//   grid(-1.5 -0.4 0.5 1.6)+mean   of keys and values: in units of the group's deviation about its mean (CodeRange)
//
// The name is the list: plans, results and files need no other file. Codes are indices of 2, 4, 6 or 8 bits.

struct FormatInfo;
enum class CodeRange : uint8_t;

inline constexpr std::string_view kGridMark = "grid(";

// By blanks or line ends. Throws Error, naming `where`, unless 2 to 256, finite, rising, the largest 2^-100 to 2^100.
std::vector<float> ParseGrid(std::string_view text, const std::string& where);

// "grid(-1 0 1)", each value in the fewest digits that restore it.
std::string GridName(std::span<const float> values);

// A list shared by copies and freed by the last, on any thread: a copy is a pointer and a test. Most formats have none.
class Levels {
 public:
  constexpr Levels() = default;
  explicit Levels(std::span<const float> values);  // as ParseGrid gives them
  constexpr Levels(const Levels& other) : list_(other.list_) {
    if (list_ != nullptr) Hold();
  }
  constexpr Levels(Levels&& other) noexcept : list_(std::exchange(other.list_, nullptr)) {}
  constexpr Levels& operator=(Levels other) noexcept {
    std::swap(list_, other.list_);
    return *this;
  }
  constexpr ~Levels() {
    if (list_ != nullptr) Release();
  }

  constexpr bool empty() const { return list_ == nullptr; }
  std::span<const float> values() const;
  // The value of each index, NaN after the last one, and the info of a format with this list, which must not be empty.
  const std::array<float, 256>& table() const;
  const FormatInfo& Info(CodeRange range) const;

  // Lists compare by their values.
  friend constexpr std::partial_ordering operator<=>(const Levels& a, const Levels& b) {
    return a.list_ == b.list_ ? std::partial_ordering::equivalent : a.CompareValues(b);
  }
  friend constexpr bool operator==(const Levels& a, const Levels& b) { return (a <=> b) == 0; }

 private:
  struct List;
  void Hold() const;
  void Release() const;
  std::partial_ordering CompareValues(const Levels& other) const;

  List* list_ = nullptr;
};

}  // namespace tare
