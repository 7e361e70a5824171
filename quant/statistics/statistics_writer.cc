// SPDX-License-Identifier: Apache-2.0
// WriteStatistics of statistics_file.h: one group per site, one row per (layer, head, map) in each of its datasets.
#include "quant/statistics/statistics_file.h"

#include <algorithm>
#include <cmath>

#include "quant/base/message.h"
#include "quant/calibrate/clipping.h"
#include "quant/file/json.h"
#include "quant/plan/site.h"

namespace tare {
namespace {

constexpr int64_t kTopValues = TopValues::kDefaultCapacity;

using Rows = std::vector<std::pair<SiteKey, const SiteStatistics*>>;

// Writes one site's datasets; a dataset without values is left out.
class SiteWriter {
 public:
  SiteWriter(Hdf5Writer& file, const std::string& group, const Rows& rows)
      : file_(file), group_(group + "/"), rows_(rows) {}

  template <typename T>
  void Put(const std::string& name, std::vector<int64_t> shape, const std::vector<T>& values) {
    shape.insert(shape.begin(), std::ssize(rows_));
    if (!values.empty()) file_.WriteDataset<T>(group_ + name, shape, values);
  }
  // One value per row.
  template <typename T, typename Of>
  void Column(const std::string& name, Of of) {
    std::vector<T> values;
    for (const auto& [key, s] : rows_) values.push_back(static_cast<T>(of(key, *s)));
    Put(name, {}, values);
  }
  // One value per row and fold.
  template <typename T, typename Of>
  void Folds(const std::string& name, Of of) {
    std::vector<T> values;
    for (const auto& [key, s] : rows_) {
      for (const Fold& fold : s->folds) values.push_back(of(fold));
    }
    Put(name, {SiteStatistics::kFolds}, values);
  }
  // Rows of equal length; shorter ones are filled up with zeros, and lengths say where they end.
  void Ragged(const std::string& name, std::vector<float> SiteStatistics::* member) {
    size_t width = 0;
    for (const auto& [key, s] : rows_) width = std::max(width, (s->*member).size());
    std::vector<float> values;
    std::vector<int64_t> lengths;
    for (const auto& [key, s] : rows_) {
      values.insert(values.end(), (s->*member).begin(), (s->*member).end());
      values.resize(values.size() + width - (s->*member).size());
      lengths.push_back(std::ssize(s->*member));
    }
    Put(name, {static_cast<int64_t>(width)}, values);
    Put(name + "_length", {}, lengths);
  }
  // The limbs of many sums, [the sums' shape][limbs]; an attribute has the first limb's place.
  void Sums(const std::string& name, std::vector<int64_t> shape, const std::vector<const ExactSums*>& parts) {
    const ExactSums::Digits digits = ExactSums::Concatenated(parts).Canonical();
    if (digits.limbs.empty()) return;
    shape.push_back(digits.width);
    Put(name, shape, digits.limbs);
    file_.SetAttribute(group_ + name, "first_limb", int64_t{digits.first});
  }
  void Histograms() {
    std::vector<int64_t> ends;
    std::vector<uint16_t> bins;
    std::vector<uint64_t> counts;
    for (const auto& [key, s] : rows_) {
      for (const auto& [bin, count] : s->outliers.magnitudes.Counts()) {
        bins.push_back(static_cast<uint16_t>(bin));
        counts.push_back(count);
      }
      ends.push_back(std::ssize(bins));
    }
    Put("histogram_end", {}, ends);
    if (bins.empty()) return;
    file_.WriteDataset<uint16_t>(group_ + "histogram_bin", {std::ssize(bins)}, bins);
    file_.WriteDataset<uint64_t>(group_ + "histogram_count", {std::ssize(counts)}, counts);
  }
  void Tops() {
    std::vector<int64_t> sizes, places, first;
    std::vector<float> values;
    for (const auto& [key, s] : rows_) {
      const std::vector<TopValue> top = s->outliers.top.Sorted();
      sizes.push_back(std::ssize(top));
      for (const TopValue& t : top) {
        values.push_back(t.value);
        places.insert(places.end(), {t.place.sequence, t.place.row, t.place.column});
      }
      values.resize(values.size() + static_cast<size_t>(kTopValues) - top.size());
      places.resize(places.size() + 3 * (static_cast<size_t>(kTopValues) - top.size()), -1);
      const std::optional<Place>& p = s->outliers.first_nonfinite;
      first.insert(first.end(), {p ? p->sequence : -1, p ? p->row : -1, p ? p->column : -1});
    }
    Put("top_size", {}, sizes);
    Put("top_value", {kTopValues}, values);
    Put("top_place", {kTopValues, 3}, places);
    Put("first_nonfinite", {3}, first);
  }

