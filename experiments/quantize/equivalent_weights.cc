// SPDX-License-Identifier: Apache-2.0
#include "experiments/quantize/equivalent_weights.h"

#include <algorithm>
#include <array>
#include <set>

#include "experiments/model/linear/weights.h"
#include "experiments/quantize/calibration/calibration_pass.h"
#include "experiments/quantize/provenance.h"
#include "quant/base/aligned.h"
#include "quant/base/message.h"
#include "quant/base/parallel.h"
#include "quant/file/json.h"
#include "quant/format/round.h"

namespace tare {
namespace {

std::vector<float> Values(const TensorView& tensor) {
  const WeightMatrix column = StoredMatrix(tensor, "tensor '" + tensor.name + "'");
  std::vector<float> values(static_cast<size_t>(column.out));
  RowsAsFloat(column, 0, column.out, values.data(), "weights");
  return values;
}

std::vector<float> Inverse(const std::vector<float>& values) {
  return values | std::views::transform([](float x) { return 1 / x; }) | std::ranges::to<std::vector>();
}

// A layer's tensors by their names in the family's record.
class LayerChanges {
 public:
  LayerChanges(EquivalentWeights& weights, const Checkpoint& files, const ModelConfig& config, int layer)
      : changes_(weights.changes), files_(files), config_(config), layer_(layer) {}

  std::string Name(std::string_view tensor) const { return LayerTensor(config_, layer_, tensor); }
  TensorChange& Of(std::string_view tensor) { return Named(Name(tensor)); }
  std::vector<LinearLayer> linear() const { return LinearLayersOf(config_, layer_); }
  const LinearPlace& Place(Site weight) const {
    return *std::ranges::find(FamilyOf(config_).linear, weight, &LinearPlace::weight);
  }
  TensorChange& Weight(const LinearLayer& linear) { return Named(linear.Tensor(config_) + ".weight"); }
  TensorChange& Weight(Site weight) { return Weight(LinearLayer{&Place(weight), layer_, std::nullopt}); }
  // Small matrices that multiply what the norm makes, too: a router's.
  std::vector<TensorChange*> Readers(std::string_view norm) {
    std::vector<TensorChange*> readers;
    for (const LinearLayer& one : linear()) {
      if (one.place->norm == norm) readers.push_back(&Weight(one));
    }
    for (const VectorPlace& place : FamilyOf(config_).vectors) {
      if (place.norm == norm && place.In(config_, layer_)) readers.push_back(&Of(place.tensor));
    }
    return readers;
  }
  // The name of a norm's bias; empty: it has none.
  std::string BiasOf(std::string_view norm) const {
    const std::string bias = std::string(norm.substr(0, norm.rfind('.'))) + ".bias";
    return std::ranges::contains(FamilyOf(config_).vectors, bias, &VectorPlace::tensor) ? Name(bias) : "";
  }
  TensorChange& Named(const std::string& name) {
    TensorChange& change = changes_[name];
    change.source = name;
    return change;
  }
  bool Has(Site site) const { return HasSite(site, config_, layer_); }
  // The head norm's weight goes into o_proj.
  void MoveHeadNorm() {
    const std::string_view norm = FamilyOf(config_).head_norm;
    if (norm.empty()) return;
    const std::vector<float> weight = Values(*files_.Find(Name(norm)));
    std::vector<float>& scale = Weight(Site::kOProjW).in_scale;
    for (const int64_t channel : FactorOf(Site::kOProjIn, ShapeOf(Site::kOProjW, config_).in, config_))
      scale.push_back(weight[channel]);
    Of(norm).ones = true;
  }
  // Divides what this input, which no norm of the stream makes, is linear in.
  void DivideBefore(Site input, const std::vector<float>& s) {
    const std::string_view norm = FamilyOf(config_).head_norm;
    if (input == Site::kOProjIn && !norm.empty()) {
      Of(norm).out_scale = Inverse(s);
      return;
    }
    TARE_CHECK(input == Site::kOProjIn || input == Site::kDownProjIn || input == Site::kMambaDtProjIn);
    const Site before = input == Site::kOProjIn      ? Site::kVProjW
                        : input == Site::kDownProjIn ? Site::kUpProjW
                                                     : Site::kMambaXProjW;
    std::vector<float>& rows = Weight(before).out_scale;
    rows = Inverse(s);
    rows.resize(static_cast<size_t>(ShapeOf(before, config_).out), 1.0f);  // x_proj's others make B and C
    AlsoBias(before);
  }
  // What the output side of a projection does, its bias does too.
  void AlsoBias(Site site) { AlsoBias(LinearLayer{&Place(site), layer_, std::nullopt}); }
  void AlsoBias(const LinearLayer& linear) {
    const std::string name = linear.Tensor(config_) + ".bias";
    if (!files_.Has(name)) return;
    const TensorChange& weight = Weight(linear);
    TensorChange& bias = Named(name);
    bias.out_scale = weight.out_scale;
    bias.out = weight.out;
    bias.out_order = weight.out_order;
  }

