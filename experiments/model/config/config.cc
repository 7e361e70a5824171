// SPDX-License-Identifier: Apache-2.0
// Checks of heads and positions, ConfigKeys (typed values), windows, kinds of layers, ParseConfig and LoadConfig.
#include "experiments/model/config/config.h"

#include <cmath>
#include <span>

#include "experiments/model/config/family.h"
#include "quant/base/message.h"
#include "quant/checkpoint/checkpoint.h"
#include "quant/file/checkpoint_files.h"
#include "quant/file/json.h"

namespace tare {
namespace {

constexpr int kMostLayers = 1 << 16;  // some things are kept by layer before the weights say whether there are so many

void CheckHeads(const ModelConfig& c, const std::string& where) {
  if (c.noise_heads == 0 && c.heads % c.kv_heads != 0)
    Fail("{}: num_attention_heads: got {}, expected a multiple of num_key_value_heads {}", where, c.heads, c.kv_heads);
  for (const int64_t width : {int64_t{c.heads} * c.head_dim, int64_t{c.kv_heads} * c.head_dim}) {
    if (width > std::numeric_limits<int32_t>::max()) Fail("{}: heads x head_dim: got {}, too large", where, width);
  }
}

void CheckPositions(ModelConfig& c, const std::string& where) {
  if (!c.rotates) return;
  for (RotaryConfig* rotary : {&c.rotary, c.window_rotary ? &*c.window_rotary : nullptr}) {
    if (rotary == nullptr) continue;
    if (rotary->share != 1 && !FamilyOf(c).rotates_parts && rotary->type == RotaryConfig::Type::kDefault) {
      Notice(Formatted("{}: partial_rotary_factor: not read in a {} model, as in transformers", where, c.family));
      rotary->share = 1;
    }
    if (rotary->share != 1 && !FamilyOf(c).rotates_parts)
      Fail("{}: partial_rotary_factor: got {}, expected 1 of a {} model with scaled positions", where, rotary->share,
           c.family);
    CheckRotary(*rotary, c.head_dim, where);
  }
}

// is_causal: false lets a token see those after it: without a window all, with one of w keys those at most w away, so
// within w + 1 positions all. Longer texts are refused. transformers reads null as false.
void ReadMask(const ConfigKeys& keys, ModelConfig& c) {
  c.causal &= !keys.IsNull("is_causal") && keys.Flag("is_causal", true);
  if (c.causal) return;
  if (FamilyOf(c).defaults.hidden == 0 || c.projection > 0)
    Fail("{}: is_causal: got false, expected true in a {} model", keys.where(), c.family);
  Notice(keys.where() +
         ": attention in both directions: tokens see those after them, so their probabilities predict nothing");
  for (const int window : c.windows) {
    if (window > 0) c.positions_reached = std::min(c.positions_reached, window + 1);
  }
}

// "; try DIR/a or DIR/b", of the folders in it that have a configuration, at most four; or that it has pickles.
std::string CheckpointsIn(const std::filesystem::path& folder) {
  std::vector<std::string> found;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    if (HasPickleName(entry.path()))
      return "; pickles (*.bin, *.pt) are not supported; try safetensors, of DiffCLIP tools/clip_towers.py";
    if (std::filesystem::is_regular_file(entry.path() / "config.json", error)) found.push_back(entry.path().string());
  }
  std::ranges::sort(found);
  return found.empty() ? "" : "; try " + Listed(std::span(found).first(std::min<size_t>(found.size(), 4)), " or ");
}

// A folder of weights that are added to those of another model.
void RefuseAdapter(const std::filesystem::path& path) {
  const char* const name = "adapter_config.json";
  const std::optional<std::string> text = CheckpointText(path, name);
  if (!text) return;
  const nlohmann::json json = ParseJson(*text, (path / name).string());
  const char* const base = "base_model_name_or_path";
  const ConfigKeys keys(json, (path / name).string());
  Fail("{}: got an adapter of {}, expected a whole model; try one that both are merged into (peft: merge_and_unload)",
       path.string(), keys.Has(base) ? keys.Text(base) : "another model");
}

}  // namespace

bool ConfigKeys::Has(const char* key) const { return object_.contains(key) && !object_[key].is_null(); }

bool ConfigKeys::IsNull(const char* key) const { return object_.contains(key) && object_[key].is_null(); }

