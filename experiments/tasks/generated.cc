// SPDX-License-Identifier: Apache-2.0
#include "experiments/tasks/choice.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "experiments/significance/draws.h"
#include "experiments/text/chat/chat_template.h"
#include "quant/base/message.h"

namespace tare {
namespace {

// A prompt as the model reads it, and how its answer is made.
struct Prompted {
  PromptItem item;
  std::vector<int32_t> tokens;  // with `<s>`
  GenerateOptions generate;
};

// The line-th number of SplitMix64, 53 bits, so that JSON holds it: an item's draws depend on no other item.
uint64_t SeedOfItem(uint64_t seed, size_t line) {
  return SplitMix64(seed + 0x9e3779b97f4a7c15u * (static_cast<uint64_t>(line) - 1)) >> 11;
}

GenerateOptions OptionsOf(const PromptItem& item, const AnswerOptions& options) {
  const int64_t own = item.tokens.value_or(options.tokens > 0 ? options.tokens : kAnswerTokens);
  return {.cache = {},
          .tokens = options.tokens > 0 ? std::min(own, options.tokens) : own,
          .sampling = {.temperature = options.temperature.value_or(item.temperature.value_or(0)),
                       .top_p = options.top_p.value_or(item.top_p.value_or(1)),
                       .seed = SeedOfItem(options.seed, item.line)}};
}

std::vector<Prompted> ReadPrompts(const std::filesystem::path& file, const Model& model, const Tokenizer& tokenizer,
                                  const TaskOptions& options) {
  std::vector<Prompted> prompts;
  const std::set<int32_t> ends = EndTokens(model.folder());
  const int64_t positions = model.config().max_positions;
  ChatTemplate chats(model.folder());
  for (PromptItem& item : LoadPrompts(file, static_cast<size_t>(options.windows.limit), options.windows.from)) {
    Prompted& prompt = prompts.emplace_back();
    prompt.tokens = item.chat.is_null() ? tokenizer.EncodeWithBos(item.prompt)
                                        : tokenizer.Encode(chats.Text(item.chat, ChatEnd::kPrompted, item.where));
    prompt.generate = OptionsOf(item, options.answers);
    prompt.generate.ends = ends;
    (void)Sampler(prompt.generate.sampling);  // refuses what cannot be drawn from
    const int64_t length = std::ssize(prompt.tokens), left = positions - length;
    if (length == 0) Fail("{}: got a prompt without a token, expected text", item.where);
    if (left < prompt.generate.tokens)
      Fail("{}: got a prompt of {} tokens and {} to generate, expected at most max_position_embeddings {} together; {}",
           item.where, length, prompt.generate.tokens, positions,
           left > 0 ? Formatted("try --max-tokens {}", left) : "try a shorter prompt");
    prompt.item = std::move(item);
  }
  return prompts;
}

Answer AnswerTo(Model& model, SiteVisitors visitors, const Tokenizer& tokenizer, const Prompted& prompt,
                const std::optional<CachePlan>& cache) {
  TextStream stream(tokenizer, prompt.tokens);
  std::string text;
  bool stopped = false;
  const auto grow = [&](const std::string& more) {  // up to the first stop string
    if (stopped) return;
    text += more;
    size_t first = text.npos;
    for (const std::string& stop : prompt.item.stops) first = std::min(first, text.find(stop));
    stopped = first != text.npos;
    if (stopped) text.resize(first);
  };
  GenerateOptions options = prompt.generate;
  Generation done;
  const auto take = [&](int32_t token) {
    if (!options.ends.contains(token)) grow(stream.Add(token));
    return !stopped;
  };
  if (cache) {
    options.cache = *cache;
    Generate(model, visitors, prompt.tokens, options, {}, take, done);
  } else {
    GenerateWhole(model, visitors, prompt.tokens, options, take, done);
  }
  grow(stream.Rest());
  const AnswerEnd end = stopped                                     ? AnswerEnd::kStop
                        : options.ends.contains(done.tokens.back()) ? AnswerEnd::kEndOfText
                                                                    : AnswerEnd::kTokens;
  return {std::move(done.tokens), std::move(text), end, options.tokens, options.sampling};
}

constexpr const char* kEnds[] = {"stop", "end_of_text", "tokens"};  // by AnswerEnd

Json RecordOf(const PromptItem& item, const Answer& answer, const AnswerScores& scores) {
  Json record{{"line", item.line},
              {"answer", answer.text},
              {"tokens", answer.tokens},
              {"end", kEnds[static_cast<size_t>(answer.end)]},
              {"right", scores.Right(item.score)},
              {"exact", scores.exact},
              {"contains", scores.contains},
              {"number", scores.number},
              {"recall", scores.recall},
              {"f1", scores.f1}};
  if (answer.sampling.temperature > 0) record["seed"] = answer.sampling.seed;
  if (!item.keys.empty()) record["item"] = item.keys;
  return record;
}

void AddShareOf(TaskResult& result, const std::string& name, const char* of_record, const std::string& outcomes_key) {
  std::string outcomes;
  for (const Json& record : result.records) outcomes += record.at(of_record).get<bool>() ? '1' : '0';
  AddShare(result.figures, name, outcomes);
  result.figures[outcomes_key] = outcomes;
}

// The error over samples, those of one not being independent: sqrt(c / (c - 1) sum (s - A m)^2) / n; 0 of one.
void AddMean(TaskResult& result, const std::string& name) {
  std::vector<double> scores;
  for (const Json& record : result.records) scores.push_back(record.at(name));
  const WindowLosses samples = BySample(result.records, scores);
  const auto n = static_cast<double>(scores.size()), clusters = static_cast<double>(samples.sums.size());
  const double mean = std::accumulate(scores.begin(), scores.end(), 0.0) / n;
  double squares = 0;
  for (size_t i = 0; i < samples.sums.size(); ++i) squares += std::pow(samples.sums[i] - mean * samples.counts[i], 2);
  result.figures[name] = mean;
  result.figures[name + "_stderr"] = clusters < 2 ? 0.0 : std::sqrt(squares * clusters / (clusters - 1)) / n;
  result.figures[name + "_sums"] = samples.sums;
  result.figures["mean_counts"] = samples.counts;
}

// A figure beside the accuracy, which tables leave out. outcomes: null of means.
constexpr FigureKeys Beside(const char* name, const char* error, const char* outcomes, const WindowKeys& samples) {
  return {.name = name, .error = error, .outcomes = outcomes, .windows = samples, .in_tables = nullptr};
}
constexpr FigureKeys kGeneratedFigures[] = {
    {.name = "acc", .error = "acc_stderr", .outcomes = "outcomes", .windows = OfSamples("sample_right")},
    Beside("exact", "exact_stderr", "outcomes_exact", OfSamples("sample_exact")),
    Beside("contains", "contains_stderr", "outcomes_contains", OfSamples("sample_contains")),
    Beside("recall", "recall_stderr", nullptr, OfSamples("recall_sums", "mean_counts")),
    Beside("f1", "f1_stderr", nullptr, OfSamples("f1_sums", "mean_counts")),
    Beside("number", "number_stderr", "outcomes_number", OfSamples("sample_number"))};
constexpr FigureKeys kMetricFigures[] = {{.name = "score",
                                          .error = "score_stderr",
                                          .outcomes = "outcomes",
                                          .windows = OfSamples("score_sums", "mean_counts")}};

RunTask ReadGenerate(const std::filesystem::path& file, const Model& of, const TaskOptions& options) {
  Tokenizer loaded = Tokenizer::Load(of.folder());
  std::vector<Prompted> read = ReadPrompts(file, of, loaded, options);
  const std::optional<int32_t> bos = loaded.bos();  // which a chat has where its template writes it
  const bool begins = bos && std::ranges::all_of(read, [&](const Prompted& p) { return p.tokens.front() == *bos; });
  return [tokenizer = std::move(loaded), prompts = std::move(read), begins, seed = options.answers.seed](
             Model& model, PlanRun& run, const Progress& progress) {
    const SiteVisitors visitors = run.Begin(model, progress);
    const std::optional<CachePlan> cache = run.Decodes() ? run.cache().value_or(CachePlan{}) : run.cache();
    std::vector<PromptItem> items;
    std::vector<Answer> answers;
    for (const Prompted& prompt : prompts) {
      answers.push_back(AnswerTo(model, visitors, tokenizer, prompt, cache));
      items.push_back(prompt.item);
      Report(progress, std::ssize(answers), std::ssize(prompts), "items");
    }
    TaskResult result = ScoreAnswers(items, answers);
    result.figures.update({{"sampling_seed", seed}, {"decodes", cache.has_value()}, {"bos", begins}});
    return result;
  };
}

Json AnswersConvention(const AnswerOptions& options) {
  return {{"max_tokens", options.tokens},
          {"temperature", options.temperature ? Json(*options.temperature) : Json()},
          {"top_p", options.top_p ? Json(*options.top_p) : Json()},
          {"sampling_seed", options.seed}};
}

std::string HowGenerated(const Json& result) {
  const int64_t drawn = result.at("drawn");
  const std::string picked = drawn == 0 ? "greedy"
                             : drawn == result.at("n")
                                 ? Formatted("drawn with seed {}", result.at("sampling_seed").dump())
                                 : Formatted("{} drawn with seed {}", drawn, result.at("sampling_seed").dump());
  return Formatted("{}, {}, {} <s>{}: {}; {} cut at {}", Counted(result.at("n"), "answer"), picked,
                   result.at("bos").get<bool>() ? "with" : "without",
                   result.at("decodes").get<bool>() ? "" : ", the whole text passed for each token",
                   Counted(result.at("answer_tokens"), "token"), result.at("cut").dump(),
                   Counted(result.at("most_tokens"), "token"));
}

}  // namespace

TaskResult ScoreAnswers(const std::vector<PromptItem>& items, const std::vector<Answer>& answers) {
  TaskResult result;
  int64_t tokens = 0, cut = 0, drawn = 0, most = 0;
  for (size_t i = 0; i < items.size(); ++i) {
    const Answer& answer = answers[i];
    result.records.push_back(RecordOf(items[i], answer, ScoreAnswer(answer.text, items[i].targets)));
    tokens += std::ssize(answer.tokens);
    cut += answer.end == AnswerEnd::kTokens ? 1 : 0;
    drawn += answer.sampling.temperature > 0 ? 1 : 0;
    most = std::max(most, answer.most_tokens);
  }
  result.figures["n"] = items.size();
  AddShareOf(result, "acc", "right", "outcomes");
  for (const char* name : {"exact", "contains", "number"})
    AddShareOf(result, name, name, Formatted("outcomes_{}", name));
  AddMean(result, "recall");
  AddMean(result, "f1");
  AddSamples(result, kGeneratedFigures);
  result.figures.update({{"answer_tokens", tokens}, {"cut", cut}, {"drawn", drawn}, {"most_tokens", most}});
  return result;
}

std::vector<Json> ScoreFigures(const std::vector<std::vector<double>>& runs) {
  const auto is_verdict = [](double score) { return score == 0 || score == 1; };
  const bool verdicts =
      std::ranges::all_of(runs, [&](const auto& scores) { return std::ranges::all_of(scores, is_verdict); });
  std::vector<Json> figures;
  for (const std::vector<double>& scores : runs) {
    TaskResult result{.figures = {{"n", scores.size()}, {"outcomes", ""}}};
    for (const double score : scores) result.records.push_back({{"score", score}, {"right", score == 1}});
    verdicts ? AddShareOf(result, "score", "right", "outcomes") : AddMean(result, "score");
    figures.push_back(std::move(result.figures));
  }
  return figures;
}

constexpr TaskKind kMetricTask{.name = "metric", .figures = kMetricFigures, .count = "n", .unit = "document"};

constexpr TaskKind kGenerateTask{.name = "generate",
                                 .file = "ITEMS.jsonl",
                                 .what = "accuracy of generated answers",
                                 .read = ReadGenerate,
                                 .figures = kGeneratedFigures,
                                 .count = "n",
                                 .unit = "answer",
                                 .answers = AnswersConvention,
                                 .how = HowGenerated,
                                 .keys = KeysOfItems<LoadPrompts>};

}  // namespace tare
