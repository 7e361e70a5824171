// SPDX-License-Identifier: Apache-2.0
#include "experiments/export/gguf/tensors.h"

#include <algorithm>
#include <functional>
#include <numeric>

#include "experiments/model/config/family.h"
#include "quant/base/error.h"
#include "quant/interchange/gguf/expert_tensors.h"

namespace tare {
namespace {

class FileTensors {
 public:
  FileTensors(const ModelConfig& config, const gguf::Architecture& architecture, const std::string& where)
      : config_(config), architecture_(architecture), where_(where), family_(FamilyOf(config)) {}

  std::vector<GgufTensor> All() {
    Add(std::string(family_.names.embedding), GgufKind::kEmbedding, config_.vocabulary);
    Add(std::string(family_.names.final_norm), GgufKind::kVector, config_.hidden);
    if (!config_.tied_embeddings || architecture_.needs_head)
      all_.push_back({.name = FileNameOf(std::string(family_.names.head)),
                      .kind = GgufKind::kEmbedding,
                      .pieces = {{.tensor = std::string(HeadTensor(config_)), .count = config_.vocabulary}}});
    for (int layer = 0; layer < config_.layers; ++layer) {
      first_of_layer_ = std::ssize(all_);
      for (const LinearLayer& linear : LinearLayersOf(config_, layer)) AddLinear(linear);
      for (const VectorPlace& vector : family_.vectors) {
        if (vector.In(config_, layer))
          Add(LayerTensor(config_, layer, vector.tensor), GgufKind::kVector, vector.shape(config_)[0]);
      }
    }
    return std::move(all_);
  }

 private:
  void Add(const std::string& tensor, GgufKind kind, int64_t rows) {
    all_.push_back({.name = FileNameOf(tensor), .kind = kind, .pieces = {{.tensor = tensor, .count = rows}}});
  }

  void AddLinear(const LinearLayer& linear) {
    const LinearPlace& place = *linear.place;
    const std::string stored =
        LayerTensor(config_, linear.layer, place.fused.empty() ? place.tensor : place.fused);  // with {} for an expert
    const int64_t rows = ShapeOf(place.weight, config_).out;
    const bool in_turns = architecture_.gate_up_in_turns && place.weight == Site::kExpertsGateUpW;
    for (const auto& [suffix, kind] :
         {std::pair(".weight", GgufKind::kMatrix), std::pair(".bias", GgufKind::kVector)}) {
      const bool is_weight = kind == GgufKind::kMatrix;
      if (!is_weight && (place.bias == nullptr || !(config_.*place.bias))) continue;
      const std::string name = FileNameOf(stored + suffix), own = linear.Tensor(config_) + suffix;
      if (in_turns) {
        Append(name, kind, linear, {.tensor = own, .first = 0, .step = 2, .count = rows / 2});
        Append(gguf::UpOfGate(name), kind, linear, {.tensor = own, .first = 1, .step = 2, .count = rows / 2});
      } else {
        Append(name, kind, linear, {.tensor = own, .count = rows});
      }
    }
  }

  // To the layer's tensor of this name, or to a new one.
  void Append(const std::string& name, GgufKind kind, const LinearLayer& linear, const GgufPiece& piece) {
    auto found = std::ranges::find(all_.begin() + first_of_layer_, all_.end(), name, &GgufTensor::name);
    if (found == all_.end()) {
      all_.push_back({.name = name,
                      .kind = kind,
                      .pieces = {},
                      .experts = linear.expert ? config_.experts : 0,
                      .rotated_heads = RotatedHeads(linear.place->weight)});
      found = all_.end() - 1;
    }
    found->pieces.push_back(piece);
  }

  int64_t RotatedHeads(Site weight) const {
    if (!architecture_.rotates_neighbours) return 0;
    return weight == Site::kQProjW ? config_.heads : weight == Site::kKProjW ? config_.kv_heads : 0;
  }

  std::string FileNameOf(const std::string& tensor) const {
    const std::string theirs = gguf::FileName(architecture_, tensor);
    if (theirs.empty())
      Fail("{}: to gguf: tensor '{}': is none of llama.cpp's {}; a GGUF file cannot hold it", where_, tensor,
           architecture_.name);
    return theirs;
  }

  const ModelConfig& config_;
  const gguf::Architecture& architecture_;
  const std::string& where_;
  const Family& family_;
  std::vector<GgufTensor> all_;
  ptrdiff_t first_of_layer_ = 0;
};

}  // namespace

std::vector<GgufTensor> GgufTensors(const ModelConfig& config, const gguf::Architecture& architecture,
                                    const std::string& where) {
  return FileTensors(config, architecture, where).All();
}

}  // namespace tare
