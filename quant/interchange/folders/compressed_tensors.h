// SPDX-License-Identifier: Apache-2.0
// Modules of the formats that compressed_tensors.cc lists, in the words of compressed-tensors. Other tools store the
// same codes and scales under other names (fp8.cc, modelopt.cc), which a layout gives.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "quant/interchange/folders/compressed_tensors_config.h"
#include "quant/interchange/folders/grouped_matrix.h"

namespace tare {

struct ModuleLayout {
  enum class Second { kDivides, kMultiplies };  // what the second scale of NVFP4 does to the first, in f32

  std::string where;  // of the configuration
  std::string tool = "compressed-tensors";
  std::string float4 = "weight_packed", scale = "weight_scale", second_scale = "weight_global_scale";
  Second second = Second::kDivides;
  std::optional<bool> dense;                  // CompressedConfig::dense
  std::optional<CompressedArguments> caches;  // how they are meant to be rounded
};

// The group of each module that has codes.
using GroupOfModule = std::function<const CompressedGroup&(const std::string& module)>;

// All modules with such codes. Throws Error where their parts do not fit their groups, and for a part that none took.
ForeignModel ReadScaledModules(const GroupOfModule& group_of, const ModuleLayout& layout, ModuleTensors& tensors);

}  // namespace tare
