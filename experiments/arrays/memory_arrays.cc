// SPDX-License-Identifier: Apache-2.0
#include "experiments/arrays/memory_arrays.h"

#include <algorithm>

namespace tare {

MemoryArrays::MemoryArrays(const std::string& name,
                           const std::vector<std::pair<ArrayInfo, std::span<const std::byte>>>& arrays)
    : ArrayFile(name) {
  std::vector<ArrayInfo> infos;
  for (const auto& [info, values] : arrays) {
    infos.push_back(info);
    values_[info.name] = values;
  }
  std::ranges::sort(infos, {}, &ArrayInfo::name);
  for (ArrayInfo& info : infos) List(std::move(info));
}

}  // namespace tare
