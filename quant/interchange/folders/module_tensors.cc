// SPDX-License-Identifier: Apache-2.0
#include "quant/interchange/folders/module_tensors.h"

#include <algorithm>

#include "quant/base/error.h"
#include "quant/base/formatted.h"

namespace tare {
namespace {

std::string TypeList(std::initializer_list<DType> types) {
  std::string list;
  for (const DType type : types) list += (list.empty() ? "" : " or ") + std::string(Name(type));
  return list;
}

}  // namespace

std::string ModuleTensors::Where(std::string_view name) const { return Formatted("{}: tensor '{}'", folder_, name); }

std::vector<std::string> ModuleTensors::ModulesWith(std::string_view part) const {
  std::vector<std::string> modules;
  const std::string ending = "." + std::string(part);
  for (const std::string& name : files_.names()) {
    if (name.size() > ending.size() && name.ends_with(ending))
      modules.push_back(name.substr(0, name.size() - ending.size()));
  }
  return modules;
}

const TensorView* ModuleTensors::Find(const std::string& module, std::string_view part) const {
  return files_.Find(module + "." + std::string(part));
}

const TensorView& ModuleTensors::Take(const std::string& module, std::string_view part,
                                      std::initializer_list<DType> types) {
  const std::string name = module + "." + std::string(part);
  const TensorView* tensor = files_.Find(name);
  if (tensor == nullptr)
    Fail("{}: missing, beside other parts of '{}'; try downloading the checkpoint again", Where(name), module);
  if (!std::ranges::contains(types, tensor->dtype))
    Fail("{}: got dtype {}, expected {}", Where(name), Name(tensor->dtype), TypeList(types));
  if (tensor->elements() == 0)
    Fail("{}: got shape {}, expected at least one element", Where(name), ShapeText(tensor->shape));
  taken_.insert(name);
  return *tensor;
}

const TensorView& ModuleTensors::TakeMatrix(const std::string& module, std::string_view part,
                                            std::initializer_list<DType> types) {
  const TensorView& tensor = Take(module, part, types);
  if (tensor.shape.size() != 2)
    Fail("{}: got shape {}, expected a matrix", Where(tensor.name), ShapeText(tensor.shape));
  return tensor;
}

void ModuleTensors::Require(const TensorView& tensor, const std::vector<int64_t>& shape,
                            std::string_view because) const {
  if (tensor.shape != shape)
    Fail("{}: got shape {}, expected {}: {}", Where(tensor.name), ShapeText(tensor.shape), ShapeText(shape), because);
}

void ModuleTensors::CheckNothingLeft(std::initializer_list<std::string_view> parts) const {
  for (const std::string& name : files_.names()) {
    const size_t dot = name.rfind('.');
    if (dot != name.npos && !taken_.contains(name) &&
        std::ranges::contains(parts, std::string_view(name).substr(dot + 1)))
      Fail("{}: left over: no matrix of quantization_config's scheme has this part here; try the checkpoint's source",
           Where(name));
  }
}

}  // namespace tare
