// SPDX-License-Identifier: Apache-2.0
#include "quant/interchange/gguf/tensor_type.h"

#include <algorithm>
#include <array>
#include <utility>

#include "quant/base/formatted.h"

namespace tare::gguf {
namespace {

constexpr std::array<TypeInfo, 15> kTypes{{{TensorType::kF32, "F32", 1, 4},
                                           {TensorType::kF16, "F16", 1, 2},
                                           {TensorType::kBF16, "BF16", 1, 2},
                                           {TensorType::kQ8_0, "Q8_0", 32, 34},
                                           {TensorType::kQ4_0, "Q4_0", 32, 18},
                                           {TensorType::kQ4_1, "Q4_1", 32, 20},
                                           {TensorType::kQ5_0, "Q5_0", 32, 22},
                                           {TensorType::kQ5_1, "Q5_1", 32, 24},
                                           {TensorType::kQ2_K, "Q2_K", 256, 84},
                                           {TensorType::kQ3_K, "Q3_K", 256, 110},
                                           {TensorType::kQ4_K, "Q4_K", 256, 144},
                                           {TensorType::kQ5_K, "Q5_K", 256, 176},
                                           {TensorType::kQ6_K, "Q6_K", 256, 210},
                                           {TensorType::kIQ4_NL, "IQ4_NL", 32, 18},
                                           {TensorType::kMXFP4, "MXFP4", 32, 17}}};

constexpr std::pair<uint32_t, std::string_view> kUnread[]{
    {9, "Q8_1"},   {15, "Q8_K"},  {16, "IQ2_XXS"}, {17, "IQ2_XS"}, {18, "IQ3_XXS"}, {19, "IQ1_S"},
    {21, "IQ3_S"}, {22, "IQ2_S"}, {23, "IQ4_XS"},  {24, "I8"},     {25, "I16"},     {26, "I32"},
    {27, "I64"},   {28, "F64"},   {29, "IQ1_M"},   {34, "TQ1_0"},  {35, "TQ2_0"},   {40, "NVFP4"}};

}  // namespace

const TypeInfo* FindType(uint32_t id) {
  const auto found = std::ranges::find(kTypes, static_cast<TensorType>(id), &TypeInfo::type);
  return found == kTypes.end() ? nullptr : &*found;
}

const TypeInfo* FindType(std::string_view name) {
  const auto found = std::ranges::find(kTypes, name, &TypeInfo::name);
  return found == kTypes.end() ? nullptr : &*found;
}

std::string TypeText(uint32_t id) {
  std::string_view name = "unknown";
  if (const TypeInfo* info = FindType(id)) name = info->name;
  for (const auto& [unread, its_name] : kUnread) {
    if (unread == id) name = its_name;
  }
  return Formatted("{} (type {})", name, id);
}

std::string TypesRead() {
  std::string text;
  for (const TypeInfo& info : kTypes) {
    const char* const between = &info == &kTypes.front() ? "" : &info == &kTypes.back() ? " or " : ", ";
    text += between + std::string(info.name);
  }
  return text;
}

}  // namespace tare::gguf
