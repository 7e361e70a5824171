// SPDX-License-Identifier: Apache-2.0
#include "quant/plan/site_class.h"

#include <utility>

namespace tare {
namespace {

using Kind = Granularity::Kind;

constexpr Kind kOfWeight[] = {Kind::kTensor, Kind::kChannel, Kind::kGroup};
constexpr Kind kOfHidden[] = {Kind::kTensor, Kind::kToken, Kind::kGroup};
constexpr Kind kOfHead[] = {Kind::kTensor, Kind::kHead, Kind::kToken};
constexpr Kind kOfHeadSigmoid[] = {Kind::kTensor, Kind::kHead, Kind::kToken, Kind::kHeads};
constexpr Kind kOfKeysAndValues[] = {Kind::kTensor,  Kind::kHead,         Kind::kToken,
                                     Kind::kChannel, Kind::kBlockChannel, Kind::kGroup};
constexpr Kind kOfScores[] = {Kind::kTensor, Kind::kHead, Kind::kRow};
constexpr Kind kOfMaps[] = {Kind::kRow, Kind::kBlock};
constexpr Kind kOfCachedKeys[] = {Kind::kToken, Kind::kChannel, Kind::kBlockChannel};
constexpr Kind kOfCachedValues[] = {Kind::kToken, Kind::kChannel, Kind::kGroup};

constexpr Format kSigned[] = {Format::kInt8, Format::kInt6, Format::kInt4};
constexpr Format kWeights[] = {Format::kInt8,    Format::kInt6, Format::kInt4,    Format::kInt3,    Format::kInt2,
                               Format::kTernary, Format::kE8P,  Format::kNormal4, Format::kNormal3, Format::kNormal2};
constexpr Format kKeysAndValues[] = {Format::kInt8,    Format::kInt6,    Format::kInt4,
                                     Format::kInt3,    Format::kInt2,    Format::kNormal4,
                                     Format::kNormal3, Format::kNormal2, Format::kNormal1};
constexpr Format kCached[] = {Format::kInt8, Format::kInt6, Format::kInt4, Format::kInt3, Format::kInt2, Format::kBf16};
constexpr Format kUnsigned[] = {Format::kU8, Format::kU6, Format::kU4};
constexpr Format kEither[] = {Format::kInt8, Format::kInt6, Format::kInt4, Format::kU8, Format::kU6, Format::kU4};

constexpr SiteClass kProjWeight{"l", kOfWeight, "full zero min hadamard mse", kWeights};
constexpr SiteClass kExpertWeight{"le", kOfWeight, "full zero min hadamard mse", kWeights};
constexpr SiteClass kOuterHidden{"", kOfHidden, "hadamard static p mse", kSigned};
constexpr SiteClass kLayerHidden{"l", kOfHidden, "hadamard static p mse", kSigned};
constexpr SiteClass kNormedQueryKey{"lhm", kOfHead, "static p mse", kSigned};
constexpr SiteClass kHeadSigmoid{"lh", kOfHeadSigmoid, "static p mse", kUnsigned};

// In the order of the enum.
constexpr std::pair<Site, SiteClass> kClasses[] = {
    {Site::kEmbed, kOuterHidden},
    {Site::kQProjW, kProjWeight},
    {Site::kKProjW, kProjWeight},
    {Site::kVProjW, kProjWeight},
    {Site::kOProjW, kProjWeight},
    {Site::kGateProjW, kProjWeight},
    {Site::kUpProjW, kProjWeight},
    {Site::kDownProjW, kProjWeight},
    {Site::kMambaInProjW, kProjWeight},
    {Site::kMambaXProjW, kProjWeight},
    {Site::kMambaDtProjW, kProjWeight},
    {Site::kMambaOutProjW, kProjWeight},
    {Site::kGmuInProjW, kProjWeight},
    {Site::kGmuOutProjW, kProjWeight},
    {Site::kExpertsGateUpW, kExpertWeight},
    {Site::kExpertsDownW, kExpertWeight},
    {Site::kQProjIn, kLayerHidden},
    {Site::kKProjIn, kLayerHidden},
    {Site::kVProjIn, kLayerHidden},
    {Site::kOProjIn, kLayerHidden},
    {Site::kGateProjIn, kLayerHidden},
    {Site::kUpProjIn, kLayerHidden},
    {Site::kDownProjIn, kLayerHidden},
    {Site::kMambaInProjIn, kLayerHidden},
    {Site::kMambaXProjIn, kLayerHidden},
    {Site::kMambaDtProjIn, kLayerHidden},
    {Site::kMambaOutProjIn, kLayerHidden},
    {Site::kGmuInProjIn, kLayerHidden},
    {Site::kGmuOutProjIn, kLayerHidden},
    {Site::kExpertsGateUpIn, kLayerHidden},
    {Site::kExpertsDownIn, {"lh", kOfHidden, "hadamard static p mse", kSigned}},
    {Site::kQNorm, kNormedQueryKey},
    {Site::kKNorm, kNormedQueryKey},
    {Site::kQ, {"lhm", kOfHead, "smooth hadamard static p mse", kSigned}},
    {Site::kK,
     {"lhm", kOfKeysAndValues, "full zero min mean smooth hadamard sketch keep outliers static p mse prerotary",
      kKeysAndValues}},
    {Site::kV,
     {"lh", kOfKeysAndValues, "full zero min mean smooth hadamard keep outliers static p mse", kKeysAndValues, "",
      true}},
    {Site::kAttnLogits, {"lhm", kOfScores, "maxshift sink keep static p mse", kSigned, "sink"}},
    {Site::kProbs, {"lhm", kOfMaps, "keep unnormalized", kUnsigned}},
    {Site::kDifference, {"lh", kOfMaps, "keep p mse", kEither}},
    {Site::kLambdaProjW, kProjWeight},
    {Site::kLambdaProjIn, kLayerHidden},
    {Site::kLambda, kHeadSigmoid},
    {Site::kHeadOut, {"lh", kOfHead, "static p mse", kSigned}},
    {Site::kAttnGate, kHeadSigmoid},
    {Site::kAttnOut, kLayerHidden},
    {Site::kScanIn, kLayerHidden},
    {Site::kScanDelta, kLayerHidden},
    {Site::kScanB, kLayerHidden},
    {Site::kScanC, kLayerHidden},
    {Site::kScanState, kLayerHidden},
    {Site::kScanOut, kLayerHidden},
    {Site::kMambaGate, kLayerHidden},
    {Site::kGmuGate, kLayerHidden},
    {Site::kLayerOut, kLayerHidden},
    {Site::kFinalNorm, kOuterHidden},
    {Site::kLmHeadW, {"", kOfWeight, "full zero min hadamard mse", kWeights}},
    {Site::kLmHeadIn, kOuterHidden},
    {Site::kCacheK, {"l", kOfCachedKeys, "full zero min hadamard prerotary", kCached, "hadamard prerotary"}},
    {Site::kCacheV, {"l", kOfCachedValues, "full zero min hadamard", kCached, "hadamard"}}};
static_assert(std::ranges::equal(kClasses, kSites, {}, &std::pair<Site, SiteClass>::first, &SiteInfo::site));

}  // namespace

const SiteClass& ClassOf(Site site) { return kClasses[static_cast<size_t>(site)].second; }

}  // namespace tare
