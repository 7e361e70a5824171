// SPDX-License-Identifier: Apache-2.0
#include "experiments/passes/generate.h"

#include <chrono>

#include "experiments/model/family.h"
#include "quant/base/error.h"
#include "quant/file/checkpoint.h"
#include "quant/file/json.h"
#include "quant/file/json_integer.h"
#include "quant/file/strict_json.h"

namespace tare {
namespace {

// Of a pass. Of a prompt's queries some see more of the last tokens in f32, and skip fewer pages, than one by one.
int64_t PromptTokens(const SequenceCache& cache, const CachePlan& plan) {
  return plan.policy.last > 0 || plan.policy.skip > 0 ? kPageTokens : cache.TokensAtOnce();
}

double BytesOf(const LinearWeights& linear) {
  const PlannedLinear* planned = linear.planned.get();
  if (planned != nullptr && planned->packed) return static_cast<double>(planned->packed->Bytes());
  const WeightMatrix& weight = linear.Float();
  return static_cast<double>(weight.out) * static_cast<double>(weight.in) * (weight.type == WeightType::kF32 ? 4 : 2);
}

double WeightBytes(const Model& model) {
  double bytes = BytesOf(model.head());
  for (const LayerWeights& layer : model.layers()) {
    for (const LinearPlace& place : FamilyOf(model.config()).linear) bytes += BytesOf(layer.*place.linear);
  }
  return bytes;
}

double Seconds(std::chrono::steady_clock::time_point since) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - since).count();
}

void Check(const Model& model, int64_t prompt, const GenerateOptions& options) {
  if (prompt == 0) Fail("prompt: got no tokens, expected at least one");
  if (options.tokens < 1) Fail("--tokens: got {}, expected at least 1", options.tokens);
  if (prompt + options.tokens > model.config().max_positions) {
    Fail(
        "prompt: got {} tokens and {} to generate, expected at most max_position_embeddings {} together; try --tokens "
        "{}",
        prompt, options.tokens, model.config().max_positions,
        std::max<int64_t>(1, model.config().max_positions - prompt));
  }
  CheckCacheFits(model.config(), options.cache, prompt + options.tokens);
}

}  // namespace

std::set<int32_t> EndTokens(const std::filesystem::path& checkpoint) {
  for (const char* name : {"generation_config.json", "config.json"}) {
    const std::optional<std::string> text = CheckpointText(checkpoint, name);
    if (!text) continue;
    const std::string where = (checkpoint / name).string();
    const nlohmann::json json = ParseJson(*text, where);
    if (!json.is_object() || !json.contains("eos_token_id") || json["eos_token_id"].is_null()) continue;
    const nlohmann::json ids =
        json["eos_token_id"].is_array() ? json["eos_token_id"] : nlohmann::json{json["eos_token_id"]};
    std::set<int32_t> ends;
    for (const nlohmann::json& id : ids) ends.insert(IntegerOf<int32_t>(id, where + ": eos_token_id"));
    return ends;
  }
  return {};
}

void Generate(Model& model, SiteVisitors visitors, std::span<const int32_t> prompt, const GenerateOptions& options,
              const Progress& progress, const std::function<void(int32_t)>& token, Generation& done) {
  const int64_t length = std::ssize(prompt);
  Check(model, length, options);
  Sampler sampler(options.sampling);
  SequenceCache cache(model.config(), options.cache);
  cache.ExpectPrompt(length);
  done = {.weight_bytes = WeightBytes(model)};
  const auto pass = [&](std::span<const int32_t> tokens) {
    TokenBatch batch;
    batch.AddAfter(cache, 0, tokens);
    model.Forward(batch, visitors);
  };
  auto begin = std::chrono::steady_clock::now();
  for (int64_t first = 0; first + 1 < length;) {
    const int64_t count = std::min(PromptTokens(cache, options.cache), length - 1 - first);
    pass(prompt.subspan(static_cast<size_t>(first), static_cast<size_t>(count)));
    first += count;
    Report(progress, first, length - 1, "tokens of the prompt");
  }
  done.prompt_seconds = Seconds(begin);
  begin = std::chrono::steady_clock::now();
  int32_t last = prompt.back();
  double cache_bytes = 0;
  while (std::ssize(done.tokens) < options.tokens) {
    pass({&last, 1});
    const int64_t row = 0;
    model.VocabularyLogits({&row, 1}, [&](size_t, const float* logits, int) {
      last = sampler.Pick({logits, static_cast<size_t>(model.config().vocabulary)});
    });
    done.tokens.push_back(last);
    cache_bytes += static_cast<double>(cache.Bytes());
    done.cache_bytes = cache_bytes / static_cast<double>(done.tokens.size());
    done.seconds = Seconds(begin);
    done.values_skipped = static_cast<double>(cache.values().skipped) / static_cast<double>(cache.values().all);
    token(last);
    if (options.ends.contains(last)) break;
  }
}

}  // namespace tare