int ConfigKeys::Integer(const char* key, int smallest) const {
  const nlohmann::json& value = Get(key);
  if (!value.is_number_integer()) Wrong(key, "an integer");
  const auto number = value.get<int64_t>();
  if (number < smallest || number > std::numeric_limits<int32_t>::max())
    Fail("{}: {}: got {}, expected {} to {}", where_, key, value.dump(), smallest, std::numeric_limits<int32_t>::max());
  return static_cast<int>(number);
}

double ConfigKeys::Positive(const char* key) const {
  const nlohmann::json& value = Get(key);
  if (!value.is_number() || !(value.get<double>() > 0) || !std::isfinite(value.get<double>()))
    Wrong(key, "a positive number");
  return value.get<double>();
}

double ConfigKeys::NotNegative(const char* key) const { return !Has(key) || Get(key) == 0 ? 0.0 : Positive(key); }

template <typename Read>
auto ConfigKeys::List(const char* key, const char* expected, const Read& read) const {
  if (!Get(key).is_array()) Wrong(key, expected);
  std::vector<decltype(read(*this))> list;
  for (const nlohmann::json& one : object_[key]) {
    const nlohmann::json item{{key, one}};
    list.push_back(read(ConfigKeys(item, where_)));
  }
  return list;
}

std::vector<double> ConfigKeys::Positives(const char* key) const {
  return List(key, "a list of positive numbers", [key](const ConfigKeys& item) { return item.Positive(key); });
}

std::vector<double> ConfigKeys::Numbers(const char* key) const {
  const char* const expected = "a list of numbers";
  return List(key, expected, [&](const ConfigKeys& item) {
    const nlohmann::json& value = item.Get(key);
    if (value.is_number()) return value.get<double>();
    if (PlainText(value) != "Infinity") Wrong(key, expected);
    return std::numeric_limits<double>::infinity();  // as folders of Python show it
  });
}

bool ConfigKeys::Flag(const char* key, bool otherwise) const {
  if (!Has(key)) return otherwise;
  if (!object_[key].is_boolean()) Wrong(key, "true or false");
  return object_[key].get<bool>();
}

std::string ConfigKeys::Text(const char* key) const {
  if (!Get(key).is_string()) Wrong(key, "a string");
  return object_[key].get<std::string>();
}

std::vector<std::string> ConfigKeys::Texts(const char* key) const {
  const char* const expected = "a list of strings";
  return List(key, expected, [&](const ConfigKeys& item) {
    if (!item.Has(key) || !item.IsText(key)) Wrong(key, expected);
    return item.Text(key);
  });
}

bool ConfigKeys::IsText(const char* key) const { return Get(key).is_string(); }
bool ConfigKeys::IsList(const char* key) const { return Get(key).is_array(); }

std::vector<std::optional<int>> ConfigKeys::Integers(const char* key, int smallest) const {
  return List(key, "a list of integers", [&](const ConfigKeys& item) {
    return item.Has(key) ? std::optional(item.Integer(key, smallest)) : std::nullopt;
  });
}

ConfigKeys ConfigKeys::Object(const char* key) const {
  if (!Get(key).is_object()) Wrong(key, "an object");
  return {object_[key], where_ + ": " + key};
}

bool ConfigKeys::Filled(const char* key) const { return Has(key) && !Object(key).object_.empty(); }

void ConfigKeys::Refuse(const char* key, std::initializer_list<const char*> accepted) const {
  if (!Has(key)) return;
  const std::string value = object_[key].dump();
  if (value != "false" && !std::ranges::contains(accepted, value))
    Fail("{}: {}: {} is not supported", where_, key, value);
}

void ConfigKeys::Agree(const char* key, const ConfigKeys& other, const char* spelling) const {
  if (!Has(key) || !other.Has(spelling) || object_[key] == other.object_[spelling]) return;
  Fail("{}: {}: got {}, expected {}, as {}: {} says; try one of them", where_, key, object_[key].dump(),
       other.object_[spelling].dump(), other.where_, spelling);
}

const nlohmann::json& ConfigKeys::Get(const char* key) const {
  if (!Has(key)) Fail("{}: key '{}' is missing, and the model cannot be built without it", where_, key);
  return object_[key];
}

