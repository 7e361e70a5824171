// SPDX-License-Identifier: Apache-2.0
// The tensors of a checkpoint folder by module, X.qweight beside X.scales, while a scheme's reader takes them. What it
// takes becomes X.weight; what it does not take stays a tensor of the model under its own name, unless the name is one
// that the scheme gives to parts of codes: a part that nothing took is refused.
#pragma once

#include <initializer_list>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "quant/file/checkpoint_files.h"
#include "quant/format/foreign_matrix.h"

namespace tare {

class ModuleTensors {
 public:
  // Both outlive this.
  ModuleTensors(const CheckpointFiles& files, std::string folder) : files_(files), folder_(std::move(folder)) {}

  std::vector<std::string> ModulesWith(std::string_view part) const;  // sorted
  const TensorView* Find(const std::string& module, std::string_view part) const;
  // Marks it as taken. Throws Error if it is missing, or of another type, or has no elements.
  const TensorView& Take(const std::string& module, std::string_view part, std::initializer_list<DType> types);
  // The same of a matrix.
  const TensorView& TakeMatrix(const std::string& module, std::string_view part, std::initializer_list<DType> types);
  // Throws Error, saying what follows from what, for another shape.
  void Require(const TensorView& tensor, const std::vector<int64_t>& shape, std::string_view because) const;
  bool IsTaken(const std::string& name) const { return taken_.contains(name); }
  // Throws Error for a tensor with such a part that was not taken.
  void CheckNothingLeft(std::initializer_list<std::string_view> parts) const;

  // "FOLDER: tensor 'NAME'".
  std::string Where(std::string_view name) const;
  const CheckpointFiles& files() const { return files_; }

 private:
  const CheckpointFiles& files_;
  std::string folder_;
  std::set<std::string> taken_;
};

// What a reader makes of a folder.
struct ForeignModel {
  std::map<std::string, std::unique_ptr<const ForeignMatrix>, std::less<>> matrices;
  std::vector<std::string> notes;  // what was decided, and what the user may want to do about it, a sentence each
};

}  // namespace tare
