// SPDX-License-Identifier: Apache-2.0
#include "quant/plan/site_class.h"

#include "quant/base/error.h"

namespace tare {
namespace {

using Kind = Granularity::Kind;

constexpr Kind kOfWeight[] = {Kind::kTensor, Kind::kChannel, Kind::kGroup};
constexpr Kind kOfHidden[] = {Kind::kTensor, Kind::kToken, Kind::kGroup};
constexpr Kind kOfHead[] = {Kind::kTensor, Kind::kHead, Kind::kToken};
constexpr Kind kOfV[] = {Kind::kTensor, Kind::kHead, Kind::kToken, Kind::kChannel, Kind::kBlockChannel};
constexpr Kind kOfScores[] = {Kind::kTensor, Kind::kHead, Kind::kRow};
constexpr Kind kOfMaps[] = {Kind::kRow, Kind::kBlock};
constexpr Kind kOfCache[] = {Kind::kToken, Kind::kChannel};

constexpr Format kSigned[] = {Format::kInt8, Format::kInt6, Format::kInt4};
constexpr Format kSignedOrTernary[] = {Format::kInt8, Format::kInt6, Format::kInt4, Format::kTernary};
constexpr Format kCached[] = {Format::kInt8, Format::kInt6, Format::kInt4, Format::kBf16};
constexpr Format kUnsigned[] = {Format::kU8, Format::kU6, Format::kU4};
constexpr Format kEither[] = {Format::kInt8, Format::kInt6, Format::kInt4, Format::kU8, Format::kU6, Format::kU4};

constexpr SiteClass kProjWeight{"l", kOfWeight, "mse", kSignedOrTernary};
constexpr SiteClass kHeadWeight{"", kOfWeight, "mse", kSignedOrTernary};
constexpr SiteClass kOuterHidden{"", kOfHidden, "static p mse", kSigned};
constexpr SiteClass kLayerHidden{"l", kOfHidden, "static p mse", kSigned};
constexpr SiteClass kNormedQueryKey{"lhm", kOfHead, "static p mse", kSigned};
constexpr SiteClass kQuery{"lhm", kOfHead, "smooth hadamard static p mse", kSigned};
constexpr SiteClass kKey{"lhm", kOfHead, "smooth hadamard keep static p mse", kSigned};
constexpr SiteClass kValue{"lh", kOfV, "smooth hadamard keep static p mse", kSigned};
constexpr SiteClass kLogits{"lhm", kOfScores, "maxshift sink keep static p mse", kSigned, "sink"};
constexpr SiteClass kMaps{"lhm", kOfMaps, "keep", kUnsigned};
constexpr SiteClass kMapDifference{"lh", kOfMaps, "keep p mse", kEither};
constexpr SiteClass kHeadOutput{"lh", kOfHead, "static p mse", kSigned};
constexpr SiteClass kHeadSigmoid{"lh", kOfHead, "static p mse", kUnsigned};
constexpr SiteClass kCachedKeys{"l", kOfCache, "hadamard prerotary", kCached, "hadamard prerotary"};
constexpr SiteClass kCachedValues{"l", kOfCache, "hadamard", kCached, "hadamard"};

}  // namespace

const SiteClass& ClassOf(Site site) {
  switch (site) {
    case Site::kQProjW:
    case Site::kKProjW:
    case Site::kVProjW:
    case Site::kOProjW:
    case Site::kGateProjW:
    case Site::kUpProjW:
    case Site::kDownProjW:
    case Site::kLambdaProjW:
      return kProjWeight;
    case Site::kQProjIn:
    case Site::kKProjIn:
    case Site::kVProjIn:
    case Site::kOProjIn:
    case Site::kGateProjIn:
    case Site::kUpProjIn:
    case Site::kDownProjIn:
    case Site::kLambdaProjIn:
    case Site::kAttnOut:
    case Site::kLayerOut:
      return kLayerHidden;
    case Site::kEmbed:
    case Site::kFinalNorm:
    case Site::kLmHeadIn:
      return kOuterHidden;
    case Site::kLmHeadW:
      return kHeadWeight;
    case Site::kQNorm:
    case Site::kKNorm:
      return kNormedQueryKey;
    case Site::kQ:
      return kQuery;
    case Site::kK:
      return kKey;
    case Site::kV:
      return kValue;
    case Site::kAttnLogits:
      return kLogits;
    case Site::kProbs:
      return kMaps;
    case Site::kDifference:
      return kMapDifference;
    case Site::kHeadOut:
      return kHeadOutput;
    case Site::kAttnGate:
    case Site::kLambda:
      return kHeadSigmoid;
    case Site::kCacheK:
      return kCachedKeys;
    case Site::kCacheV:
      return kCachedValues;
  }
  TARE_CHECK(false);
}

}  // namespace tare
