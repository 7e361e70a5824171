// SPDX-License-Identifier: Apache-2.0
// Loading a checkpoint; running a layer, a stream or all layers; following a plan; codes in place of weights; logits.
#include "experiments/model/model.h"

#include <algorithm>
#include <cstring>

#include "experiments/model/config/family.h"
#include "experiments/model/decoder.h"
#include "experiments/text/utf8.h"
#include "quant/base/message.h"
#include "quant/base/parallel.h"

namespace tare {
namespace {

// Rows of vocabulary logits held at a time: 256 x 128k x 4 bytes = 128 MB at the largest vocabularies in use.
constexpr int64_t kLogitRows = 256;

void CheckLengths(const TokenBatch& batch, const ModelConfig& config) {
  for (size_t i = 0; i < batch.sequences.size(); ++i) {
    const AttentionSequence& s = batch.sequences[i];
    const int64_t tokens = batch.Length(i);
    if (const int most = std::max(config.max_positions, config.positions_reached); tokens > most)
      Fail("sequence {}: got {} tokens, expected at most max_position_embeddings {}", s.index, tokens, most);
    if (config.pools && tokens != config.max_positions)
      Fail("sequence {}: got {} tokens, expected the {} of a whole image; try --limit for fewer images", s.index,
           tokens, config.max_positions);
    if (!config.causal && tokens > config.positions_reached)
      Fail("sequence {}: got {} tokens, expected at most {}: windows in both directions are not supported", s.index,
           tokens, config.positions_reached);
    if (!config.causal && (!batch.caches.empty() || !s.branches.empty()))
      Fail(
          "sequence {}: got is_causal false in config.json, expected true to go on from tokens: each would see those "
          "after it; try perplexity, or tare stats",
          s.index);
    if (!batch.caches.empty() && batch.caches[i]->Outgrows(s.past + s.prefix))
      Fail("sequence {}: got token {} after keys that longrope turned for at most {}; try a cache that expects it",
           s.index, s.past + s.prefix, config.rotary.original_positions);
  }
}

ModelConfig FirstLayers(ModelConfig config, int layers) {
  if (layers > config.layers) FailUsage("--layers: got {}, expected at most {} of the model", layers, config.layers);
  if (layers > 0) config.layers = layers;
  return config;
}

// The last token of each sequence, for what is known of it alone.
TokenBatch LastTokens(const TokenBatch& batch) {
  TokenBatch last;
  for (const AttentionSequence& s : batch.sequences) {
    const int64_t before = s.prefix - 1;
    last.sequences.push_back({s.index, s.first_row + before, 1, {}, s.past + before});
  }
  return last;
}

}  // namespace

Model::Model(const std::filesystem::path& folder, WeightReading reading, Math math, const WeightMemory& memory,
             int layers)
    : folder_(folder),
      config_(FirstLayers(LoadConfig(folder), layers)),
      family_(FamilyOf(config_)),
      memory_(memory),
      projector_(math),
      weights_(folder, projector_, memory.converted, reading, layers > 0 ? Shards::kPresent : Shards::kAll),
      embedding_(weights_.Split(config_), config_),
      rotary_(config_.rotary, config_.head_dim),
      window_rotary_(config_.window_rotary.value_or(config_.rotary), config_.head_dim) {
  const int64_t V = config_.Outputs(), E = config_.hidden;
  const std::string embedding(family_.names.embedding), head(family_.names.head);
  final_norm_ = Offset(weights_.Vector(std::string(family_.names.final_norm), {E}), family_.norm_offset);
  if (const std::string bias(family_.names.final_norm_bias); !bias.empty())
    final_norm_bias_ = weights_.Vector(bias, {E});
  for (int layer = 0; layer < config_.layers; ++layer) layers_.push_back(family_.load(weights_, config_, layer));
  const std::string head_name(HeadTensor(config_));
  const WeightMatrix head_matrix = weights_.Matrix(head_name, V, E);
  const std::string head_bias(family_.names.head_bias);
  head_ =
      LinearWeights(head_name, head_matrix, head_bias.empty() ? std::vector<float>() : weights_.Vector(head_bias, {V}));
  if (config_.tied_embeddings && weights_.Has(head)) {
    if (!weights_.SameBytes(head, embedding))
      Fail(
          "{}: tensor '{}': got other values than those of '{}', which config.json ties to it; try "
          "\"tie_word_embeddings\": false there",
          folder.string(), head, embedding);
    weights_.Ignore(head);
  }
  weights_.CheckAllTaken(config_);
}

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
  family_.forward({config_, layers_[layer], batch, rotary, products_, visitors, attention, layer, activations_, part});
  // Codes that a single row reads at all are read at the next one again.
  if (batch.Rows() > 1) ReleaseWeights(layer, [&](const LinearWeights& w) { return w.MakesValues(math()); });
}

