// SPDX-License-Identifier: Apache-2.0
#include "experiments/studies/sweep/equivalence.h"

#include "quant/base/message.h"

namespace tare {

double ParseMargin(std::string_view text) {
  const std::string_view number = text.substr(0, text.size() - (text.ends_with('%') ? 1 : 0));
  const double percent = number == text ? 0 : ParseNumber<double>(number).value_or(0);
  if (!(percent > 0 && percent < 100))
    FailUsage("--equivalent: got '{}', expected a percentage above 0 and below 100; try 0.5%", text);
  return percent / 100;
}

const char* VerdictAt(double margin, const Comparison& c) {
  if (c.loss && c.loss->low > margin) return "worse";
  if (c.loss && c.loss->high < -margin) return "better";
  return c.loss && c.loss->low > -margin && c.loss->high < margin ? "lossless" : "not shown";
}

std::string EquivalenceText(double margin, const Comparison& c, const FigureKeys& figure) {
  const double scale = figure.of_same ? 1 : 100;
  const char* const unit = figure.of_same ? "nats per token" : figure.outcomes != nullptr ? "points" : "%";
  const std::string verdict = VerdictAt(margin, c), within = Formatted("{:g} {}", scale * margin, unit);
  std::string text = verdict == "lossless"    ? "lossless within " + within
                     : verdict != "not shown" ? verdict + " by more than " + within
                     : c.Significant()        ? "a difference is shown, equivalence within " + within + " is not"
                     : c.p_holm               ? "neither a difference nor equivalence within " + within + " is shown"
                                              : "equivalence within " + within + " is not shown";
  if (c.loss) text += Formatted(" ({:.3g} to {:.3g})", scale * c.loss->low, scale * c.loss->high);
  return text;
}

}  // namespace tare
