// SPDX-License-Identifier: Apache-2.0
// Uses tare::numbers alone, header and library: codes of a row, in parallel.
#include <array>
#include <cstdio>

#include "quant/base/parallel.h"
#include "quant/format/round.h"

int main() {
  const std::array<float, 4> values = {2.0f, 0.5f, -1.0f, 0.0f};
  std::array<int, 4> codes = {};
  const tare::Scale scale = tare::ScaleFor(2.0f, tare::Format::kInt8);
  tare::ParallelFor(codes.size(),
                    [&](size_t i, int) { codes[i] = tare::CodeOf(values[i], scale.inv, tare::Format::kInt8); });
  const std::array<int, 4> expected = {127, 32, -64, 0};  // 0.5 * 63.5 = 31.75, -1 * 63.5 = -63.5 to even
  if (codes != expected) return std::puts("use_numbers: wrong codes"), 1;
  return 0;
}
