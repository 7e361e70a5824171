// SPDX-License-Identifier: Apache-2.0
#include "experiments/model/activation.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <ranges>

#include "kernels/elementwise/rows.h"
#include "quant/base/find_in.h"
#include "quant/base/message.h"

namespace tare {
namespace {

template <float (*f)(float)>
void Each(float* row, size_t n) {
  std::transform(row, row + n, row, f);
}

float Relu(float x) { return std::max(x, 0.0f); }
float Relu6(float x) { return std::clamp(x, 0.0f, 6.0f); }
float Silu(float x) { return x / (1 + std::exp(-x)); }
float GeluOf(float x) { return 0.5f * x * (1 + std::erf(x / std::numbers::sqrt2_v<float>)); }
float GeluTanh(float x) { return 0.5f * x * (1 + std::tanh(0.7978845608f * (x + 0.044715f * x * x * x))); }
float Softplus(float x) { return x > 20 ? x : std::log1p(std::exp(x)); }
float Laplace(float x) { return 0.5f * (1 + std::erf((x - 0.707107f) / (0.282095f * std::numbers::sqrt2_v<float>))); }

constexpr Activation kActivations[]{
    {"silu swish", Each<Silu>, SwiGlu},
    {"gelu gelu_python", Gelu},
    {"gelu_10", Each<[](float x) { return std::clamp(GeluOf(x), -10.0f, 10.0f); }>},
    {"gelu_pytorch_tanh gelu_new gelu_fast gelu_python_tanh gelu_accurate", Each<GeluTanh>, GeGluTanh},
    {"quick_gelu", QuickGelu},
    {"relu", Each<Relu>},
    {"relu2", Each<[](float x) { return Relu(x) * Relu(x); }>},
    {"relu6", Each<Relu6>},
    {"leaky_relu", Each<[](float x) { return x < 0 ? 0.01f * x : x; }>},
    {"sigmoid", Sigmoid},
    {"tanh", Each<[](float x) { return std::tanh(x); }>},
    {"mish", Each<[](float x) { return x * std::tanh(Softplus(x)); }>},
    {"hardswish", Each<[](float x) { return x * Relu6(x + 3) / 6; }>},
    {"laplace", Each<Laplace>},
    {"sqrtsoftplus", Each<[](float x) { return std::sqrt(Softplus(x)); }>},
    {"linear", [](float*, size_t) {}},
};

}  // namespace

void Activation::Gate(float* gate, const float* up, size_t n) const {
  if (gated != nullptr) return gated(gate, up, n);
  apply(gate, n);
  MultiplyBy(gate, up, n);
}

const Activation* FindActivation(std::string_view name) {
  const auto has = [name](const Activation& one) {
    return std::ranges::contains(std::views::split(one.names, ' '), name,
                                 [](const auto& word) { return std::string_view(word); });
  };
  return FindWhere(kActivations, has);
}

std::string ActivationsText() {
  return Listed(std::views::split(Listed(kActivations, " ", &Activation::names), ' '), ", ");
}

}  // namespace tare
