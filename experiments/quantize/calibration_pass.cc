// SPDX-License-Identifier: Apache-2.0
#include "experiments/quantize/calibration_pass.h"

#include <algorithm>

#include "quant/base/formatted.h"
#include "quant/file/sha256.h"

namespace tare {
namespace {

// One batch's inputs at the sites of a layer, transposed to [channels, tokens] for the product X^T X.
class InputCatcher : public SiteVisitor {
 public:
  InputCatcher(int layer, const TokenBatch& batch) : layer_(layer), tokens_(batch.Rows()) {
    for (const AttentionSequence& s : batch.sequences) first_row_.push_back(s.first_row);
  }
  // Room for a site's inputs, made before the pass.
  void Expect(Site site, int64_t channels) {
    CaughtInputs& x = caught_[site];
    x.channels = channels;
    x.tokens = tokens_;
    x.values.Reset(static_cast<size_t>(PaddedRows(channels) * tokens_));
    std::fill_n(x.values.data(), x.values.size(), 0.0f);
  }

  bool Wants(Site site, std::optional<int> layer) const override { return layer == layer_ && caught_.contains(site); }
  void Visit(const SiteBlock& block, int) override {
    float* x = caught_.at(block.site).values.data();
    for (int64_t r = 0; r < block.rows; ++r) {
      const int64_t token = first_row_[block.slot] + block.first_row + r;
      const std::span<const float> row = block.Row(r);
      for (size_t i = 0; i < row.size(); ++i) x[static_cast<int64_t>(i) * tokens_ + token] = row[i];
    }
  }
  std::map<Site, CaughtInputs> Take() { return std::move(caught_); }

 private:
  int layer_;
  int64_t tokens_;
  std::vector<int64_t> first_row_;  // of each sequence in the batch
  std::map<Site, CaughtInputs> caught_;
};

}  // namespace

std::string CalibrationText(const TokenInput& input, const std::vector<ScoredSequence>& sequences) {
  size_t tokens = 0;
  std::vector<int32_t> cut;  // lengths and ids: the same text in other windows is another calibration
  for (const ScoredSequence& s : sequences) {
    tokens += s.tokens.size();
    cut.push_back(static_cast<int32_t>(s.tokens.size()));
    for (const int32_t token : s.tokens) cut.push_back(token);
  }
  return Formatted("{}, sha256 {}, {} tokens in {} windows, sha256 {}", input.path.filename().string(), input.sha256,
                   tokens, sequences.size(), Sha256Hex(std::as_bytes(std::span(cut))));
}

Site InputOf(const LinearPlace& place) {
  switch (place.input) {
    case Site::kKProjIn:
    case Site::kVProjIn:
    case Site::kLambdaProjIn:
      return Site::kQProjIn;
    case Site::kUpProjIn:
      return Site::kGateProjIn;
    default:
      return place.input;
  }
}

CalibrationPass::CalibrationPass(Model& model, const std::vector<ScoredSequence>& sequences) : model_(model) {
  const size_t step = SequencesPerBatch(sequences);
  for (size_t begin = 0; begin < sequences.size(); begin += step) {
    Part& part = parts_.emplace_back();
    part.batch = BatchOf(sequences, begin, step);
    model.EmbedInto(part.batch, part.stream);
    tokens_ += part.batch.Rows();
  }
}

std::map<Site, CaughtInputs> CalibrationPass::InputsOf(size_t batch, int layer, std::span<const Site> sites) {
  const Part& part = parts_.at(batch);
  InputCatcher catcher(layer, part.batch);
  std::map<Site, Site> seen_as;  // up_proj.in, where the model has no gate_proj.in
  auto linear = LinearOf(FamilyOf(model_.config()), model_.config(), layer);
  for (const Site site : sites) {
    const auto place = std::ranges::find(linear, site, InputOf);
    if (place == linear.end()) continue;
    catcher.Expect(place->input, ShapeOf(place->weight, model_.config()).in);
    seen_as[site] = place->input;
  }
  Stream stream = part.stream;
  SiteVisitor* const visitors[] = {&catcher};
  model_.RunLayer(part.batch, layer, stream, visitors);
  std::map<Site, CaughtInputs> caught = catcher.Take(), inputs;
  for (const auto& [site, seen] : seen_as) inputs.emplace(site, std::move(caught.at(seen)));
  return inputs;
}

// sums += A B^T
void CalibrationPass::AddProduct(const CaughtInputs& a, const CaughtInputs& b, std::vector<float>& sums) {
  product_.Reserve(static_cast<size_t>(PaddedRows(a.channels) * b.channels));
  const Projection projection{.weight = {b.values.data(), WeightType::kF32, b.channels, b.tokens},
                              .y = product_.data()};
  projector_.Project(a.values.data(), a.channels, {&projection, 1});
  sums.resize(static_cast<size_t>(a.channels * b.channels));
  for (size_t i = 0; i < sums.size(); ++i) sums[i] += product_[i];
}

SecondMoments CalibrationPass::MomentsOf(int layer, Site input, CalibrationPass* exact) {
  SecondMoments m;
  for (size_t batch = 0; batch < batches(); ++batch) {
    const CaughtInputs x = std::move(InputsOf(batch, layer, {&input, 1}).at(input));
    m.in = x.channels;
    AddProduct(x, x, m.values);
    if (exact == nullptr) continue;
    CaughtInputs lost = std::move(exact->InputsOf(batch, layer, {&input, 1}).at(input));
    for (size_t i = 0; i < lost.values.size(); ++i) lost.values[i] -= x.values[i];
    AddProduct(lost, x, m.cross);
  }
  return m;
}

void CalibrationPass::Advance(int layer) {
  for (Part& part : parts_) model_.RunLayer(part.batch, layer, part.stream);
}

}  // namespace tare
