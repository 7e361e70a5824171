// SPDX-License-Identifier: Apache-2.0
// Continues a prompt, one token at a time, with a key/value cache.
#pragma once

#include <cstdint>
#include <functional>
#include <random>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "experiments/model/model.h"
#include "experiments/passes/progress.h"
#include "experiments/text/tokenizer/tokenizer.h"

namespace tare {

// Text from tokens as they arrive. A token may be part of a character, or add a leading space only after another token,
// so the stream emits the growth of the last tokens' text once it ends with a whole character.
class TextStream {
 public:
  // after: the tokens before the first one.
  TextStream(const Tokenizer& tokenizer, const std::vector<int32_t>& after);

  // The text that the token adds; perhaps none yet.
  std::string Add(int32_t token);
  // The remaining text at the end, with broken characters as U+FFFD.
  std::string Rest();

 private:
  std::string Grown() const;

  const Tokenizer& tokenizer_;
  std::vector<int32_t> tokens_;  // since the last whole character but one
  size_t told_;                  // how many of them have their text emitted
};

// Picks the next token: the most likely one, or one drawn at a temperature from the smallest set of most likely tokens
// with probability top_p (nucleus, arXiv 1904.09751). Seed and logits fix it on every machine.
struct Sampling {
  double temperature = 0;  // 0: the most likely token, the first of equals
  double top_p = 1;        // above 0, up to 1
  uint64_t seed = 0;
};

class Sampler {
 public:
  // Throws Error for a temperature below 0 or not finite, and for top_p outside (0, 1].
  explicit Sampler(const Sampling& sampling);

  // Throws Error if a logit is NaN or the largest is not finite.
  int32_t Pick(std::span<const float> logits);

 private:
  int32_t Draw(std::span<const float> logits, float largest);

  Sampling sampling_;
  std::mt19937_64 random_;
  std::vector<double> weights_;  // of all tokens, relative to the most likely one's 1
  std::vector<int32_t> nucleus_;
};

// End tokens: eos_token_id of generation_config.json, else config.json, as in transformers 5.12; or none.
std::set<int32_t> EndTokens(const std::filesystem::path& checkpoint);

struct GenerateOptions {
  CachePlan cache;
  int64_t tokens = 128;    // at most
  std::set<int32_t> ends;  // stop after one of these
  Sampling sampling;
};

// The progress so far, for a caller that may be interrupted.
struct Generation {
  std::vector<int32_t> tokens;
  double prompt_seconds = 0;  // for the prompt's tokens but the last
  double seconds = 0;         // for all generated tokens
  double weight_bytes = 0;    // read per token
  double cache_bytes = 0;     // read per token, on average
  double values_skipped = 0;  // share of the pages of values that skip= left unread

  double TokensPerSecond() const { return seconds > 0 ? static_cast<double>(tokens.size()) / seconds : 0; }
  double BytesPerSecond() const { return TokensPerSecond() * (weight_bytes + cache_bytes); }
};

// token: called per token; false ends the text. Throws Error first for an empty prompt, one that leaves no room for the
// requested tokens, and a cache above the machine's memory; later only when interrupted.
void Generate(Model& model, SiteVisitors visitors, std::span<const int32_t> prompt, const GenerateOptions& options,
              const Progress& progress, const std::function<bool(int32_t)>& token, Generation& done);

// As Generate without a cache, for plans that cannot decode: each token is picked after a pass of the whole text before
// it, so n tokens after a prompt of p cost n passes of p to p + n - 1 rows. The figures of speed stay 0.
void GenerateWhole(Model& model, SiteVisitors visitors, std::span<const int32_t> prompt, const GenerateOptions& options,
                   const std::function<bool(int32_t)>& token, Generation& done);

}  // namespace tare
