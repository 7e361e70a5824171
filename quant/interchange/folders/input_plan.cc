// SPDX-License-Identifier: Apache-2.0
#include "quant/interchange/folders/input_plan.h"

#include <algorithm>

namespace tare {
namespace {

using Strategy = CompressedArguments::Strategy;

constexpr const char* kLinear[] = {"q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"};

// Empty where no format of Tare's comes near. That tool raises an MX block's power of two where the largest magnitude
// is 1.75 times it or more, as mxfp4:even does; of E4M3 it is the rule of neither mxfp8e4m3 nor mxfp8e4m3:even.
std::string FormatOf(const CompressedArguments& a) {
  if (!a.symmetric) return "";
  if (a.is_float && a.bits == 4) return a.group == 16 ? "nvfp4" : a.group == 32 ? "mxfp4:even" : "";
  const bool is_integer = !a.is_float && (a.bits == 8 || a.bits == 6 || a.bits == 4);
  if (!is_integer && !(a.is_float && a.bits == 8)) return "";
  if (a.is_float && a.group == 32) return "mxfp8e4m3";
  const bool fits = a.strategy == Strategy::kTensor ||
                    (a.dynamic && (a.strategy == Strategy::kToken || a.strategy == Strategy::kGroup));
  if (!fits) return "";
  return (a.is_float ? "fp8e4m3" : "int" + std::to_string(a.bits)) + "/" + StrategyText(a) +
         (a.dynamic ? "" : "+static");
}

}  // namespace

void InputPlan::Add(const std::string& module, const CompressedArguments& inputs, bool has_scale) {
  if (inputs.bits >= 16) return;
  const std::string format = FormatOf(inputs), part = module.substr(module.rfind('.') + 1);
  const auto [found, is_new] = format_of_.emplace(part, format);
  differs_ = differs_ || found->second != format;
  const bool is_static = format.ends_with("+static");
  static_ = static_ || is_static;
  lacks_scales_ = lacks_scales_ || (is_static && !has_scale);
}

void InputPlan::Describe(std::vector<std::string>& notes) const {
  if (format_of_.empty()) return;
  if (differs_ || std::ranges::any_of(format_of_, [](const auto& entry) { return entry.second.empty(); })) {
    notes.emplace_back("inputs were meant to be rounded as well, in a way that no plan says; they are not");
    return;
  }
  const auto all = [&](const char* part) {
    const auto found = format_of_.find(part);
    return found != format_of_.end() && found->second == format_of_.at(kLinear[0]);
  };
  std::string plan;
  const bool together = format_of_.contains(kLinear[0]) && std::ranges::all_of(kLinear, all);
  if (together) plan = "linear_in=" + format_of_.at(kLinear[0]);
  for (const auto& [part, format] : format_of_) {
    if (together && std::ranges::contains(kLinear, part)) continue;
    plan += (plan.empty() ? "" : ",") + part + ".in=" + format;
  }
  notes.emplace_back("inputs were meant to be rounded as well: --plan " + plan);
  if (static_)
    notes.emplace_back(lacks_scales_ ? "their scales were static; Tare's own come from --stats"
                                     : "their static scales are the file's, unless --stats gives others");
}

}  // namespace tare
