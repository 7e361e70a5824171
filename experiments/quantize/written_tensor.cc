// SPDX-License-Identifier: Apache-2.0
#include "experiments/quantize/written_tensor.h"

namespace tare {

void AddTextFiles(const std::filesystem::path& model, const std::string& config, QuantizedCheckpointWriter& out) {
  out.AddFile("config.json", config);
  for (const char* name : kTokenizerFiles) {
    if (const auto text = CheckpointText(model, name)) out.AddFile(name, *text);
  }
}

WrittenTensor::WrittenTensor(const Checkpoint& files, const std::string& name) {
  const ForeignMatrix* const matrix = files.FindForeign(name);
  if (matrix == nullptr) {
    view_ = *files.Find(name);
    stored_bytes_ = static_cast<int64_t>(view_.bytes.size());
    return;
  }
  const std::string where = "tensor '" + name + "'";
  InFloat(StoredMatrix(files, name, where), Math::kF32, values_, where);
  view_ = {name, DType::kF32, {matrix->out(), matrix->in()}, std::as_bytes(values_.span())};
  stored_bytes_ = matrix->bytes();
}

}  // namespace tare
