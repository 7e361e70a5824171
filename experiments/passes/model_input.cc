// SPDX-License-Identifier: Apache-2.0
#include "experiments/passes/model_input.h"

#include "quant/file/sha256.h"

namespace tare {

TokenInput IdsOf(const Images& images, const std::filesystem::path& path) {
  TokenInput input;
  input.kind = TokenInput::Kind::kIds;
  input.path = path;
  input.sha256 = Sha256OfFile(path);
  for (int64_t i = 0; i < images.size(); ++i) input.sequences.push_back(images.Sequence(i));
  return input;
}

TokenInput LoadModelInput(const std::filesystem::path& path, const std::filesystem::path& model_folder,
                          const ModelConfig& config, const TextPart& part) {
  if (config.SeesImages()) return IdsOf(Images(path, config), path);
  return LoadTokenInput(path, model_folder, config.vocabulary, part);
}

TokenInput LoadModelInput(const std::filesystem::path& path, Model& model, const TextPart& part) {
  if (!model.config().SeesImages()) return LoadModelInput(path, model.folder(), model.config(), part);
  const auto images = std::make_shared<const Images>(path, model.config());
  model.Show(images);
  return IdsOf(*images, path);
}

}  // namespace tare
