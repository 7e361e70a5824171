// SPDX-License-Identifier: Apache-2.0
// compressed-tensors' configuration: groups of modules, with how weights are stored and how inputs are to be rounded.
//
//   {"config_groups": {"group_0": {"targets": ["Linear"], "weights": {...}, "input_activations": {...}, "format": F}},
//    "format": F or "mixed-precision", "ignore": ["lm_head", "re:.*gate"], "quantization_status": "compressed", ...}
//
// A target is a module's name, "re:" and a pattern that matches its beginning, or a class. Of several targets that
// match a module the first counts: names before patterns before classes, each in the order of the alphabet.
#pragma once

#include <array>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "quant/interchange/folders/grouped_matrix.h"
#include "quant/interchange/folders/quantization_config.h"

namespace tare {

struct CompressedArguments {
  enum class Strategy { kTensor, kChannel, kGroup, kTensorGroup, kBlock, kToken };
  int bits = 8;
  bool is_float = false;
  bool symmetric = true;
  bool dynamic = false;
  bool ordered = false;  // actorder: weight_g_idx says the group of each column
  Strategy strategy = Strategy::kTensor;
  int64_t group = 0;               // columns of a group
  std::array<int64_t, 2> block{};  // rows, columns
};

struct CompressedGroup {
  std::string format;
  CompressedArguments weights;
  std::optional<CompressedArguments> inputs;
  std::string name = {};  // in config_groups
};

// Other tools store the same codes and scales under other names (floats.cc).
struct ModuleLayout {
  enum class Second { kDivides, kMultiplies };  // what the second scale of NVFP4 does to the first, in f32

  std::string where;  // of the configuration
  std::string tool = "compressed-tensors";
  std::string float4 = "weight_packed", scale = "weight_scale", second_scale = "weight_global_scale";
  Second second = Second::kDivides;
  // Whether 3, 5, 6 and 7 bits are packed without gaps, as from 0.18 on; nullopt if the file names no version.
  std::optional<bool> dense;
  std::optional<CompressedArguments> caches;  // how they are meant to be rounded, if they are
};

class CompressedConfig {
 public:
  explicit CompressedConfig(SchemeKeys& keys);

  // A module's group; null: none has it. Throws Error, naming the entry, if the module is to be left as it is.
  const CompressedGroup* GroupOf(const std::string& module) const;
  const ModuleLayout& layout() const { return layout_; }

 private:
  struct Target {
    std::string text;
    std::optional<NamePattern> pattern;
    size_t group = 0;
  };

  static Target ParseTarget(const std::string& text, const std::string& where);
  void ReadGroups(SchemeKeys& keys);
  void ReadVersion(SchemeKeys& keys);

  ModuleLayout layout_;
  std::vector<CompressedGroup> groups_;
  std::vector<Target> targets_, ignored_;  // targets_ in the order in which they count
};

// "group32", "channel", "block128x128", as schemes are shown.
std::string StrategyText(const CompressedArguments& arguments);

// Other tools' checkpoints may say how a layer's inputs are meant to be rounded. Tare rounds what a plan names, so
// their scheme is offered as the nearest plan: int8/token for eight bits with a scale per token found at run time, and
// so on. The nearest: their int8 goes to -128 where ours stops at -127.
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

// ---- Modules of the formats that compressed_tensors.cc lists

// The group of each module that has codes.
using GroupOfModule = std::function<const CompressedGroup&(const std::string& module)>;

// All modules with such codes. Throws Error where their parts do not fit their groups, and for a part that none took.
ForeignModel ReadScaledModules(const GroupOfModule& group_of, const ModuleLayout& layout, ModuleTensors& tensors);

}  // namespace tare
