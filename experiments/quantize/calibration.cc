// SPDX-License-Identifier: Apache-2.0
#include "experiments/quantize/calibration.h"

#include <algorithm>

#include "quant/base/parallel.h"

namespace tare {
namespace {

constexpr std::array kInputs{Site::kQProjIn, Site::kOProjIn, Site::kGateProjIn, Site::kDownProjIn};

// One batch's inputs at the sites of a layer, transposed: [channels, tokens], as the product of X^T X wants them.
class InputCatcher : public SiteVisitor {
 public:
  InputCatcher(int layer, const TokenBatch& batch) : layer_(layer), tokens_(batch.Rows()) {
    for (const AttentionSequence& s : batch.sequences) first_row_.push_back(s.first_row);
  }
  // Room for a site's inputs, made before the pass.
  void Expect(Site site, int64_t channels) {
    AlignedBuffer<float>& x = caught_[site];
    x.Reset(static_cast<size_t>(PaddedRows(channels) * tokens_));
    std::fill_n(x.data(), x.size(), 0.0f);
  }

  bool Wants(Site site, int layer) const override { return layer == layer_ && caught_.contains(site); }
  void Visit(const SiteBlock& block, int) override {
    float* x = caught_.at(block.site).data();
    for (int64_t r = 0; r < block.rows; ++r) {
      const int64_t token = first_row_[block.slot] + block.first_row + r;
      const std::span<const float> row = block.Row(r);
      for (size_t i = 0; i < row.size(); ++i) x[static_cast<int64_t>(i) * tokens_ + token] = row[i];
    }
  }
  const float* Caught(Site site) const { return caught_.at(site).data(); }
  int64_t tokens() const { return tokens_; }

 private:
  int layer_;
  int64_t tokens_;
  std::vector<int64_t> first_row_;  // of each sequence in the batch
  std::map<Site, AlignedBuffer<float>> caught_;
};

int64_t ChannelsOf(Site site, const ModelConfig& c) {
  if (site == Site::kOProjIn) return int64_t{c.heads} * c.head_dim;
  return site == Site::kDownProjIn ? c.ffn : c.hidden;
}

}  // namespace

Site InputOf(const LinearPlace& place) {
  switch (place.input) {
    case Site::kKProjIn:
    case Site::kVProjIn:
      return Site::kQProjIn;
    case Site::kUpProjIn:
      return Site::kGateProjIn;
    default:
      return place.input;
  }
}

Calibration::Calibration(Model& model, const std::vector<ScoredSequence>& sequences) : model_(model) {
  size_t longest = 1;
  for (const ScoredSequence& s : sequences) longest = std::max(longest, s.tokens.size());
  const auto step = static_cast<size_t>(SequencesPerBatch(static_cast<int64_t>(longest)));
  for (size_t begin = 0; begin < sequences.size(); begin += step) {
    Stream& stream = streams_.emplace_back();
    for (size_t i = begin; i < std::min(begin + step, sequences.size()); ++i)
      stream.batch.Add(static_cast<int64_t>(i), sequences[i].tokens);
    stream.x.Reset(static_cast<size_t>(stream.batch.Rows() * model.config().hidden));
    model.EmbedInto(stream.batch, stream.x.data());
    tokens_ += stream.batch.Rows();
  }
}

std::map<Site, SecondMoments> Calibration::MomentsOf(int layer) {
  std::map<Site, SecondMoments> moments;
  for (const Site site : kInputs) {
    const int64_t in = ChannelsOf(site, model_.config());
    moments[site] = {in, std::vector<float>(static_cast<size_t>(in * in), 0.0f)};
  }
  AlignedBuffer<float> x, product;
  for (const Stream& stream : streams_) {
    InputCatcher catcher(layer, stream.batch);
    for (const auto& [site, m] : moments) catcher.Expect(site, m.in);
    x.Reserve(stream.x.size());
    std::copy_n(stream.x.data(), stream.x.size(), x.data());
    SiteVisitor* const visitors[] = {&catcher};
    model_.RunLayer(stream.batch, layer, x.data(), visitors);
    for (auto& [site, m] : moments) {
      product.Reserve(static_cast<size_t>(PaddedRows(m.in) * m.in));
      const Projection projection{.weight = {catcher.Caught(site), WeightType::kF32, m.in, catcher.tokens()},
                                  .bias = nullptr,
                                  .y = product.data()};
      projector_.Project(catcher.Caught(site), m.in, {&projection, 1});
      for (size_t i = 0; i < m.values.size(); ++i) m.values[i] += product[i];
    }
  }
  return moments;
}

void Calibration::Advance(int layer) {
  for (Stream& stream : streams_) model_.RunLayer(stream.batch, layer, stream.x.data());
}

}  // namespace tare
