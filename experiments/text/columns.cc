// SPDX-License-Identifier: Apache-2.0
#include "experiments/text/columns.h"

#include <algorithm>
#include <numeric>

#include "quant/base/error.h"

namespace tare {

std::string InColumns(const std::vector<std::vector<std::string>>& rows, size_t left) {
  std::vector<size_t> widths(rows.empty() ? 0 : rows.front().size());
  for (const std::vector<std::string>& row : rows) {
    TARE_CHECK(row.size() == widths.size());
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  const size_t cells = std::accumulate(widths.begin(), widths.end(), size_t{0});
  const size_t gap = !widths.empty() && cells + 2 * (widths.size() - 1) > 80 ? 1 : 2;
  std::string text;
  for (const std::vector<std::string>& row : rows) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) {
      const std::string blanks(widths[i] - row[i].size(), ' ');
      line += std::string(i == 0 ? 0 : gap, ' ') + (i < left ? row[i] + blanks : blanks + row[i]);
    }
    line.resize(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

}  // namespace tare
