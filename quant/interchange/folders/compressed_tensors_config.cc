// SPDX-License-Identifier: Apache-2.0
#include "quant/interchange/folders/compressed_tensors_config.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "quant/base/error.h"
#include "quant/base/formatted.h"

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

std::array<int64_t, 2> ReadBlock(SchemeKeys& keys) {
  const Json* block = keys.Find("block_structure");
  const auto fits = [](const Json& size) {
    return size.is_number_integer() && size.get<int64_t>() > 0 && size.get<int64_t>() < kMostColumns;
  };
  if (block == nullptr || !block->is_array() || block->size() != 2 || !fits((*block)[0]) || !fits((*block)[1]))
    Fail("{}: block_structure: got {}, expected rows and columns, two positive integers", keys.where(),
         block == nullptr ? "none" : JsonText(*block));
  return {(*block)[0].get<int64_t>(), (*block)[1].get<int64_t>()};
}

// true, false, or "local": the first level of two scales is static.
bool ReadDynamic(SchemeKeys& keys) {
  const Json* dynamic = keys.Find("dynamic");
  if (dynamic != nullptr && *dynamic == "local") return true;
  return keys.Flag("dynamic", false);
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
  if (a.strategy == Strategy::kBlock) a.block = ReadBlock(keys);
  a.dynamic = ReadDynamic(keys);
  a.ordered = ReadOrder(keys);
  keys.Ignore({"group_size", "block_structure", "observer", "observer_kwargs", "scale_dtype", "zp_dtype"});
  keys.RefuseOthers();
  return a;
}

bool IsPattern(std::string_view target) { return target.starts_with("re:"); }

bool IsEmbedding(std::string_view module) { return module.ends_with("embed_tokens"); }

}  // namespace

CompressedConfig::Target CompressedConfig::ParseTarget(const std::string& text, const std::string& where) {
  if (!IsPattern(text)) return {.text = text, .pattern = std::nullopt};
  return {.text = text, .pattern = NamePattern(std::string_view(text).substr(3), where)};
}

CompressedConfig::CompressedConfig(SchemeKeys& keys) : where_(keys.where()) {
  keys.Only("quantization_status", {"\"compressed\""});
  for (const char* key : {"sparsity_config", "transform_config"}) keys.Only(key, {"{}"});
  if (const Json* caches = keys.Find("kv_cache_scheme"); caches != nullptr && !caches->empty())
    caches_ = ReadArguments(*caches, where_ + ": kv_cache_scheme");
  ReadVersion(keys);
  ReadGroups(keys);
  for (const std::string& text : keys.Texts("ignore")) ignored_.push_back(ParseTarget(text, where_ + ": ignore"));
  keys.Ignore({"global_compression_ratio", "run_compressed"});
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
  dense_ = std::pair(*major, *minor) >= std::pair(0, 18);
}

void CompressedConfig::ReadGroups(SchemeKeys& keys) {
  const std::string format = keys.Text("format");
  const Json* groups = keys.Find("config_groups");
  if (groups == nullptr || !groups->is_object() || groups->empty())
    Fail("{}: config_groups: got {}, expected an object of groups", where_,
         groups == nullptr ? "none" : groups->type_name());
  for (const auto& [name, object] : groups->items()) {
    SchemeKeys own(object, Formatted("{}: config_groups: {}", where_, name));
    CompressedGroup group{.name = name, .format = own.Text("format", format)};
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
                           [](const Target& t) { return std::tuple(IsPattern(t.text), std::string_view(t.text)); });
}

const CompressedGroup* CompressedConfig::GroupOf(const std::string& module) const {
  const std::string_view type = IsEmbedding(module) ? "Embedding" : "Linear";
  const auto named = [&](const Target& t) { return t.pattern ? t.pattern->MatchesStart(module) : t.text == module; };
  for (const Target& target : ignored_) {
    if (named(target) || target.text == type)
      Fail(
          "{}: ignore: got '{}', which leaves '{}' as it is, but the file has codes of it; try the checkpoint's source",
          where_, target.text, module);
  }
  for (const Target& target : targets_) {
    if (named(target)) return &groups_[target.group];
  }
  for (const Target& target : targets_) {
    if (target.text == type) return &groups_[target.group];
  }
  return nullptr;
}

std::string StrategyText(const CompressedArguments& a) {
  switch (a.strategy) {
    case Strategy::kTensor:
      return "tensor";
    case Strategy::kChannel:
      return "channel";
    case Strategy::kToken:
      return "token";
    case Strategy::kGroup:
    case Strategy::kTensorGroup:
      return Formatted("group{}", a.group);
    case Strategy::kBlock:
      return Formatted("block{}x{}", a.block[0], a.block[1]);
  }
  TARE_CHECK(false);
}

}  // namespace tare
