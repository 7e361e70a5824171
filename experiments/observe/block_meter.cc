// SPDX-License-Identifier: Apache-2.0
// ValueStore and BlockMeter: output and its skipped parts; channels, marked spans, output, maps, rows, columns, blocks.
#include "experiments/observe/full_observer.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/elementwise/rows.h"
#include "quant/base/widest_vectors.h"

namespace tare {
namespace {

// Numbers of sums in SumNames: per measured format, and for marked spans.
constexpr size_t kFormatSums = 4, kMarkSums = 3;

constexpr int64_t kRowGroup = 64;  // rows whose energies add in double before they join the exact sum

constexpr float kLargest = std::numeric_limits<float>::max();

bool HasColumns(const MeasuredFormat& format) { return format.granularity.kind == Granularity::Kind::kBlockChannel; }

// rows: the number of the last one, plus 1.
void Restart(RowMeasures& part, int64_t rows, size_t columns) {
  part.any = false;
  part.rows = part.values = 0;
  part.absmax = part.largest_row_norm = 0.0f;
  part.largest.reset();
  part.channel_absmax.assign(rows > 0 ? columns : 0, 0.0f);
  part.channel_energy.assign(static_cast<size_t>((rows + kRowGroup - 1) / kRowGroup) * columns, 0.0);
}

constexpr size_t kShares = kSparsityShares.size();

// Parts of the output by the smallest share that an entry is below; the last part is below none.
using Parts = std::array<std::vector<float>, kShares + 1>;

size_t PartOf(float magnitude, float largest) {
  size_t part = 0;
  while (part < kShares && magnitude >= static_cast<float>(kSparsityShares[part] * largest)) ++part;
  return part;
}

void AddKey(float weight, int64_t key, const ValueSlices& v, std::vector<float>& part) {
  for (int slice = 0; slice < v.Count(); ++slice) {
    const float* const x = v.slices[static_cast<size_t>(slice)] + key * v.width;
    float* const y = part.data() + slice * v.width;
    for (int i = 0; i < v.width; ++i) y[i] += weight * x[i];
  }
}

// ||parts 0 .. i|| / ||all parts|| for every share i; empty if one is not finite.
std::optional<std::array<double, kShares>> Errors(const Parts& parts) {
  std::array<double, kShares + 1> squares{};
  for (size_t i = 0; i < parts[0].size(); ++i) {
    double sum = 0.0;
    for (size_t part = 0; part <= kShares; ++part) {
      sum += parts[part][i];
      squares[part] += sum * sum;
    }
  }
  if (!std::ranges::all_of(squares, [](double x) { return std::isfinite(x); })) return std::nullopt;
  std::array<double, kShares> errors{};
  for (size_t i = 0; i < kShares && squares[kShares] > 0.0; ++i) errors[i] = std::sqrt(squares[i] / squares[kShares]);
  return errors;
}

}  // namespace

BlockMeter::BlockMeter(std::span<const MeasuredFormat> formats, const MarkedSpans& spans, const ValueStore& values,
                       const WideScales& scales, int64_t skip_first)
    : spans_(spans), values_(values), scales_(scales), skip_first_(skip_first) {
  for (const SiteInfo& info : kSites) {
    formats_.push_back(FormatsOf(info.site, formats));
    sums_of_site_.push_back(SumNames(info.site, NamesOf(formats)).size());
  }
}

void BlockMeter::MeasureChannels(int64_t r, std::span<const float> row) {
  RowMeasures& part = PartOf(r);
  double* const energy = &part.channel_energy[static_cast<size_t>(r / kRowGroup) * row.size()];
  float* const absmax = part.channel_absmax.data();
  InWidestVectors([&, x = row.data(), n = row.size()]() TARE_INTO_CALLER {
    for (size_t c = 0; c < n; ++c) {
      const float magnitude = std::fabs(x[c]);
      energy[c] += static_cast<double>(x[c]) * x[c];
      absmax[c] = magnitude > absmax[c] ? magnitude : absmax[c];
    }
  });
}

void BlockMeter::MeasureMarks(const SiteBlock& block, int64_t r, std::span<const float> row, double mass,
                              double* next) {
  const Marks* marks = spans_.Find(block.sequence);
  if (marks == nullptr || !marks->queries.Contains(block.first_row + r) || mass == 0.0) return;
  *next++ = 1.0;
  *next++ = MassOf(row, marks->answer, block.First(r)) / mass;
  *next++ = MassOf(row, marks->noise, block.First(r)) / mass;
}

void BlockMeter::MeasureOutput(const SiteBlock& block, int64_t r, std::span<const float> row, double* next) {
  if ((block.first_row + r) % kOutputStride != kOutputStride - 1) return;
  std::optional<ValueSlices> v = values_.Find(block);
  if (!v) return;
  for (int i = 0; i < v->Count(); ++i) v->slices[static_cast<size_t>(i)] += block.First(r) * v->width;
  const std::optional<SkippedOutput> skipped = MeasureSkipped(row, *v);
  if (!skipped) return;
  *next++ = 1.0;
  for (size_t i = 0; i < kSparsityShares.size(); ++i) {
    *next++ = skipped->entries[i];
    *next++ = skipped->blocks[i];
  }
}

void BlockMeter::MeasureMap(const SiteBlock& block, int64_t r, std::span<const float> row, double* sums) {
  double* next = sums + kBaseSums;
  if (block.site == Site::kProbs) {
    // Where a sink has the share 1 - total, the entropy is of p / total: -sum (p / total) ln (p / total).
    const double total = block.sink_shares == nullptr ? 1.0 : sums[kSumX];
    *next++ = total > 0.0 ? Entropy(row) / total + std::log(total) : 0.0;
    const float sink = block.First(r) == 0 ? row.front() : 0.0f;
    *next++ = sink;
    *next++ = block.first_row + r < kSinkTokens ? sink : 0.0f;
    *next++ = 0.0;  // sink_sequences: when the sequence is whole
    if (block.map == 1) first_map_.squares[static_cast<size_t>(r)] = sums[kSumX2];
  } else {
    const bool known = first_map_.layer == block.layer && first_map_.sequence == block.sequence &&
                       first_map_.first_row == block.first_row && std::ssize(first_map_.squares) == block.rows;
    const double first = known ? first_map_.squares[static_cast<size_t>(r)] : 0.0;
    *next++ = NegativeMass(row);
    *next++ = first > 0.0 ? std::sqrt(sums[kSumX2] / first) : 0.0;
    *next++ = first;
  }
  const Sparsity sparsity = MeasureSparsity(row);
  *next++ = static_cast<double>(sparsity.blocks);
  for (size_t i = 0; i < kSparsityShares.size(); ++i) {
    *next++ = static_cast<double>(sparsity.entries_under[i]);
    *next++ = static_cast<double>(sparsity.blocks_under[i]);
    *next++ = sparsity.entry_mass[i];
    *next++ = sparsity.block_mass[i];
  }
  MeasureMarks(block, r, row, sums[kSumMagnitude], next);
  MeasureOutput(block, r, row, next + kMarkSums);
}

// Sums that need every value of the row.
void BlockMeter::MeasureFinite(const SiteBlock& block, int64_t r, std::span<const float> row, double* sums) {
  const double norm = std::sqrt(sums[kSumX2]);
  sums[kSumRowNorm] = norm;
  RowMeasures& part = PartOf(r);
  part.largest_row_norm = std::max(part.largest_row_norm, static_cast<float>(norm));
  if (block.site == Site::kProbs || block.site == Site::kDifference) MeasureMap(block, r, row, sums);
  const std::vector<MeasuredFormat>& formats = formats_[static_cast<size_t>(block.site)];
  double* next = sums + measures_.sums - kFormatSums * formats.size();
  quantized_.resize(row.size());
  int64_t by_columns = 0;
  for (const MeasuredFormat& format : formats) {
    if (HasColumns(format)) {
      std::copy_n(&by_columns_[static_cast<size_t>(by_columns++ * block.rows + r) * row.size()], row.size(),
                  quantized_.begin());
    } else {
      QuantizeRow(format, block.site, clips_, row, quantized_);
    }
    // A code's value that f32 cannot hold counts as the largest that it can.
    for (float& v : quantized_) v = std::clamp(v, -kLargest, kLargest);
    const ErrorSums errors = SumErrors(row, quantized_);
    for (const double sum : {errors.error2, errors.error1, errors.product, errors.square}) *next++ = sum;
  }
  ++part.rows;
}

// A row with a value that is not finite is treated as zeros.
void BlockMeter::QuantizeColumns(const SiteBlock& block) {
  by_columns_.clear();
  for (const MeasuredFormat& format : formats_[static_cast<size_t>(block.site)]) {
    if (!HasColumns(format)) continue;
    const size_t begin = by_columns_.size();
    for (int64_t r = 0; r < block.rows; ++r) {
      const std::span<const float> row = block.Row(r);
      by_columns_.insert(by_columns_.end(), row.begin(), row.end());
      if (!std::isfinite(AbsMax(row.data(), row.size())))
        std::fill(by_columns_.end() - std::ssize(row), by_columns_.end(), 0.0f);
    }
    SiteBlock copy = block;
    copy.values = &by_columns_[begin];
    copy.stride = block.first_columns;
    QuantizeBlock(format, clips_, copy);
  }
}

void BlockMeter::MeasureRow(const SiteBlock& block, int64_t r) {
  if (!Counts(block, r)) return;
  RowMeasures& part = PartOf(r);
  part.any = true;
  std::span<const float> row = block.Row(r);
  double* const sums = &measures_.row_sums[static_cast<size_t>(r) * measures_.sums];
  PowerSums powers = SumPowers(row);
  size_t values = row.size();
  const bool finite = std::isfinite(powers.magnitude);
  if (!finite) {
    finite_.assign(row.begin(), row.end());
    for (float& v : finite_) {
      if (std::isfinite(v)) continue;
      v = 0.0f;
      --values;
    }
    row = finite_;
    powers = SumPowers(row);
  }
  sums[kSumX] = powers.x;
  sums[kSumX2] = powers.x2;
  sums[kSumX3] = powers.x3;
  sums[kSumX4] = powers.x4;
  sums[kSumMagnitude] = powers.magnitude;
  part.values += values;
  if (values == 0) return;
  const float absmax = AbsMax(row.data(), row.size());
  measures_.row_absmax[static_cast<size_t>(r)] = absmax;
  part.absmax = std::max(part.absmax, absmax);
  if (!part.largest || absmax > *part.largest) {
    for (const float v : block.Row(r)) {  // as shown: a zero in the place of NaN is no value
      if (std::isfinite(v) && (!part.largest || v > *part.largest)) part.largest = v;
    }
  }
  if (HasChannels(block.site)) MeasureChannels(r, row);
  if (finite) MeasureFinite(block, r, row, sums);
  const Moments moments = MomentsOf(block.Row(r), powers, values);
  const double kurtosis = moments.RowKurtosis();  // NaN: a row without spread
  if (finite && HasChannels(block.site) && !std::isnan(kurtosis)) sums[kSumRowKurtosis] = kurtosis;
  if (moments.centre == 0) return;
  measures_.centred.emplace_back(r, moments);
  std::fill_n(sums + kSumX, 4, 0.0);
}

const BlockMeasures& BlockMeter::Measure(const SiteBlock& block) {
  const auto rows = static_cast<size_t>(block.rows);
  const size_t columns = HasChannels(block.site) ? static_cast<size_t>(block.first_columns) : 0;
  BlockMeasures& m = measures_;
  m.first_rows = IsWeight(block.site) ? 0 : std::clamp<int64_t>(skip_first_ - block.first_row, 0, block.rows);
  Restart(m.first, m.first_rows, columns);
  Restart(m.rest, m.first_rows < block.rows ? block.rows : 0, columns);
  m.sums = sums_of_site_[static_cast<size_t>(block.site)];
  clips_ = scales_.Find(block);
  QuantizeColumns(block);
  m.row_sums.assign(rows * m.sums, 0.0);
  m.row_absmax.assign(rows, 0.0f);
  m.centred.clear();
  if (block.site == Site::kProbs && block.map == 1)
    first_map_ = {block.layer, block.sequence, block.first_row, std::vector<double>(rows)};
  for (int64_t r = 0; r < block.rows; ++r) MeasureRow(block, r);
  return measures_;
}

std::optional<SkippedOutput> MeasureSkipped(std::span<const float> row, const ValueSlices& v) {
  Parts entries, blocks;
  for (Parts* parts : {&entries, &blocks}) {
    for (std::vector<float>& part : *parts) part.assign(static_cast<size_t>(v.Count() * v.width), 0.0f);
  }
  const float largest = AbsMax(row.data(), row.size());
  for (size_t begin = 0; begin < row.size(); begin += kSparsityBlock) {
    const std::span<const float> block = row.subspan(begin, std::min<size_t>(kSparsityBlock, row.size() - begin));
    std::vector<float>& of_block = blocks[PartOf(AbsMax(block.data(), block.size()), largest)];
    for (size_t i = 0; i < block.size(); ++i) {
      const auto key = static_cast<int64_t>(begin + i);
      AddKey(block[i], key, v, entries[PartOf(std::fabs(block[i]), largest)]);
      AddKey(block[i], key, v, of_block);
    }
  }
  const auto of_entries = Errors(entries), of_blocks = Errors(blocks);
  if (!of_entries || !of_blocks) return std::nullopt;
  return SkippedOutput{*of_entries, *of_blocks};
}

bool ValueStore::Serves(Site site, std::optional<int> layer) const {
  if (!layer || static_cast<size_t>(*layer) >= heads_.size()) return false;
  const bool differential = heads_[static_cast<size_t>(*layer)].front().Differential();
  return site == (differential ? Site::kDifference : Site::kProbs);
}

void ValueStore::Keep(const SiteBlock& v) {
  Values values{.width = static_cast<int>(v.first_columns), .rows = {}};
  for (int64_t r = 0; r < v.rows; ++r) values.rows.insert(values.rows.end(), v.Row(r).begin(), v.Row(r).end());
  const std::lock_guard lock(mutex_);
  if (layer_ != v.layer) values_.clear();
  layer_ = v.layer;
  values_[{v.sequence, *v.head}] = std::move(values);
}

std::optional<ValueSlices> ValueStore::Find(const SiteBlock& map) const {
  if (!Serves(map.site, map.layer)) return std::nullopt;
  const std::lock_guard lock(mutex_);
  const OutputHead& head = heads_[static_cast<size_t>(*map.layer)][static_cast<size_t>(*map.head)];
  ValueSlices slices;
  for (int i = 0; i < head.VSlices(); ++i) {
    const auto found = values_.find({map.sequence, head.v[static_cast<size_t>(i)]});
    if (layer_ != map.layer || found == values_.end()) return std::nullopt;
    // A query sees no key beyond those that were shown.
    const int64_t keys = map.Columns(map.rows - 1);
    if (keys * found->second.width > std::ssize(found->second.rows)) return std::nullopt;
    slices.slices[static_cast<size_t>(i)] = found->second.rows.data();
    slices.width = found->second.width;
  }
  return slices;
}

}  // namespace tare
