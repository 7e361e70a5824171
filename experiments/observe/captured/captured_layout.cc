// SPDX-License-Identifier: Apache-2.0
#include "experiments/observe/captured/captured_statistics.h"

#include <algorithm>

#include "quant/base/find_in.h"
#include "quant/base/message.h"
#include "quant/file/json.h"

namespace tare {
namespace {

constexpr std::string_view kLayer = "{layer}";

bool HasLayers(Site site) { return ClassOf(site).dimensions.contains('l'); }
bool HasHeads(Site site) { return ClassOf(site).dimensions.contains('h'); }

std::string UsualName(Site site) {
  return std::string(Name(site)) + (HasLayers(site) ? "." + std::string(kLayer) : "");
}

std::string_view UsualAxes(Site site) {
  if (IsWeight(site)) return "OI";
  if (IsAttentionMap(site)) return "BHTS";
  return HasHeads(site) ? "BHTD" : "BTC";
}

// The letters that an array of the site must have; B may be missing.
void CheckAxes(Site site, std::string_view axes, const std::string& where) {
  std::string got(axes), expected(UsualAxes(site));
  if (!got.contains('B')) std::erase(expected, 'B');
  std::ranges::sort(got);
  std::ranges::sort(expected);
  if (got != expected)
    Fail("{}: got axes '{}', expected the letters of {} in their order, each once", where, axes, UsualAxes(site));
}

// The layer in the name, -1 where the pattern has none; nullopt if the name does not match.
std::optional<int> LayerIn(std::string_view name, std::string_view pattern) {
  const size_t at = pattern.find(kLayer);
  if (at == pattern.npos) return name == pattern ? std::optional(-1) : std::nullopt;
  const std::string_view before = pattern.substr(0, at), after = pattern.substr(at + kLayer.size());
  if (name.size() <= before.size() + after.size() || !name.starts_with(before) || !name.ends_with(after))
    return std::nullopt;
  name = name.substr(before.size(), name.size() - before.size() - after.size());
  const std::optional<int> layer = ParseNumber<int>(name);
  constexpr int kMostLayers = 10000;
  return layer && 0 <= *layer && *layer < kMostLayers ? layer : std::nullopt;
}

std::string TextOf(const nlohmann::json& value, const std::string& where) {
  if (!value.is_string()) Fail("{}: got {}, expected text", where, value.type_name());
  return value.get<std::string>();
}

MapsOfHeads ParseMaps(const std::string& text, const std::string& where) {
  if (text == "interleaved") return MapsOfHeads::kInterleaved;
  if (text == "halves") return MapsOfHeads::kHalves;
  Fail("{}: got '{}', expected interleaved or halves", where, text);
}

void ReadSite(Site site, const nlohmann::json& json, const std::string& where, SiteLayout& layout) {
  if (!json.is_object()) Fail("{}: got {}, expected an object", where, json.type_name());
  for (const auto& [key, value] : json.items()) {
    const std::string here = where + "." + key;
    if (key == "name") {
      layout.name = TextOf(value, here);
      if (layout.name.contains(kLayer) && !HasLayers(site))
        Fail("{}: got '{}', expected no {{layer}} in it", here, layout.name);
    } else if (key == "axes") {
      layout.axes = TextOf(value, here);
      if (HasHeads(site) && !IsAttentionMap(site)) std::ranges::replace(layout.axes, 'C', 'D');
      CheckAxes(site, layout.axes, here);
    } else if (key == "mask" && IsAttentionMap(site)) {
      layout.mask = TextOf(value, here);
    } else if (key == "maps" && HasHeads(site) && site != Site::kDifference) {
      layout.maps = ParseMaps(TextOf(value, here), here);
    } else {
      Fail("{}: got a key that this site does not have, expected name, axes{}{}", here,
           IsAttentionMap(site) ? ", mask" : "", HasHeads(site) && site != Site::kDifference ? ", maps" : "");
    }
  }
}

CapturedAttention ReadAttention(const nlohmann::json& json, const std::string& where) {
  CapturedAttention attention;
  if (!json.is_object()) Fail("{}: got {}, expected an object", where, json.type_name());
  for (const auto& [key, value] : json.items()) {
    const std::string here = where + "." + key, word = value.is_string() ? value.get<std::string>() : "";
    if (key == "heads") {
      attention.heads = TextOf(value, here);
    } else if ((key == "lambda" || key == "scale") && value.is_number()) {
      (key == "lambda" ? attention.lambda : attention.scale) = value.get<float>();
    } else if (key == "beta" && value.is_number()) {
      attention.beta = value.get<float>();
    } else if (const Variant* const variant = FindIn(kVariants, word, &Variant::name); key == "variant" && variant) {
      attention.variant = *variant;
    } else if (key == "window" && value.is_number_unsigned() && value > 0) {
      attention.mask = {Mask::Kind::kWindow, value.get<int64_t>()};
    } else if (key == "mask" && (word == "none" || word == "causal") && !json.contains("window")) {
      attention.mask.kind = word == "none" ? Mask::Kind::kFull : Mask::Kind::kCausal;
    } else {
      Fail(
          "{}: got {}, expected heads, numbers as lambda, scale and beta, a window from 1 or the mask causal or none, "
          "and as variant {}",
          here, JsonText(value), Listed(kVariants, ", ", &Variant::name));
    }
  }
  if (attention.variant.weights == RowWeights::kThreshold && !json.contains("beta"))
    Fail("{}: got the variant threshold alone, expected \"beta\" beside it, a number from 0 on", where);
  return attention;
}

}  // namespace

bool IsAttentionMap(Site site) {
  return site == Site::kAttnLogits || site == Site::kProbs || site == Site::kDifference;
}

std::optional<int> SiteLayout::MapOf(int head, int heads) const {
  if (maps == MapsOfHeads::kNone) return std::nullopt;
  return 1 + (maps == MapsOfHeads::kInterleaved ? head % 2 : head / std::max(1, heads / 2));
}

CapturedLayout::CapturedLayout() {
  for (const SiteInfo& info : kSites) sites_[info.site].name = UsualName(info.site);
}

CapturedLayout CapturedLayout::Load(const std::filesystem::path& path) {
  CapturedLayout layout;
  if (path.empty()) return layout;
  const nlohmann::json json = ReadJson(path);
  if (!json.is_object()) Fail("{}: got {}, expected an object of sites", path.string(), json.type_name());
  layout.canonical_ = JsonText(json);
  for (const auto& [name, value] : json.items()) {
    if (name == "attention") {
      layout.attention_ = ReadAttention(value, path.string() + ": " + name);
      continue;
    }
    const std::optional<Site> site = ParseSite(name);
    if (!site)
      Fail("{}: got the key '{}', expected sites, as `tare plan` lists them, or attention", path.string(), name);
    ReadSite(*site, value, path.string() + ": " + name, layout.sites_.at(*site));
  }
  return layout;
}

std::optional<CapturedArray> CapturedLayout::Find(const ArrayInfo& array, const std::string& where) const {
  for (const auto& [site, layout] : sites_) {
    std::optional<int> layer = LayerIn(array.name, layout.name);
    if (!layer && layout.name == UsualName(site)) layer = LayerIn(array.name, Name(site));
    if (!layer) continue;
    CapturedArray found{.array = array, .site = site, .layer = {}};
    if (HasLayers(site)) found.layer = std::max(*layer, 0);
    std::string axes = layout.axes.empty() ? std::string(UsualAxes(site)) : layout.axes;
    if (layout.axes.empty() && array.shape.size() + 1 == axes.size()) std::erase(axes, 'B');
    if (layout.axes.empty() && site == Site::kLambda && array.shape.size() == 1) {
      axes = "H";
      found.rows = found.columns = 1;
    }
    if (axes.size() != array.shape.size())
      Fail(
          "{}: {}: got shape {}, expected {}{}; try these dimensions, 1 for one head or sequence, in another order by "
          "--axes with {{\"{}\": {{\"axes\": \"{}\"}}}}",
          where, array.name, ShapeText(array.shape), axes, site == Site::kLambda ? " or [H]" : "", Name(site),
          UsualAxes(site));
    int64_t stride = 1;
    for (size_t i = axes.size(); i-- > 0; stride *= array.shape[i]) {
      const int64_t size = array.shape[i];
      switch (axes[i]) {
        case 'B':
          found.sequences = size, found.sequence_stride = stride;
          break;
        case 'H':
          found.heads = size, found.head_stride = stride;
          break;
        case 'T':
        case 'O':
          found.rows = size, found.row_stride = stride;
          break;
        default:
          found.columns = size, found.column_stride = stride;
      }
    }
    if (stride == 0) Fail("{}: {}: got shape {}, expected values", where, array.name, ShapeText(array.shape));
    if (layout.maps != MapsOfHeads::kNone && found.heads % 2 != 0)
      Fail("{}: {}: got {} heads, expected an even number, as maps are given", where, array.name, found.heads);
    return found;
  }
  return std::nullopt;
}

}  // namespace tare
