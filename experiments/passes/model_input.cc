// SPDX-License-Identifier: Apache-2.0
#include "experiments/passes/sequences.h"

#include <algorithm>

#include "quant/base/message.h"
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

TokenInput LoadModelInput(const std::filesystem::path& path, Model& model, const TextPart& part) {
  if (model.config().SeesImages()) model.Show(std::make_shared<const Images>(path, model.config()));
  return LoadInput(path, model.folder(), model.config(), part);
}

TokenInput LoadInput(const std::filesystem::path& path, const std::filesystem::path& folder, const ModelConfig& config,
                     const TextPart& part) {
  if (config.SeesImages()) return IdsOf(Images(path, config), path);
  return LoadTokenInput(path, folder, config.vocabulary, part);
}

Shard ParseShard(std::string_view option, std::string_view text) {
  const size_t slash = std::min(text.find('/'), text.size());
  const auto index = ParseNumber<size_t>(text.substr(0, slash));
  const auto count = ParseNumber<size_t>(text.substr(std::min(slash + 1, text.size())));
  if (!index || !count || *index >= *count)
    FailUsage("{}: got '{}', expected i/n with i from 0 to n - 1, for example 0/4", option, text);
  return {*index, *count};
}

}  // namespace tare
