// SPDX-License-Identifier: Apache-2.0
#include "experiments/tasks/choice.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <numeric>

#include "experiments/passes/sequences.h"
#include "experiments/tasks/groups.h"
#include "experiments/text/grammar.h"
#include "kernels/elementwise/rows.h"
#include "quant/base/error.h"
#include "quant/base/formatted.h"

namespace tare {
namespace {

constexpr int64_t kBatchRows = 2048;  // a batch is full once it has so many

// A token of an ending whose log-probability is read from a row of the batch.
struct Target {
  int64_t row;
  int32_t token;
  size_t record, ending;
};

class Batch {
 public:
  Batch(std::optional<int32_t> bos, ContextSharing sharing) : bos_(bos), sharing_(sharing) {}

  void Add(size_t record, const EncodedChoice& item) {
    if (sharing_ == ContextSharing::kAllowed && item.shares_context) {
      AddShared(record, item);
    } else {
      for (size_t e = 0; e < item.endings.size(); ++e) AddWhole(record, e, item.endings[e]);
    }
  }
  bool Full() const { return tokens.Rows() >= kBatchRows; }

  TokenBatch tokens;
  std::vector<Target> targets;

 private:
  size_t BosLength() const { return bos_ ? 1 : 0; }

  std::vector<int32_t> Front(const EncodedChoice::Ending& ending, size_t count) const {
    std::vector<int32_t> front;
    if (bos_) front.push_back(*bos_);
    front.insert(front.end(), ending.tokens.begin(), ending.tokens.begin() + static_cast<ptrdiff_t>(count));
    return front;
  }

  // The context once, each ending a branch; an ending's first token is predicted by the context's last row.
  void AddShared(size_t record, const EncodedChoice& item) {
    const size_t context = item.endings[0].first_scored;
    const std::vector<int32_t> front = Front(item.endings[0], context);
    const int64_t last = tokens.Add(static_cast<int64_t>(record), front) + static_cast<int64_t>(front.size()) - 1;
    for (size_t e = 0; e < item.endings.size(); ++e) {
      const auto ending = std::span(item.endings[e].tokens).subspan(context);
      targets.push_back({last, ending[0], record, e});
      if (ending.size() == 1) continue;
      // Without the last token, which predicts nothing that is scored.
      const int64_t first = tokens.AddBranch(ending.first(ending.size() - 1));
      for (size_t i = 1; i < ending.size(); ++i)
        targets.push_back({first + static_cast<int64_t>(i) - 1, ending[i], record, e});
    }
  }

  // All of it, the last token too, though it predicts nothing that is scored: a scale that spans rows sees the whole
  // sequence. (lm-evaluation-harness leaves the last token away; without such a scale that is the same.)
  void AddWhole(size_t record, size_t e, const EncodedChoice::Ending& ending) {
    const std::vector<int32_t> whole = Front(ending, ending.tokens.size());
    const int64_t first = tokens.Add(static_cast<int64_t>(record), whole);
    for (size_t i = BosLength() + ending.first_scored; i < whole.size(); ++i) {
      targets.push_back({first + static_cast<int64_t>(i) - 1, whole[i], record, e});
    }
  }

