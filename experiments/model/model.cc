// SPDX-License-Identifier: Apache-2.0
#include "experiments/model/model.h"

#include <algorithm>
#include <cstring>

#include "experiments/model/config/family.h"
#include "experiments/model/config/read_config.h"
#include "experiments/model/kept_streams.h"
#include "experiments/model/packed_file.h"
#include "experiments/model/seen_projection.h"
#include "experiments/model/show_sites.h"
#include "experiments/model/write_packed.h"
#include "experiments/text/utf8.h"
#include "quant/base/error.h"
#include "quant/base/formatted.h"
#include "quant/base/interrupt.h"
#include "quant/base/memory.h"
#include "quant/base/parallel.h"

namespace tare {
namespace {

// Rows of vocabulary logits held at a time: 256 x 128k x 4 bytes = 128 MB at the largest vocabularies in use.
constexpr int64_t kLogitRows = 256;

// y [rows, W.out] = x W^T of a W without data, which is made a part of its rows at a time: the head may be as large as
// all other weights together.
void ProjectInParts(Projector& projector, const WeightMatrix& weight, const float* x, int64_t rows, float* y) {
  constexpr int64_t kPart = 4096;  // rows of W: 32 MB in f32 of 2048 inputs
  AlignedBuffer<char> memory;
  AlignedBuffer<float> part;  // [PaddedRows(rows), count]
  part.Reserve(static_cast<size_t>(PaddedRows(rows) * std::min(kPart, weight.out)));
  for (int64_t first = 0; first < weight.out; first += kPart) {
    const int64_t count = std::min(kPart, weight.out - first);
    const WeightType type = projector.math() == Math::kBf16 ? WeightType::kBf16 : WeightType::kF32;
    const WeightMatrix made = FillMatrix(memory, type, count, weight.in,
                                         [&](int64_t row, float* values) { RowAsFloat(weight, first + row, values); });
    const Projection projection{.weight = made, .y = part.data()};
    projector.Project(x, rows, {&projection, 1});
    for (int64_t row = 0; row < rows; ++row)
      std::copy_n(part.data() + row * count, count, y + row * weight.out + first);
  }
}

void CheckLengths(const TokenBatch& batch, const ModelConfig& config) {
  for (size_t i = 0; i < batch.sequences.size(); ++i) {
    const AttentionSequence& s = batch.sequences[i];
    const int64_t tokens = batch.Length(i);
    if (tokens > config.max_positions)
      Fail("sequence {}: got {} tokens, expected at most max_position_embeddings {}", s.index, tokens,
           config.max_positions);
    if (!batch.caches.empty() && batch.caches[i]->Outgrows(s.past + s.prefix))
      Fail("sequence {}: got token {} after keys that longrope turned for at most {}; try a cache that expects it",
           s.index, s.past + s.prefix, config.rotary.original_positions);
  }
}

}  // namespace

Model::Model(const std::filesystem::path& folder, WeightReading reading, Math math, int64_t most_kept)
    : folder_(folder),
      config_(LoadConfig(folder)),
      family_(FamilyOf(config_)),
      projector_(math),
      most_kept_(most_kept),
      weights_(folder, projector_, most_kept, reading),
      embedding_(weights_.Split(config_), config_),
      rotary_(config_.rotary, config_.head_dim),
      window_rotary_(config_.window_rotary.value_or(config_.rotary), config_.head_dim) {
  const int64_t V = config_.Outputs(), E = config_.hidden;
  const std::string embedding(family_.names.embedding), head(family_.names.head);
  final_norm_ = Offset(weights_.Vector(std::string(family_.names.final_norm), {E}), family_.norm_offset);
  if (const std::string bias(family_.names.final_norm_bias); !bias.empty())
    final_norm_bias_ = weights_.Vector(bias, {E});
  for (int layer = 0; layer < config_.layers; ++layer) layers_.push_back(family_.load(weights_, config_, layer));
  head_.weight = weights_.Matrix(std::string(HeadTensor(config_)), V, E);
  if (config_.tied_embeddings && weights_.SameBytes(head, embedding)) weights_.Ignore(head);
  weights_.CheckAllTaken();
}

Model::Model(const std::filesystem::path& folder, Math math, int64_t most_kept)
    : Model(folder, WeightReading::kWhole, math, most_kept) {}

Stream::Stream(const Stream& other) {
  const auto copy = [](const AlignedBuffer<float>& from, AlignedBuffer<float>& to) {
    to.Reset(from.size());
    std::ranges::copy(from.span(), to.data());
  };
  copy(other.x, x), copy(other.k, k), copy(other.v, v), copy(other.memory, memory);
}

std::string ModelName(const std::filesystem::path& folder) {
  std::string name = std::filesystem::weakly_canonical(folder).filename().string();
  RequireUtf8(name, folder.string() + ": the folder's name");
  return name;
}

void Model::ReleaseWeights(int layer, const std::function<bool(const LinearWeights&)>& released) const {
  for (const LinearLayer& linear : LinearLayersOf(config_, layer)) {
    if (released(WeightsOf(layers_[static_cast<size_t>(layer)], linear)))
      files().Release(linear.Tensor(config_) + ".weight");
  }
}

void Model::Layer(const TokenBatch& batch, int layer, SiteVisitors visitors, LayerPart* part) {
  const auto& plans = batch.caches.empty() ? attention_ : prompts_;
  const ExecutedPlan* attention = plans.empty() || !plans[layer].has_value() ? nullptr : &*plans[layer];
  const RotaryTable& rotary = config_.Window(layer) > 0 ? window_rotary_ : rotary_;
  family_.forward({config_, layers_[layer], batch, rotary, projector_, visitors, attention, layer, activations_, part});
  // Codes that a single row reads at all are read at the next one again.
  if (batch.Rows() > 1)
    ReleaseWeights(layer, [&](const LinearWeights& w) { return IsMadeForCalls(w.Float(), math()); });
}

void Model::ReserveRotary() {
  const int64_t positions = *std::ranges::max_element(activations_.positions) + 1;
  rotary_.Reserve(positions);
  if (!config_.windows.empty()) window_rotary_.Reserve(positions);
}

void Model::EmbedInto(const TokenBatch& batch, Stream& stream) {
  embedding_.CheckIds(batch);
  CheckLengths(batch, config_);
  activations_.Prepare(batch, config_);
  embedding_.Embed(batch, activations_.positions, projector_, activations_.x.data());
  stream.x.Reset(static_cast<size_t>(batch.Rows() * config_.hidden));
  std::copy_n(activations_.x.data(), stream.x.size(), stream.x.data());
}

// What later layers read stays with the stream, not with the next batch.
void Model::SwapShared(Stream& stream) {
  if (config_.kinds.empty()) return;
  std::swap(activations_.k, stream.k);
  std::swap(activations_.v, stream.v);
  std::swap(activations_.scan.memory, stream.memory);
}

void Model::RunLayer(const TokenBatch& batch, int layer, Stream& stream, SiteVisitors visitors) {
  RunLayer(batch, layer, stream, visitors, nullptr);
}

void Model::RunLayer(const TokenBatch& batch, int layer, Stream& stream, SiteVisitors visitors, LayerPart* part) {
  ThrowIfStopped();
  SwapShared(stream);
  activations_.Prepare(batch, config_);
  ReserveRotary();
  for (SiteVisitor* v : visitors) v->BeginBatch(static_cast<int64_t>(batch.sequences.size()));
  TARE_CHECK(stream.x.size() == static_cast<size_t>(batch.Rows() * config_.hidden));
  std::copy_n(stream.x.data(), stream.x.size(), activations_.x.data());
  Layer(batch, layer, visitors, part);
  std::copy_n(activations_.x.data(), stream.x.size(), stream.x.data());
  SwapShared(stream);
}

KeptStreams* Model::SharedBy(const TokenBatch& batch) const {
  return batch.caches.empty() && config_.kinds.empty() && images() == nullptr ? kept_ : nullptr;
}

void Model::Forward(const TokenBatch& batch, SiteVisitors visitors) {
  embedding_.CheckIds(batch);
  CheckLengths(batch, config_);
  activations_.Prepare(batch, config_);
  ReserveRotary();
  for (SiteVisitor* v : visitors) v->BeginBatch(static_cast<int64_t>(batch.sequences.size()));
  const int64_t E = config_.hidden;
  float* x = activations_.x.data();
  const std::span<float> stream(x, static_cast<size_t>(batch.Rows() * E));

  KeptStreams* const kept = SharedBy(batch);
  const int first = kept == nullptr ? 0 : kept->Resume(batch, stream);
  if (first == 0) {
    embedding_.Embed(batch, activations_.positions, projector_, x);
    ShowRows(visitors, Site::kEmbed, {}, batch, x, E);
  }
  for (int layer = first; layer < config_.layers; ++layer) {
    ThrowIfStopped();
    Layer(batch, layer, visitors);
    ShowRows(visitors, Site::kLayerOut, layer, batch, x, E);
    if (kept != nullptr) kept->Keep(batch, layer + 1, stream);
  }
  const LayerCall after{config_, layers_.back(), batch, rotary_, projector_, visitors, nullptr, -1, activations_};
  if (final_norm_bias_.empty()) {
    NormRows(after, final_norm_);
  } else {
    LayerNormRows(after, final_norm_, final_norm_bias_);
  }
  ShowRows(visitors, Site::kFinalNorm, {}, batch, activations_.normed.data(), E);
  ShowRows(visitors, Site::kLmHeadIn, {}, batch, activations_.normed.data(), E);
}

void Model::KeepRounded(double bytes) {
  most_rounded_ = bytes;
  planned_.clear();
}

RoundedCopies Model::RoundedUnder(const ResolvedPlan& plan) const {
  double values = 0;
  for (int layer = 0; layer < config_.layers; ++layer) {
    for (const LinearLayer& place : LinearLayersOf(config_, layer)) {
      const WeightMatrix& weight = WeightsOf(layers_[static_cast<size_t>(layer)], place).weight;
      if (!place.expert && LinearRules::Of(weight, place.WeightKey(), place.InputKey(), plan).RoundsInFloat())
        values += static_cast<double>(weight.out) * static_cast<double>(weight.in);
    }
  }
  return values * (math() == Math::kBf16 ? 2 : 4) > most_rounded_ ? RoundedCopies::kMadeForProducts
                                                                  : RoundedCopies::kKept;
}

void Model::KeepPackedIn(std::filesystem::path file, PackedFileIs is) {
  packed_path_ = std::move(file);
  packed_is_ = is;
}

std::shared_ptr<const PackedFile> Model::OpenPacked(const ResolvedPlan& plan, const PlanProgress& progress) {
  std::string rules;  // of weights, which alone decide about packed codes
  for (const Rule& rule : plan.plan().rules()) {
    if (IsWeight(rule.sites.front())) rules += (rules.empty() ? "" : ",") + rule.text;
  }
  const PackedSource source{files().ContentHash(), files().ConfigHash(), rules, math() == Math::kBf16 ? "bf16" : "f32"};
  if (packed_file_ != nullptr && packed_file_->source() == source) return packed_file_;
  // Where the model was not read whole, as the file was there, nothing vouches for weights that would be packed now.
  if (packed_is_ == PackedFileIs::kMade) WritePacked(packed_path_, source, *this, plan, progress);
  packed_is_ = PackedFileIs::kRead;
  return std::make_shared<const PackedFile>(packed_path_, source);
}

void Model::CarryOut(const ResolvedPlan& plan, const PlanProgress& progress) {
  attention_ = plan.attention();
  TARE_CHECK(attention_.empty() || attention_.size() == layers_.size());
  std::string planned = Formatted("{} {}", plan.carrying() == Carrying::kExecuted, plan.plan().canonical());
  if (planned == planned_) return;
  planned_.clear();
  const bool stored = !packed_path_.empty() && plan.carrying() == Carrying::kExecuted;
  // The file before stays open as long as matrices may be of it.
  const std::shared_ptr<const PackedFile> packed = stored ? OpenPacked(plan, progress) : nullptr;
  const Planning planning{plan, projector_.math(), most_kept_, RoundedUnder(plan), packed.get()};
  // The head is often the largest matrix: first, so that what packing it takes for a while meets nothing packed.
  const std::string head(HeadTensor(config_));
  head_.planned =
      PlannedLinear::Of(head_.weight, LinearRules::Of(head_.weight, {Site::kLmHeadW}, {Site::kLmHeadIn}, plan),
                        planning.math, RoundedCopies::kKept, stored ? packed->Find(head) : std::nullopt);
  if (head_.planned != nullptr) files().Release(head);
  for (int layer = 0; layer < config_.layers; ++layer) {
    PlanLayer(layers_[layer], config_, layer, planning);
    ReleaseWeights(layer, [](const LinearWeights& linear) { return linear.planned != nullptr; });
    const std::vector<LinearLayer> linear = LinearLayersOf(config_, layer);
    const auto is_packed = [&](const LinearLayer& place) {
      const PlannedLinear* const of = WeightsOf(layers_[static_cast<size_t>(layer)], place).planned.get();
      return of != nullptr && of->packed.has_value();
    };
    if (std::ranges::any_of(linear, is_packed)) ReturnFreedMemory();  // of the codes before they were packed
    if (progress && !plan.plan().empty()) progress(layer + 1, config_.layers, "layers of weights");
  }
  packed_file_ = packed;
  if (plan.clips().empty()) planned_ = std::move(planned);  // other clips may come with the same plan
}

void Model::UseCodes(const LinearLayer& linear, const QuantizedMatrix& codes) {
  LinearWeights& weights = WeightsOf(layers_[static_cast<size_t>(linear.layer)], linear);
  weights.when_used.reset();
  std::unique_ptr<PlannedLinear>& planned = weights.planned;
  if (linear.expert) {
    planned = std::make_unique<PlannedLinear>();
    planned->dequantized = {.out = codes.out, .in = codes.in, .quantized = &codes};
  } else {
    planned = PlannedLinear::Dequantized(codes, projector_.math(), TextOf(linear.WeightKey()));
  }
  planned_ = "codes";  // of no plan
}

void Model::DropCodes(int layer) {
  for (const LinearLayer& linear : LinearLayersOf(config_, layer)) WeightsOf(layers_[layer], linear).planned.reset();
}

// logits_ of gathered_.
void Model::ProjectHead(int64_t rows) {
  const PlannedLinear* planned = head_.planned.get();
  if (CodesServe(planned, head_, rows, math())) {
    const QuantizedProjection projection{&*planned->packed, nullptr, logits_.data()};
    const float* const x = planned->Inputs(gathered_.data(), rows, activations_.own_inputs);
    if (!planned->activation) return activations_.one_token.Project(x, rows, {&projection, 1});
    activations_.quantized.Project(x, rows, *planned->activation, {&projection, 1});
  } else if (IsMadeForCalls(head_.Float(), math()) && (rows > 1 || head_.Float().data == nullptr)) {
    ProjectInParts(projector_, head_.Float(), gathered_.data(), rows, logits_.data());
  } else {
    const Projection projection{.weight = head_.Float(), .y = logits_.data()};
    projector_.Project(gathered_.data(), rows, {&projection, 1});
  }
}

void Model::VocabularyLogits(std::span<const int64_t> rows,
                             const std::function<void(size_t i, const float* logits, int thread)>& body) {
  std::vector<const float*> states;
  for (const int64_t row : rows) states.push_back(FinalState(row));
  LogitsOf(states, body);
}

void Model::LogitsOf(std::span<const float* const> states,
                     const std::function<void(size_t i, const float* logits, int thread)>& body) {
  const int64_t E = config_.hidden, V = config_.Outputs();
  const auto most = std::min<int64_t>(kLogitRows, static_cast<int64_t>(states.size()));
  if (gathered_.size() < static_cast<size_t>(PaddedRows(most) * E)) {
    gathered_.Reset(PaddedRows(most) * E);
    std::fill_n(gathered_.data(), gathered_.size(), 0.0f);
  }
  logits_.Reserve(PaddedRows(most) * V);
  for (size_t begin = 0; begin < states.size(); begin += kLogitRows) {
    const size_t count = std::min<size_t>(kLogitRows, states.size() - begin);
    for (size_t i = 0; i < count; ++i) std::memcpy(gathered_.data() + i * E, states[begin + i], E * sizeof(float));
    ProjectHead(static_cast<int64_t>(count));
    ParallelFor(count, [&](size_t i, int thread) {
      float* const logits = logits_.data() + i * V;
      if (config_.logit_divisor != 1) ScaleInto(logits, 1 / config_.logit_divisor, V, logits);
      if (config_.logit_cap) SoftCap(logits, *config_.logit_cap, V);
      body(begin + i, logits, thread);
    });
  }
}

}  // namespace tare