void Model::Prepare(const TokenBatch& batch, SiteVisitors visitors) {
  activations_.Prepare(batch, config_);
  const int64_t positions = *std::ranges::max_element(activations_.positions) + 1;
  rotary_.Reserve(positions);
  if (!config_.windows.empty()) window_rotary_.Reserve(positions);
  for (SiteVisitor* v : visitors) v->BeginBatch(static_cast<int64_t>(batch.sequences.size()));
}

// Streams begin alike. From the last row on, as copies lie where later rows were.
void Model::Embed(const TokenBatch& batch, SiteVisitors visitors) {
  const int64_t E = config_.hidden, n = config_.streams;
  float* const x = activations_.x.data();
  embedding_.Embed(batch, activations_.positions, projector_, x);
  ShowRows(visitors, Site::kEmbed, {}, batch, x, E);
  for (int64_t copy = batch.Rows() * n - 1; n > 1 && copy > 0; --copy) std::copy_n(x + copy / n * E, E, x + copy * E);
}

void Model::EmbedInto(const TokenBatch& batch, Stream& stream) {
  embedding_.CheckIds(batch);
  CheckLengths(batch, config_);
  activations_.Prepare(batch, config_);
  Embed(batch);
  stream.x.Reset(static_cast<size_t>(batch.Rows() * config_.StreamWidth()));
  std::copy_n(activations_.x.data(), stream.x.size(), stream.x.data());
}

// What later layers read stays with the stream, not with the next batch.
void Model::SwapShared(Stream& stream) {
  if (config_.kinds.empty()) return;
  std::swap(activations_.k, stream.k);
  std::swap(activations_.v, stream.v);
  std::swap(activations_.scan.memory, stream.memory);
}

void Model::RunLayer(const TokenBatch& batch, int layer, Stream& stream, SiteVisitors visitors, LayerPart* part) {
  ThrowIfStopped();
  SwapShared(stream);
  Prepare(batch, visitors);
  TARE_CHECK(stream.x.size() == static_cast<size_t>(batch.Rows() * config_.StreamWidth()));
  std::copy_n(stream.x.data(), stream.x.size(), activations_.x.data());
  Layer(batch, layer, visitors, part);
  std::copy_n(activations_.x.data(), stream.x.size(), stream.x.data());
  SwapShared(stream);
}

KeptStreams* Model::SharedBy(const TokenBatch& batch) const {
  return batch.caches.empty() && config_.kinds.empty() && images() == nullptr ? streams_ : nullptr;
}

void Model::Forward(const TokenBatch& batch, SiteVisitors visitors) {
  embedding_.CheckIds(batch);
  CheckLengths(batch, config_);
  Prepare(batch, visitors);
  const int64_t E = config_.hidden, width = config_.StreamWidth();
  float* x = activations_.x.data();
  const std::span<float> stream(x, static_cast<size_t>(batch.Rows() * width));

  KeptStreams* const kept = SharedBy(batch);
  const int first = kept == nullptr ? 0 : kept->Resume(batch, stream);
  if (first == 0) Embed(batch, visitors);
  for (int layer = first; layer < config_.layers; ++layer) {
    ThrowIfStopped();
    Layer(batch, layer, visitors);
    ShowRows(visitors, Site::kLayerOut, layer, batch, x, width);
    if (kept != nullptr) kept->Keep(batch, layer + 1, stream);
  }
  if (config_.pools) PoolPatches(batch);
  if (config_.streams > 1) MeanOfStreams(batch.Rows());
  const TokenBatch last = config_.pools ? LastTokens(batch) : TokenBatch();
  const TokenBatch& states = config_.pools ? last : batch;
  const LayerCall after{config_, layers_.back(), batch, rotary_, products_, visitors, nullptr, -1, activations_};
  final_norm_bias_.empty() ? NormRows(after, final_norm_) : LayerNormRows(after, final_norm_, final_norm_bias_);
  ShowRows(visitors, Site::kFinalNorm, {}, states, activations_.normed.data(), E);
  ShowRows(visitors, Site::kLmHeadIn, {}, states, activations_.normed.data(), E);
}

void Model::PoolPatches(const TokenBatch& batch) {
  const int64_t E = config_.hidden, P = config_.Patches();
  ParallelFor(batch.sequences.size(), [&](size_t i, int) {
    const AttentionSequence& s = batch.sequences[i];
    float* const last = activations_.x.data() + (s.first_row + s.prefix - 1) * E;
    for (const float* row = last - (P - 1) * E; row < last; row += E) AddTo(last, row, E);
    ScaleInto(last, 1.0f / static_cast<float>(P), E, last);
  });
}

// Row by row, as a mean lies where earlier rows were.
void Model::MeanOfStreams(int64_t rows) {
  const int64_t E = config_.hidden, n = config_.streams;
  float* const x = activations_.x.data();
  for (int64_t row = 0; row < rows; ++row) {
    float *const of = x + row * n * E, *const mean = x + row * E;
    for (int64_t stream = 1; stream < n; ++stream) AddTo(of, of + stream * E, E);
    ScaleInto(of, 1.0f / static_cast<float>(n), E, mean);
  }
}

