// SPDX-License-Identifier: Apache-2.0
// Continues a prompt, one token at a time, with a key/value cache.
#pragma once

#include <cstdint>
#include <functional>
#include <set>
#include <vector>

#include "experiments/model/model.h"
#include "experiments/passes/progress.h"
#include "experiments/passes/sampler.h"

namespace tare {

// The tokens that end a text: eos_token_id of generation_config.json, or of config.json; none where neither has one.
std::set<int32_t> EndTokens(const std::filesystem::path& checkpoint);

struct GenerateOptions {
  CachePlan cache;
  int64_t tokens = 128;    // at most so many
  std::set<int32_t> ends;  // after one of these no more
  Sampling sampling;
};

// What was done so far, for a caller who may be interrupted.
struct Generation {
  std::vector<int32_t> tokens;
  double prompt_seconds = 0;  // of the prompt's tokens but the last
  double seconds = 0;         // of all tokens generated
  double weight_bytes = 0;    // read for a token
  double cache_bytes = 0;     // of the cache that a token reads, on average
  double values_skipped = 0;  // of the pages of values, what skip= left unread

  double TokensPerSecond() const { return seconds > 0 ? static_cast<double>(tokens.size()) / seconds : 0; }
  double BytesPerToken() const { return weight_bytes + cache_bytes; }
  double BytesPerSecond() const { return TokensPerSecond() * BytesPerToken(); }
};

// token: called for each token. Throws Error, before anything is computed, for an empty prompt, one that leaves no room
// for the requested tokens, and a cache larger than the machine's memory; interrupted, in the middle.
void Generate(Model& model, SiteVisitors visitors, std::span<const int32_t> prompt, const GenerateOptions& options,
              const Progress& progress, const std::function<void(int32_t)>& token, Generation& done);

}  // namespace tare
