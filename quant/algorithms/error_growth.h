// SPDX-License-Identifier: Apache-2.0
// How the errors of rounding grow with the weights of their group, for gradients through rounding: they keep their size
// in steps of the group's scale, and the scale is in proportion to a magnitude m of the weights w:
//
//   e(w) = e m(w) / m      m: largest |w|, mean |w|, root of the mean square, or the range (+zero, +min)
//
// Its derivative is that of straight-through estimators (LSQ, arXiv 1902.08153), to which rounding's codes move with
// their weights. With codes held an error would follow its own weight, which is exact until a code changes and wrong
// over any step that changes many: rotations.cc says what that costs.
#pragma once

#include <span>

#include "quant/format/format.h"

namespace tare {

// Adds the gradient of <p, e(w)> to `gradient`; all of the values of one group, as many. A group without a scale adds
// nothing; of several equal ends one counts.
void AddErrorGrowth(Format format, std::span<const float> w, std::span<const float> e, std::span<const float> p,
                    std::span<float> gradient);

}  // namespace tare
