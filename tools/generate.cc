// SPDX-License-Identifier: Apache-2.0
// tare generate: continues a text with a key/value cache.
#include <utility>

#include "experiments/bench/roofline.h"
#include "experiments/passes/generate.h"
#include "experiments/text/chat/chat_template.h"
#include "experiments/text/tokenizer/tokenizer.h"
#include "quant/base/parallel.h"
#include "quant/file/files_of_run.h"
#include "quant/file/mapped_file.h"
#include "tools/run_options.h"

namespace tare {
namespace {

struct GenerateArguments {
  std::string model, plan, prompt, system, input, cache, stats, json;
  bool chat = false;
  GenerateOptions generate;
  MachineOptions machine;
};

struct Prompt {
  std::optional<Tokenizer> tokenizer;  // none: ids go in and come out
  std::vector<int32_t> tokens;
};

// The file's messages, or the words of the command line.
Json ChatOf(const GenerateArguments& options) {
  if (!options.input.empty()) return ParseOrderedJson(MappedFile(options.input).text(), options.input);
  Json messages = Json::array();
  if (!options.system.empty()) messages.push_back({{"role", "system"}, {"content", options.system}});
  messages.push_back({{"role", "user"}, {"content", options.prompt}});
  return {{"messages", messages}};
}

Prompt PromptOf(const GenerateArguments& options, const Model& model) {
  Prompt prompt;
  if (options.chat || options.input.empty()) {
    prompt.tokenizer = Tokenizer::Load(model.folder());
    ChatTemplate chats(model.folder());
    const std::string where = options.input.empty() ? "--chat" : options.input;
    prompt.tokens = options.chat ? prompt.tokenizer->Encode(chats.Text(ChatOf(options), ChatEnd::kPrompted, where))
                                 : prompt.tokenizer->EncodeWithBos(options.prompt);
    return prompt;
  }
  const TokenInput input = LoadTokenInput(options.input, model.folder(), model.config().vocabulary);
  if (input.kind == TokenInput::Kind::kText) prompt.tokenizer = Tokenizer::Load(model.folder());
  if (input.sequences.size() != 1)
    Fail("{}: got {} rows of ids, expected one row, the prompt", options.input, input.sequences.size());
  if (input.bos) prompt.tokens.push_back(*input.bos);
  prompt.tokens.insert(prompt.tokens.end(), input.sequences[0].begin(), input.sequences[0].end());
  return prompt;
}

// Writes text, or ids separated by spaces, to standard output as they come.
class StreamedText {
 public:
  StreamedText(const Prompt& prompt, bool shown) : shown_(shown) {
    if (prompt.tokenizer) stream_.emplace(*prompt.tokenizer, prompt.tokens);
  }

  void Add(int32_t token) { Put(stream_ ? stream_->Add(token) : Formatted("{} ", token)); }
  void End() {
    if (stream_) Put(stream_->Rest());
    if (shown_) PutText("\n");
  }
  const std::string& text() const { return text_; }

 private:
  void Put(const std::string& more) {
    text_ += more;
    if (!std::exchange(shown_, false)) return;
    PutText(more);  // once it fails, nothing more is put there
    shown_ = true;
  }

