// SPDX-License-Identifier: Apache-2.0
// Whether a change is shown to be small: two one-sided tests (Schuirmann, J. Pharmacokinet. Biopharm. 15, 1987). A plan
// is lossless within a margin m if its loss is shown to be above -m and below m, each at 5 %: if the loss's 90 %
// interval (Comparison::loss, of the code of all intervals) lies between. That no difference is significant shows
// nothing of the kind: of few windows or items none is.
//
//   lossless    the interval lies between -m and m
//   worse       it lies above m             better: below -m
//   not shown   it holds an end, or there is none: too few windows, or equal changes of all
//
// A loss is a perplexity's rise as a share of it, a KL divergence in nats per token, or an accuracy's fall in points.
// 0.5 % are a perplexity 1.005 times as high, 0.005 nats, or one item of 200. Only primary figures are judged, at 5 %.
#pragma once

#include <string>
#include <string_view>

#include "experiments/studies/sweep/comparison.h"

namespace tare {

// "0.5%": 0.005. Throws UsageError for what is not above 0 and below 100 %.
double ParseMargin(std::string_view text);

const char* VerdictAt(double margin, const Comparison& change);

// "lossless within 0.5 % (-0.10 to 0.31)", "neither a difference nor equivalence within 0.005 nats per token is shown
// (..)", of the figure with these keys.
std::string EquivalenceText(double margin, const Comparison& change, const FigureKeys& figure);

}  // namespace tare
