// SPDX-License-Identifier: Apache-2.0
// Files of captured arrays as the input of a statistics job: each file holds some sequences, in the given order of
// files, and all have the same sites. Two optional arrays describe a file's sequences: "attention_mask" [B,T] of 0 and
// 1, which tokens are no padding (to the left or to the right), and "input_ids" [B,T], which identify runs on the same
// sequences.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "experiments/observe/captured/captured_layout.h"
#include "experiments/passes/sequences.h"
#include "experiments/plan/model_sites.h"
#include "quant/file/sha256.h"

namespace tare {

struct PositionRange {
  int64_t begin = 0, end = 0;
  int64_t Size() const { return end - begin; }
};

struct CapturedFile {
  std::unique_ptr<ArrayFile> file;
  std::vector<CapturedArray> arrays;   // of sites, by layer and site
  std::vector<PositionRange> tokens;   // of each sequence, without padding
  std::vector<std::string> left_over;  // arrays of no site
};

// Throws Error where arrays of the file do not have the same sequences and tokens, or none is of a site.
CapturedFile OpenCaptured(std::unique_ptr<ArrayFile> file, const CapturedLayout& layout);

struct CapturedInput {
  std::vector<std::filesystem::path> paths;
  CapturedLayout layout;
  ModelSites sites;
  std::vector<size_t> first_sequence;  // of each file
  std::vector<int64_t> lengths;        // of all sequences, in tokens
  std::vector<std::string> left_over;  // of the first file
  std::string sha256;                  // of the arrays (array_digest.h)
  std::string sequences_sha256;        // of the ids; of the arrays, where there are no ids
};

// Files one after another to one input.
class CapturedIntake {
 public:
  explicit CapturedIntake(CapturedLayout layout) { input_.layout = std::move(layout); }
  // Throws Error where the file has other sites, layers, heads or channels than the first.
  void Add(const CapturedFile& file);
  // Of the files so far, without the hashes.
  const CapturedInput& input() const { return input_; }
  // With them. Call it once, at the end.
  CapturedInput Take();

 private:
  CapturedInput input_;
  std::vector<std::string> sites_;  // of the first file
  std::vector<ScoredSequence> ids_;
  bool known_ = true;  // ids of every file
  Sha256 sha_;
};

// Throws Error where a file has other sites, layers, heads or channels than the first.
CapturedInput LoadCaptured(const std::vector<std::filesystem::path>& paths, const CapturedLayout& layout);

}  // namespace tare
