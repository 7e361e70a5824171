// SPDX-License-Identifier: Apache-2.0
#include "experiments/model/layer.h"

#include <string>

namespace tare {
namespace {

LinearWeights LoadLinear(Weights& weights, const LinearLayer& layer, const ModelConfig& c) {
  const LinearPlace& place = *layer.place;
  const std::string name = layer.Tensor(c);
  const auto [out, in] = ShapeOf(place.weight, c);
  const WeightMatrix stored = weights.Matrix(name + ".weight", out, in);
  const bool biased = place.bias != nullptr && c.*place.bias;
  return {name + ".weight", stored, biased ? weights.Vector(name + ".bias", {out}) : std::vector<float>()};
}

}  // namespace

std::vector<float> Offset(std::vector<float> weight, float offset) {
  for (float& w : weight) w += offset;
  return weight;
}

LayerWeights LoadLayer(Weights& weights, const ModelConfig& c, int layer) {
  const Family& family = FamilyOf(c);
  LayerWeights w;
  for (const VectorPlace& place : family.vectors) {
    if (place.In(c, layer))
      w.vectors[place.tensor] =
          Offset(weights.Vector(LayerTensor(c, layer, place.tensor), place.shape(c)), family.norm_offset);
  }
  for (const LinearPlace& place : family.linear) {
    if (place.experts != nullptr) (w.*place.experts).resize(static_cast<size_t>(c.experts));
  }
  for (const LinearLayer& linear : LinearLayersOf(c, layer)) WeightsOf(w, linear) = LoadLinear(weights, linear, c);
  w.heads = family.heads(c);
  if (const int window = c.Window(layer); window > 0) w.mask = {Mask::Kind::kWindow, window};
  if (!c.causal) w.mask = {Mask::Kind::kFull};
  return w;
}

LambdaView LambdaOf(const LayerWeights& w) {
  return {.data = w.lambda.data(), .token_stride = 0, .head_stride = w.lambda.size() > 1 ? 1 : 0};
}

void ScanActivations::Prepare(int64_t rows, const ModelConfig& config) {
  if (config.scan_channels == 0) return;
  const int64_t C = config.scan_channels, W = config.Convolved(C), heads = config.scan_heads;
  GrowRows(mixed, rows, C + W + heads);
  for (AlignedBuffer<float>* buffer : {&u, &delta, &gate, &gated, &memory}) GrowRows(*buffer, rows, C);
  GrowRows(projected, rows, heads > 0 ? W : config.scan_rank + 2 * int64_t{config.scan_states});
  GrowRows(rank, rows, heads > 0 ? heads : config.scan_rank);
  for (AlignedBuffer<float>* buffer : {&b, &c}) GrowRows(*buffer, rows, config.ScanColumns());
  if (std::ranges::contains(config.kinds, LayerKind::kMambaPair)) GrowRows(second, rows, config.hidden);
}

void Activations::Prepare(const TokenBatch& batch, const ModelConfig& c) {
  const int64_t rows = batch.Rows(), q_width = int64_t{c.heads} * c.head_dim,
                kv_width = int64_t{c.kv_heads} * std::max(c.head_dim, c.ValueDim());
  GrowRows(x, rows, c.StreamWidth());
  for (AlignedBuffer<float>* buffer : {&normed, &delta}) GrowRows(*buffer, rows, c.hidden);
  GrowRows(q, rows, q_width);
  if (const int64_t gates = GateWidth(c); gates > 0) {
    if (c.q_rank == 0) GrowRows(q_and_gate, rows, c.heads * (c.head_dim + gates));
    GrowRows(attn_gate, rows, c.heads * gates);
  }
  GrowRows(attended, rows, AttendedWidth(c));
  for (AlignedBuffer<float>* buffer : {&k, &v}) GrowRows(*buffer, rows, kv_width);
  for (AlignedBuffer<float>* buffer : {&gate, &up}) GrowRows(*buffer, rows, std::max(c.DenseFfn(), c.shared_ffn));
  scan.Prepare(rows, c);
  positions.clear();
  lengths.clear();
  ForPieces(batch, [&](const AttentionSequence&, int slot, int64_t, int64_t position, int64_t tokens) {
    for (int64_t p = 0; p < tokens; ++p) positions.push_back(position + p);
    lengths.resize(positions.size(), batch.Length(static_cast<size_t>(slot)));
  });
}

void GrowRows(AlignedBuffer<float>& buffer, int64_t rows, int64_t columns) {
  const auto size = static_cast<size_t>(PaddedRows(rows) * columns);
  if (size <= buffer.size()) return;
  buffer.Reset(size);
  std::fill_n(buffer.data(), size, 0.0f);
}

}  // namespace tare
