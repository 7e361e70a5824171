// SPDX-License-Identifier: Apache-2.0
// ReadStatistics of statistics_file.h: one group per site, one row per (layer, head, map) in each of its datasets.
#include <algorithm>
#include <cmath>
#include <ranges>

#include "quant/base/message.h"
#include "quant/file/hdf5.h"
#include "quant/file/json.h"
#include "quant/statistics/statistics_file.h"

namespace tare {
namespace {

constexpr int64_t kFolds = SiteStatistics::kFolds;
constexpr int64_t kTop = TopValues::kDefaultCapacity;

class SiteReader {
 public:
  SiteReader(const Hdf5Reader& file, const std::string& group)
      : file_(file), group_(group + "/"), rows_(std::ssize(file.Read<int64_t>(group_ + "layer"))) {}

  bool Has(const std::string& name) const { return file_.Has(group_ + name); }
  std::vector<int64_t> Shape(const std::string& name) const { return file_.Shape(group_ + name); }

  // [rows][shape]
  template <typename T>
  std::vector<T> Get(const std::string& name, std::vector<int64_t> shape = {}) const {
    shape.insert(shape.begin(), rows_);
    if (Shape(name) != shape) Refuse(name, "another shape than its site's");
    return file_.Read<T>(group_ + name);
  }
  // Any length; empty if missing.
  template <typename T>
  std::vector<T> Flat(const std::string& name) const {
    return Has(name) ? file_.Read<T>(group_ + name) : std::vector<T>();
  }
  // [rows][shape][limbs]
  ExactSums Sums(const std::string& name, const std::vector<int64_t>& shape) const {
    int64_t count = rows_;
    for (const int64_t n : shape) count *= n;
    if (!Has(name)) return ExactSums(static_cast<size_t>(count));
    std::vector<int64_t> all = shape;
    const std::vector<int64_t> stored = Shape(name);
    if (stored.size() != shape.size() + 2 || stored.back() > ExactSums::kLimbs) Refuse(name, "another shape");
    all.push_back(stored.back());
    const int64_t first = file_.IntAttribute(group_ + name, "first_limb");
    if (first < 0 || first > ExactSums::kLimbs - stored.back()) Refuse(name, "a first_limb that no sum has");
    return ExactSums::From(
        static_cast<size_t>(count),
        {.first = static_cast<int>(first), .width = static_cast<int>(stored.back()), .limbs = Get<int64_t>(name, all)});
  }
  std::vector<std::vector<float>> Ragged(const std::string& name) const {
    std::vector<std::vector<float>> rows(static_cast<size_t>(rows_));
    if (!Has(name)) return rows;
    const std::vector<int64_t> shape = Shape(name);
    if (shape.size() != 2) Refuse(name, "another shape");
    const auto values = Get<float>(name, {shape[1]});
    const auto lengths = Get<int64_t>(name + "_length");
    for (size_t r = 0; r < rows.size(); ++r) {
      if (lengths[r] < 0 || lengths[r] > shape[1]) Refuse(name + "_length", "a length beyond its row");
      const auto begin = values.begin() + static_cast<int64_t>(r) * shape[1];
      rows[r].assign(begin, begin + lengths[r]);
      for (const float v : rows[r]) {
        if (!(v >= 0.0f && std::isfinite(v))) Refuse(name, "a value that no magnitude has");
      }
    }
    return rows;
  }
  [[noreturn]] void Refuse(const std::string& name, const std::string& what) const {
    Fail("{}: dataset '{}{}': got {}; the file is damaged or made by another version", file_.path().string(), group_,
         name, what);
  }

