// SPDX-License-Identifier: Apache-2.0
// Tokens x channels of a site from `tare dump`: where its large values are. Each cell covers a range of tokens and one
// of channels and shows the largest magnitude there, so no outlier is lost. The page shows, for each dump, the layer
// with the largest value; `tare plot` draws any.
#include <algorithm>

#include "experiments/report/figures/figures.h"
#include "quant/base/message.h"
#include "quant/file/hdf5.h"

namespace tare {
namespace {

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

FigureData& FigureOfSite(const std::string& site, std::vector<FigureData>& figures) {
  const std::string name = "channels:" + site;
  const auto known = std::ranges::find(figures, name, &FigureData::name);
  if (known != figures.end()) return *known;
  return figures.emplace_back(
      FigureData{.name = name,
                 .title = site + " by token and channel",
                 .table = Titled({"panel: model", "token: tokens from", "token_end: before", "channel: channels from",
                                  "channel_end: before", "magnitude: largest |x|", "n: values"}),
                 .drawn = {"magnitude"},
                 .on_page = false});
}

// Returns the largest of all.
double AddGrid(const std::string& panel, const std::string& site, const ChannelGrid& grid, FigureData& figure) {
  double most = -1;
  std::string where;
  for (size_t i = 0; i < grid.largest.size(); ++i) {
    const int64_t at = static_cast<int64_t>(i);
    const int64_t token = at / grid.ChannelRanges() * grid.token_step,
                  token_end = std::min(token + grid.token_step, grid.tokens),
                  channel = at % grid.ChannelRanges() * grid.channel_step,
                  channel_end = std::min(channel + grid.channel_step, grid.channels);
    figure.table.Add({panel, token, token_end, channel, channel_end, NumberOrNull(grid.largest[i]),
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

std::vector<FigureData> Channels(const Material& material) {
  std::vector<FigureData> figures;
  for (const ModelDump& dump : material.dumps) {
    const Hdf5Reader file(dump.path);
    const std::string panel = dump.model + (dump.plan.empty() || dump.plan == "f32" ? "" : ", " + dump.plan);
    double most = -1;
    std::string shown;
    for (const std::string& dataset : file.datasets()) {
      if (!HasChannels(dataset)) continue;
      const double largest = AddGrid(panel, dataset, GridOf(file, dataset), FigureOfSite(dataset, figures));
      if (largest > most) most = largest, shown = "channels:" + dataset;
    }
    for (FigureData& figure : figures) figure.on_page |= figure.name == shown;
  }
  for (FigureData& figure : figures)
    figure.caption =
        "Largest magnitude (no unit) in each range of positions and of neighbouring channels, over all sequences; the "
        "colour scale is linear below 1 and logarithmic above. n: values of a range, in the table." +
        figure.caption;
  return figures;
}

}  // namespace tare
