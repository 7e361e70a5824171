// SPDX-License-Identifier: Apache-2.0
// The size of a pass, bytes of weights, checks, TextStream, Sampler, EndTokens, generation with and without a cache.
#include "experiments/passes/generate.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <numeric>

#include "experiments/model/config/family.h"
#include "quant/base/message.h"
#include "quant/checkpoint/checkpoint.h"
#include "quant/file/json.h"

namespace tare {
namespace {

constexpr size_t kContext = 8;  // tokens before the first, of which its spelling may depend

// On the integer kernels each pass reads and packs the cache anew. A multiple of every block<N> that is a power of two.
constexpr int64_t kExecutedAtOnce = 2048;

// A prompt's tokens per pass. Longer passes would show queries more of the last f32 tokens, and skip fewer pages.
int64_t PromptTokens(const Model& model, const SequenceCache& cache, const CachePlan& plan) {
  if (model.ExecutesPrompts()) return cache.TokensAtOnce(kExecutedAtOnce);
  return plan.policy.last > 0 || plan.policy.skip > 0 ? kPageTokens : cache.TokensAtOnce();
}

double WeightBytes(const Model& model) {
  double bytes = model.head().Bytes();
  for (int layer = 0; layer < model.config().layers; ++layer) {
    for (const LinearLayer& linear : LinearLayersOf(model.config(), layer)) {
      const double all = linear.expert ? model.config().experts : 1,
                   used = linear.expert ? model.config().chosen_experts : 1;
      bytes += WeightsOf(model.layers()[static_cast<size_t>(layer)], linear).Bytes() * used / all;
    }
  }
  return bytes;
}

double Seconds(std::chrono::steady_clock::time_point since) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - since).count();
}

// The token after this row of the last batch.
int32_t PickAt(Model& model, int64_t row, Sampler& sampler) {
  int32_t picked = 0;
  model.VocabularyLogits({&row, 1}, [&](size_t, const float* logits, int) {
    picked = sampler.Pick({logits, static_cast<size_t>(model.config().vocabulary)});
  });
  return picked;
}

void Check(const Model& model, int64_t prompt, const GenerateOptions& options) {
  if (prompt == 0) Fail("prompt: got no tokens, expected at least one");
  if (options.tokens < 1) FailUsage("--tokens: got {}, expected at least 1", options.tokens);
  if (options.tokens > model.config().max_positions - prompt) {  // whose sum may overflow
    Fail(
        "prompt: got {} tokens and {} to generate, expected at most max_position_embeddings {} together; try --tokens "
        "{}",
        prompt, options.tokens, model.config().max_positions,
        std::max<int64_t>(1, model.config().max_positions - prompt));
  }
  CheckCacheFits(model.config(), options.cache, prompt + options.tokens);
}

}  // namespace

TextStream::TextStream(const Tokenizer& tokenizer, const std::vector<int32_t>& after)
    : tokenizer_(tokenizer), tokens_(after.end() - std::min<ptrdiff_t>(kContext, std::ssize(after)), after.end()) {
  told_ = tokens_.size();
}

std::string TextStream::Grown() const {
  const std::string before = tokenizer_.Decode({tokens_.begin(), tokens_.begin() + static_cast<ptrdiff_t>(told_)});
  const std::string now = tokenizer_.Decode(tokens_);
  return now.starts_with(before) ? now.substr(before.size()) : now;
}

std::string TextStream::Add(int32_t token) {
  constexpr std::string_view kBroken = "\uFFFD";
  tokens_.push_back(token);
  const std::string grown = Grown();
  if (grown.empty() || grown.ends_with(kBroken)) return "";
  tokens_.erase(tokens_.begin(), tokens_.begin() + static_cast<ptrdiff_t>(told_));
  told_ = tokens_.size();
  return grown;
}

std::string TextStream::Rest() {
  const std::string grown = told_ < tokens_.size() ? Grown() : "";
  told_ = tokens_.size();
  return grown;
}

Sampler::Sampler(const Sampling& sampling) : sampling_(sampling), random_(sampling.seed) {
  if (!std::isfinite(sampling.temperature) || sampling.temperature < 0)
    FailUsage("--temperature: got {}, expected 0 (the likeliest token) or more", sampling.temperature);
  if (!(sampling.top_p > 0 && sampling.top_p <= 1))
    FailUsage("--top-p: got {}, expected more than 0, at most 1", sampling.top_p);
}

int32_t Sampler::Pick(std::span<const float> logits) {
  const auto nan = std::ranges::find_if(logits, [](float x) { return std::isnan(x); });
  const auto largest = std::ranges::max_element(logits);
  if (nan != logits.end() || !std::isfinite(*largest))
    Fail("vocabulary logits: got NaN or infinity, from which no token can be drawn; try `tare stats` to see where");
  if (sampling_.temperature == 0) return static_cast<int32_t>(largest - logits.begin());
  return Draw(logits, *largest);
}

