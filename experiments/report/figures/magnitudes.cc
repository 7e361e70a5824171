// SPDX-License-Identifier: Apache-2.0
// Largest magnitudes by layer, from statistics files or `tare stats --json`; of files also the linear input with the
// largest max/median in a layer, and the distribution of magnitudes, on a log scale, with low-bit formats' codes:
// values below half of the first become 0. And tokens x channels of a site from `tare dump`: a cell shows its ranges'
// largest magnitude, so no outlier is lost. The page has a dump's layer with the largest value; `tare plot` draws any.
#include <ranges>
#include <tuple>

#include "experiments/observe/statistics_report.h"
#include "experiments/report/figures/figures.h"
#include "experiments/significance/inference.h"
#include "quant/base/message.h"
#include "quant/file/hdf5.h"
#include "quant/format/format.h"
#include "quant/plan/site.h"

namespace tare {
namespace {

struct Peak {
  double size = NAN;
  int head = -1, channel = -1;  // -1: of none
};

struct Largest {
  std::string site, model;
  int layer = 0;
  Peak largest;
  double median = 0;
  int64_t from = 0;  // the rest is of positions from here on; 0: not measured
  Peak rest;
  uint64_t count = 0;
};

Peak PeakOf(const OutlierStatistics& s, Site site) {
  if (s.count() == 0) return {};
  const Place place = s.top.Sorted().front().place;
  return {s.absmax(), site == Site::kAttnLogits ? place.head : -1,
          HasChannels(site) ? static_cast<int>(place.column) : -1};
}

// The peak of a site in the i-th layer of `tare stats --json`; head and channel where it is among the largest of all.
Peak PeakOf(const Json& all, size_t i, const std::string& site) {
  const Json& layer = all.at("layers").at(i);
  Peak peak{.size = NumberAt(layer.at(site), "absmax")};
  const Json tops = all.value("top", Json::object()).value(site, Json::array());
  const auto top = std::ranges::find(tops, layer.at("layer"), [](const Json& one) { return one.at("layer"); });
  if (top != tops.end()) peak.head = top->value("head", -1), peak.channel = top->value("channel", -1);
  return peak;
}

std::string NotFinite(uint64_t count, const std::string& site, const std::string& model, int layer) {
  return Formatted("site {}, model {}, layer {}: {} values are infinite or NaN and are left out", site, model, layer,
                   count);
}

// Attention logits and hidden states, and the input of linear layers with the largest max/median in a layer.
std::vector<Site> ShownSites(const StatisticsSet& set, int layers) {
  std::vector<Site> sites{Site::kAttnLogits, Site::kLayerOut};
  double most = 0;
  for (const Site at : ExpandSites("linear_in")) {
    for (int layer = 0; layer < layers; ++layer) {
      const OutlierStatistics s = OutliersAt(set.sites, at, layer);
      const double ratio = s.count() > 0 ? s.absmax() / s.Quantile(0.5) : 0;
      if (!std::isfinite(ratio) || ratio <= most) continue;
      most = ratio;
      sites.resize(2);
      sites.push_back(at);
    }
  }
  return sites;
}

void AddStatistics(const ModelStatistics& of, std::vector<Largest>& all, std::vector<std::string>& missing) {
  int layers = 0;
  for (const auto& [key, s] : of.set.sites) layers = std::max(layers, key.layer.value_or(-1) + 1);
  const std::vector<Site> sites = ShownSites(of.set, layers);
  for (int layer = 0; layer < layers; ++layer) {
    for (const Site at : sites) {
      const OutlierStatistics s = OutliersAt(of.set.sites, at, layer), later = OutliersAt(of.set.rest, at, layer);
      const std::string site(Name(at));
      if (s.nonfinite > 0) missing.push_back(NotFinite(s.nonfinite, site, of.model, layer));
      const bool some = s.count() > 0;
      if (some || s.nonfinite > 0)
        all.push_back({site, of.model, layer, PeakOf(s, at), some ? s.Quantile(0.5) : NAN, of.set.skip_first,
                       PeakOf(later, at), s.count()});
    }
  }
}

void AddDocument(const Json& json, std::vector<Largest>& all, std::vector<std::string>& missing) {
  const bool rest = json.contains("rest");
  for (size_t i = 0; i < json.at("layers").size(); ++i) {
    const Json& layer = json["layers"][i];
    for (const char* site : {"attn_logits", "layer_out"}) {
      if (!layer.contains(site)) continue;
      const Json& s = layer[site];
      const uint64_t count = s.at("count"), bad = s.value("nonfinite", uint64_t{0});
      if (bad > 0) missing.push_back(NotFinite(bad, site, json.at("model"), layer.at("layer")));
      if (count + bad > 0)
        all.push_back({site, json.at("model"), layer.at("layer"), PeakOf(json, i, site),
                       count > 0 ? NumberAt(s, "median") : NAN, rest ? json["rest"].at("from").get<int64_t>() : 0,
                       rest ? PeakOf(json["rest"], i, site) : Peak(), count});
    }
  }
}

std::string KindOfSite(const std::string& site) {
  return site == "attn_logits" ? "an attention logit" : site == "layer_out" ? "a hidden state" : site;
}

// "8.668, in head 0 of layer 3", "64, in channel 5 of layer 1"; of an input with max/median of the layer.
std::string PeakText(const Largest& one, Peak Largest::* peak) {
  const auto& [size, head, channel] = one.*peak;
  const bool is_input = one.site.ends_with(".in") && peak == &Largest::largest;
  return Formatted("{:.4g}, in {}{}layer {}{}", size, head < 0 ? "" : Formatted("head {} of ", head),
                   channel < 0 ? "" : Formatted("channel {} of ", channel), one.layer,
                   is_input ? Formatted(", where max/median is {:.4g}", size / one.median) : "");
}

auto LineOf(const Largest& one) { return std::tie(one.site, one.model); }

// One sentence per site: the largest of each model, and its ratio to the first model's. `all` is sorted by site.
std::vector<std::string> FindingsOf(const std::vector<Largest>& all, Peak Largest::* peak, const std::string& the) {
  const auto size = [peak](const Largest& one) { return (one.*peak).size; };
  const auto tops = LargestOfEach(
      all | std::views::filter([&](const Largest& one) { return std::isfinite(size(one)); }), LineOf, size);
  std::vector<std::string> findings;
  for (const auto of_site :
       tops | std::views::chunk_by([](const auto* a, const auto* b) { return a->site == b->site; })) {
    const Largest& first = *of_site.front();
    std::string text = Formatted("{} largest magnitude of {} of {} is {}", the, KindOfSite(first.site), first.model,
                                 PeakText(first, peak));
    for (const Largest* other : of_site | std::views::drop(1)) {
      text += Formatted("; that of {} is {}", other->model, PeakText(*other, peak));
      if (size(first) > 0) text += Formatted(" ({:.2f} times as large)", size(*other) / size(first));
    }
    findings.push_back(text + ".");
  }
  return findings;
}

bool RestDiffers(const Largest& one) { return !std::isnan(one.rest.size) && one.rest.size != one.largest.size; }

// Adds the findings of `rest` that differ from the findings of `largest`. Only models with an equal `from` compare.
void AddFindingsOfRest(std::vector<Largest> all, std::vector<std::string>& findings) {
  while (!all.empty()) {
    const int64_t from = all.front().from;
    const auto others = std::ranges::stable_partition(all, [&](const Largest& one) { return one.from == from; });
    const std::vector<Largest> same(all.begin(), others.begin());
    all.erase(all.begin(), others.begin());
    if (from == 0) continue;
    const std::string the = Formatted("From position {} on the", from);
    const std::vector<std::string> of_all = FindingsOf(same, &Largest::largest, the);
    for (const std::string& text : FindingsOf(same, &Largest::rest, the)) {
      if (!std::ranges::contains(of_all, text)) findings.push_back(text);
    }
  }
}

constexpr int kBinsPerStep = 32;       // a quarter of an octave
constexpr double kSmallest = 0x1p-16;  // of the largest; what is below is counted in the first step
constexpr Format kGrids[] = {Format::kInt8, Format::kInt6, Format::kInt4};

// The share of each quarter octave, by its lower end.
std::map<int, uint64_t> Steps(const OutlierStatistics& s) {
  std::map<int, uint64_t> steps;
  const int least = MagnitudeHistogram::BinOf(static_cast<float>(kSmallest * s.absmax())) / kBinsPerStep;
  for (const auto& [bin, count] : s.magnitudes.Counts()) steps[std::max(least, bin / kBinsPerStep)] += count;
  return steps;
}

void AddSite(const std::string& site, const std::string& model, const OutlierStatistics& s, FigureData& figure) {
  if (s.count() == 0 || s.absmax() == 0.0f) return;
  for (const auto& [step, count] : Steps(s)) {
    const double share = static_cast<double>(count) / static_cast<double>(s.count());
    figure.table.Add({site, model, "values", MagnitudeHistogram::MagnitudeOf(step * kBinsPerStep), share, s.count()});
  }
  for (const Format& format : kGrids) {
    const int largest = Info(format).max_code;
    for (int code = 1; code <= largest; ++code)
      figure.table.Add({site, model, Name(format), s.absmax() * static_cast<float>(code) / static_cast<float>(largest),
                        nullptr, nullptr});
  }
  const Format fewest = kGrids[2];
  const double half = 0.5 * s.absmax() / Info(fewest).max_code;
  uint64_t zeros = 0;
  for (const auto& [bin, count] : s.magnitudes.Counts())
    zeros += MagnitudeHistogram::MagnitudeOf(bin) < half ? count : 0;
  figure.findings.push_back(Formatted("With one scale for {} of {}, {} rounds {:.1f} % of the values to 0.", site,
                                      model, Name(fewest),
                                      100.0 * static_cast<double>(zeros) / static_cast<double>(s.count())));
}

constexpr int64_t kTokenRanges = 48, kChannelRanges = 32;  // at most: 1,536 marks of a drawing

// Datasets with tokens and channels: "embed", "layer_out.3", "final_norm".
bool HasChannels(const std::string& dataset) {
  return dataset == "embed" || dataset == "final_norm" || dataset.starts_with("layer_out.");
}

struct ChannelGrid {
  int64_t tokens = 0, channels = 0, sequences = 0;
  int64_t token_step = 1, channel_step = 1;
  std::vector<double> largest;  // [token ranges][channel ranges], NaN where a value is not finite

