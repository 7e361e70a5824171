// SPDX-License-Identifier: Apache-2.0
#include "experiments/quantize/rounded_weights.h"

#include <algorithm>
#include <optional>
#include <tuple>

#include "experiments/model/config/family.h"
#include "experiments/model/linear/weights.h"
#include "experiments/model/sites_of_model.h"
#include "experiments/plan/resolved_plan.h"
#include "experiments/quantize/calibration/calibration_pass.h"
#include "quant/base/error.h"
#include "quant/base/formatted.h"
#include "quant/format/quantized_matrix.h"

namespace tare {

namespace {

// Of a matrix; 0 where there is none, or a tensor that is none, which is refused when it is read.
int64_t InputsOf(const Checkpoint& files, const std::string& name) {
  if (const ForeignMatrix* matrix = files.FindForeign(name)) return matrix->in();
  const TensorView* const tensor = files.Find(name);
  return tensor != nullptr && tensor->shape.size() == 2 ? tensor->shape[1] : 0;
}

// Weights that multiply one input are rounded with one matrix of its moments, which is rotated as they are.
void CheckRotations(const ResolvedPlan& plan, const Checkpoint& files, const ModelConfig& config,
                    const std::string& method) {
  std::map<std::tuple<int, Site, std::optional<int>>, const Rule*> rules;  // the first by layer, input and expert
  for (int layer = 0; layer < config.layers; ++layer) {
    for (const LinearLayer& linear : LinearLayersOf(config, layer)) {
      const Rule* const rule = plan.RuleAt(linear.WeightKey());
      if (rule == nullptr) continue;
      const Rule* const first =
          rules.emplace(std::tuple(layer, InputOf(*linear.place), linear.expert), rule).first->second;
      const int64_t in = InputsOf(files, linear.Tensor(config) + ".weight");
      if (in > 0 && first->options.Rotation(in) != rule->options.Rotation(in))
        RefuseRule(*rule, Formatted("another rotation of {} than '{}' has", TextOf(linear.WeightKey()), first->text),
                   "the same for all weights with one input, as " + method + " takes them", "rtn");
    }
  }
}

}  // namespace

std::map<std::string, SiteKey> WeightSites(const ModelConfig& config) {
  const Family& family = FamilyOf(config);
  std::map<std::string, SiteKey> sites{{std::string(family.names.head), {Site::kLmHeadW}}};
  for (int layer = 0; layer < config.layers; ++layer) {
    for (const LinearLayer& linear : LinearLayersOf(config, layer))
      sites[linear.Tensor(config) + ".weight"] = linear.WeightKey();
  }
  return sites;
}

ResolvedPlan PlanOfWeights(const QuantizeJob& job, const Checkpoint& files, const ModelConfig& config) {
  StaticSource statics;
  if (job.plan.HasStaticScales()) statics = StaticSourceOf(job.statistics, files);
  ModelSites sites = ModelSitesOf(config);
  for (const auto& [name, key] : WeightSites(config)) {
    if (const int64_t in = InputsOf(files, name); in > 0) sites.weights[key].in = in;
  }
  return {job.plan, sites, Carrying::kStored, statics};
}

int64_t CheckRounding(const QuantizeJob& job, const Checkpoint& files, const ModelConfig& config) {
  const ResolvedPlan plan = PlanOfWeights(job, files, config);
  const std::string method = job.method.Text();
  int64_t matrices = 0;
  for (const auto& [name, key] : WeightSites(config)) {
    const Rule* rule = plan.RuleAt(key);
    if (rule == nullptr || !files.Has(name)) continue;
    ++matrices;
    const FormatInfo& info = Info(rule->format);
    const int64_t group = GroupOf(rule->granularity, InputsOf(files, name));
    if (group % info.together != 0)
      RefuseRule(*rule, Formatted("groups of {} in '{}'", group, name),
                 Formatted("groups of a multiple of {}, which share a code", info.together), "group16");
    if (!job.method.RoundsByCalibration()) continue;
    if (rule->granularity.kind == Granularity::Kind::kTensor)
      RefuseRule(*rule, ScaleText(*rule), "one per channel or group<N>, as " + method + " takes it", "channel");
    for (const Step* step : job.method.Steps()) {
      if (step->check_rule) step->check_rule(*rule);
    }
    if (rule->sites.front() == Site::kLmHeadW)
      RefuseRule(*rule, Name(Site::kLmHeadW), "weights inside the layers, as " + method + " takes them",
                 "rtn for the head");
  }
  if (job.method.RoundsByCalibration() && !job.method.codes->on_layer) CheckRotations(plan, files, config, method);
  return matrices;
}

std::string LayerMatrices::Where(const std::string& tensor) const {
  return Formatted("{}: tensor '{}'", where_, tensor);
}

bool LayerMatrices::RoundsIn(int layer) const {
  return std::ranges::any_of(LinearLayersOf(config_, layer),
                             [&](const LinearLayer& linear) { return RuleFor(linear) != nullptr; });
}

WeightMatrix LayerMatrices::Stored(const std::string& name) const {
  const TensorView* const tensor = files_.Find(name);
  if (tensor != nullptr && tensor->shape.size() != 2)
    Fail("{}: got a tensor of {} dimensions, expected a matrix", Where(name), tensor->shape.size());
  return StoredMatrix(files_, name, Where(name));
}

int64_t LayerMatrices::StoredBytes(const std::string& name) const {
  const ForeignMatrix* const matrix = files_.FindForeign(name);
  return matrix != nullptr ? matrix->bytes() : static_cast<int64_t>(files_.Find(name)->bytes.size());
}

void LayerMatrices::ForEach(int layer, const ForMatrix& body) const {
  for (const LinearLayer& linear : LinearLayersOf(config_, layer)) Visit(linear, body);
}

void LayerMatrices::Visit(const LinearLayer& linear, const ForMatrix& body) const {
  const Rule* const rule = RuleFor(linear);
  if (rule == nullptr) return;
  const std::string name = linear.Tensor(config_) + ".weight";
  body(linear, name, *rule);
  files_.Release(name);
}

}  // namespace tare
