// SPDX-License-Identifier: Apache-2.0
// An expert's tokens, inputs caught in a batch, InputMoments, and CalibrationPass: catching, sums, moments, Advance.
#include "experiments/quantize/calibration/calibration_pass.h"

#include <algorithm>

#include "kernels/elementwise/rows.h"
#include "quant/base/message.h"
#include "quant/base/parallel.h"
#include "quant/format/round.h"

namespace tare {
namespace {

CaughtInputs EmptyInputs(int64_t channels, int64_t tokens) {
  CaughtInputs x{.channels = channels, .tokens = tokens};
  x.values.Reset(static_cast<size_t>(PaddedRows(channels) * tokens));
  std::fill_n(x.values.data(), x.values.size(), 0.0f);
  return x;
}

// Which of a batch's inputs an expert has, by the place among all choices.
std::vector<int64_t> ChoicesOf(const CaughtInputs& x, int expert) {
  std::vector<int64_t> choices;
  for (size_t i = 0; i < x.chosen.size(); ++i) {
    if (x.chosen[i] == expert) choices.push_back(static_cast<int64_t>(i));
  }
  return choices;
}

// The inputs of these choices, of which each input has so many, as a batch of its own: a multiple of 64 tokens, the
// last ones zeros, so that products of few shapes are made. 0 where the choice is -1.
CaughtInputs OfChoices(const CaughtInputs& x, const std::vector<int64_t>& choices, int64_t per_input) {
  CaughtInputs some = EmptyInputs(x.channels, PaddedRows(std::ssize(choices)));
  ParallelFor(static_cast<size_t>(x.channels), [&](int64_t channel, int) {
    const float* const from = x.values.data() + channel * x.tokens;
    float* const to = some.values.data() + channel * some.tokens;
    for (size_t c = 0; c < choices.size(); ++c) to[c] = choices[c] < 0 ? 0.0f : from[choices[c] / per_input];
  });
  return some;
}

// What the stored model made of the same tokens in the same expert.
std::vector<int64_t> SameChoices(const CaughtInputs& exact, const std::vector<int64_t>& choices, int expert,
                                 int64_t k) {
  std::vector<int64_t> same;
  for (const int64_t choice : choices) {
    const auto first = exact.chosen.begin() + choice / k * k, found = std::find(first, first + k, expert);
    same.push_back(found == first + k ? -1 : found - exact.chosen.begin());
  }
  return same;
}

// One batch's inputs at the sites of a layer, transposed to [channels, tokens] for the product X^T X.
class InputCatcher : public SiteVisitor {
 public:
  // experts: that a token chooses.
  InputCatcher(int layer, const TokenBatch& batch, int experts)
      : layer_(layer), rows_(batch.Rows()), experts_(experts) {
    for (const AttentionSequence& s : batch.sequences) first_row_.push_back(s.first_row);
  }
  // Room for a site's inputs, made before the pass.
  void Expect(Site site, int64_t channels) {
    CaughtInputs& x = caught_[site];
    x = EmptyInputs(channels, rows_ * (site == Site::kExpertsDownIn ? experts_ : 1));
  }

  bool Wants(Site site, std::optional<int> layer) const override { return layer == layer_ && caught_.contains(site); }
  void Visit(const SiteBlock& block, int) override {
    CaughtInputs& x = caught_.at(block.site);
    const bool chosen = block.site == Site::kExpertsDownIn;
    constexpr int64_t kTogether = 16;  // channels: a cache line of what is read
    for (int64_t begin = 0; begin < x.channels; begin += kTogether) {
      const int64_t end = std::min(begin + kTogether, x.channels);
      for (int64_t r = 0; r < block.rows; ++r) {
        const int64_t token = first_row_[block.slot] + block.first_row + r,
                      column = chosen ? token * experts_ + *block.head : token;
        const std::span<const float> row = block.Row(r);
        for (int64_t i = begin; i < end; ++i) x.values[i * x.tokens + column] = row[i];
      }
    }
  }
  std::map<Site, CaughtInputs> Take() { return std::move(caught_); }

