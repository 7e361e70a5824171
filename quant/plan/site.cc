// SPDX-License-Identifier: Apache-2.0
#include "quant/plan/site.h"

#include <map>
#include <vector>

namespace tare {
namespace {

// The group `weights`: projections inside layers, but for lambda's, which few models have.
constexpr bool IsGrouped(const SiteInfo& info) {
  return info.input && info.of != SiteOf::kModel && info.of != SiteOf::kLambda;
}

constexpr std::array kGroupedWeights = [] {
  std::array<Site, std::ranges::count_if(kSites, IsGrouped)> weights{};
  std::ranges::copy(kSites | std::views::filter(IsGrouped) | std::views::transform(&SiteInfo::site), weights.begin());
  return weights;
}();

constexpr std::array kGroupedInputs = [] {
  auto inputs = kGroupedWeights;
  std::ranges::transform(kGroupedWeights, inputs.begin(), InputOf);
  return inputs;
}();

// Whether a site is of either Mamba what this name is of one: mixer_1.scan.b, mixer_1.gate of scan.b, mamba.gate.
bool IsOfEither(const SiteInfo& info, std::string_view name) {
  if (name.starts_with("mamba.")) name.remove_prefix(6);
  return info.of == SiteOf::kMambaPair && info.name.substr(info.name.find('.') + 1) == name;
}

std::map<std::string_view, std::vector<Site>> SitesByName() {
  std::map<std::string_view, std::vector<Site>> sites{{"weights", {kGroupedWeights.begin(), kGroupedWeights.end()}},
                                                      {"linear_in", {kGroupedInputs.begin(), kGroupedInputs.end()}}};
  for (const SiteInfo& named : kSites) {
    for (const SiteInfo& info : kSites) {
      if (info.site == named.site || (named.of == SiteOf::kMamba && IsOfEither(info, named.name)))
        sites[named.name].push_back(info.site);
    }
  }
  return sites;
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
  static const std::map<std::string_view, std::vector<Site>> sites = SitesByName();
  const auto found = sites.find(name);
  return found == sites.end() ? std::span<const Site>() : std::span(found->second);
}

const SiteClass& ClassOf(Site site) { return kClasses[static_cast<size_t>(site)]; }

}  // namespace tare
