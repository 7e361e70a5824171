// SPDX-License-Identifier: Apache-2.0
// What is wrong with a kernel's output, as text; empty if nothing is. Tests expect "", and benchmarks do not time a
// case with a text.
#pragma once

#include <cmath>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

#include "quant/base/aligned.h"
#include "quant/base/message.h"

namespace tare {

// Memory for an output, of values that no kernel writes: an output of an earlier case would be right by chance.
template <typename T>
AlignedBuffer<T> Unwritten(size_t count) {
  AlignedBuffer<T> memory(count);
  std::memset(memory.data(), 0x7b, count * sizeof(T));
  return memory;
}

// Empty if got is within the bound of want; a NaN never is.
inline std::string WrongValue(std::string_view what, int64_t index, double got, double want, double bound) {
  if (std::abs(got - want) <= bound) return "";
  return Formatted("{} {}: got {}, expected {} within {}", what, index, got, want, bound);
}

// The first value that is further than `tolerance` times the largest expected magnitude from what is expected.
template <typename Got, typename Want>
std::string WrongValues(std::string_view what, std::span<const Got> got, std::span<const Want> want, double tolerance) {
  double largest = 0;
  for (const Want x : want) largest = std::fmax(largest, std::abs(static_cast<double>(x)));
  std::string wrong = got.size() == want.size() ? "" : Formatted("{}: got {} values", what, got.size());
  for (size_t i = 0; wrong.empty() && i < want.size(); ++i)
    wrong = WrongValue(what, static_cast<int64_t>(i), static_cast<double>(got[i]), static_cast<double>(want[i]),
                       tolerance * largest);
  return wrong;
}

}  // namespace tare
