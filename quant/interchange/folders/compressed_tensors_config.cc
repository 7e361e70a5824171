// SPDX-License-Identifier: Apache-2.0
#include "quant/interchange/folders/compressed_tensors.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "quant/base/find_in.h"
#include "quant/base/message.h"

namespace tare {
namespace {

using Strategy = CompressedArguments::Strategy;

constexpr int64_t kMostColumns = int64_t{1} << 31;
constexpr std::pair<const char*, Strategy> kStrategies[] = {
    {"tensor", Strategy::kTensor}, {"channel", Strategy::kChannel},
    {"group", Strategy::kGroup},   {"tensor_group", Strategy::kTensorGroup},
    {"block", Strategy::kBlock},   {"token", Strategy::kToken}};

// Missing, the strategy follows from the size of groups, as the library has it.
Strategy ReadStrategy(SchemeKeys& keys) {
  if (!keys.Has("strategy")) {
    if (!keys.Has("group_size")) return Strategy::kTensor;
    return keys.Integer("group_size", -1, kMostColumns) < 0 ? Strategy::kChannel : Strategy::kGroup;
  }
  const std::string text = keys.Text("strategy");
  for (const auto& [name, strategy] : kStrategies) {
    if (text == name) return strategy;
  }
  keys.Wrong("strategy", "tensor, channel, group, tensor_group, block or token");
}

// The order in which columns were quantized, which needs no trace in the file, or groups of columns by it.
bool ReadOrder(SchemeKeys& keys) {
  const Json* order = keys.Find("actorder");
  if (order != nullptr && order->is_boolean()) return order->get<bool>();
  const std::string text = keys.Text("actorder", "weight");
  if (text != "group" && text != "dynamic" && text != "weight" && text != "static")
    keys.Wrong("actorder", "group or weight");
  return text == "group" || text == "dynamic";
}

CompressedArguments ReadArguments(const Json& object, const std::string& where) {
  SchemeKeys keys(object, where);
  CompressedArguments a;
  a.bits = static_cast<int>(keys.Integer("num_bits", 1, 16, 8));
  keys.Only("type", {"\"int\"", "\"float\""});
  a.is_float = keys.Text("type", "int") == "float";
  a.symmetric = keys.Flag("symmetric", true);
  a.strategy = ReadStrategy(keys);
  if (a.strategy == Strategy::kGroup || a.strategy == Strategy::kTensorGroup)
    a.group = keys.Integer("group_size", 1, kMostColumns);
  if (a.strategy == Strategy::kBlock)
    a.block = keys.Two("block_structure", kMostColumns - 1, "rows and columns, two positive integers");
  const Json* const dynamic = keys.Find("dynamic");
  a.dynamic = (dynamic != nullptr && *dynamic == "local") ||  // the first level of two scales is static
              keys.Flag("dynamic", false);
  a.ordered = ReadOrder(keys);
  keys.Ignore("group_size block_structure observer observer_kwargs scale_dtype zp_dtype");
  keys.RefuseOthers();
  return a;
}

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

CompressedConfig::Target CompressedConfig::ParseTarget(const std::string& text, const std::string& where) {
  if (!text.starts_with("re:")) return {.text = text, .pattern = std::nullopt};
  return {.text = text, .pattern = NamePattern(std::string_view(text).substr(3), where)};
}

CompressedConfig::CompressedConfig(SchemeKeys& keys) : layout_{.where = keys.where()} {
  keys.Only("quantization_status", {"\"compressed\"", "\"frozen\""});  // both have scales and codes
  keys.Only("transform_config", {"{}"});
  if (const Json* sparsity = keys.Find("sparsity_config"); sparsity != nullptr && !sparsity->empty()) {
    SchemeKeys own(*sparsity, keys.where() + ": sparsity_config");
    own.Text("format");
    own.Only("format", {"\"dense\""});  // all values are stored, whatever share of them is 0
  }
  if (const Json* caches = keys.Find("kv_cache_scheme"); caches != nullptr && !caches->empty())
    layout_.caches = ReadArguments(*caches, keys.where() + ": kv_cache_scheme");
  ReadVersion(keys);
  ReadGroups(keys);
  for (const std::string& text : keys.Texts("ignore")) ignored_.push_back(ParseTarget(text, keys.where() + ": ignore"));
  keys.Ignore("global_compression_ratio run_compressed");
  keys.RefuseOthers();
}

void CompressedConfig::ReadVersion(SchemeKeys& keys) {
  if (!keys.Has("version")) return;
  const std::string version = keys.Text("version");
  const size_t dot = version.find('.');
  const std::string_view rest = std::string_view(version).substr(dot == version.npos ? 0 : dot + 1);
  const std::optional<int> major = ParseNumber<int>(std::string_view(version).substr(0, dot));
  const std::optional<int> minor = ParseNumber<int>(rest.substr(0, rest.find_first_not_of("0123456789")));
  if (dot == version.npos || !major || !minor) keys.Wrong("version", "numbers with points between");
  layout_.dense = std::pair(*major, *minor) >= std::pair(0, 18);
}

void CompressedConfig::ReadGroups(SchemeKeys& keys) {
  const std::string format = keys.Text("format");
  const Json* groups = keys.Find("config_groups");
  if (groups == nullptr || !groups->is_object() || groups->empty())
    Fail("{}: config_groups: got {}, expected an object of groups", keys.where(),
         groups == nullptr ? "none" : groups->type_name());
  for (const auto& [name, object] : groups->items()) {
    SchemeKeys own(object, Formatted("{}: config_groups: {}", keys.where(), name));
    CompressedGroup group{.format = own.Text("format", format), .weights = {}, .inputs = {}, .name = name};
    if (group.format != format && format != "mixed-precision")
      own.Wrong("format", Formatted("{}, as the whole has it", format));
    for (const std::string& text : own.Texts("targets")) {
      targets_.push_back(ParseTarget(text, own.where() + ": targets"));
      targets_.back().group = groups_.size();
    }
    const Json* weights = own.Find("weights");
    if (weights == nullptr) Fail("{}: weights: missing; groups without are not supported", own.where());
    group.weights = ReadArguments(*weights, own.where() + ": weights");
    if (const Json* inputs = own.Find("input_activations"))
      group.inputs = ReadArguments(*inputs, own.where() + ": input_activations");
    own.Only("output_activations", {});
    own.RefuseOthers();
    groups_.push_back(std::move(group));
  }
  std::ranges::stable_sort(targets_, {},
                           [](const Target& t) { return std::tuple(t.pattern.has_value(), std::string_view(t.text)); });
}

const CompressedGroup* CompressedConfig::GroupOf(const std::string& module) const {
  const std::string_view type = module.ends_with("embed_tokens") ? "Embedding" : "Linear";
  const auto named = [&](const Target& t) { return t.pattern ? t.pattern->MatchesStart(module) : t.text == module; };
  for (const Target& target : ignored_) {
    if (named(target) || target.text == type)
      Fail(
          "{}: ignore: got '{}', which leaves '{}' as it is, but the file has codes of it; try the checkpoint's source",
          layout_.where, target.text, module);
  }
  const Target* target = FindWhere(targets_, named);
  if (target == nullptr) target = FindIn(targets_, type, &Target::text);
  return target == nullptr ? nullptr : &groups_[target->group];
}

std::string StrategyText(const CompressedArguments& a) {
  if (a.strategy == Strategy::kGroup || a.strategy == Strategy::kTensorGroup) return Formatted("group{}", a.group);
  if (a.strategy == Strategy::kBlock) return Formatted("block{}x{}", a.block[0], a.block[1]);
  return std::ranges::find(kStrategies, a.strategy, [](const auto& row) { return row.second; })->first;
}

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
