// SPDX-License-Identifier: Apache-2.0
// Other tools' checkpoints may say how a layer's inputs are meant to be rounded. Tare rounds what a plan names, so
// their scheme is offered as the nearest plan: int8/token for eight bits with a scale per token found at run time, and
// so on. The nearest: their int8 goes to -128 where ours stops at -127.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "quant/interchange/folders/compressed_tensors_config.h"

namespace tare {

class InputPlan {
 public:
  // has_scale: the file has a static scale of the module's inputs, which +static takes.
  void Add(const std::string& module, const CompressedArguments& inputs, bool has_scale);
  // What to tell the user; nothing if no module has rounded inputs.
  void Describe(std::vector<std::string>& notes) const;

 private:
  std::map<std::string, std::string> format_of_;  // by the last part of a module's name; empty: no such format
  bool static_ = false, lacks_scales_ = false, differs_ = false;
};

}  // namespace tare
