// SPDX-License-Identifier: Apache-2.0
// Patterns of names, keys, tensors by module, and last which reader a folder gets.
#include "quant/interchange/folders/quantization_config.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <algorithm>
#include <cctype>
#include <ranges>

#include "quant/base/message.h"

namespace tare {
namespace {

constexpr size_t kLongest = 1000;         // of a pattern or a name, in bytes; names of modules have tens
constexpr uint32_t kMostSteps = 100'000;  // of a match from one place on; patterns in use take tens
constexpr uint32_t kMostHeap = 16 << 10;  // KiB

const unsigned char* Bytes(std::string_view text) { return reinterpret_cast<const unsigned char*>(text.data()); }

template <typename T>
using Freed = std::unique_ptr<T, void (*)(T*)>;

// At most this much of a value is quoted.
std::string Shown(const Json& value) {
  constexpr size_t kMost = 60;
  std::string text = JsonText(value);
  if (text.size() > kMost) text = text.substr(0, kMost) + "...";
  return text;
}

// Lists within lists, as AutoRound and GPTQ write them.
bool Flatten(const Json& value, std::vector<std::string>& texts) {
  if (value.is_string()) texts.push_back(value.get<std::string>());
  if (value.is_string()) return true;
  return value.is_array() && std::ranges::all_of(value, [&](const Json& part) { return Flatten(part, texts); });
}

constexpr const char* kKey = "quantization_config";

constexpr std::pair<std::string_view, MethodReader*> kMethods[] = {
    {"gptq", ReadGptq},
    {"awq", ReadAwq},
    {"auto-round", ReadAutoRound},
    {"intel/auto-round", ReadAutoRound},
    {"compressed-tensors", ReadCompressedTensors},
    {"fp8", ReadFp8},
    {"modelopt", ReadModelOpt},
    {"modelopt_nvfp4", ReadNvFp4Experts},
    {"bitsandbytes", ReadBitsAndBytes},
    {"mxfp4", ReadMxfp4},
};

// The keys of config.json, and the files beside it, that settings may be in, and whose they are if they do not say it.
// Some are left in folders of plain weights; then no tensor has this part.
struct Place {
  const char *key, *file;
  std::string_view method, part;
};

constexpr Place kSettingsPlaces[] = {
    {kKey, nullptr, "", ""},
    {"compression_config", nullptr, "compressed-tensors", ""},
    {nullptr, "hf_quant_config.json", "modelopt", "weight_scale"},
    {nullptr, "quantize_config.json", "gptq", "qweight"},
    {nullptr, "quant_config.json", "awq", "qweight"},
};

// What decides how codes are read, under the names that the places have for it.
constexpr std::pair<const char*, const char*> kDeciding[] = {{"bits", "w_bit"},
                                                             {"group_size", "q_group_size"},
                                                             {"sym", "sym"},
                                                             {"zero_point", "zero_point"},
                                                             {"checkpoint_format", "format"},
                                                             {"quant_method", "method"}};

const Json* MemberOf(const Json& json, std::string_view key) {
  const auto found = json.is_object() ? json.find(std::string(key)) : json.end();
  return found == json.end() || found->is_null() ? nullptr : &*found;
}

struct Settings {
  const Place* place = nullptr;  // none: there are none
  Json json;
  std::string where;
};

// Throws Error where two places have settings that would read codes differently.
void RequireSame(const Settings& a, const Settings& b) {
  for (const auto& [name, other] : kDeciding) {
    const auto value = [&](const Settings& s) {
      const Json* const found = MemberOf(s.json, name);
      return found != nullptr ? found : MemberOf(s.json, other);
    };
    const Json *x = value(a), *y = value(b);
    if (x != nullptr && y != nullptr && *x != *y)
      Fail("{}: {}: got {}, but {} has {}; expected one; try removing the wrong one", b.where, name, Shown(*y), a.where,
           Shown(*x));
  }
}

// The first place that has settings.
Settings SettingsIn(const Json& config, const std::filesystem::path& folder, const ModuleTensors& tensors) {
  Settings all;
  for (const Place& place : kSettingsPlaces) {
    Settings here{.place = &place, .json = {}, .where = (folder / (place.file ? place.file : "config.json")).string()};
    if (place.key != nullptr) {
      const Json* const found = MemberOf(config, place.key);
      if (found == nullptr) continue;
      here.json = *found;
      here.where += std::string(": ") + place.key;
    } else {
      if (tensors.ModulesWith(place.part).empty()) continue;
      const std::optional<std::string> text = FolderText(folder, place.file);
      if (!text) continue;
      here.json = ParseOrderedJson(*text, here.where);
    }
    if (all.place != nullptr) RequireSame(all, here);
    if (all.place == nullptr) all = std::move(here);
  }
  return all;
}

}  // namespace

NamePattern::NamePattern(std::string_view pattern, std::string where) : where_(std::move(where)) {
  if (pattern.size() > kLongest)
    Fail("{}: got a pattern of {} bytes, expected at most {}", where_, pattern.size(), kLongest);
  int error = 0;
  size_t at = 0;
  code_.reset(pcre2_compile(Bytes(pattern), pattern.size(), PCRE2_DOLLAR_ENDONLY | PCRE2_NEVER_BACKSLASH_C, &error, &at,
                            nullptr),
              pcre2_code_free);
  if (code_ != nullptr) return;
  unsigned char why[256] = "unknown";
  pcre2_get_error_message(error, why, sizeof why);
  Fail("{}: got the pattern '{}', at {}: {}; expected a regular expression of Python's", where_, pattern, at,
       reinterpret_cast<const char*>(why));
}

bool NamePattern::MatchesStart(std::string_view name) const { return Matches(name, PCRE2_ANCHORED); }

bool NamePattern::MatchesSomewhere(std::string_view name) const { return Matches(name, 0); }

bool NamePattern::Matches(std::string_view name, uint32_t options) const {
  if (name.size() > kLongest)
    Fail("{}: got a name of {} bytes, '{}...', expected at most {}", where_, name.size(), name.substr(0, 60), kLongest);
  const Freed<pcre2_match_data> data(pcre2_match_data_create(1, nullptr), pcre2_match_data_free);
  const Freed<pcre2_match_context> context(pcre2_match_context_create(nullptr), pcre2_match_context_free);
  pcre2_set_match_limit(context.get(), kMostSteps);
  pcre2_set_heap_limit(context.get(), kMostHeap);
  const int got = pcre2_match(code_.get(), Bytes(name), name.size(), 0, options, data.get(), context.get());
  if (got < 0 && got != PCRE2_ERROR_NOMATCH)
    Fail("{}: the pattern takes too long on the name '{}'; expected a simpler one", where_, name.substr(0, 100));
  return got >= 0;
}

SchemeKeys::SchemeKeys(const Json& object, std::string where) : object_(object), where_(std::move(where)) {
  if (!object_.is_object()) Fail("{}: got {}, expected an object", where_, Shown(object_));
}

const Json* SchemeKeys::Find(std::string_view key) {
  known_.emplace(key);
  return MemberOf(object_, key);
}

const Json& SchemeKeys::Get(std::string_view key) {
  const Json* value = Find(key);
  if (value == nullptr) Fail("{}: {}: missing; try the checkpoint's source", where_, key);
  return *value;
}

void SchemeKeys::Wrong(std::string_view key, std::string_view expected) const {
  Fail("{}: {}: got {}, expected {}", where_, key, Shown(object_.at(std::string(key))), expected);
}

const Json& SchemeKeys::Object(std::string_view key, std::string_view expected) {
  static const Json none = Json::object();
  const Json* const value = Find(key);
  if (value != nullptr && !value->is_object()) Wrong(key, expected);
  return value == nullptr ? none : *value;
}

int64_t SchemeKeys::Integer(std::string_view key, int64_t least, int64_t most, std::optional<int64_t> otherwise) {
  if (otherwise && !Has(key)) return *otherwise;
  const Json& value = Get(key);
  const bool fits =
      value.is_number_unsigned() ? std::in_range<int64_t>(value.get<uint64_t>()) : value.is_number_integer();
  if (!fits || value.get<int64_t>() < least || value.get<int64_t>() > most)
    Wrong(key, Formatted("an integer from {} to {}", least, most));
  return value.get<int64_t>();
}

bool SchemeKeys::SaysNull(std::string_view key) const {
  const auto found = object_.find(std::string(key));
  return found != object_.end() && found->is_null();
}

bool SchemeKeys::Flag(std::string_view key, bool otherwise) {
  const Json* value = Find(key);
  if (value == nullptr) return otherwise;
  if (!value->is_boolean()) Wrong(key, "true or false");
  return value->get<bool>();
}

std::string SchemeKeys::Text(std::string_view key, const std::optional<std::string>& otherwise) {
  if (otherwise && !Has(key)) return *otherwise;
  if (!Get(key).is_string()) Wrong(key, "a string");
  return Get(key).get<std::string>();
}

std::array<int64_t, 2> SchemeKeys::Two(std::string_view key, int64_t most, std::string_view expected) {
  const Json* value = Find(key);
  const auto fits = [most](const Json& n) {
    return n.is_number_integer() && n.get<int64_t>() > 0 && n.get<int64_t>() <= most;
  };
  if (value == nullptr || !value->is_array() || value->size() != 2 || !std::ranges::all_of(*value, fits))
    Fail("{}: {}: got {}, expected {}", where_, key, value == nullptr ? "none" : JsonText(*value), expected);
  return {(*value)[0].get<int64_t>(), (*value)[1].get<int64_t>()};
}

std::vector<std::string> SchemeKeys::Texts(std::string_view key) {
  std::vector<std::string> texts;
  const Json* value = Find(key);
  if (value == nullptr) return texts;
  if (!value->is_array() || !Flatten(*value, texts)) Wrong(key, "a list of strings");
  return texts;
}

void SchemeKeys::Only(std::string_view key, std::initializer_list<std::string_view> accepted) {
  const Json* value = Find(key);
  if (value == nullptr || std::ranges::contains(accepted, std::string_view(JsonText(*value)))) return;
  const std::string list = Listed(accepted, " or ");
  Wrong(key, list.empty() ? "none: it is not supported" : list + ": others are not supported");
}

void SchemeKeys::Ignore(std::string_view keys) {
  for (const auto key : std::views::split(keys, ' ')) known_.emplace(std::string_view(key));
}

void SchemeKeys::RefuseOthers() const {
  for (const auto& [key, value] : object_.items()) {
    if (!known_.contains(key) && !value.is_null())
      Fail("{}: {}: got {}, expected no such key: it is not known, and might change the weights", where_, key,
           Shown(value));
  }
}

std::string ModuleTensors::Where(std::string_view name) const { return Formatted("{}: tensor '{}'", folder_, name); }

std::vector<std::string> ModuleTensors::ModulesWith(std::string_view part) const {
  std::vector<std::string> modules;
  const std::string ending = "." + std::string(part);
  for (const std::string& name : files_.names()) {
    if (name.size() > ending.size() && name.ends_with(ending))
      modules.push_back(name.substr(0, name.size() - ending.size()));
  }
  return modules;
}

const TensorView* ModuleTensors::Find(const std::string& module, std::string_view part) const {
  return files_.Find(module + "." + std::string(part));
}

const TensorView& ModuleTensors::Take(const std::string& module, std::string_view part,
                                      std::initializer_list<DType> types) {
  const std::string name = module + "." + std::string(part);
  const TensorView* tensor = files_.Find(name);
  if (tensor == nullptr)
    Fail("{}: missing, beside other parts of '{}'; try downloading the checkpoint again", Where(name), module);
  if (!std::ranges::contains(types, tensor->dtype))
    Fail("{}: got dtype {}, expected {}", Where(name), Name(tensor->dtype),
         Listed(types, " or ", [](DType type) { return Name(type); }));
  if (tensor->elements() == 0)
    Fail("{}: got shape {}, expected at least one element", Where(name), ShapeText(tensor->shape));
  taken_.insert(name);
  return *tensor;
}

const TensorView& ModuleTensors::TakeMatrix(const std::string& module, std::string_view part,
                                            std::initializer_list<DType> types) {
  const TensorView& tensor = Take(module, part, types);
  if (tensor.shape.size() != 2)
    Fail("{}: got shape {}, expected a matrix", Where(tensor.name), ShapeText(tensor.shape));
  return tensor;
}

void ModuleTensors::Require(const TensorView& tensor, const std::vector<int64_t>& shape,
                            std::string_view because) const {
  if (tensor.shape != shape)
    Fail("{}: got shape {}, expected {}: {}", Where(tensor.name), ShapeText(tensor.shape), ShapeText(shape), because);
}

void ModuleTensors::CheckNothingLeft(std::string_view parts) const {
  const auto known = std::views::split(parts, ' ') | std::ranges::to<std::vector<std::string>>();
  for (const std::string& name : files_.names()) {
    const size_t dot = name.rfind('.');
    if (dot != name.npos && !taken_.contains(name) &&
        std::ranges::contains(known, std::string_view(name).substr(dot + 1)))
      Fail("{}: left over: no matrix of quantization_config's scheme has this part here; try the checkpoint's source",
           Where(name));
  }
}

int64_t BytesOf(const std::vector<const TensorView*>& tensors) {
  int64_t bytes = 0;
  for (const TensorView* tensor : tensors) bytes += std::ssize(tensor->bytes);
  return bytes;
}

LeftModules::LeftModules(SchemeKeys& keys, std::initializer_list<std::string_view> lists) {
  for (const std::string_view list : lists) {
    for (const std::string& text : keys.Texts(list)) {
      if (text.find_first_of("*?") == text.npos) {
        names_.push_back("." + text + ".");
        continue;
      }
      std::string pattern;
      for (const char c : text) {
        const bool is_plain = c == '_' || (std::isalnum(static_cast<unsigned char>(c)) != 0);
        pattern += c == '*' ? ".*" : c == '?' ? "." : (is_plain ? "" : "\\") + std::string(1, c);
      }
      patterns_.emplace_back("(.*\\.)?" + pattern + "(\\..*)?$", Formatted("{}: {}", keys.where(), list));
    }
  }
}

bool LeftModules::Has(const std::string& module) const {
  const std::string whole = "." + module + ".";
  return std::ranges::any_of(names_, [&](const std::string& name) { return whole.contains(name); }) ||
         std::ranges::any_of(patterns_, [&](const NamePattern& pattern) { return pattern.MatchesStart(module); });
}

void LeftModules::RequireCodes(const std::string& module, const std::string& where,
                               const ModuleTensors& tensors) const {
  if (Has(module))
    Fail("{}: got codes, expected a plain weight: {} leaves this module as it is", tensors.Where(module + ".weight"),
         where);
}

ForeignModel ReadForeignModel(const std::string& config, const std::filesystem::path& folder, ModuleTensors& tensors) {
  const std::string where = (folder / "config.json").string();
  const Json json = ParseOrderedJson(config, where);
  const Settings settings = SettingsIn(json, folder, tensors);
  const Json* const mlx = MemberOf(json, "quantization");
  if (settings.place != nullptr && mlx != nullptr && settings.json != *mlx)
    Fail("{}: got quantization and {}, which differ; expected the same settings", where,
         settings.place->key != nullptr ? settings.place->key : settings.place->file);
  if (mlx != nullptr) {
    SchemeKeys keys(*mlx, where + ": quantization");
    return ReadMlx(keys, *mlx, tensors);
  }
  if (settings.place == nullptr) return {};
  SchemeKeys keys(settings.json, settings.where);
  const std::string key = keys.Has("quant_method") || !keys.Has("method") ? "quant_method" : "method";
  keys.Ignore("method");
  std::optional<std::string> otherwise;
  if (!settings.place->method.empty()) otherwise = settings.place->method;
  const Json* const producer = keys.Find("producer");
  if (producer != nullptr && MemberOf(*producer, "name") != nullptr && (*producer)["name"] == "modelopt")
    otherwise = "modelopt";
  const std::string method = keys.Text(key, otherwise);
  for (const auto& [name, read] : kMethods) {
    if (method == name) return read(keys, tensors);
  }
  keys.Wrong(
      key, "gptq, awq, auto-round, compressed-tensors, fp8, modelopt, bitsandbytes or mxfp4: others are not supported");
}

std::string WithoutQuantizationConfig(const std::string& config, const std::string& where) {
  Json json = ParseOrderedJson(config, where);
  size_t erased = 0;
  for (const char* key : {kKey, "compression_config", "quantization"}) erased += json.is_object() ? json.erase(key) : 0;
  return erased == 0 ? config : JsonText(json, 2) + "\n";
}

}  // namespace tare