void ConfigKeys::Wrong(const char* key, const char* expected) const {
  Fail("{}: {}: got {}, expected {}", where_, key, object_[key].dump(), expected);
}

int ReadWindow(const ConfigKeys& keys, int otherwise) {
  return keys.IsNull("sliding_window") ? 0 : keys.Integer("sliding_window", 1, otherwise);
}

std::vector<int> ReadWindows(const ConfigKeys& keys, int layers, int window, const std::function<bool(int)>& slides,
                             const char* older) {
  std::vector<int> windows(static_cast<size_t>(layers));
  if (!keys.Has("layer_types")) {
    for (int layer = 0; layer < layers; ++layer) windows[static_cast<size_t>(layer)] = slides(layer) ? window : 0;
  } else {
    const std::vector<std::string> types = keys.Texts("layer_types");
    if (types.size() != windows.size())
      Fail("{}: layer_types: got {} layers, expected num_hidden_layers {}", keys.where(), types.size(), layers);
    for (size_t layer = 0; layer < types.size(); ++layer) {
      if (types[layer] == "full_attention") continue;
      if (types[layer] != "sliding_attention")
        Fail(
            "{}: layer_types: got '{}' in layer {}, expected full_attention or sliding_attention (others are not "
            "supported)",
            keys.where(), types[layer], layer);
      if (window == 0)
        Fail(
            "{}: layer_types: got sliding_attention in layer {}, expected full_attention, as no sliding_window is in "
            "use",
            keys.where(), layer);
      windows[layer] = window;
    }
    for (int layer = 0; layer < layers && window > 0 && keys.Has(older); ++layer) {
      if (slides(layer) == (windows[static_cast<size_t>(layer)] > 0)) continue;
      Notice(Formatted("{}: {}: layer_types says otherwise of layer {}, and holds, as in transformers", keys.where(),
                       older, layer));
      break;
    }
  }
  if (std::ranges::count(windows, 0) == layers) windows.clear();
  return windows;
}

void NoteUnread(const ConfigKeys& keys, std::string_view family, std::initializer_list<const char*> unread) {
  for (const char* key : unread)
    if (keys.Has(key))
      Notice(Formatted("{}: {}: not read in a {} model, as in transformers", keys.where(), key, family));
}

int ModelConfig::KeysLayer(int layer) const {
  if (Kind(layer) >= LayerKind::kMamba) return -1;
  while (layer >= 0 && Kind(layer) != LayerKind::kAttention) --layer;
  TARE_CHECK(layer >= 0);
  return layer;
}

float ModelConfig::AttentionScale(int layer) const {
  const float scale = attention_scale.value_or(1.0f / std::sqrt(static_cast<float>(head_dim)));
  return Window(layer) > 0 ? scale : scale * full_scale;
}

std::string KindText(const ModelConfig& config, int layer) {
  constexpr const char* kNames[] = {"full", "shared", "mamba", "memory unit",
                                    "mamba pair"};  // in the order of LayerKind
  return config.Window(layer) > 0 ? "window" : kNames[static_cast<size_t>(config.Kind(layer))];
}

