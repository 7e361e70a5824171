// SPDX-License-Identifier: Apache-2.0
// E8P: 65,536 points of the lattice E8, shifted by 1/4, as codes of eight neighbouring values: two bits each. The
// densest packing of eight dimensions leaves less error than two bits of each value by itself.
//
//   point = signs x magnitudes + shift          magnitudes 1/2, 3/2 and 5/2, shift 1/4 or -1/4 in all eight values
//   code  = entry | signs of the first seven << 8 | (shift < 0) << 15           a sign's bit is 1 where it is negative
//
// The eighth sign is the one that makes the sum of signs x magnitudes even. Entries 0 to 226 are the magnitudes whose
// squares sum to at most 10, in lexicographic order; entries 227 to 255 are 29 of the 56 with a sum of 12. Every code
// is a point, and no point has two codes.
//
// Source: Tseng et al., QuIP#, arXiv 2402.04396, section 4.2; which 29 entries: Cornell-RelaxML/quip-sharp,
// lib/codebook/latticee8_padded12.py. The bits of a code are Tare's own.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

namespace tare {

inline constexpr int64_t kLatticeWidth = 8;

// Values that a point may have: the odd quarters up to 11/4.
inline constexpr float kOddQuarters[] = {-2.75f, -2.25f, -1.75f, -1.25f, -0.75f, -0.25f,
                                         0.25f,  0.75f,  1.25f,  1.75f,  2.25f,  2.75f};

// [256][kLatticeWidth]
std::span<const float> LatticeMagnitudes();

// Writes the point of a code.
void LatticePoint(uint16_t code, float* point);
// The code of a point; empty for values that are none.
std::optional<uint16_t> LatticeCode(const float* point);

// Writes the point nearest to x, [kLatticeWidth] finite values, as far as f32 tells: its squared distance is at most
// 2^-18 (1 + |x| + |x|^2) above the least. Of points at one distance the one with the shift 1/4, then the lowest entry.
// Some 8,000 operations.
void NearestLatticePoint(const float* x, float* point);

}  // namespace tare
