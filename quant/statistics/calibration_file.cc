// SPDX-License-Identifier: Apache-2.0
#include "quant/statistics/calibration_file.h"

#include <algorithm>

#include "quant/base/error.h"
#include "quant/base/formatted.h"
#include "quant/calibrate/static_scales.h"
#include "quant/plan/site_class.h"

namespace tare {
namespace {

Format FormatAt(Site site, Format format) { return *ClassOf(site).OfBits(Info(format).bits); }

void Append(std::vector<float>& clips, const OutlierStatistics& outliers, Format format) {
  for (const NamedCalibration& named : kCalibrations) clips.push_back(ClipOf(outliers, format, named.calibration));
}

void WriteClips(Hdf5Writer& file, const std::string& name, const std::vector<float>& clips) {
  constexpr int64_t kCalibrators = std::size(kCalibrations);
  file.WriteDataset<float>(name, {std::ssize(clips) / kCalibrators, kCalibrators}, clips);
  std::string calibrators;
  for (const NamedCalibration& named : kCalibrations)
    calibrators += std::string(calibrators.empty() ? "" : " ") + std::string(named.name);
  file.SetAttribute(name, "calibrators", calibrators);
}

void WriteSiteClips(Hdf5Writer& file, const StatisticsSet& set, Site site, Format format) {
  std::vector<float> rows, tensors;
  std::map<std::optional<int>, OutlierStatistics> layers;
  for (const auto& [key, statistics] : set.sites) {
    if (key.site != site) continue;
    Append(rows, statistics.outliers, FormatAt(site, format));
    layers[key.layer].Merge(statistics.outliers);
  }
  if (rows.empty()) return;
  for (const auto& [layer, pooled] : layers) Append(tensors, pooled, FormatAt(site, format));
  WriteClips(file, Formatted("{}/clip.{}", Name(site), Info(format).name), rows);
  WriteClips(file, Formatted("{}/tensor_clip.{}", Name(site), Info(format).name), tensors);
}

}  // namespace

std::vector<Format> ParseCalibratedFormats(std::string_view text) {
  std::vector<Format> formats;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    const std::string_view name = text.substr(begin, end - begin);
    const std::optional<Format> format = ParseFormat(name);
    if (!format || Info(*format).min_code >= 0 || std::ranges::find(formats, *format) != formats.end())
      Fail("--calibrate: got '{}', expected int8, int6 and int4, each once at most", name);
    formats.push_back(*format);
    begin = end + 1;
  }
  return formats;
}

void WriteCalibration(Hdf5Writer& file, const StatisticsSet& set) {
  const auto chosen = set.job.find(kCalibrateKey);
  if (chosen == set.job.end()) return;
  for (const Format format : ParseCalibratedFormats(chosen->second)) {
    for (const SiteInfo& info : kSites) WriteSiteClips(file, set, info.site, format);
  }
}

}  // namespace tare