  std::optional<int32_t> bos_;
  ContextSharing sharing_;
};

// Scores the targets whose rows the last pass computed: row_of gives a target's row in that pass, or none.
void Score(Model& model, const std::vector<Target>& targets,
           const std::function<std::optional<int64_t>(int64_t)>& row_of, std::vector<ChoiceRecord>& records) {
  std::vector<int64_t> rows;
  std::vector<const Target*> here;
  for (const Target& t : targets) {
    const std::optional<int64_t> row = row_of(t.row);
    if (!row) continue;
    rows.push_back(*row);
    here.push_back(&t);
  }
  std::vector<double> log_probabilities(rows.size());
  model.VocabularyLogits(rows, [&](size_t i, const float* logits, int) {
    log_probabilities[i] = static_cast<double>(logits[here[i]->token]) - LogSumExp(logits, model.config().vocabulary);
  });
  for (size_t i = 0; i < rows.size(); ++i)
    records[here[i]->record].log_likelihoods[here[i]->ending] += log_probabilities[i];
}

void RunBatch(Model& model, SiteVisitors visitors, const Batch& batch, const std::optional<CachePlan>& cache,
              std::vector<ChoiceRecord>& records) {
  if (!cache) {
    model.Forward(batch.tokens, visitors);
    return Score(model, batch.targets, [](int64_t row) { return std::optional(row); }, records);
  }
  PassThroughCaches(model, visitors, batch.tokens, *cache, [&](const TokenBatch&, const std::vector<int64_t>& rows) {
    std::map<int64_t, int64_t> row_of_pass;
    for (size_t i = 0; i < rows.size(); ++i) row_of_pass[rows[i]] = static_cast<int64_t>(i);
    Score(
        model, batch.targets,
        [&](int64_t row) {
          const auto found = row_of_pass.find(row);
          return found == row_of_pass.end() ? std::nullopt : std::optional(found->second);
        },
        records);
  });
}

// Refused under every plan, even though endings that share their context would need one row less.
void CheckLength(const ChoiceItem& item, const EncodedChoice& encoded, size_t bos, int max_positions) {
  for (const EncodedChoice::Ending& ending : encoded.endings) {
    const size_t length = bos + ending.tokens.size();
    if (length > static_cast<size_t>(max_positions)) {
      Fail("{}: got {} tokens with an ending, expected at most max_position_embeddings {}; try a shorter context",
           item.where, length, max_positions);
    }
  }
}

// Index of the largest value, the first of equals, as numpy's argmax.
int ArgMax(const std::vector<double>& values) {
  return static_cast<int>(std::ranges::max_element(values) - values.begin());
}

void Answer(ChoiceRecord& r) {
  std::vector<double> by_character;
  for (size_t i = 0; i < r.log_likelihoods.size(); ++i) {
    if (!std::isfinite(r.log_likelihoods[i]))
      Fail("item of line {}, ending {}: the log-likelihood is not finite; try `tare stats` to see where", r.line, i);
    by_character.push_back(r.log_likelihoods[i] / static_cast<double>(r.characters[i]));
  }
  r.answer = ArgMax(r.log_likelihoods);
  r.answer_norm = ArgMax(by_character);
}

// s / sqrt(n) of 0/1 outcomes, s^2 = n mean (1 - mean) / (n - 1).
double ErrorOf(double mean, double n) { return n < 2 ? 0.0 : std::sqrt(mean * (1 - mean) / (n - 1)); }

}  // namespace

std::vector<ChoiceRecord> MeasureChoice(Model& model, SiteVisitors visitors, ContextSharing sharing,
                                        const std::vector<ChoiceItem>& items, const Tokenizer& tokenizer,
                                        std::optional<int32_t> bos, const std::optional<CachePlan>& cache,
                                        const Progress& progress) {
  if (items.empty()) Fail("choice: no items; expected at least one line");
  std::vector<ChoiceRecord> records;
  Batch batch(bos, sharing);
  for (size_t i = 0; i < items.size(); ++i) {
    const EncodedChoice encoded = EncodeChoice(items[i], tokenizer);
    CheckLength(items[i], encoded, bos ? 1 : 0, model.config().max_positions);
    ChoiceRecord& record =
        records.emplace_back(ChoiceRecord{.line = items[i].line, .label = items[i].label, .keys = items[i].keys});
    record.log_likelihoods.resize(encoded.endings.size());
    for (const auto& ending : encoded.endings) record.characters.push_back(ending.characters);
    batch.Add(i, encoded);
    if (!batch.Full() && i + 1 < items.size()) continue;
    RunBatch(model, visitors, batch, cache, records);
    batch = Batch(bos, sharing);
    Report(progress, std::ssize(records), std::ssize(items), "items");
  }
  for (ChoiceRecord& record : records) Answer(record);
  return records;
}

TaskResult Accuracies(const std::vector<ChoiceRecord>& records) {
  TaskResult result;
  std::string outcomes, outcomes_norm;
  for (const ChoiceRecord& r : records) {
    outcomes += r.Correct() ? '1' : '0';
    outcomes_norm += r.CorrectNorm() ? '1' : '0';
    result.records.push_back({{"line", r.line},
                              {"label", r.label},
                              {"answer", r.answer},
                              {"answer_norm", r.answer_norm},
                              {"log_likelihoods", r.log_likelihoods},
                              {"characters", r.characters}});
    if (!r.keys.empty()) result.records.back()["item"] = r.keys;
  }
  const auto n = static_cast<double>(records.size());
  const double acc = static_cast<double>(std::ranges::count(outcomes, '1')) / n;
  const double acc_norm = static_cast<double>(std::ranges::count(outcomes_norm, '1')) / n;
  result.figures = {{"n", records.size()},
                    {"acc", acc},
                    {"acc_stderr", ErrorOf(acc, n)},
                    {"acc_norm", acc_norm},
                    {"acc_norm_stderr", ErrorOf(acc_norm, n)},
                    {"outcomes", outcomes},
                    {"outcomes_norm", outcomes_norm}};
  std::vector<size_t> all(records.size());
  std::iota(all.begin(), all.end(), size_t{0});
  const WindowLosses samples = BySample(result.records, outcomes, all);
  if (samples.counts.size() == records.size()) return result;
  result.figures.update({{"sample_items", samples.counts},
                         {"sample_right", samples.sums},
                         {"sample_right_norm", BySample(result.records, outcomes_norm, all).sums}});
  return result;
}

namespace {

// Checked before the first item runs. A token takes at least a byte, so short items need not be encoded for this.
void CheckLengths(const std::vector<ChoiceItem>& items, const Tokenizer& tokenizer, int max_positions) {
  for (const ChoiceItem& item : items) {
    const size_t longest = std::ranges::max(item.endings, {}, &std::string::size).size();
    if (item.context.size() + longest + 2 > static_cast<size_t>(max_positions))
      CheckLength(item, EncodeChoice(item, tokenizer), tokenizer.bos() ? 1 : 0, max_positions);
  }
}

RunTask Read(const std::filesystem::path& file, const Model& of, const TaskOptions& options) {
  Tokenizer loaded = Tokenizer::Load(of.folder());
  std::vector<ChoiceItem> all = LoadChoiceItems(file, static_cast<size_t>(options.windows.limit));
  CheckLengths(all, loaded, of.config().max_positions);
  return [tokenizer = std::move(loaded), items = std::move(all)](Model& model, PlanRun& run, const Progress& progress) {
    const SiteVisitors visitors = run.Begin(model);
    const ContextSharing sharing = run.SpansRows() ? ContextSharing::kForbidden : ContextSharing::kAllowed;
    TaskResult result =
        Accuracies(MeasureChoice(model, visitors, sharing, items, tokenizer, tokenizer.bos(), run.cache(), progress));
    result.figures["bos"] = tokenizer.bos().has_value();
    return result;
  };
}

std::string How(const Json& result) {
  const std::string samples =
      result.contains("sample_items") ? " of " + Counted(std::ssize(result["sample_items"]), "sample") : "";
  return Formatted("{}{}, each ending scored after its context, {} <s>", Counted(result.at("n"), "item"), samples,
                   result.at("bos").get<bool>() ? "with" : "without");
}

std::vector<ItemKeys> Keys(const std::filesystem::path& file, size_t limit) {
  std::vector<ItemKeys> keys;
  for (const ChoiceItem& item : LoadChoiceItems(file, limit)) keys.push_back({item.where, item.keys});
  return keys;
}

constexpr WindowKeys kSamples{.losses = "sample_right", .counts = "sample_items"},
    kSamplesNorm{.losses = "sample_right_norm", .counts = "sample_items"};
constexpr FigureKeys kFigures[] = {
    {.name = "acc", .error = "acc_stderr", .outcomes = "outcomes", .windows = kSamples},
    {.name = "acc_norm", .error = "acc_norm_stderr", .outcomes = "outcomes_norm", .windows = kSamplesNorm}};

}  // namespace

constexpr TaskKind kChoiceTask{.name = "choice",
                               .file = "ITEMS.jsonl",
                               .read = Read,
                               .figures = kFigures,
                               .count = "n",
                               .unit = "item",
                               .how = How,
                               .keys = Keys};

}  // namespace tare
