// SPDX-License-Identifier: Apache-2.0
#include "experiments/model/planned_linear.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "quant/algorithms/round_to_nearest.h"
#include "quant/base/error.h"
#include "quant/base/parallel.h"

namespace tare {
namespace {

const Rule* Quantizing(const Rule* rule) { return rule == nullptr || rule->format == Format::kF32 ? nullptr : rule; }

float AbsmaxOf(const WeightMatrix& matrix) {
  std::vector<float> values(static_cast<size_t>(matrix.in));
  float largest = 0;
  for (int64_t row = 0; row < matrix.out; ++row) {
    RowAsFloat(matrix, row, values.data());
    for (const float x : values) largest = std::max(largest, std::abs(x));
  }
  return largest;
}

void CheckExecuted(const Rule& rule, std::optional<float> clip, const std::string& where) {
  using Kind = Granularity::Kind;
  const bool executed = rule.options.static_scale
                            ? rule.granularity.kind == Kind::kTensor && clip.has_value()
                            : rule.granularity.kind == Kind::kToken && rule.options == RuleOptions{};
  if (!executed) {
    Fail(
        "{}: the integer kernels execute one dynamic scale a token, or one static scale a tensor, not '{}'; try "
        "linear_in={}/token, or simulated",
        where, rule.text, Info(rule.format).name);
  }
}

}  // namespace

QuantizedMatrixBuffer QuantizeByRule(const WeightMatrix& weight, const Rule& rule, const std::string& where) {
  QuantizedMatrixBuffer matrix(rule.format, weight.out, weight.in, GroupOf(rule.granularity, weight.in, where));
  const bool one_scale = rule.granularity.kind == Granularity::Kind::kTensor;
  const float clip = one_scale ? AbsmaxOf(weight) : 0.0f;
  const ClipChoice choice = rule.options.mse ? ClipChoice::kLeastSquares : ClipChoice::kAbsmax;
  ParallelFor(static_cast<size_t>(weight.out), [&](size_t r, int) {
    const auto row = static_cast<int64_t>(r);
    thread_local std::vector<float> values;
    values.resize(static_cast<size_t>(weight.in));
    RowAsFloat(weight, row, values.data());
    try {
      if (one_scale) {
        RoundRowWithClip(values.data(), clip, matrix, row);
      } else {
        RoundRowToNearest(values.data(), choice, matrix, row);
      }
    } catch (const Error& error) {
      Fail("{}: {}; try saving the checkpoint again", where, error.what());
    }
  });
  return matrix;
}

std::unique_ptr<PlannedLinear> PlannedLinear::Of(const WeightMatrix& weight, const Rule* weight_rule,
                                                 const Rule* input_rule, std::optional<float> clip,
                                                 LinearArithmetic arithmetic, Math math, const std::string& where) {
  weight_rule = Quantizing(weight_rule);
  input_rule = arithmetic == LinearArithmetic::kInteger ? Quantizing(input_rule) : nullptr;
  if (weight_rule != nullptr && weight.quantized != nullptr) {
    const QuantizedMatrix& have = *weight.quantized;
    if (have.format != weight_rule->format || have.group != GroupOf(weight_rule->granularity, weight.in, where)) {
      Fail(
          "{}: the plan says '{}', but this checkpoint's weights are {} in groups of {} already; try a plan without it",
          where, weight_rule->text, Info(have.format).name, have.group);
    }
    weight_rule = nullptr;  // carried out already
  }
  if (weight_rule == nullptr && weight.quantized == nullptr && input_rule != nullptr) {
    Fail(
        "{}: the plan says '{}' and quantizes no weights, but the integer kernels multiply integers; try it with "
        "weights=int8/channel, or simulated",
        where, input_rule->text);
  }
  if (weight_rule == nullptr && input_rule == nullptr) return nullptr;
  QuantizedMatrixBuffer buffer;
  if (weight_rule != nullptr) buffer = QuantizeByRule(weight, *weight_rule, where);
  const QuantizedMatrix& quantized = weight_rule == nullptr ? *weight.quantized : buffer.view();
  if (input_rule == nullptr) return Dequantized(quantized, math);
  CheckExecuted(*input_rule, clip, where);
  auto planned = std::make_unique<PlannedLinear>();
  planned->packed.emplace(quantized);
  planned->activation = {input_rule->format, clip};
  return planned;
}

std::unique_ptr<PlannedLinear> PlannedLinear::Dequantized(const QuantizedMatrix& matrix, Math math) {
  auto planned = std::make_unique<PlannedLinear>();
  planned->dequantized =
      FillMatrix(planned->memory, math == Math::kBf16 ? WeightType::kBf16 : WeightType::kF32, matrix.out, matrix.in,
                 [&](int64_t row, float* y) { DequantizeRow(matrix, row, y); });
  return planned;
}

}  // namespace tare
