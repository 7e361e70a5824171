// SPDX-License-Identifier: Apache-2.0
// Files of captured arrays as the input of a statistics job: each file holds some sequences, files keep the given
// order, and all have the same sites. Two optional arrays describe a file's sequences: "attention_mask" [B,T] of 0 and
// 1, where 0 is padding (left or right), and "input_ids" [B,T], which identify runs on the same sequences.
#pragma once

#include <filesystem>
#include <optional>
#include <span>
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
  std::vector<CapturedArray> arrays;   // of sites, sorted by layer and site
  std::vector<PositionRange> tokens;   // of each sequence, without padding
  std::vector<std::string> left_over;  // arrays that match no site
};

// Throws Error if the file's arrays differ in sequences or tokens, if two are of one site in one layer, or if none
// matches a site.
CapturedFile OpenCaptured(std::unique_ptr<ArrayFile> file, const CapturedLayout& layout);

struct CapturedInput {
  std::vector<std::filesystem::path> paths;
  CapturedLayout layout;
  ModelSites sites;
  std::vector<size_t> first_sequence;  // of each file
  std::vector<int64_t> lengths;        // of all sequences, in tokens
  std::vector<std::string> left_over;  // of the first file
  std::string sha256;                  // of the arrays (array_file.h)
  std::string sequences_sha256;        // of the ids; without ids, of the arrays
};

// Joins files, one after another, into one input.
class CapturedIntake {
 public:
  explicit CapturedIntake(CapturedLayout layout) { input_.layout = std::move(layout); }
  // Throws Error if the file has other sites, layers, heads or channels than the first.
  void Add(const CapturedFile& file);
  // The input from the files so far, without the hashes.
  const CapturedInput& input() const { return input_; }
  // The input with the hashes. Call it once, at the end.
  CapturedInput Take();

 private:
  CapturedInput input_;
  std::vector<std::string> sites_;  // of the first file
  std::vector<ScoredSequence> ids_;
  bool known_ = true;  // whether every file has ids
  Sha256 sha_;
};

// Throws Error if a file has other sites, layers, heads or channels than the first.
CapturedInput LoadCaptured(const std::vector<std::filesystem::path>& paths, const CapturedLayout& layout);

// Which keys a query of a captured attention map sees (captured_layout.h, "mask"). The visible keys must be contiguous:
// a mask with holes is refused.
class CapturedMask {
 public:
  // Throws Error for a mask that captured_layout.h does not define.
  CapturedMask(const CapturedFile& file, const CapturedArray& map, const ArrayValues& values, const std::string& mask);

  // The visible keys among [tokens.begin, tokens.end); row: all keys of the query. Empty if the query sees none.
  PositionRange Visible(int64_t sequence, int64_t query, std::span<const float> row, PositionRange tokens) const;

 private:
  enum class Kind { kNone, kCausal, kLowest, kArray };
  bool Sees(int64_t sequence, int64_t query, int64_t key, float value) const;

  std::string where_;
  Kind kind_ = Kind::kNone;
  float lowest_ = 0.0f;  // values up to it are masked
  int64_t later_ = 0;    // number of keys before the first query
  std::optional<ArrayValues> array_;
  int64_t array_sequence_ = 0, columns_ = 0;  // strides
};

}  // namespace tare
