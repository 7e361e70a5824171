// SPDX-License-Identifier: Apache-2.0
#include "quant/calibrate/static_scales.h"

#include "quant/base/error.h"
#include "quant/calibrate/clipping.h"

namespace tare {
namespace {

Calibration CalibrationOf(const RuleOptions& options) {
  if (options.percentile) return {Calibrator::kPercentile, *options.percentile};
  return {options.mse ? Calibrator::kLeastError : Calibrator::kMinMax};
}

[[noreturn]] void RefuseUnseen(const SiteKey& key) {
  Fail("static scales: the statistics hold nothing of {}; try tare stats --out with this site", TextOf(key));
}

}  // namespace

float ClipOf(const OutlierStatistics& outliers, Format format, const Calibration& calibration) {
  switch (calibration.calibrator) {
    case Calibrator::kMinMax:
      return outliers.absmax();
    case Calibrator::kPercentile:
      return PercentileClip(outliers.magnitudes, outliers.absmax(), calibration.percentile);
    case Calibrator::kLeastError:
      return LeastErrorClip(outliers.magnitudes, outliers.absmax(), format);
    case Calibrator::kEntropy:
      return EntropyClip(outliers.magnitudes, outliers.absmax(), format);
  }
  TARE_CHECK(false);
}

float StaticScales::TensorClip(Site site, std::optional<int> layer, Format format,
                               const Calibration& calibration) const {
  OutlierStatistics pooled;
  bool seen = false;
  for (const auto& [key, statistics] : set_.sites) {
    if (key.site != site || key.layer != layer) continue;
    pooled.Merge(statistics.outliers);
    seen = true;
  }
  if (!seen) RefuseUnseen({site, layer});
  return ClipOf(pooled, format, calibration);
}

float StaticScales::HeadClip(const SiteKey& key, Format format, const Calibration& calibration) const {
  const auto found = set_.sites.find(key);
  if (found == set_.sites.end()) RefuseUnseen(key);
  return ClipOf(found->second.outliers, format, calibration);
}

std::vector<float> StaticScales::Clips(const Rule& rule, const SiteKey& key) const {
  const Calibration calibration = CalibrationOf(rule.options);
  switch (rule.granularity.kind) {
    case Granularity::Kind::kTensor:
      return {TensorClip(key.site, key.layer, rule.format, calibration)};
    case Granularity::Kind::kHead:
      return {HeadClip(key, rule.format, calibration)};
    case Granularity::Kind::kChannel: {
      const auto found = set_.sites.find(key);
      if (found == set_.sites.end() || found->second.channel_absmax.empty()) RefuseUnseen(key);
      return found->second.channel_absmax;
    }
    default:
      TARE_CHECK(false);  // refused where the plan is resolved
  }
}

}  // namespace tare
