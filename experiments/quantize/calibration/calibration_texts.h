// SPDX-License-Identifier: Apache-2.0
// The texts that a method is calibrated on, and the windows that it sees of them.
//
//   a.txt              a text, or ids (tokenizer.h), or images
//   chats.jsonl        documents (tasks/perplexity.h), each by itself: no window reaches over the end of one
//   a.txt:2,b.jsonl:1  two tokens of the first for each token of the second; without a weight, 1
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "experiments/model/config/config.h"
#include "experiments/model/model.h"
#include "experiments/passes/sequences.h"

namespace tare {

struct CalibrationTexts {
  struct Part {
    std::filesystem::path file;
    double weight = 1;
  };
  std::vector<Part> parts;
  Shard cut;  // of each text, the part that is used: what another calibration text changes shows in several cuts

  CalibrationTexts() = default;
  // One file, or none for an empty path; implicit, as most have one.
  CalibrationTexts(std::filesystem::path file) {
    if (!file.empty()) parts.push_back({std::move(file)});
  }

  // A file's name may have ':' or ','. Throws Error for weights outside 1e-6 to 1e6, repeated files and empty names.
  static CalibrationTexts Parse(const std::string& text, const Shard& cut = {});
  bool empty() const { return parts.empty(); }
};

// What is used of one file.
struct CalibratedOn {
  std::string file;  // without its folder
  int64_t tokens = 0, windows = 0;
  double asked = 1;  // share of all tokens, by the weights; whole windows meet it as well as they can
};

struct CalibrationWindows {
  std::vector<ScoredSequence> sequences;  // of the files in their order
  std::vector<CalibratedOn> files;
  std::string provenance;  // "heldout.txt, sha256 ..., 32833 tokens in 65 windows, sha256 ..."; files parted by "; "
  std::shared_ptr<const Images> images = {};  // that a vision tower's ids refer to, for Model::Show
};

// options.tokens are of all files, by weight. Where a file has less, or for 0 tokens, all shrink in proportion. Throws
// Error for a missing file or one without use, --limit with several files, and several files of images.
CalibrationWindows CutCalibration(const CalibrationTexts& texts, const std::filesystem::path& model_folder,
                                  const ModelConfig& config, const WindowOptions& options);
// Sends a notice where the second moments of these tokens would be singular: fewer than a layer's inputs.
void NoticeFewTokens(const CalibrationWindows& windows, const ModelConfig& config);

}  // namespace tare
