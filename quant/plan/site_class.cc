// SPDX-License-Identifier: Apache-2.0
#include "quant/plan/site_class.h"

#include "quant/base/error.h"

namespace tare {
namespace {

using Kind = Granularity::Kind;

constexpr Kind kOfWeight[] = {Kind::kTensor, Kind::kChannel, Kind::kGroup};
constexpr Kind kOfHidden[] = {Kind::kTensor, Kind::kToken, Kind::kGroup};
constexpr Kind kOfHead[] = {Kind::kTensor, Kind::kHead, Kind::kToken};
constexpr Kind kOfCacheK[] = {Kind::kTensor, Kind::kHead, Kind::kToken, Kind::kChannel, Kind::kGroup};
constexpr Kind kOfV[] = {Kind::kTensor, Kind::kHead, Kind::kToken, Kind::kChannel, Kind::kBlockChannel};
constexpr Kind kOfScores[] = {Kind::kTensor, Kind::kHead, Kind::kRow};
constexpr Kind kOfProbs[] = {Kind::kTensor, Kind::kHead, Kind::kRow, Kind::kBlock};

constexpr Format kSigned[] = {Format::kInt8, Format::kInt6, Format::kInt4};
constexpr Format kUnsigned[] = {Format::kU8, Format::kU6, Format::kU4};
constexpr Format kEither[] = {Format::kInt8, Format::kInt6, Format::kInt4, Format::kU8, Format::kU6, Format::kU4};

constexpr SiteClass kProjWeight{"l", kOfWeight, "smooth static p mse", kSigned};
constexpr SiteClass kProjIn{"l", kOfHidden, "smooth static p mse", kSigned};
constexpr SiteClass kHeadWeight{"", kOfWeight, "static p mse", kSigned};
constexpr SiteClass kOuterHidden{"", kOfHidden, "static p mse", kSigned};
constexpr SiteClass kLayerHidden{"l", kOfHidden, "static p mse", kSigned};
constexpr SiteClass kQuery{"lhm", kOfHead, "smooth static p mse", kSigned};
constexpr SiteClass kKey{"lhm", kOfHead, "smooth static p mse keep", kSigned};
constexpr SiteClass kValue{"lh", kOfV, "smooth static p mse keep", kSigned};
constexpr SiteClass kKeyCache{"lhm", kOfCacheK, "static p mse keep", kSigned};
constexpr SiteClass kValueCache{"lh", kOfV, "static p mse keep", kSigned};
constexpr SiteClass kLogits{"lhm", kOfScores, "static p mse", kSigned};
constexpr SiteClass kMaps{"lhm", kOfProbs, "maxshift", kUnsigned};
constexpr SiteClass kMapDifference{"lh", kOfProbs, "static p mse", kEither};
constexpr SiteClass kHeadOutput{"lh", kOfHead, "static p mse", kSigned};

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
      return kProjWeight;
    case Site::kQProjIn:
    case Site::kKProjIn:
    case Site::kVProjIn:
    case Site::kOProjIn:
    case Site::kGateProjIn:
    case Site::kUpProjIn:
    case Site::kDownProjIn:
      return kProjIn;
    case Site::kEmbed:
    case Site::kFinalNorm:
    case Site::kLmHeadIn:
      return kOuterHidden;
    case Site::kAttnOut:
    case Site::kLayerOut:
      return kLayerHidden;
    case Site::kLmHeadW:
      return kHeadWeight;
    case Site::kQ:
      return kQuery;
    case Site::kK:
      return kKey;
    case Site::kV:
      return kValue;
    case Site::kCacheK:
      return kKeyCache;
    case Site::kCacheV:
      return kValueCache;
    case Site::kAttnLogits:
      return kLogits;
    case Site::kProbs:
      return kMaps;
    case Site::kDifference:
      return kMapDifference;
    case Site::kHeadOut:
      return kHeadOutput;
  }
  TARE_CHECK(false);
}

}  // namespace tare