 private:
  std::map<std::string, TensorChange>& changes_;
  const Checkpoint& files_;
  const ModelConfig& config_;
  int layer_;
};

// A turned stream's norm weight goes into its readers; a bias stays, divided by that weight and turned like the stream.
void MoveWeight(EquivalentWeights& w, const Checkpoint& files, const std::string& norm, const std::string& bias,
                const std::vector<TensorChange*>& readers, const std::shared_ptr<const ChannelRotation>& stream) {
  const std::vector<float> weight = Values(*files.Find(norm));
  for (TensorChange* const reader : readers) reader->in_scale = weight, reader->in = stream;
  w.changes[norm] = {.source = norm, .ones = true};
  if (bias.empty()) return;
  const std::vector<float> inverse = Inverse(weight);
  std::vector<float> moved = Values(*files.Find(bias));
  for (size_t i = 0; i < moved.size(); ++i) moved[i] *= inverse[i];
  if (const auto bad = FirstNotFinite(moved))
    Fail(
        "hadamard, tensor '{}': got {} at index {}, expected weights by which the norm's bias can be divided; try "
        "another method",
        norm, weight[*bad], *bad);
  w.changes[bias] = {.source = bias, .out_scale = inverse, .out = stream};
}

// Consecutive blocks of inputs.
void TurnInputs(const ChannelRotation& rotation, int64_t out, int64_t in, float* w) {
  TARE_CHECK(in % rotation.size() == 0);
  ParallelFor(static_cast<size_t>(out), [&](int64_t row, int) {
    float* values = w + row * in;
    for (int64_t i = 0; i < in; i += rotation.size()) rotation.Rotate(values + i, values + i);
  });
}

// Blocks of outputs, consecutive in `order`; sixteen columns at a time, which share cache lines.
void TurnOutputs(const ChannelRotation& rotation, const std::vector<int64_t>& order, int64_t out, int64_t in,
                 float* w) {
  constexpr int64_t kColumns = 16;
  const int64_t block = rotation.size();
  TARE_CHECK(out % block == 0);
  ParallelForBlocks(in, kColumns, [&](int64_t first, int64_t count) {
    thread_local std::vector<float> columns;
    columns.resize(static_cast<size_t>(kColumns * block));
    for (int64_t begin = 0; begin < out; begin += block) {
      const auto row = [&](int64_t o) { return w + (order.empty() ? begin + o : order[begin + o]) * in + first; };
      for (int64_t o = 0; o < block; ++o) {
        for (int64_t c = 0; c < count; ++c) columns[c * block + o] = row(o)[c];
      }
      for (int64_t c = 0; c < count; ++c) rotation.Rotate(columns.data() + c * block, columns.data() + c * block);
      for (int64_t o = 0; o < block; ++o) {
        for (int64_t c = 0; c < count; ++c) row(o)[c] = columns[c * block + o];
      }
    }
  });
}

// [out, in] in f32.
AlignedBuffer<float> Changed(const WeightMatrix& stored, const TensorChange& change) {
  AlignedBuffer<float> w(static_cast<size_t>(stored.out * stored.in));
  ParallelFor(static_cast<size_t>(stored.out), [&](int64_t row, int) {
    float* values = w.data() + row * stored.in;
    RowAsFloat(stored, row, values);
    const float by_row = change.out_scale.empty() ? 1.0f : change.out_scale[row];
    for (int64_t i = 0; i < stored.in; ++i) {
      if (change.ones) values[i] = 1;
      const float by = (change.in_scale.empty() ? 1.0f : change.in_scale[i]) * by_row;
      values[i] = (values[i] + change.offset) * by - change.offset;
    }
  });
  if (change.in != nullptr) TurnInputs(*change.in, stored.out, stored.in, w.data());
  if (change.out != nullptr) TurnOutputs(*change.out, change.out_order, stored.out, stored.in, w.data());
  return w;
}

// In a layer that makes values, and in one that reads them, its own or an earlier layer's.
void TurnValues(LayerChanges& of, const ValueBlocks& values, const std::shared_ptr<const ChannelRotation>& turn) {
  if (of.Has(Site::kVProjW)) {
    of.Weight(Site::kVProjW).out = turn;
    of.Weight(Site::kVProjW).out_order = values.order;
    of.AlsoBias(Site::kVProjW);
  }
  if (!of.Has(Site::kOProjW)) return;
  of.Weight(Site::kOProjW).in = turn;
  of.MoveHeadNorm();
}

}  // namespace

void RequireScaledInputs(const Family& family, std::string_view method) {
  if (family.smoothed.empty())
    Fail("{}: got {} model, whose inputs cannot be scaled; try another method", method, WithArticle(family.name));
}

std::vector<int64_t> FactorOf(Site site, int64_t channels, const ModelConfig& config) {
  if (site != Site::kOProjIn) return std::views::iota(int64_t{0}, channels) | std::ranges::to<std::vector>();
  std::vector<int64_t> factor;
  const bool of_norm = !FamilyOf(config).head_norm.empty();
  for (const OutputHead& head : HeadTable(config)) {
    const int64_t first = of_norm ? 0 : head.v[0], slices = of_norm ? head.VSlices() : 1;
    for (int64_t c = 0; c < slices * config.head_dim; ++c) factor.push_back(first * config.head_dim + c);
  }
  return factor;
}

std::string ConfigOf(const std::filesystem::path& model) {
  const std::optional<std::string> text = ModelConfigText(model);
  TARE_CHECK(text.has_value());
  return *text;
}

std::string UntiedConfigOf(const std::filesystem::path& model) {
  auto config = ParseOrderedJson(ConfigOf(model), (model / "config.json").string());
  config["tie_word_embeddings"] = false;
  return config.dump(2) + "\n";
}

bool ReadsStream(const LinearLayer& linear) { return !linear.place->norm.empty(); }

bool WritesStream(const LinearLayer& linear) {
  constexpr std::array kWriters{Site::kOProjW, Site::kDownProjW, Site::kExpertsDownW, Site::kMambaOutProjW,
                                Site::kGmuOutProjW};
  return std::ranges::contains(kWriters, linear.place->weight);
}

void RequireRotation(const Family& family, std::string_view method) {
  if (family.rotation == Rotation::kNone)
    Fail(
        "{}: got {} model, expected one whose residual stream is written by linear layers alone and read through "
        "norms, so that it can be rotated; try another method",
        method, WithArticle(family.name));
}

ValueBlocks RotatedValues(const ModelConfig& config) {
  if (FamilyOf(config).rotation != Rotation::kStreamAndValues) return {};
  const std::vector<OutputHead> heads = HeadTable(config);
  std::set<std::array<int, 2>> slices;  // of an output head; several share them
  for (const OutputHead& head : heads) slices.insert(head.v);
  ValueBlocks blocks{.size = int64_t{heads.front().VSlices()} * config.head_dim};
  for (const std::array<int, 2>& pair : slices) {
    for (const int slice : pair) {
      for (int c = 0; slice != kNoMap && c < config.head_dim; ++c)
        blocks.order.push_back(int64_t{slice} * config.head_dim + c);
    }
  }
  const bool fixed_pairs = std::ssize(blocks.order) == int64_t{config.kv_heads} * config.head_dim;
  return fixed_pairs ? blocks : ValueBlocks{};
}

EquivalentWeights Rotated(const Checkpoint& files, const ModelConfig& c, uint64_t seed,
                          const LearnedRotations& learned) {
  const Family& family = FamilyOf(c);
  RequireRotation(family, "hadamard");
  const Hadamard first(c.hidden, seed);
  const auto stream = std::make_shared<const ChannelRotation>(family.centres ? ChannelRotation::KeepingTheMean(first)
                                                                             : ChannelRotation(first, learned.stream));
  const std::string embedding(family.names.embedding), head(family.names.head), norm(family.names.final_norm);
  const ValueBlocks values = RotatedValues(c);
  EquivalentWeights w{.unties = c.tied_embeddings};
  w.changes[embedding] = {.source = embedding, .in = stream};
  w.changes[head] = {.source = std::string(HeadTensor(c))};
  MoveWeight(w, files, norm, std::string(family.names.final_norm_bias), {&w.changes[head]}, stream);
  for (int layer = 0; layer < c.layers; ++layer) {
    LayerChanges of(w, files, c, layer);
    std::set<std::string_view> norms;
    for (const LinearPlace& place : family.linear) norms.insert(place.norm);
    norms.erase("");
    for (const std::string_view before : norms)
      MoveWeight(w, files, of.Name(before), of.BiasOf(before), of.Readers(before), stream);
    if (values.size > 0) {
      const auto turn = std::make_shared<const ChannelRotation>(
          Hadamard(values.size, seed + 1),
          learned.values.empty() ? std::vector<double>{} : learned.values[static_cast<size_t>(layer)]);
      TurnValues(of, values, turn);
    }
    for (const LinearLayer& linear : of.linear()) {
      if (!WritesStream(linear)) continue;
      of.Weight(linear).out = stream;
      of.AlsoBias(linear);
    }
  }
  return w;
}

EquivalentWeights Smoothed(const Checkpoint& files, const ModelConfig& c, const std::vector<LayerSmoothing>& layers) {
  EquivalentWeights w;
  TARE_CHECK(static_cast<int>(layers.size()) == c.layers);
  for (int layer = 0; layer < c.layers; ++layer) {
    LayerChanges of(w, files, c, layer);
    for (const auto& [site, s] : layers[layer]) {
      const LinearPlace& first = *std::ranges::find(FamilyOf(c).linear, site, &LinearPlace::Input);
      if (!first.norm.empty()) {
        of.Of(first.norm).out_scale = Inverse(s);
        of.Of(first.norm).offset = FamilyOf(c).norm_offset;
        if (const std::string bias = of.BiasOf(first.norm); !bias.empty()) of.Named(bias).out_scale = Inverse(s);
        for (TensorChange* const change : of.Readers(first.norm)) change->in_scale = s;
        continue;
      }
      of.DivideBefore(site, s);
      std::vector<float>& after = of.Weight(first.weight).in_scale;
      for (const int64_t factor : FactorOf(site, ShapeOf(first.weight, c).in, c)) after.push_back(s[factor]);
    }
  }
  return w;
}

void WriteEquivalent(const Checkpoint& files, const std::filesystem::path& model, const EquivalentWeights& weights,
                     const Provenance& provenance, const std::filesystem::path& out, const Progress& progress) {
  QuantizedCheckpointWriter file(out, provenance);
  AddTextFiles(model, weights.unties ? UntiedConfigOf(model) : ConfigOf(model), file);
  std::vector<std::string> names = files.names();
  for (const auto& [name, change] : weights.changes) {
    if (!files.Has(name)) names.push_back(name);
  }
  for (size_t i = 0; i < names.size(); ++i) {
    ThrowIfStopped();
    const auto found = weights.changes.find(names[i]);
    if (found == weights.changes.end()) {
      AlignedBuffer<char> memory;
      file.AddTensor(WrittenTensor(files, names[i], memory));
    } else {
      const std::string& source = found->second.source;
      const WeightMatrix stored = StoredMatrix(files, source, "tensor '" + source + "'");
      const AlignedBuffer<float> values = Changed(stored, found->second);
      const TensorView* const tensor = files.Find(source);
      const std::vector<int64_t> shape = tensor != nullptr ? tensor->shape : std::vector{stored.out, stored.in};
      file.AddTensor({names[i], DType::kF32, shape, std::as_bytes(values.span())});
      files.Release(source);
    }
    Report(progress, static_cast<int64_t>(i) + 1, std::ssize(names), "tensors");
  }
  file.Commit();
}

}  // namespace tare
