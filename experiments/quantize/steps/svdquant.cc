// SPDX-License-Identifier: Apache-2.0
// svdquant[:RANK]: the matrix of this rank nearest to W becomes a bf16 branch, and the rule rounds the rest to nearest
// (SVDQuant, Li et al., arXiv 2411.05007), which includes the factors' rounding. Smoothing is smoothquant before it,
// which searches with the branch; the iterated form (branches for what codes miss, the best of several) is left out.
#include <algorithm>

#include "experiments/model/linear/weight_matrix.h"
#include "experiments/quantize/steps/table.h"
#include "quant/algorithms/low_rank.h"
#include "quant/base/float16.h"
#include "quant/base/parallel.h"

namespace tare {
namespace {

constexpr int64_t kBranchRank = 32;

std::vector<uint16_t> InBf16(const std::vector<double>& values) {
  std::vector<uint16_t> rounded(values.size());
  std::ranges::transform(values, rounded.begin(), [](double x) { return Bf16FromFloat(static_cast<float>(x)); });
  return rounded;
}

QuantizedMatrixBuffer RoundTheRest(int64_t rank, const WeightMatrix& stored, const Rule& rule, const std::string& where,
                                   std::span<const float> importance) {
  AlignedBuffer<char> memory;
  const DenseMatrix rest = InFloat(stored, Math::kF32, memory, where);
  auto* const w = reinterpret_cast<float*>(memory.data());
  const ThinFactors factors = NearestOfRank(w, stored.out, stored.in, rank, where);
  std::vector<uint16_t> up = InBf16(factors.up), down = InBf16(factors.down);
  ParallelFor(static_cast<size_t>(stored.out), [&](int64_t row, int) {
    for (int64_t k = 0; k < rank; ++k) {
      const float factor = FloatFromBf16(up[static_cast<size_t>(row * rank + k)]);
      for (int64_t i = 0; i < stored.in; ++i)
        w[row * stored.in + i] -= factor * FloatFromBf16(down[static_cast<size_t>(k * stored.in + i)]);
    }
  });
  QuantizedMatrixBuffer codes = QuantizeByRule(rest, rule, where, importance);
  codes.SetBranch(std::move(up), std::move(down));
  return codes;
}

void CheckRank(int64_t rank, const ModelConfig& config, const Plan& plan) {
  if (config.experts > 0)
    FailUsage(
        "--method svdquant: got a model with experts, expected one without, whose branches read all inputs as they "
        "are; try gptq");
  for (int layer = 0; layer < config.layers; ++layer) {
    for (const LinearLayer& linear : LinearLayersOf(config, layer)) {
      const Rule* const rule = plan.Match(linear.WeightKey());
      if (rule == nullptr || rule->Exempts()) continue;
      const auto [out, in] = ShapeOf(linear.place->weight, config);
      if (rank > std::min(out, in))
        FailUsage("--method svdquant:{}: got {} of {} x {}, expected a rank of 1 to {}; try svdquant:{}", rank,
                  TextOf(linear.WeightKey()), out, in, std::min(out, in), std::min({out, in, kBranchRank}));
    }
  }
}

Step ReadSvdQuant(std::string_view text) {
  const int64_t rank = NumberOption<int64_t>(text, "a rank, a whole number from 1", 1).value_or(kBranchRank);
  return {.text = rank == kBranchRank ? "svdquant" : Formatted("svdquant:{}", rank),
          .on_matrix =
              [rank](const WeightMatrix& stored, const Rule& rule, const std::string& where,
                     std::span<const float> importance) { return RoundTheRest(rank, stored, rule, where, importance); },
          .check = [rank](const ModelConfig& config, const Plan& plan) { CheckRank(rank, config, plan); },
          .no_ends = "awq chooses ranges of whole weights; try smoothquant+svdquant",
          .no_better = "quantease improves codes of whole weights; try gptq+quantease"};
}

}  // namespace

const StepKind kSvdQuantStep{"svdquant", StepPlace::kCodes, ReadSvdQuant, "[:RANK]",
                             "rounds what a branch of low rank (32) leaves"};

}  // namespace tare