 private:
  int layer_;
  int64_t rows_, experts_;
  std::vector<int64_t> first_row_;  // of each sequence in the batch
  std::map<Site, CaughtInputs> caught_;
};

// Kept for each token: o_proj's input is attention's, gate_proj's has o_proj's result. down_proj's is 3 x as wide.
bool IsKept(Site input) { return input == Site::kOProjIn || input == Site::kGateProjIn; }

}  // namespace

int ExpertsAtOnce(const ModelConfig& config, Site input, int first, int matrices) {
  constexpr int64_t kMomentBytes = int64_t{1} << 30;
  const int64_t in = input == Site::kExpertsDownIn ? config.ffn : config.hidden,
                together = std::max<int64_t>(kMomentBytes / (in * in * 4 * matrices), 1);
  return static_cast<int>(std::min<int64_t>(together, config.experts - first));
}

SecondMoments& InputMoments::Of(std::optional<int> expert) {
  if (!expert) {
    if (moments_.empty()) moments_.push_back(calibration_.MomentsOf(layer_, input_, exact_));
    return moments_.front();
  }
  TARE_CHECK(*expert >= first_);
  if (*expert >= first_ + std::ssize(moments_)) {
    first_ = *expert;
    moments_.clear();  // before the next are made
    const int count = ExpertsAtOnce(calibration_.config(), input_, first_, exact_ != nullptr ? 2 : 1);
    moments_ = calibration_.MomentsOfExperts(layer_, input_, first_, count, exact_);
  }
  return moments_[static_cast<size_t>(*expert - first_)];
}

Site InputOf(const LinearPlace& place) {
  const Site input = place.Input();
  if (input == Site::kKProjIn || input == Site::kVProjIn || input == Site::kLambdaProjIn) return Site::kQProjIn;
  if (input == Site::kUpProjIn) return Site::kGateProjIn;
  if (input == Site::kKvAProjIn) return Site::kQAProjIn;
  if (input == Site::kAttnGateProjIn) return Site::kQBProjIn;
  if (input == Site::kSharedUpIn) return Site::kSharedGateIn;
  return input == Site::kMixer2InProjIn ? Site::kMixer1InProjIn : input;
}

std::vector<LinearLayer> LayersWithInput(Site site, const ModelConfig& config, int layer) {
  std::vector<LinearLayer> all = LinearLayersOf(config, layer);
  std::erase_if(all, [&](const LinearLayer& linear) { return InputOf(*linear.place) != site; });
  return all;
}

CalibrationPass::CalibrationPass(Model& model, const std::vector<ScoredSequence>& sequences,
                                 std::pmr::memory_resource& kept, std::optional<size_t> only)
    : model_(model) {
  const size_t step = SequencesPerBatch(sequences);
  for (size_t begin = 0; begin < sequences.size(); begin += step) {
    if (only && begin != *only * step) continue;
    Part& part = parts_.emplace_back(kept);
    part.batch = BatchOf(sequences, begin, step);
    tokens_ += part.batch.Rows();
  }
  int64_t widest = 0;  // of the kept inputs
  for (const LinearPlace& place : FamilyOf(config()).linear) {
    if (IsKept(InputOf(place))) widest = std::max(widest, ShapeOf(place.weight, config()).in);
  }
  const auto values = static_cast<size_t>(tokens_ * (config().StreamWidth() + widest));
  room_.emplace(values * sizeof(float) + 2 * parts_.size() * AlignedBuffer<float>::kAlignment, &kept);
  for (Part& part : parts_) {
    part.input = AlignedBuffer<float>(*room_);
    part.input.Reset(static_cast<size_t>(part.batch.Rows() * widest));
    part.stream.x = AlignedBuffer<float>(*room_);
    model.EmbedInto(part.batch, part.stream);
  }
}

std::map<Site, CaughtInputs> CalibrationPass::InputsOf(size_t batch, int layer, std::span<const Site> sites) {
  const Part& part = parts_.at(batch);
  Stream stream = part.stream;
  return Catch(part, layer, sites, stream, nullptr);
}

// One input; where it is kept, the part goes on from there.
CaughtInputs CalibrationPass::Input(size_t batch, int layer, Site input) {
  if (!IsKept(input)) return std::move(InputsOf(batch, layer, {&input, 1}).at(input));
  Part& part = parts_.at(batch);
  CaughtInputs x = std::move(Catch(part, layer, {&input, 1}, part.stream, &part.input).at(input));
  part.reached = x.seen_as;
  return x;
}

// From the input that the part has reached to the last of the sites; kept: takes that one.
std::map<Site, CaughtInputs> CalibrationPass::Catch(const Part& part, int layer, std::span<const Site> sites,
                                                    Stream& stream, AlignedBuffer<float>* kept) {
  InputCatcher catcher(layer, part.batch, model_.config().chosen_experts);
  std::map<Site, Site> seen_as;  // up_proj.in, where the model has no gate_proj.in
  auto linear = LinearOf(FamilyOf(model_.config()), model_.config(), layer);
  std::optional<Site> last;
  for (const Site site : kCalibratedInputs) {
    const auto place = std::ranges::find(linear, site, [](const LinearPlace& one) { return InputOf(one); });
    if (place == linear.end()) continue;
    if (place->Input() == part.reached) TARE_CHECK(seen_as.empty());  // what is before it is gone
    if (!std::ranges::contains(sites, site)) continue;
    catcher.Expect(place->Input(), ShapeOf(place->weight, model_.config()).in);
    seen_as[site] = place->Input();
    last = IsOfExperts(site) ? std::nullopt : std::optional(place->Input());  // those come in no single product
  }
  LayerPart steps(part.reached, &part.input, last, kept);
  SiteVisitor* const visitors[] = {&catcher};
  model_.RunLayer(part.batch, layer, stream, visitors, &steps);
  std::map<Site, CaughtInputs> caught = catcher.Take(), inputs;
  for (const auto& [site, seen] : seen_as) {
    CaughtInputs& x = inputs.emplace(site, std::move(caught.at(seen))).first->second;
    x.seen_as = seen;
    if (IsOfExperts(site)) x.chosen.assign(model_.ChosenExperts().begin(), model_.ChosenExperts().end());
  }
  return inputs;
}

// The upper triangle of sums += A A^T, and what of the rest falls into the same products.
void CalibrationPass::AddSquare(const CaughtInputs& a, std::vector<float>& sums) {
  constexpr int64_t kRows = 512;  // as many as a projector takes at once
  const int64_t n = a.channels;
  sums.resize(static_cast<size_t>(n * n));
  product_.Reserve(static_cast<size_t>(PaddedRows(std::min(kRows, n)) * n));
  for (int64_t first = 0; first < n; first += kRows) {
    const int64_t rows = std::min(kRows, n - first), columns = n - first;
    const float* const from = a.values.data() + first * a.tokens;
    const Projection projection{.weight = {from, WeightType::kF32, columns, a.tokens}, .y = product_.data()};
    projector_.Project(from, rows, {&projection, 1});
    ParallelFor(static_cast<size_t>(rows), [&](int64_t r, int) {
      AddTo(&sums[(first + r) * n + first], product_.data() + r * columns, static_cast<size_t>(columns));
    });
  }
}

// sums += A B^T
void CalibrationPass::AddProduct(const CaughtInputs& a, const CaughtInputs& b, std::vector<float>& sums) {
  product_.Reserve(static_cast<size_t>(PaddedRows(a.channels) * b.channels));
  const Projection projection{.weight = {b.values.data(), WeightType::kF32, b.channels, b.tokens},
                              .y = product_.data()};
  projector_.Project(a.values.data(), a.channels, {&projection, 1});
  sums.resize(static_cast<size_t>(a.channels * b.channels));
  ParallelFor(static_cast<size_t>(a.channels), [&](int64_t row, int) {
    const int64_t at = row * b.channels;
    AddTo(&sums[at], product_.data() + at, static_cast<size_t>(b.channels));
  });
}

// Weights are finite and ids are valid: a sum that is not finite means that the model's own values are too large for
// f32. Sums of squares are symmetric: their lower triangle from the upper one, in blocks that a cache holds.
static void Complete(SecondMoments& m, int layer, Site input) {
  if (FirstNotFinite(m.values) || FirstNotFinite(m.cross))
    Fail(
        "calibration, layer {}, {}: got values whose squares are beyond f32, or NaN, expected some that a method can "
        "sum; try `tare stats` to see where the model's values grow",
        layer, Name(input));
  constexpr int64_t kBlock = 64;
  ParallelForBlocks(m.in, kBlock, [&m, n = m.in](int64_t first, int64_t count) {
    for (int64_t from = 0; from < first + count; from += kBlock) {
      for (int64_t r = first; r < first + count; ++r) {
        for (int64_t c = from; c < std::min(from + kBlock, r); ++c) m.values[r * n + c] = m.values[c * n + r];
      }
    }
  });
}

SecondMoments CalibrationPass::MomentsOf(int layer, Site input, CalibrationPass* exact) {
  SecondMoments m;
  for (size_t batch = 0; batch < batches(); ++batch) {
    const CaughtInputs x = Input(batch, layer, input);
    m.in = x.channels;
    m.tokens += x.tokens;
    AddSquare(x, m.values);
    if (exact != nullptr) {
      CaughtInputs lost = exact->Input(batch, layer, input);
      for (size_t i = 0; i < lost.values.size(); ++i) lost.values[i] -= x.values[i];
      AddProduct(lost, x, m.cross);
    }
    Done();
  }
  Complete(m, layer, input);
  return m;
}

std::vector<SecondMoments> CalibrationPass::MomentsOfExperts(int layer, Site input, int first, int count,
                                                             CalibrationPass* exact) {
  const int64_t k = model_.config().chosen_experts, per_input = input == Site::kExpertsDownIn ? 1 : k;
  std::vector<SecondMoments> all(static_cast<size_t>(count));
  for (size_t batch = 0; batch < batches(); ++batch) {
    const CaughtInputs x = std::move(InputsOf(batch, layer, {&input, 1}).at(input));
    CaughtInputs y;
    if (exact != nullptr) y = std::move(exact->InputsOf(batch, layer, {&input, 1}).at(input));
    for (int i = 0; i < count; ++i) {
      SecondMoments& m = all[static_cast<size_t>(i)];
      m.in = x.channels;
      const std::vector<int64_t> choices = ChoicesOf(x, first + i);
      if (choices.empty()) continue;
      m.tokens += std::ssize(choices);
      const CaughtInputs reached = OfChoices(x, choices, per_input);
      AddSquare(reached, m.values);
      if (exact == nullptr) continue;
      const bool of_token = input == Site::kExpertsGateUpIn;  // whatever it chooses
      const std::vector<int64_t> there = of_token ? choices : SameChoices(y, choices, first + i, k);
      CaughtInputs lost = OfChoices(y, there, per_input);
      for (size_t c = 0; c < choices.size(); ++c) {
        if (there[c] < 0) continue;
        for (int64_t channel = 0; channel < lost.channels; ++channel) {
          const size_t at = static_cast<size_t>(channel * lost.tokens) + c;
          lost.values[at] -= reached.values[at];
        }
      }
      AddProduct(lost, reached, m.cross);
    }
    Done();
  }
  for (SecondMoments& m : all) {
    if (m.tokens > 0) Complete(m, layer, input);
  }
  return all;
}

std::vector<int64_t> CalibrationPass::Advance(int layer) {
  std::vector<int64_t> tokens(static_cast<size_t>(model_.config().experts));
  for (Part& part : parts_) {
    LayerPart steps(part.reached, &part.input, {}, nullptr);
    model_.RunLayer(part.batch, layer, part.stream, {}, &steps);
    part.reached.reset();
    Done();
    for (const int32_t expert : model_.ChosenExperts()) ++tokens[static_cast<size_t>(expert)];
  }
  return model_.config().Routes(layer) ? tokens : std::vector<int64_t>();
}

}  // namespace tare