Model::KeptOfLayers Model::KeptUnder(const ResolvedPlan& plan) const {
  const int64_t of_experts = int64_t{config_.layers} * config_.experts * config_.hidden * config_.ffn * 3;
  double rounded = 0;
  for (int layer = 0; layer < config_.layers; ++layer) {
    for (const LinearLayer& place : LinearLayersOf(config_, layer)) {
      const WeightMatrix& weight = WeightsOf(layers_[static_cast<size_t>(layer)], place).stored();
      if (!place.expert && LinearRules::Of(weight, place.WeightKey(), place.InputKey(), plan).RoundsValues())
        rounded += static_cast<double>(weight.out) * static_cast<double>(weight.in);
    }
  }
  const double bytes = rounded * static_cast<double>(ElementBytes(FactorType(math())));
  return {.experts = of_experts > memory_.converted ? Kept::kNothing : Kept::kCodesAndValues,
          .others = bytes > memory_.rounded ? Kept::kCodes : Kept::kCodesAndValues};
}

void Model::CarryOut(const Execution& execution, const PlanProgress& progress) {
  const ResolvedPlan& plan = execution.plan;
  attention_ = plan.attention();
  TARE_CHECK(attention_.empty() || attention_.size() == layers_.size());
  prompts_ = execution.prompts;
  streams_ = execution.streams;
  if (followed_ && followed_->carrying == plan.carrying() && followed_->plan.canonical() == plan.plan().canonical())
    return;
  followed_.reset();
  FollowPlan(plan, progress);
  if (plan.clips().empty()) followed_ = {plan.carrying(), plan.plan()};  // other clips may come with the same plan
}

void Model::FollowPlan(const ResolvedPlan& plan, const PlanProgress& progress) {
  // The head is often the largest matrix: first, so that what packing it takes for a while meets nothing packed.
  head_.Follow(LinearRules::Of(head_.stored(), {Site::kLmHeadW}, {Site::kLmHeadIn}, plan), Kept::kCodesAndValues,
               math());
  if (head_.Holds()) files().Release(std::string(HeadTensor(config_)));
  const KeptOfLayers kept = KeptUnder(plan);
  for (int layer = 0; layer < config_.layers; ++layer) {
    for (const LinearLayer& place : LinearLayersOf(config_, layer)) {
      LinearWeights& linear = WeightsOf(layers_[static_cast<size_t>(layer)], place);
      linear.Follow(LinearRules::Of(linear.stored(), place.WeightKey(), place.InputKey(), plan),
                    place.expert ? kept.experts : kept.others, math());
    }
    ReleaseWeights(layer, &LinearWeights::Holds);
    if (progress && !plan.plan().empty()) progress(layer + 1, config_.layers, "layers of weights");
  }
}

void Model::UseCodes(const LinearLayer& linear, const QuantizedMatrix& codes) {
  WeightsOf(layers_[static_cast<size_t>(linear.layer)], linear)
      .Replace(codes, linear.expert ? Kept::kNothing : Kept::kCodesAndValues, math());
  followed_.reset();
}

void Model::DropCodes(int layer) {
  for (const LinearLayer& linear : LinearLayersOf(config_, layer)) WeightsOf(layers_[layer], linear).Restore();
}

void Model::VocabularyLogits(std::span<const int64_t> rows,
                             const std::function<void(size_t i, const float* logits, int thread)>& body) {
  std::vector<const float*> states;
  for (const int64_t row : rows) states.push_back(FinalState(row));
  LogitsOf(states, body);
}

void Model::LogitsOf(std::span<const float* const> states,
                     const std::function<void(size_t i, const float* logits, int thread)>& body) {
  if (config_.headless)
    Fail(
        "{}: tensor '{}': missing, expected an LM head: a base model gives no probabilities; try stats, quantize or "
        "inspect",
        folder_.string(), family_.names.head);
  const int64_t E = config_.hidden, V = config_.Outputs();
  const auto most = std::min<int64_t>(kLogitRows, static_cast<int64_t>(states.size()));
  GrowRows(gathered_, most, E);
  logits_.Reserve(PaddedRows(most) * V);
  for (size_t begin = 0; begin < states.size(); begin += kLogitRows) {
    const size_t count = std::min<size_t>(kLogitRows, states.size() - begin);
    for (size_t i = 0; i < count; ++i) std::memcpy(gathered_.data() + i * E, states[begin + i], E * sizeof(float));
    const LinearProduct product{head_, logits_.data()};
    products_.Project(gathered_.data(), static_cast<int64_t>(count), {&product, 1});
    ParallelFor(count, [&](size_t i, int thread) {
      float* const logits = logits_.data() + i * V;
      if (config_.logit_divisor != 1) ScaleInto(logits, 1 / config_.logit_divisor, V, logits);
      if (config_.logit_cap) SoftCap(logits, *config_.logit_cap, V);
      body(begin + i, logits, thread);
    });
  }
}

}  // namespace tare