 private:
  const Hdf5Reader& file_;
  const std::string group_;
  const int64_t rows_;
};

void ReadOutliers(const SiteReader& reader, const std::vector<SiteKey>& keys, std::vector<SiteStatistics>& rows) {
  const auto sizes = reader.Get<int64_t>("top_size");
  const auto values = reader.Get<float>("top_value", {kTop});
  const auto places = reader.Get<int64_t>("top_place", {kTop, 3});
  const auto nonfinite = reader.Get<uint64_t>("nonfinite");
  const auto first = reader.Get<int64_t>("first_nonfinite", {3});
  const auto ends = reader.Get<int64_t>("histogram_end");
  const auto bins = reader.Flat<int32_t>("histogram_bin");
  const auto counts = reader.Flat<uint64_t>("histogram_count");
  int64_t bin = 0;
  for (size_t r = 0; r < rows.size(); ++r) {
    OutlierStatistics& o = rows[r].outliers;
    const auto place = [&](const int64_t* p) {
      return Place{p[0], keys[r].layer.value_or(-1), keys[r].head.value_or(-1), p[1], p[2]};
    };
    if (sizes[r] < 0 || sizes[r] > kTop) reader.Refuse("top_size", "a size that no list has");
    for (int64_t i = 0; i < sizes[r]; ++i) {
      const float value = values[r * kTop + static_cast<size_t>(i)];
      if (!std::isfinite(value)) reader.Refuse("top_value", "a value that is not finite");
      o.top.Offer(value, place(&places[(r * kTop + static_cast<size_t>(i)) * 3]));
    }
    o.nonfinite = nonfinite[r];
    if (nonfinite[r] > 0) o.first_nonfinite = place(&first[r * 3]);
    if (ends[r] < bin || ends[r] > std::ssize(bins) || bins.size() != counts.size())
      reader.Refuse("histogram_end", "a place beyond the histograms");
    for (; bin < ends[r]; ++bin)
      o.magnitudes.AddCount(bins[static_cast<size_t>(bin)], counts[static_cast<size_t>(bin)]);
  }
}

void ReadFolds(const SiteReader& reader, size_t sums, std::vector<SiteStatistics>& rows) {
  const auto sequences = reader.Get<uint64_t>("fold_sequences", {kFolds});
  const auto fold_rows = reader.Get<uint64_t>("fold_rows", {kFolds});
  const auto values = reader.Get<uint64_t>("fold_values", {kFolds});
  const auto absmax = reader.Get<float>("fold_absmax", {kFolds});
  const ExactSums all = reader.Sums("sums", {kFolds, static_cast<int64_t>(sums)});
  for (size_t i = 0; i < rows.size() * kFolds; ++i) {
    Fold& fold = rows[i / kFolds].folds[i % kFolds];
    fold.sequences = sequences[i];
    fold.rows = fold_rows[i];
    fold.values = values[i];
    fold.absmax = absmax[i];
    fold.sums = all.Slice(i * sums, sums);
  }
}

void ReadMaxima(const SiteReader& reader, std::vector<SiteStatistics>& rows) {
  const auto largest = reader.Get<float>("largest");
  const auto norms = reader.Get<float>("largest_row_norm");
  const auto tokens = reader.Ragged("token_absmax"), channels = reader.Ragged("channel_absmax");
  const size_t width = channels.empty() ? 0 : channels.front().size();
  const ExactSums energy = reader.Sums("channel_energy", {static_cast<int64_t>(width)});
  for (size_t r = 0; r < rows.size(); ++r) {
    if (channels[r].size() != width) reader.Refuse("channel_absmax", "rows of different lengths");
    if (!std::isnan(largest[r])) rows[r].largest = largest[r];
    rows[r].largest_row_norm = norms[r];
    rows[r].token_absmax = tokens[r];
    rows[r].channel_absmax = channels[r];
    rows[r].channel_energy = energy.Slice(r * width, width);
  }
}

void ReadSite(const Hdf5Reader& file, Site site, const std::string& group, const StatisticsSet& set,
              std::map<SiteKey, SiteStatistics>& sites) {
  const SiteReader reader(file, group);
  const auto layers = reader.Get<int32_t>("layer"), heads = reader.Get<int32_t>("head"),
             maps = reader.Get<int32_t>("map");
  std::vector<SiteKey> keys;
  const auto index = [](int32_t stored, int32_t first) {
    return stored < first ? std::nullopt : std::optional(stored);
  };
  for (size_t r = 0; r < layers.size(); ++r)
    keys.push_back({site, index(layers[r], 0), index(heads[r], 0), index(maps[r], 1)});
  const size_t sums = set.Sums(site).size();
  std::vector<SiteStatistics> rows(keys.size(), SiteStatistics(sums));
  ReadOutliers(reader, keys, rows);
  ReadFolds(reader, sums, rows);
  ReadMaxima(reader, rows);
  for (size_t r = 0; r < keys.size(); ++r) {
    if (!sites.emplace(keys[r], std::move(rows[r])).second) reader.Refuse("layer", "a layer, head and map twice");
  }
}

}  // namespace

Asked AskedOf(const std::filesystem::path& path) {
  const Hdf5Reader file(path);
  Asked asked;
  if (!file.HasAttribute("", kAskedKey)) return asked;
  const Json json = ParseOrderedJson(file.StringAttribute("", kAskedKey), path.string());
  for (const auto& [option, value] : json.items()) {
    if (value.is_string()) asked[option] = value;
  }
  return asked;
}

StatisticsSet ReadStatistics(const std::filesystem::path& path) {
  const Hdf5Reader file(path);
  const std::string schema = file.HasAttribute("", "schema") ? file.StringAttribute("", "schema") : "none";
  if (schema != kStatisticsSchema)
    Fail("{}: got schema {}, expected {}; try a file that tare stats --out of this version made", path.string(), schema,
         kStatisticsSchema);
  file.Verify();
  StatisticsSet set;
  const auto words = [](const std::string& text, char between) {
    return std::views::split(text, between) | std::ranges::to<std::vector<std::string>>();
  };
  for (const std::string& key : words(file.StringAttribute("", "job"), ' '))
    set.job[key] = file.StringAttribute("", key);
  set.formats = words(file.StringAttribute("", "formats"), ',');
  set.positions = static_cast<uint64_t>(file.IntAttribute("", "positions"));
  set.tokens = static_cast<uint64_t>(file.IntAttribute("", "tokens"));
  set.skip_first = file.IntAttribute("", "skip_first");
  if (set.skip_first < 0) Fail("{}: skip_first: got {}, expected 0 or more", path.string(), set.skip_first);
  set.units = file.Read<uint8_t>("units");
  if (file.Has("lambda")) {
    const auto layers = file.Read<int32_t>("lambda_layer");
    const auto lambdas = file.Read<float>("lambda");
    if (layers.size() != lambdas.size()) Fail("{}: lambda: got another number than layers", path.string());
    for (size_t i = 0; i < layers.size(); ++i) set.lambda[layers[i]] = lambdas[i];
  }
  const auto read = [&](int64_t from, std::map<SiteKey, SiteStatistics>& sites) {
    for (const SiteInfo& info : kSites) {
      const std::string group = GroupOf(info.site, from);
      if (file.Has(group + "/layer")) ReadSite(file, info.site, group, set, sites);
    }
  };
  read(0, set.sites);
  if (set.skip_first > 0) read(set.skip_first, set.rest);
  return set;
}

}  // namespace tare
