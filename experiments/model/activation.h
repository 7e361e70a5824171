// SPDX-License-Identifier: Apache-2.0
// Activations by their hidden_act of transformers 5.12 (activations.py), except prelu and xielu, which have weights.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace tare {

struct Activation {
  std::string_view names;               // separated by blanks, the usual one first
  void (*apply)(float* row, size_t n);  // row = f(row)
  // gate = f(gate) up at once; null: as apply, then multiplied.
  void (*gated)(float* gate, const float* up, size_t n) = nullptr;

  std::string_view Name() const { return names.substr(0, names.find(' ')); }
  void Gate(float* gate, const float* up, size_t n) const;
};

// Null for other names.
const Activation* FindActivation(std::string_view name);
// All names: "silu, swish, ...".
std::string ActivationsText();

}  // namespace tare
