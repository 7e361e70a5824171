// SPDX-License-Identifier: Apache-2.0
#include "quant/interchange/gguf/expert_tensors.h"

#include <functional>
#include <numeric>

#include "quant/base/error.h"
#include "quant/file/dtype.h"

namespace tare::gguf {
namespace {

constexpr std::string_view kGate = ".ffn_gate_exps.", kUp = ".ffn_up_exps.";

std::string Replaced(std::string_view name, std::string_view from, std::string_view to) {
  std::string other(name);
  return other.replace(other.find(from), from.size(), to);
}

const Tensor& Beside(const Tensor& tensor, const std::string& name, const TensorsByName& tensors,
                     const std::string& where) {
  const auto found = tensors.find(name);
  if (found == tensors.end()) Fail("{}: tensor '{}': missing, expected beside '{}'", where, name, tensor.name);
  const Tensor& other = *found->second;
  if (other.shape != tensor.shape || other.type != tensor.type)
    Fail("{}: tensor '{}': got {} of shape {}, expected {} of shape {} as '{}'", where, name, other.type->name,
         ShapeText(other.shape), tensor.type->name, ShapeText(tensor.shape), tensor.name);
  return other;
}

}  // namespace

MappedTensor::FileRow MappedTensor::Row(int64_t row) const {
  if (in_turns != nullptr) return {row % 2 == 0 ? tensor : in_turns, first_row + row / 2};
  return {tensor, first_row + (rotated_heads == 0 ? row : RowOfNeighbours(row, shape[0] / rotated_heads))};
}

int64_t MappedTensor::RowBytes() const {
  const int64_t values = std::reduce(shape.begin() + 1, shape.end(), int64_t{1}, std::multiplies());
  return values / tensor->type->values * tensor->type->bytes;
}

std::span<const std::byte> MappedTensor::RowsIn(const Tensor& of) const {
  const int64_t rows = in_turns != nullptr ? shape[0] / 2 : shape[0];
  return of.bytes.subspan(static_cast<size_t>(first_row * RowBytes()), static_cast<size_t>(rows * RowBytes()));
}

std::string UpOfGate(std::string_view gate) { return Replaced(gate, kGate, kUp); }
std::string GateOfUp(std::string_view up) { return Replaced(up, kUp, kGate); }

std::string NameOfExpert(std::string_view pattern, int64_t expert) {
  std::string name(pattern);
  return name.replace(name.find("{}"), 2, std::to_string(expert));
}

void AddExpertTensors(const Architecture& a, const Tensor& tensor, std::string_view name, const TensorsByName& tensors,
                      int64_t experts, const std::string& where, std::map<std::string, MappedTensor, std::less<>>& to) {
  const bool is_weight = name.ends_with(".weight");
  if (tensor.shape.size() != (is_weight ? 3 : 2) || tensor.shape[0] != experts)
    Fail("{}: tensor '{}': got shape {}, expected {} of {} experts", where, tensor.name, ShapeText(tensor.shape),
         is_weight ? "matrices" : "vectors", experts);
  MappedTensor mapped{.tensor = &tensor, .shape = {tensor.shape.begin() + 1, tensor.shape.end()}};
  const int64_t rows = mapped.shape[0];
  if (a.gate_up_in_turns && tensor.name.contains(kUp)) {
    Beside(tensor, GateOfUp(tensor.name), tensors, where);  // which adds it
    return;
  }
  if (a.gate_up_in_turns && tensor.name.contains(kGate)) {
    mapped.in_turns = &Beside(tensor, UpOfGate(tensor.name), tensors, where);
    mapped.shape[0] *= 2;
  }
  for (int64_t expert = 0; expert < experts; ++expert) {
    mapped.first_row = expert * rows;
    to.emplace(NameOfExpert(name, expert), mapped);
  }
}

}  // namespace tare::gguf