 private:
  Hdf5Writer& file_;
  const std::string group_;
  const Rows& rows_;
};

// The figures that readers look for first; all of them follow from the other data.
void WriteFigures(SiteWriter& writer) {
  writer.Column<uint64_t>("count", [](const auto&, const auto& s) { return s.outliers.count(); });
  writer.Column<float>("absmax", [](const auto&, const auto& s) { return s.outliers.absmax(); });
  writer.Column<double>("mean", [](const auto&, const auto& s) { return s.Total().Powers().Mean(); });
  writer.Column<double>("variance", [](const auto&, const auto& s) { return s.Total().Powers().Variance(); });
  writer.Column<double>("kurtosis", [](const auto&, const auto& s) { return s.Total().Powers().Kurtosis(); });
  for (const auto& [name, q] : kQuantiles) {
    writer.Column<float>(name, [q](const auto&, const auto& s) { return s.outliers.Quantile(q); });
  }
}

// For each format whose error was measured at the site, in order; follows from the sums, too.
void WriteSignalToNoise(Hdf5Writer& file, const StatisticsSet& set, const std::string& group, const Rows& rows,
                        SiteWriter& writer) {
  std::string formats;
  std::vector<double> values;
  for (const auto& [key, s] : rows) {
    const Measures measures = SignalToNoise(set, key.site, s->Total());
    formats = Listed(measures | std::views::keys, " ");
    std::ranges::copy(measures | std::views::values, std::back_inserter(values));
  }
  if (values.empty()) return;
  writer.Put("sqnr_db", {std::ssize(values) / std::ssize(rows)}, values);
  file.SetAttribute(group + "/sqnr_db", "formats", formats);
}

void WriteSite(Hdf5Writer& file, const StatisticsSet& set, Site site, const std::string& group, const Rows& rows) {
  SiteWriter writer(file, group, rows);
  writer.Column<int32_t>("layer", [](const auto& key, const auto&) { return key.layer.value_or(-1); });
  writer.Column<int32_t>("head", [](const auto& key, const auto&) { return key.head.value_or(-1); });
  writer.Column<int32_t>("map", [](const auto& key, const auto&) { return key.map.value_or(0); });
  WriteFigures(writer);
  writer.Column<uint64_t>("nonfinite", [](const auto&, const auto& s) { return s.outliers.nonfinite; });
  writer.Column<float>("largest", [](const auto&, const auto& s) { return s.largest.value_or(NAN); });
  writer.Column<float>("largest_row_norm", [](const auto&, const auto& s) { return s.largest_row_norm; });
  writer.Tops();
  writer.Histograms();
  writer.Folds<uint64_t>("fold_sequences", [](const Fold& fold) { return fold.sequences; });
  writer.Folds<uint64_t>("fold_rows", [](const Fold& fold) { return fold.rows; });
  writer.Folds<uint64_t>("fold_values", [](const Fold& fold) { return fold.values; });
  writer.Folds<float>("fold_absmax", [](const Fold& fold) { return fold.absmax; });
  std::vector<const ExactSums*> sums, energies;
  for (const auto& [key, s] : rows) {
    for (const Fold& fold : s->folds) sums.push_back(&fold.sums);
    energies.push_back(&s->channel_energy);
  }
  const std::vector<std::string> names = set.Sums(site);
  writer.Sums("sums", {SiteStatistics::kFolds, std::ssize(names)}, sums);
  WriteSignalToNoise(file, set, group, rows, writer);
  writer.Ragged("token_absmax", &SiteStatistics::token_absmax);
  writer.Ragged("channel_absmax", &SiteStatistics::channel_absmax);
  const auto channels = static_cast<int64_t>(energies.front()->size());
  for (const ExactSums* energy : energies) {
    if (static_cast<int64_t>(energy->size()) != channels)  // merged from files that no run made
      Fail("{}: got rows with {} and with {} channels, expected one number", Name(site), energy->size(), channels);
  }
  writer.Sums("channel_energy", {channels}, energies);
  file.SetAttribute(group, "sums", Listed(names, " "));
}

Format FormatAt(Site site, Format format) { return *ClassOf(site).OfBits(Info(format).bits); }

void Append(std::vector<float>& clips, const OutlierStatistics& outliers, Format format) {
  for (const NamedCalibration& named : kCalibrations) clips.push_back(ClipOf(outliers, format, named.calibration));
}

void WriteClips(Hdf5Writer& file, const std::string& name, const std::vector<float>& clips) {
  constexpr int64_t kCalibrators = std::size(kCalibrations);
  file.WriteDataset<float>(name, {std::ssize(clips) / kCalibrators, kCalibrators}, clips);
  file.SetAttribute(name, "calibrators", Listed(kCalibrations, " ", &NamedCalibration::name));
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
  WriteClips(file, Formatted("{}/clip.{}", Name(site), Name(format)), rows);
  WriteClips(file, Formatted("{}/tensor_clip.{}", Name(site), Name(format)), tensors);
}

}  // namespace

void WriteStatistics(const StatisticsSet& set, const std::filesystem::path& path, const Asked& asked) {
  Hdf5Writer file(path);
  file.SetAttribute("", "schema", kStatisticsSchema);
  for (const auto& [key, value] : set.job) file.SetAttribute("", key, value);
  file.SetAttribute("", "job", Listed(set.job | std::views::keys, " "));
  if (!asked.empty()) file.SetAttribute("", kAskedKey, JsonText(Json(asked)));
  file.SetAttribute("", "formats", Listed(set.formats, ","));
  file.SetAttribute("", "positions", static_cast<int64_t>(set.positions));
  file.SetAttribute("", "tokens", static_cast<int64_t>(set.tokens));
  file.SetAttribute("", "skip_first", set.skip_first);
  file.WriteDataset<uint8_t>("units", {std::ssize(set.units)}, set.units);
  if (!set.lambda.empty()) {
    const auto layers = set.lambda | std::views::keys | std::ranges::to<std::vector<int32_t>>();
    const auto lambdas = set.lambda | std::views::values | std::ranges::to<std::vector<float>>();
    file.WriteDataset<int32_t>("lambda_layer", {std::ssize(layers)}, layers);
    file.WriteDataset<float>("lambda", {std::ssize(lambdas)}, lambdas);
  }
  for (const auto& [from, sites] : set.Both()) {
    for (const SiteInfo& info : kSites) {
      Rows rows;
      for (const auto& [key, statistics] : sites) {
        if (key.site == info.site) rows.emplace_back(key, &statistics);
      }
      if (!rows.empty()) WriteSite(file, set, info.site, GroupOf(info.site, from), rows);
    }
  }
  if (set.Whole()) WriteCalibration(file, set);
  file.Commit();
}

std::vector<Format> ParseCalibratedFormats(std::string_view text) {
  std::vector<Format> formats;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    const std::string_view name = text.substr(begin, end - begin);
    const std::optional<Format> format = ParseFormat(name);
    if (!format || Info(*format).min_code >= 0 || Info(*format).bits < 4 || std::ranges::contains(formats, *format))
      FailUsage("--calibrate: got '{}', expected int8, int6 and int4, each once at most", name);
    formats.push_back(*format);
    begin = end + 1;
  }
  return formats;
}

void WriteCalibration(Hdf5Writer& file, const StatisticsSet& set) {
  const auto chosen = set.job.find(kCalibrateKey);
  if (chosen == set.job.end()) return;
  for (const Format& format : ParseCalibratedFormats(chosen->second)) {
    for (const SiteInfo& info : kSites) WriteSiteClips(file, set, info.site, format);
  }
}

}  // namespace tare