  int64_t ChannelRanges() const { return (channels + channel_step - 1) / channel_step; }
};

ChannelGrid GridOf(const Hdf5Reader& file, const std::string& dataset) {
  const std::vector<int64_t> shape = file.Shape(dataset);  // [B,T,E]
  if (shape.size() != 3 || file.Type(dataset) != DType::kF32)
    Fail("{}: {}: got another shape or type, expected f32 of 3 dimensions; try tare dump again", file.path().string(),
         dataset);
  ChannelGrid grid{.tokens = shape[1], .channels = shape[2], .sequences = shape[0]};
  grid.token_step = (grid.tokens + kTokenRanges - 1) / kTokenRanges;
  grid.channel_step = (grid.channels + kChannelRanges - 1) / kChannelRanges;
  grid.largest.assign(static_cast<size_t>((grid.tokens + grid.token_step - 1) / grid.token_step * grid.ChannelRanges()),
                      0.0);
  const auto* values = reinterpret_cast<const float*>(file.Bytes(dataset).data());
  for (int64_t row = 0; row < grid.sequences * grid.tokens; ++row) {
    const int64_t first = row % grid.tokens / grid.token_step * grid.ChannelRanges();
    for (int64_t c = 0; c < grid.channels; ++c) {
      double& largest = grid.largest[static_cast<size_t>(first + c / grid.channel_step)];
      const double magnitude = std::fabs(values[row * grid.channels + c]);
      if (!std::isfinite(magnitude)) largest = NAN;
      if (magnitude > largest) largest = magnitude;
    }
  }
  file.Release(dataset);
  return grid;
}

// Returns the largest of all.
double AddGrid(const std::string& panel, const std::string& site, const ChannelGrid& grid, FigureData& figure) {
  figure.title = site + " by token and channel";
  double most = -1;
  std::string where;
  for (size_t i = 0; i < grid.largest.size(); ++i) {
    const int64_t at = static_cast<int64_t>(i);
    const int64_t token = at / grid.ChannelRanges() * grid.token_step,
                  token_end = std::min(token + grid.token_step, grid.tokens),
                  channel = at % grid.ChannelRanges() * grid.channel_step,
                  channel_end = std::min(channel + grid.channel_step, grid.channels);
    figure.table.Add({panel, token, token_end, channel, channel_end, grid.largest[i],
                      grid.sequences * (token_end - token) * (channel_end - channel)});
    if (grid.largest[i] > most) {
      most = grid.largest[i];
      where = RangeText(token, token_end - 1, "token") + ", " + RangeText(channel, channel_end - 1, "channel");
    }
  }
  if (most < 0) return most;
  figure.findings.push_back(Formatted("The largest magnitude of {} in {} is {:.4g}, at {}.", site, panel, most, where));
  figure.caption += Formatted(" {}: {} of {}, {}.", panel, Counted(grid.sequences, "sequence"),
                              Counted(grid.tokens, "token"), Counted(grid.channels, "channel"));
  return most;
}

}  // namespace

std::vector<FigureData> LargestMagnitudes(const Material& material) {
  std::vector<Largest> all;
  std::vector<std::string> missing;
  for (const ModelStatistics& one : material.statistics) AddStatistics(one, all, missing);
  material.ForEach("tare.stats/3", [&](const Json& json) {
    if (!std::ranges::contains(material.statistics, json.at("model").get<std::string>(), &ModelStatistics::model))
      AddDocument(json, all, missing);
  });
  if (all.empty()) return {};
  std::ranges::stable_sort(all, {}, &Largest::site);  // logits first
  FigureData figure = FigureOfKind("largest");
  for (const Largest& one : all) {
    figure.table.Add({one.site, one.model, one.layer, "largest", one.largest.size, one.count});
    figure.table.Add({one.site, one.model, one.layer, "median", one.median, one.count});
    const auto differs = [&](const Largest& other) { return LineOf(one) == LineOf(other) && RestDiffers(other); };
    if (!std::isnan(one.rest.size) && std::ranges::any_of(all, differs))
      figure.table.Add(
          {one.site, one.model, one.layer, Formatted("largest from {}", one.from), one.rest.size, nullptr});
  }
  figure.findings = FindingsOf(all, &Largest::largest, "The");
  AddFindingsOfRest(all, figure.findings);
  for (const ModelStatistics& other : material.statistics | std::views::drop(1)) {
    const ModelStatistics& first = material.statistics.front();
    if (other.model != first.model)
      std::ranges::copy(SideSentences(first.set, first.model, other.set, other.model),
                        std::back_inserter(figure.findings));
  }
  if (std::ranges::any_of(all, [&](const Largest& one) { return one.model != all.front().model; }))
    figure.caption += std::string(" ") + kOneTraining;
  figure.missing = std::move(missing);
  return {figure};
}

std::vector<FigureData> Histograms(const Material& material) {
  FigureData figure = FigureOfKind("histograms");
  for (const Site site : {Site::kAttnLogits, Site::kLayerOut}) {
    for (const ModelStatistics& of : material.statistics)
      AddSite(std::string(Name(site)), of.model, OutliersAt(of.set.sites, site), figure);
  }
  return WithRows({figure});
}

std::vector<FigureData> Channels(const Material& material) {
  std::vector<FigureData> figures;
  for (const ModelDump& dump : material.dumps) {
    const Hdf5Reader file(dump.path);
    const std::string panel = dump.model + (dump.plan.empty() || dump.plan == "f32" ? "" : ", " + dump.plan);
    double most = -1;
    std::string shown;
    for (const std::string& dataset : file.datasets()) {
      if (!HasChannels(dataset)) continue;
      FigureData& figure = FigureNamed("channels:" + dataset, figures);
      const double largest = AddGrid(panel, dataset, GridOf(file, dataset), figure);
      if (largest > most) most = largest, shown = figure.name;
    }
    for (FigureData& figure : figures) figure.on_page |= figure.name == shown;
  }
  return figures;
}

}  // namespace tare