int32_t Sampler::Draw(std::span<const float> logits, float largest) {
  weights_.clear();
  for (const float x : logits) weights_.push_back(std::exp((double{x} - largest) / sampling_.temperature));
  const double all = std::reduce(weights_.begin(), weights_.end());
  // Those too rare for the nucleus need not be sorted: even together they hold less than what it leaves out.
  const double rare = (1 - sampling_.top_p) * all / static_cast<double>(logits.size());
  nucleus_.clear();
  for (size_t i = 0; i < weights_.size(); ++i) {
    if (weights_[i] > 0 && weights_[i] >= rare) nucleus_.push_back(static_cast<int32_t>(i));
  }
  std::ranges::stable_sort(nucleus_, std::greater(), [&](int32_t token) { return weights_[token]; });
  double held = 0;
  size_t count = 0;
  while (count < nucleus_.size() && held < sampling_.top_p * all) held += weights_[nucleus_[count++]];
  double point = static_cast<double>(random_() >> 11) * 0x1p-53 * held;
  for (size_t i = 0; i + 1 < count; ++i) {
    point -= weights_[nucleus_[i]];
    if (point < 0) return nucleus_[i];
  }
  return nucleus_[count - 1];
}

std::set<int32_t> EndTokens(const std::filesystem::path& checkpoint) {
  constexpr const char *kGeneration = "generation_config.json", *kModel = "config.json";
  const char* const name = CheckpointText(checkpoint, kGeneration) ? kGeneration : kModel;
  const std::string where = (checkpoint / name).string();
  const nlohmann::json json = ParseJson(CheckpointText(checkpoint, name).value_or("{}"), where);
  if (!json.is_object() || !json.contains("eos_token_id") || json["eos_token_id"].is_null()) return {};
  const nlohmann::json ids =
      json["eos_token_id"].is_array() ? json["eos_token_id"] : nlohmann::json{json["eos_token_id"]};
  std::set<int32_t> ends;
  for (const nlohmann::json& id : ids) ends.insert(IntegerOf<int32_t>(id, where + ": eos_token_id"));
  return ends;
}

void Generate(Model& model, SiteVisitors visitors, std::span<const int32_t> prompt, const GenerateOptions& options,
              const Progress& progress, const std::function<bool(int32_t)>& token, Generation& done) {
  const int64_t length = std::ssize(prompt);
  Check(model, length, options);
  Sampler sampler(options.sampling);
  std::vector<int32_t> text(prompt.begin(), prompt.end());
  SequenceCache cache(model.config(), options.cache);
  done = {.weight_bytes = WeightBytes(model)};
  const auto pass = [&](std::span<const int32_t> tokens) {
    TokenBatch batch;
    batch.AddAfter(cache, 0, tokens);
    model.Forward(batch, visitors);
  };
  const auto fill = [&] {  // an empty cache, with all but the last token
    const int64_t before = std::ssize(text) - 1;
    cache.ExpectPrompt(length, before + 1 - length);
    for (int64_t first = 0; first < before;) {
      const int64_t end = first < length - 1 ? length - 1 : before;  // generated tokens are no part of the prompt
      const int64_t count = std::min(PromptTokens(model, cache, options.cache), end - first);
      pass(std::span(text).subspan(static_cast<size_t>(first), static_cast<size_t>(count)));
      first += count;
      Report(progress, first, before, "tokens of the prompt");
    }
  };
  auto begin = std::chrono::steady_clock::now();
  fill();
  done.prompt_seconds = Seconds(begin);
  begin = std::chrono::steady_clock::now();
  double cache_bytes = 0;
  while (std::ssize(done.tokens) < options.tokens) {
    if (cache.Outgrows(std::ssize(text))) {
      cache = SequenceCache(model.config(), options.cache);
      fill();
    }
    pass({&text.back(), 1});
    const int32_t last = PickAt(model, 0, sampler);
    text.push_back(last);
    done.tokens.push_back(last);
    cache_bytes += static_cast<double>(cache.Bytes());
    done.cache_bytes = cache_bytes / static_cast<double>(done.tokens.size());
    done.seconds = Seconds(begin);
    done.values_skipped = static_cast<double>(cache.values().skipped) / static_cast<double>(cache.values().all);
    if (!token(last) || options.ends.contains(last)) break;
  }
}

void GenerateWhole(Model& model, SiteVisitors visitors, std::span<const int32_t> prompt, const GenerateOptions& options,
                   const std::function<bool(int32_t)>& token, Generation& done) {
  Check(model, std::ssize(prompt), options);
  Sampler sampler(options.sampling);
  done = {};
  std::vector<int32_t> text(prompt.begin(), prompt.end());
  while (std::ssize(done.tokens) < options.tokens) {
    TokenBatch batch;
    batch.Add(0, text);
    model.Forward(batch, visitors);
    const int32_t next = PickAt(model, batch.Rows() - 1, sampler);
    text.push_back(next);
    done.tokens.push_back(next);
    if (!token(next) || options.ends.contains(next)) break;
  }
}

}  // namespace tare