ModelConfig ParseConfig(std::string_view text, const std::string& where) {
  nlohmann::json json = ParseJson(text, where);
  if (!json.is_object()) Fail("{}: not a JSON object; try saving the checkpoint again", where);
  if (const ConfigKeys given(json, where); given.Has("architecture") && !given.Has("model_type"))
    json = FromTimm(json, where);
  const ConfigKeys keys(json, where);
  ModelConfig c;
  const std::string type = keys.Text("model_type"), key = where + ": model_type";
  if (keys.Has("text_config") && std::ranges::none_of(Families(), [&](auto* f) { return f->name == type; }))
    Fail(
        "{}: got '{}', a model of more than text; its text model is in text_config: try that as the config.json of a "
        "folder with its tensors",
        key, type);
  const Family& family = FamilyNamed(type, key);
  c.family = family.name;
  const ModelDefaults& usual = family.defaults;
  const auto count = [&keys](const char* name, int otherwise) {
    return otherwise > 0 ? keys.Integer(name, 1, otherwise) : keys.Integer(name, 1);
  };
  if (family.names.class_row.empty()) c.vocabulary = count("vocab_size", usual.vocabulary);
  c.hidden = count("hidden_size", usual.hidden);
  c.ffn = count("intermediate_size", usual.ffn);
  c.layers = count("num_hidden_layers", usual.layers);
  if (c.layers > kMostLayers) Fail("{}: num_hidden_layers: got {}, expected 1 to {}", where, c.layers, kMostLayers);
  c.heads = count("num_attention_heads", usual.heads);
  const bool by_class = usual.kv_heads > 0 && !keys.IsNull("num_key_value_heads");
  c.kv_heads = keys.Integer("num_key_value_heads", 1, by_class ? usual.kv_heads : c.heads);
  const bool derived = usual.head_dim == 0 || keys.IsNull("head_dim");
  if (derived && !keys.Has("head_dim") && c.hidden % c.heads != 0)
    Fail("{}: hidden_size: got {}, expected a multiple of num_attention_heads {} where head_dim is not given", where,
         c.hidden, c.heads);
  c.head_dim = keys.Integer("head_dim", 2, derived ? c.hidden / c.heads : usual.head_dim);
  c.max_positions = keys.Integer("max_position_embeddings", 1, usual.positions);
  c.rotary.theta = usual.theta;
  c.tied_embeddings = keys.Flag("tie_word_embeddings", usual.tied);
  if (keys.Has("bos_token_id")) c.bos = keys.Integer("bos_token_id", std::numeric_limits<int32_t>::min());
  keys.Refuse("quantization_config");
  family.read(keys, c);
  c.headless = !c.tied_embeddings && c.projection == 0 && keys.Has("architectures") &&
               std::ranges::any_of(keys.Texts("architectures"), [](auto& name) { return name.ends_with("Model"); });
  CheckHeads(c, where);
  CheckPositions(c, where);
  if (keys.Has("rotary_layout")) c.rotary.layout = ReadRotaryLayout(keys);
  if (c.bos && (*c.bos < 0 || *c.bos >= c.vocabulary)) c.bos.reset();  // as files without such a token write it
  c.positions_reached = PositionsReached(c.rotary, c.max_positions);
  ReadMask(keys, c);
  return c;
}

// Studies keep something for each layer, head and expert before they read a tensor. So counts beyond those of known
// models are held to the tensors: a layer has one at least, and a value takes two bits at least.
static void CheckCounts(const std::filesystem::path& path, const ModelConfig& c, const std::string& where) {
  constexpr int64_t kMostUsual = 1 << 15;
  constexpr int kLayers = 1024, kVocabulary = 1 << 21;
  const int64_t layers = c.layers;
  if (layers <= kLayers && layers * c.heads <= kMostUsual && layers * c.experts <= kMostUsual &&
      std::max(c.hidden / 2, c.ffn / 8) <= kMostUsual && c.vocabulary <= kVocabulary)
    return;
  const Checkpoint files(path);
  const int64_t tensors = std::ssize(files.names()), most = 4 * files.total_bytes() / c.hidden;
  const auto check = [&](const char* key, int64_t got, int64_t least, int64_t has) {
    if (least > has || least < 0)
      Fail("{}: {}: got {}, more than the {} tensors of {} bytes can hold; is this the right config.json?", where, key,
           got, tensors, files.total_bytes());
  };
  check("num_hidden_layers", layers, layers, tensors);
  check("num_attention_heads", c.heads, int64_t{c.heads} * c.head_dim, most / layers);
  check("intermediate_size", c.ffn, c.ffn, most / layers);
  check("number of experts", c.experts, int64_t{c.experts} * c.ffn, most / layers);
  check("vocab_size", c.vocabulary, c.vocabulary, most);
}

ModelConfig LoadConfig(const std::filesystem::path& path) {
  const std::optional<std::string> text = ModelConfigText(path);
  const std::string where = (path / "config.json").string();
  if (!text) RefuseAdapter(path);
  if (!text)
    Fail("{}: no such file; expected a checkpoint in Hugging Face layout (config.json, *.safetensors){}", where,
         CheckpointsIn(path));
  ModelConfig config = ParseConfig(*text, where);
  CheckCounts(path, config, where);
  config.headless = config.headless && !Checkpoint(path).Has(FamilyOf(config).names.head);
  config.tied_embeddings |= config.headless;
  if (const Family& family = FamilyOf(config); family.fit != nullptr) family.fit(Checkpoint(path), config);
  return config;
}

}  // namespace tare
