// SPDX-License-Identifier: Apache-2.0
#include "experiments/significance/shown.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "quant/base/error.h"
#include "quant/base/formatted.h"

namespace tare {
namespace {

// "+.3f": the flags before the point, the digits after it, and the type.
struct NumberFormat {
  std::string before;
  int digits = 0;
  char type = 'f';

  explicit NumberFormat(std::string_view text) : before(text.substr(0, text.find('.'))), type(text.back()) {
    const std::string_view number = text.substr(before.size() + 1);
    TARE_CHECK(std::from_chars(number.data(), number.data() + number.size() - 1, digits).ec == std::errc());
  }
  std::string Text(int most) const { return Formatted("{}.{}{}", before, std::clamp(most, 0, digits), type); }
};

int Exponent(double value) { return value == 0 ? 0 : static_cast<int>(std::floor(std::log10(std::abs(value)))); }

// The format for a value known to this error.
std::string FormatOf(double value, double error, std::string_view format) {
  if (!(error > 0) || !std::isfinite(error) || !std::isfinite(value)) return std::string(format);
  const NumberFormat all(format);
  const int place = Exponent(error) - 1;  // of the error's second digit
  return all.Text(all.type == 'e' ? Exponent(value) - place : -place);
}

double ErrorOf(const Interval& interval) { return (interval.high - interval.low) / 2 / 1.96; }

std::string WithoutSign(std::string format) {
  std::erase(format, '+');
  return format;
}

}  // namespace

std::string NumberText(double value, std::string_view format) {
  return FormatArguments(Formatted("{{:{}}}", format), std::make_format_args(value));
}

std::string WithError(double value, double error, std::string_view format) {
  return Formatted("{} +/- {}", NumberText(value, FormatOf(value, error, format)),
                   NumberText(error, WithoutSign(FormatOf(error, error, format))));
}

std::string WithInterval(double value, const Interval& interval, std::string_view format) {
  const double error = ErrorOf(interval);
  const auto number = [&](double x) { return NumberText(x, FormatOf(x, error, format)); };
  return Formatted("{} [{}, {}]", number(value), number(interval.low), number(interval.high));
}

std::string BesideInterval(double value, const Interval& interval, std::string_view format) {
  return NumberText(value, FormatOf(value, ErrorOf(interval), format));
}

}  // namespace tare
