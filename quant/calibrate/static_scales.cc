// SPDX-License-Identifier: Apache-2.0
#include "quant/calibrate/static_scales.h"

#include "quant/base/error.h"
#include "quant/calibrate/clip.h"

namespace tare {
namespace {

Calibration CalibrationOf(const RuleOptions& options) {
  if (options.percentile) return {Calibrator::kPercentile, *options.percentile};
  return {options.mse ? Calibrator::kLeastError : Calibrator::kMinMax};
}

[[noreturn]] void RefuseUnseen(Site site, int layer) {
  Fail("static scales: the statistics hold nothing of {} in layer {}; try tare stats --out with this site", Name(site),
       layer);
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

float StaticScales::TensorClip(Site site, int layer, Format format, const Calibration& calibration) const {
  OutlierStatistics pooled;
  bool seen = false;
  for (const auto& [key, statistics] : set_.sites) {
    if (key.site != site || key.layer != layer) continue;
    pooled.Merge(statistics.outliers);
    seen = true;
  }
  if (!seen) RefuseUnseen(site, layer);
  return ClipOf(pooled, format, calibration);
}

float StaticScales::HeadClip(const SiteKey& key, Format format, const Calibration& calibration) const {
  const auto found = set_.sites.find(key);
  if (found == set_.sites.end()) RefuseUnseen(key.site, key.layer);
  return ClipOf(found->second.outliers, format, calibration);
}

std::vector<float> StaticScales::Clips(const Rule& rule, Site site, int layer, int head, int map) const {
  const Calibration calibration = CalibrationOf(rule.options);
  switch (rule.granularity.kind) {
    case Granularity::Kind::kTensor:
      return {TensorClip(site, layer, rule.format, calibration)};
    case Granularity::Kind::kHead:
      return {HeadClip({site, layer, head, map}, rule.format, calibration)};
    case Granularity::Kind::kChannel: {
      const auto found = set_.sites.find({site, layer, head, map});
      if (found == set_.sites.end() || found->second.channel_absmax.empty()) RefuseUnseen(site, layer);
      if (calibration.calibrator != Calibrator::kMinMax)
        Fail("plan rule '{}': static scales of channels are min-max; try it without +p and +mse", rule.text);
      return found->second.channel_absmax;
    }
    default:
      Fail("plan rule '{}': no static scale of granularity {}; expected tensor, head or channel", rule.text,
           Name(rule.granularity));
  }
}

}  // namespace tare
