// SPDX-License-Identifier: Apache-2.0
#include "quant/plan/site.h"

#include <map>
#include <vector>

namespace tare {
namespace {

// "mixer.scan.b" of scan.b, mixer_1.scan.b and mixer_2.scan.b, "mixer.gate" of mamba.gate; "" of others.
std::string MixerName(const SiteInfo& info) {
  if ((info.of != SiteOf::kMamba && info.of != SiteOf::kMambaPair) || !info.name.contains('.')) return "";
  const bool is_scan = info.name.starts_with("scan.");
  return "mixer." + std::string(info.name.substr(is_scan ? 0 : info.name.find('.') + 1));
}

std::map<std::string, std::vector<Site>, std::less<>> Groups() {
  std::map<std::string, std::vector<Site>, std::less<>> groups;
  for (const SiteInfo& info : kSites) {
    // Projections inside layers, but for lambda's, which few models have.
    if (info.input && info.of != SiteOf::kModel && info.of != SiteOf::kLambda) {
      groups["weights"].push_back(info.site);
      groups["linear_in"].push_back(*info.input);
    }
    if (const std::string name = MixerName(info); !name.empty()) groups[name].push_back(info.site);
  }
  return groups;
}

using Kind = Granularity::Kind;

constexpr Kind kOfWeight[] = {Kind::kTensor, Kind::kChannel, Kind::kGroup};
constexpr Kind kOfHidden[] = {Kind::kTensor, Kind::kToken, Kind::kGroup};
constexpr Kind kOfHead[] = {Kind::kTensor, Kind::kHead, Kind::kToken};
constexpr Kind kOfQueries[] = {Kind::kTensor, Kind::kHead,      Kind::kToken,
                               Kind::kTokens, Kind::kTokensBy8, Kind::kTokensBy4x2};
constexpr Kind kOfHeadSigmoid[] = {Kind::kTensor, Kind::kHead, Kind::kToken, Kind::kHeads};
constexpr Kind kOfKeysAndValues[] = {Kind::kTensor,  Kind::kHead,         Kind::kToken,
                                     Kind::kChannel, Kind::kBlockChannel, Kind::kGroup,
                                     Kind::kTokens,  Kind::kTokensBy8,    Kind::kTokensBy4x2};
constexpr Kind kOfScores[] = {Kind::kTensor, Kind::kHead, Kind::kRow};
constexpr Kind kOfProbs[] = {Kind::kRow, Kind::kBlock, Kind::kTensor};
constexpr Kind kOfDifferences[] = {Kind::kRow, Kind::kBlock};
constexpr Kind kOfCachedKeys[] = {Kind::kToken, Kind::kChannel, Kind::kBlockChannel, Kind::kTensor};
constexpr Kind kOfCachedValues[] = {Kind::kToken, Kind::kChannel, Kind::kGroup, Kind::kTensor};

constexpr Format kSigned[] = {Format::kInt8, Format::kInt6, Format::kInt4};
constexpr Format kWeights[] = {Format::kInt8,    Format::kInt6, Format::kInt4,    Format::kInt3,    Format::kInt2,
                               Format::kTernary, Format::kE8P,  Format::kNormal4, Format::kNormal3, Format::kNormal2};
constexpr Format kKeysAndValues[] = {Format::kInt8,    Format::kInt6,    Format::kInt4,
                                     Format::kInt3,    Format::kInt2,    Format::kNormal4,
                                     Format::kNormal3, Format::kNormal2, Format::kNormal1};
constexpr Format kCached[] = {
    Format::kInt8,      Format::kInt6,      Format::kInt4,    Format::kInt3,    Format::kInt2,    Format::kMxFp4,
    Format::kMxFp8E4M3, Format::kMxFp8E5M2, Format::kNvFp4,   Format::kNvInt4,  Format::kFp8E4M3, Format::kFp8E5M2,
    Format::kNf4,       Format::kNormal4,   Format::kNormal3, Format::kNormal2, Format::kBf16};
constexpr Format kUnsigned[] = {Format::kU8, Format::kU6, Format::kU4};
constexpr Format kEither[] = {Format::kInt8, Format::kInt6, Format::kInt4, Format::kU8, Format::kU6, Format::kU4};

constexpr SiteClass kProjWeight{"weights", "l", kOfWeight, "full zero min hadamard mse", kWeights};
constexpr SiteClass kExpertWeight{"weights", "le", kOfWeight, "full zero min hadamard mse", kWeights};
constexpr SiteClass kOuterHidden{"streams", "", kOfHidden, "hadamard static p mse", kSigned};
constexpr SiteClass kLayerHidden{"streams", "l", kOfHidden, "hadamard static p mse", kSigned};
constexpr SiteClass kNormedQueryKey{"by head", "lhm", kOfHead, "zero static p mse", kSigned};
constexpr SiteClass kHeadSigmoid{"gates", "lh", kOfHeadSigmoid, "static p mse", kUnsigned};

constexpr SiteClass kVocabularyWeight{"weights", "", kOfWeight, "full zero min hadamard mse", kWeights};
constexpr SiteClass kChosenHidden{"streams", "lh", kOfHidden, "hadamard static p mse", kSigned};
constexpr SiteClass kQueries{"queries", "lhm", kOfQueries, "zero smooth smooth<N> smoothall hadamard static p mse top",
                             kSigned};
constexpr SiteClass kKeys{
    "keys", "lhm", kOfKeysAndValues,
    "full zero min mean smooth smoothall hadamard sketch keep outliers static p mse top prerotary", kKeysAndValues};
constexpr SiteClass kValues{"values",
                            "lh",
                            kOfKeysAndValues,
                            "full zero min mean smooth smoothall hadamard keep outliers static p mse top",
                            kKeysAndValues,
                            "",
                            true};
constexpr SiteClass kScores{"logits", "lhm", kOfScores, "maxshift sink keep static p mse", kSigned, "sink"};
constexpr SiteClass kLateMaps{
    "maps", "lhm", kOfProbs, "keep top unnormalized diff exp rescale sum", kUnsigned, "diff exp rescale sum"};
constexpr SiteClass kEarlyMaps{"differences", "lh", kOfDifferences, "keep p mse", kEither};
constexpr SiteClass kHeadOutputs{"by head", "lh", kOfHead, "zero static p mse", kSigned};
constexpr SiteClass kCachedKeys{
    "cached keys", "l", kOfCachedKeys, "full zero min mean hadamard static prerotary", kCached, "hadamard prerotary"};
constexpr SiteClass kCachedValues{"cached values", "l",       kOfCachedValues, "full zero min mean hadamard static",
                                  kCached,         "hadamard"};

constexpr SiteClass kClasses[] = {
#define TARE_CLASS(site, name, what, site_class, ...) site_class,
    TARE_SITES(TARE_CLASS)
#undef TARE_CLASS
};

}  // namespace

std::optional<Site> ParseSite(std::string_view name) {
  const auto info = std::ranges::find(kSites, name, &SiteInfo::name);
  return info == kSites.end() ? std::nullopt : std::optional(info->site);
}

std::span<const Site> ExpandSites(std::string_view name) {
  static const auto groups = Groups();
  if (const auto group = groups.find(name); group != groups.end()) return group->second;
  const auto info = std::ranges::find(kSites, name, &SiteInfo::name);
  return info == kSites.end() ? std::span<const Site>() : std::span(&info->site, 1);
}

const SiteClass& ClassOf(Site site) { return kClasses[static_cast<size_t>(site)]; }

}  // namespace tare
