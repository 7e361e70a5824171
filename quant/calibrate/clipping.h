// SPDX-License-Identifier: Apache-2.0
// Where to clip: the magnitude that becomes a format's largest code, chosen from the values (dynamic scales, +p99.9 and
// +mse) or from a histogram of |x| (static scales). The scale follows: ScaleFor(clip, format), round.h.
//
//   min-max      the largest magnitude
//   percentile   the order statistic ceil(p/100 n) of |x|: Wu et al., arXiv 2004.09602, section 3.1
//   least error  the clip c with the least sum (x - Q_c(x))^2: Banner et al., arXiv 1810.05723, on the data itself
//   entropy      the clip that loses the least information, by KL divergence of the clipped law from its codes':
//                Migacz, 8-bit Inference with TensorRT, 2017, with as many levels as the format has magnitudes
#pragma once

#include <span>

#include "quant/format/format.h"
#include "quant/observe/magnitude_histogram.h"

namespace tare {

// Candidate clips for least error and entropy: the largest magnitude times i/kClips, i = 1 .. kClips.
inline constexpr int kClips = 128;

// From finite values; 0 for none.
float PercentileClip(std::span<const float> values, double percentile);  // 0 < percentile <= 100
float LeastErrorClip(std::span<const float> values, Format format);

// From a histogram and its exact largest magnitude. A bin counts at its midpoint, off by at most 0.4 %.
float PercentileClip(const MagnitudeHistogram& magnitudes, float absmax, double percentile);
float LeastErrorClip(const MagnitudeHistogram& magnitudes, float absmax, Format format);
float EntropyClip(const MagnitudeHistogram& magnitudes, float absmax, Format format);

}  // namespace tare