  bool shown_;
  std::optional<TextStream> stream_;
  std::string text_;
};

// What ended the tokens, for JSON and in words.
struct Stop {
  const char *key, *text;
};

Stop StopOf(const GenerateOptions& options, const Generation& done) {
  if (!done.tokens.empty() && options.ends.contains(done.tokens.back()))
    return {"end_of_text", "stopped at an end-of-text token"};
  if (std::ssize(done.tokens) == options.tokens) return {"tokens", "stopped at the number of --tokens"};
  return {"error", "stopped early, for the reason below"};
}

Json JsonOf(const GenerateArguments& options, const Model& model, const Prompt& prompt, const Generation& done,
            const StreamedText& output, double read_gbps) {
  const Sampling& sampling = options.generate.sampling;
  return {{"schema", "tare.generate/1"},
          {"model", model.Name()},
          {"weights_sha256", model.files().ContentHash()},
          {"plan", options.plan},
          {"cache", Name(options.generate.cache)},
          {"temperature", sampling.temperature},
          {"top_p", sampling.top_p},
          {"seed", sampling.seed},
          {"prompt_tokens", prompt.tokens.size()},
          {"tokens", done.tokens},
          {"stop", StopOf(options.generate, done).key},
          {"text", prompt.tokenizer ? Json(output.text()) : Json(nullptr)},
          {"prompt_seconds", done.prompt_seconds},
          {"seconds", done.seconds},
          {"tokens_per_second", done.TokensPerSecond()},
          {"weight_bytes_per_token", done.weight_bytes},
          {"cache_bytes_per_token", done.cache_bytes},
          {"values_skipped", done.values_skipped},
          {"read_gbps", read_gbps},
          {"bandwidth_fraction", done.BytesPerSecond() / 1e9 / read_gbps},
          {"cpu", CpuName()},
          {"threads", Threads()}};
}

void Report(const GenerateArguments& options, const Model& model, const Prompt& prompt, const Generation& done,
            const StreamedText& output) {
  constexpr size_t kRead = size_t{256} << 20;
  const double read_gbps = ReadRate(Threads(), kRead);
  const std::string line = Formatted(
      "\n{}\n"
      "{} tokens in {:.2f} s, {:.1f} per second; prompt of {} in {:.2f} s\n"
      "per token {:.1f} MB of weights and {:.1f} MB of cache;\n"
      "{:.2f} of the memory's read rate ({:.1f} GB/s){}\n",
      StopOf(options.generate, done).text, done.tokens.size(), done.seconds, done.TokensPerSecond(),
      prompt.tokens.size(), done.prompt_seconds, done.weight_bytes / 1e6, done.cache_bytes / 1e6,
      done.BytesPerSecond() / 1e9 / read_gbps, read_gbps,
      done.values_skipped > 0 ? Formatted("\n{:.1f} % of the values were skipped", 100 * done.values_skipped) : "");
  PutError(line);
  // Only made when requested, because its hash of the weights reads all of them.
  if (!options.json.empty()) WriteJson(options.json, JsonOf(options, model, prompt, done, output, read_gbps));
}

void Run(const CLI::App& command, GenerateArguments& options) {
  if (options.input.empty() == options.prompt.empty())
    throw CLI::ValidationError(
        "--prompt", options.input.empty() ? "got none, expected a text, or a file with --input; try --prompt 'It was'"
                                          : "got --input too, expected one of the two; try leaving out --input");
  if (options.prompt == "-") {
    options.prompt = MappedFile(FileOf("-")).text();
    if (options.prompt.ends_with('\n')) options.prompt.pop_back();  // as a shell's $(COMMAND)
  }
  const Plan plan = Plan::Parse(options.plan);
  const CachePlan cache = ParseCachePlan(options.cache);
  const bool has_static = plan.HasStaticScales() || cache.rules.HasStaticScales();
  RequireEffect(command, has_static, {"--stats"}, "a rule with +static");
  const std::vector<AtomicFile> claims =
      ClaimFiles({options.model, options.input, options.stats}, {{options.json, JsonWith("tare.generate/")}});
  Model model(options.model, options.machine.Apply());
  PlanRun run(PromptPlanOf(plan, ModelSitesOf(model), cache.policy), ModelSitesOf(model), cache,
              StaticSourceOf(options.stats, model.files()));
  options.generate.cache = *run.cache();
  const Prompt prompt = PromptOf(options, model);
  options.generate.ends = EndTokens(options.model);
  const SiteVisitors visitors = run.Begin(model, ProgressLine("plan").Callback());
  StreamedText output(prompt, PrintsTables(options.json));
  Generation done;
  std::exception_ptr failed;
  try {
    ProgressLine progress("prompt");
    Generate(
        model, visitors, prompt.tokens, options.generate, progress.Callback(),
        [&](int32_t token) {
          output.Add(token);
          return true;
        },
        done);
  } catch (const Error&) {
    if (done.tokens.empty()) throw;
    failed = std::current_exception();  // interrupted, or what is not finite: what came so far is not lost
  }
  output.End();
  Report(options, model, prompt, done, output);
  if (failed) std::rethrow_exception(failed);
}

}  // namespace

void AddGenerate(CLI::App& app) {
  const auto [command, options] =
      NewCommand<GenerateArguments>(app, "generate", "continue a text with a KV cache, which may be low-bit", Run);
  AddModel(command, options.model);
  Group(command, "The text");
  Add(command, "--prompt WORDS", options.prompt, "the text to continue; -: from standard input");
  Add(command, "--input FILE", options.input, "instead: a text, or one row of input_ids; of --chat, messages in JSON");
  command.add_flag("--chat", options.chat, "the prompt is a user's message, for the model's chat template");
  Add(command, "--system WORDS", options.system, "the system's message before it")->needs("--chat")->needs("--prompt");
  AddWhole(command, "--tokens N", options.generate.tokens, "tokens to generate at most", 1);
  Group(command, "How the model runs");
  Add(command, "--cache RULES", options.cache, "cache_k=int8/token,keep=h2o/256 (tare help cache); default: f32");
  Add(command, "--plan RULES", options.plan,
      "integer kernels for linear layers (weights=int4/group16) and for attention of the prompt (int8)");
  AddStatistics(command, options.stats);
  Group(command, "Sampling");
  Sampling& sampling = options.generate.sampling;
  Add(command, "--temperature X", sampling.temperature, "0: always the most likely token")->capture_default_str();
  Add(command, "--top-p X", sampling.top_p, "draw from the likeliest tokens of this total probability")
      ->capture_default_str();
  Add(command, "--seed N", sampling.seed, "seed of the draws")->capture_default_str();
  Group(command, "Output");
  Add(command, "--json FILE", options.json, "write the results as JSON; -: to standard output, without the text");
  options.machine.AddTo(command, AddHashAgain);
}

}  // namespace tare
