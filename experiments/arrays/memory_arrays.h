// SPDX-License-Identifier: Apache-2.0
// Arrays in memory, with the interface of an array file.
#pragma once

#include <map>

#include "experiments/arrays/array_file.h"

namespace tare {

class MemoryArrays : public ArrayFile {
 public:
  // name: said in messages, in the place of a path. The values outlive this.
  MemoryArrays(const std::string& name, const std::vector<std::pair<ArrayInfo, std::span<const std::byte>>>& arrays);

 protected:
  ArrayValues Load(const ArrayInfo& array) const override { return {array.dtype, values_.at(array.name)}; }

 private:
  std::map<std::string, std::span<const std::byte>> values_;
};

}  // namespace tare
