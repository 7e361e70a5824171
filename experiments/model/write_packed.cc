// SPDX-License-Identifier: Apache-2.0
#include "experiments/model/write_packed.h"

#include <string>
#include <utility>
#include <vector>

#include "experiments/model/config/family.h"
#include "quant/base/error.h"
#include "quant/base/memory.h"

namespace tare {
namespace {

struct PackedLinear {
  std::string tensor;  // as the checkpoint calls it
  const LinearWeights* linear;
  LinearRules rules;
};

std::vector<PackedLinear> PackedOf(const Model& model, const ResolvedPlan& plan) {
  std::vector<PackedLinear> packed;
  const auto add = [&](std::string tensor, const LinearWeights& linear, const SiteKey& weight, const SiteKey& input) {
    LinearRules rules = LinearRules::Of(linear.weight, weight, input, plan);
    if (rules.executed) packed.push_back({std::move(tensor), &linear, std::move(rules)});
  };
  add(std::string(HeadTensor(model.config())), model.head(), {Site::kLmHeadW}, {Site::kLmHeadIn});
  for (int layer = 0; layer < model.config().layers; ++layer) {
    for (const LinearLayer& place : LinearLayersOf(model.config(), layer)) {
      add(place.Tensor(model.config()) + ".weight", WeightsOf(model.layers()[static_cast<size_t>(layer)], place),
          place.WeightKey(), place.InputKey());
    }
  }
  return packed;
}

}  // namespace

void WritePacked(const std::filesystem::path& path, const PackedSource& source, const Model& model,
                 const ResolvedPlan& plan, const Model::PlanProgress& progress) {
  const std::vector<PackedLinear> packed = PackedOf(model, plan);
  std::vector<std::string> names;
  for (const PackedLinear& one : packed) names.push_back(one.tensor);
  PackedFileWriter file(path, source, names);
  int64_t done = 0;
  for (const PackedLinear& one : packed) {
    const auto planned =
        PlannedLinear::Of(one.linear->weight, one.rules, model.math(), RoundedCopies::kMadeForProducts);
    if (planned != nullptr && planned->packed) file.Add(one.tensor, *planned->packed);
    model.files().Release(one.tensor);
    ReturnFreedMemory();
    if (progress) progress(++done, std::ssize(packed), "matrices of weights");
  }
  if (file.empty())
    Fail(
        "{}: got a plan that packs no weights, expected rules in integers for weights, or a checkpoint quantized so; "
        "try weights=int4/group64",
        path.string());
  file.Commit();
}

}  // namespace tare
