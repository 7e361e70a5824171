// SPDX-License-Identifier: Apache-2.0
#include "experiments/tasks/samples.h"

#include <map>
#include <string>

namespace tare {

WindowLosses BySample(const std::vector<nlohmann::ordered_json>& records, std::string_view outcomes,
                      std::span<const size_t> items) {
  WindowLosses samples;
  std::map<std::string, size_t> places;
  for (const size_t i : items) {
    size_t place = samples.sums.size();
    if (const auto keys = records[i].find("item"); keys != records[i].end() && keys->contains("sample"))
      place = places.try_emplace(keys->at("sample").dump(), place).first->second;
    if (place == samples.sums.size()) {
      samples.sums.push_back(0);
      samples.counts.push_back(0);
    }
    samples.sums[place] += outcomes[i] == '1' ? 1 : 0;
    samples.counts[place] += 1;
  }
  return samples;
}

}  // namespace tare
