// SPDX-License-Identifier: Apache-2.0
#include "experiments/plan/simulated/simulated_quantizer.h"

#include <algorithm>
#include <cmath>

#include "kernels/attention/integer/executed_attention.h"
#include "kernels/elementwise/rows.h"
#include "quant/algorithms/round_to_nearest.h"
#include "quant/base/message.h"

namespace tare {
namespace {

// The largest magnitude; `row` and `row_step` as in ScaleGroup.
float CheckedAbsmax(const SiteBlock& block, std::span<const float> values, int64_t row, int64_t row_step) {
  const float absmax = AbsMax(values.data(), values.size());
  if (!std::isfinite(absmax)) {
    const auto bad = std::ranges::find_if(values, [](float x) { return !std::isfinite(x); });
    Fail("{}, sequence {}, row {}: got NaN or infinity, expected finite values; try it without a plan",
         TextOf(block.key()), block.sequence, block.first_row + row + row_step * (bad - values.begin()));
  }
  return absmax;
}

// The kind of place that a survey gathers magnitudes for.
Granularity::Kind WideKind(const Rule& rule) {
  return HasTensorScale(rule) ? Granularity::Kind::kTensor : rule.granularity.kind;
}

void QuantizeWithZeroPoint(std::span<float> group, Format format) {
  const auto [smallest, largest] = std::ranges::minmax(group);
  FakeQuantize(group.data(), group.size(), ZeroPointScaleFor(smallest, largest, format), format);
}

// Near f32's end a scale that is rounded up is too large for the largest code.
void CheckScale(const SiteBlock& block, const ScaleGroup& group, float clip, float scale, Format format) {
  if (std::isfinite(scale * Info(format).LargestCode())) return;
  Fail("{}, sequence {}, row {}: got {}, expected a magnitude whose scale in {} fits in f32; try it without a plan",
       TextOf(block.key()), block.sequence, block.first_row + group.row, clip, Name(format));
}

// Rounds a group by one scale: of `clip`, or with an offset of `sharing`'s values, all of the group's except outliers.
void RoundBy(const SiteBlock& block, const ScaleGroup& group, const Rule& rule, float clip,
             std::span<const float> sharing, float of_tensor, const SimulatedQuantizer::SeeGroup& see) {
  const std::span<float> values = group.values;
  if (HasOffset(rule.format)) {
    const ClipChoice choice = rule.options.mse ? ClipChoice::kLeastSquares : ClipChoice::kAbsmax;
    const Ends ends = ChooseEnds(sharing.data(), std::ssize(sharing), rule.format, choice, 0);
    const GroupScale scale = GroupScaleFor(ends, rule.format, 0);
    CheckScale(block, group, clip, scale.scale.scale, rule.format);
    if (see) see(block.key(), sharing, scale);
    return RoundedValues(values.data(), std::ssize(values), scale, rule.format, values.data());
  }
  clip = BlockEnd(sharing.data(), std::ssize(sharing), rule.format, clip, of_tensor);
  const std::optional<double>& top = rule.options.top;
  const Scale scale = top ? ScaleTo(static_cast<float>(*top), clip) : ScaleFor(clip, rule.format, of_tensor);
  CheckScale(block, group, clip, scale.scale, rule.format);
  FakeQuantize(values.data(), values.size(), scale, rule.format);
}

void QuantizeOthers(const SiteBlock& block, const ScaleGroup& group, const Rule& rule, float of_tensor,
                    const SimulatedQuantizer::SeeGroup& see) {
  const SetApart apart(group.values, rule.format, *rule.options.outliers);
  const std::span<const float> others = apart.others();
  if (others.empty()) return;
  RoundBy(block, group, rule, DynamicClip(rule, others, AbsMax(others.data(), others.size())), others, of_tensor, see);
  apart.Restore(group.values);
}

// A copy of a block's rows, one after another without gaps.
std::vector<float> CopyOf(const SiteBlock& block) {
  std::vector<float> copy;
  for (int64_t r = 0; r < block.rows; ++r) copy.insert(copy.end(), block.Row(r).begin(), block.Row(r).end());
  return copy;
}

// x: the rows before they were rounded, as CopyOf has them.
void AddSketches(const SiteBlock& block, const std::vector<float>& x) {
  const auto width = static_cast<size_t>(block.first_columns);
  const SignSketch& sketch = PlanSketch(block.first_columns);
  for (int64_t r = 0; r < block.rows; ++r)
    sketch.AddResidual({x.data() + static_cast<size_t>(r) * width, width}, block.Row(r));
}

// Makes each row of probabilities, with a learned sink's unrounded share, sum to 1 again; a row of zeros stays.
void Normalise(const SiteBlock& block) {
  for (int64_t r = 0; r < block.rows; ++r) {
    double sum = block.sink_shares == nullptr ? 0.0 : double{block.sink_shares[r]};
    for (const float p : block.Row(r)) sum += p;
    if (sum > 0) ScaleInto(block.Row(r).data(), static_cast<float>(1 / sum), block.Row(r).size(), block.Row(r).data());
  }
}

}  // namespace

bool SimulatedQuantizer::Wants(Site site, std::optional<int>) const {
  return plan_.Simulates(site) || softmax_.Wants(site);
}

bool SimulatedQuantizer::NeedsSurvey(Site site, std::optional<int>) const { return plan_.NeedsSurvey(site); }

RowChange SimulatedQuantizer::ChangeOf(const Rule& rule, const SiteBlock& block) const {
  if (!rule.options.prerotary) return {rule.options, block};
  return {rule.options, block, rotaries_.at(static_cast<size_t>(*block.layer)).get()};
}

void SimulatedQuantizer::Survey(const SiteBlock& block, int) {
  const Rule* rule = plan_.SimulatedAt(block.key());
  if (rule == nullptr || !tare::NeedsSurvey(*rule)) return;
  float absmax = 0, least = 0, most = 0;
  std::vector<float> of_rows;
  RowChange change = ChangeOf(*rule, block);
  std::vector<float> changed;
  for (int64_t r = 0; r < block.rows; ++r) {
    std::span<float> row = block.Row(r);
    float of_row = CheckedAbsmax(block, row, r, 0);
    if (change.Any()) {
      changed.assign(row.begin(), row.end());
      change.Make(r, changed);
      row = changed;
      of_row = AbsMax(row.data(), row.size());
    }
    of_rows.push_back(of_row);
    absmax = std::max(absmax, of_row);
    if (!HasOffset(rule->format) || row.empty()) continue;
    least = std::min(least, std::ranges::min(row)), most = std::max(most, std::ranges::max(row));
  }
  const Granularity::Kind kind = WideKind(*rule);
  maxima_.Add(PlaceOf(block, kind, rule), kind == Granularity::Kind::kHeads ? of_rows
                                          : HasOffset(rule->format)         ? std::vector{most, -least}
                                                                            : std::vector{absmax});
}

void SimulatedQuantizer::Quantize(const SiteBlock& block, const Rule& rule) {
  const bool zero_point = HasZeroPoint(rule), two_levels = HasTensorScale(rule);
  const bool surveyed = tare::NeedsSurvey(rule) && !two_levels, by_ends = surveyed && HasOffset(rule.format);
  const bool in_rows = Info(rule.format).block > 0 && rule.granularity.kind == Granularity::Kind::kRow;
  // Where blocks have scales of their own beside it.
  const float of_tensor = two_levels ? maxima_.At(PlaceOf(block, WideKind(rule), &rule)).front() : 1.0f;
  const bool by_heads = rule.granularity.kind == Granularity::Kind::kHeads;
  // Clips: one, or one per channel or row; or what lies farthest above and below 0; none: of the values at hand.
  std::vector<float> known;
  if (block.site == Site::kProbs && rule.granularity.kind == Granularity::Kind::kTensor) known = {1.0f};
  if (rule.options.static_scale) known = plan_.ClipAt(block.key());
  if (surveyed) known = maxima_.At(PlaceOf(block, rule.granularity.kind, &rule));
  if (known.size() > 1 && !by_heads && !by_ends && std::ssize(known) != block.first_columns)
    Fail("{}: got {} static scales, expected one, or one for each of {} channels; try tare stats again",
         TextOf(block.key()), known.size(), block.first_columns);
  const bool by_channel = rule.granularity.kind == Granularity::Kind::kChannel;
  TARE_CHECK(!by_channel || !known.empty() || block.first_row == 0);  // all tokens of the sequence
  ForEachGroup(block, rule.granularity, [&](const ScaleGroup& group) {
    const std::span<float> values = group.values;
    // The survey has looked at these values already.
    const auto at = static_cast<size_t>(by_heads ? group.row : group.column);
    const float absmax =
        surveyed ? known[known.size() == 1 ? 0 : at] : CheckedAbsmax(block, values, group.row, group.row_step);
    if (zero_point) return QuantizeWithZeroPoint(values, rule.format);
    if (in_rows) return RoundInBlocksOfRow(values, rule.format);
    if (by_ends) {
      const float ends[] = {-known[1], known[0]};
      return RoundBy(block, group, rule, std::max(known[0], known[1]), ends, of_tensor, see_group_);
    }
    if (rule.options.outliers) return QuantizeOthers(block, group, rule, of_tensor, see_group_);
    const float clip = known.empty()       ? DynamicClip(rule, values, absmax)
                       : known.size() == 1 ? known.front()
                                           : known[at];
    RoundBy(block, group, rule, clip, values, of_tensor, see_group_);
  });
}

void SimulatedQuantizer::Visit(const SiteBlock& block, int thread) {
  if (block.site == Site::kProbs) softmax_.WriteProbs(block, thread);
  if (const Rule* const rule = plan_.SimulatedAt(block.key())) Change(block, *rule);
  if (block.site == Site::kAttnLogits) softmax_.KeepLogits(block, thread);
}

void SimulatedQuantizer::Change(const SiteBlock& block, const Rule& rule) {
  RowChange change = ChangeOf(rule, block);
  if (change.Any()) {
    for (int64_t r = 0; r < block.rows; ++r) {
      CheckedAbsmax(block, block.Row(r), r, 0);
      change.Make(r, block.Row(r));
    }
  }
  const std::vector<float> before = rule.options.sketch ? CopyOf(block) : std::vector<float>();
  Quantize(block, rule);
  if (rule.options.sketch) AddSketches(block, before);
  for (int64_t r = 0; change.Any() && r < block.rows; ++r) change.Undo(r, block.Row(r));
  if (block.site == Site::kProbs && !rule.options.unnormalized) Normalise(block);
}

}  // namespace tare
