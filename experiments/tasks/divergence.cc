// SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <cmath>
#include <map>
#include <ranges>

#include "experiments/passes/sequences.h"
#include "experiments/significance/mean_error.h"
#include "experiments/tasks/classify.h"
#include "experiments/text/tokenizer/tokenizer.h"
#include "kernels/elementwise/rows.h"
#include "quant/base/message.h"
#include "quant/file/json.h"

namespace tare {
namespace {

struct MeanAndError {
  double mean = 0;
  std::optional<double> error;  // empty of too few windows
};

// Sums before they are divided: a share is a quotient of counts, and a sum of quotients may exceed 1.
MeanAndError MeanOf(std::span<const TokenDivergence> tokens, double (*of)(const TokenDivergence&)) {
  double sum = 0;
  for (const TokenDivergence& t : tokens) sum += of(t);
  const std::optional<MeanError> error = PairedError(ByWindow(tokens, of));
  return {sum / static_cast<double>(tokens.size()), error ? std::optional(error->error) : std::nullopt};
}

double Kld(const TokenDivergence& t) { return t.kld; }
double SameTop(const TokenDivergence& t) { return t.same_top ? 1.0 : 0.0; }
double LogRatio(const TokenDivergence& t) { return t.loss - t.reference_loss; }
double DeltaP(const TokenDivergence& t) { return std::exp(-t.loss) - std::exp(-t.reference_loss); }

struct KldQuantile {
  const char* key;
  double share;
  const char* what;
};
constexpr KldQuantile kKldQuantiles[] = {{"kld_median", 0.5, "median"}, {"kld_90", 0.9, "90 %"},
                                         {"kld_95", 0.95, "95 %"},      {"kld_99", 0.99, "99 %"},
                                         {"kld_99_9", 0.999, "99.9 %"}, {"kld_largest", 1, "largest"}};

// Rows of reference logits held: 256 x 128k x 4 = 128 MB; as many as the model computes, so that bits are perplexity's.
constexpr size_t kHeldRows = 256;
// Values of logits or hidden states that are kept: 256 MiB, 32,768 tokens at a width of 2,048.
constexpr int64_t kMostKept = int64_t{1} << 26;

// logits: the model's of one of the tokens; of_reference: the reference's, which are turned into its probabilities.
TokenDivergence CompareTokens(std::span<const float> logits, std::span<float> of_reference,
                              const PredictedTokens& predicted, size_t at) {
  const size_t V = logits.size(), target = static_cast<size_t>(predicted.targets[at]);
  const double q_total = LogSumExp(logits.data(), V), p_total = LogSumExp(of_reference.data(), V);
  TokenDivergence token{.reference_loss = p_total - double{of_reference[target]},
                        .loss = q_total - double{logits[target]},
                        .same_top = std::ranges::max_element(logits) - logits.begin() ==
                                    std::ranges::max_element(of_reference) - of_reference.begin(),
                        .context = predicted.contexts[at],
                        .window = predicted.windows[at],
                        .rank = RankOf(logits, predicted.targets[at])};
  // sum p (ln p - ln q) = mean of (logits of p - logits of q) under p, less the difference of their totals.
  thread_local std::vector<float> differences;
  differences.assign(of_reference.begin(), of_reference.end());
  SubtractScaled(differences.data(), logits.data(), 1.0f, V);
  Softmax(of_reference.data(), V);
  double sum[8] = {}, mass[8] = {};
  for (size_t i = 0; i < V; ++i) {
    const double p = of_reference[i];
    mass[i % 8] += p;
    sum[i % 8] += p > 0 ? p * differences[i] : 0.0;  // -inf of both is no difference
  }
  double of_sum = 0, of_mass = 0;
  for (size_t lane = 0; lane < 8; ++lane) of_sum += sum[lane], of_mass += mass[lane];
  token.kld = of_sum / of_mass - p_total + q_total;
  return token;
}

// The reference's logits for the model's tokens, kept or from the same batch, with caches through its own in f32.
class ReferencePass {
 public:
  ReferencePass(Model& model, Model& reference, size_t tokens, ReferenceStates* states)
      : model_(model), reference_(reference), states_(states) {
    if (states != nullptr) states->values.resize(tokens * Width());
  }

  void Follow(const TokenBatch& batch, const PredictedTokens& predicted) {
    if (states_ != nullptr && states_->complete) return;
    Run(batch);
    if (!Keeps(ReferenceStates::Of::kFinalNorm)) return;
    for (size_t i = 0; i < predicted.rows.size(); ++i)
      std::copy_n(reference_.FinalState(predicted.rows[i]), Width(), Kept(predicted.places[i]));
  }
  // The logits of these tokens of the last batch, to [tokens, V].
  void Logits(std::span<const int64_t> rows, std::span<const size_t> places, float* logits) const {
    const auto V = static_cast<size_t>(reference_.config().vocabulary);
    const bool keeps = Keeps(ReferenceStates::Of::kLogits);
    if (keeps && states_->complete) {
      for (size_t i = 0; i < rows.size(); ++i) std::copy_n(Kept(places[i]), V, logits + i * V);
      return;
    }
    std::vector<const float*> states;
    for (size_t i = 0; i < rows.size(); ++i)
      states.push_back(Keeps(ReferenceStates::Of::kFinalNorm) ? Kept(places[i]) : reference_.FinalState(rows[i]));
    reference_.LogitsOf(states, [&](size_t i, const float* of, int) {
      std::copy_n(of, V, logits + i * V);
      if (keeps) std::copy_n(of, V, Kept(places[i]));
    });
  }

 private:
  bool Keeps(ReferenceStates::Of of) const { return states_ != nullptr && states_->of == of; }
  size_t Width() const {
    const ModelConfig& config = reference_.config();
    return static_cast<size_t>(Keeps(ReferenceStates::Of::kLogits) ? config.vocabulary : config.hidden);
  }
  float* Kept(size_t place) const { return states_->values.data() + place * Width(); }

  void Run(const TokenBatch& batch) {
    if (batch.caches.empty()) {
      if (&reference_ != &model_) reference_.Forward(batch);
      return;
    }
    TokenBatch own = batch;
    for (size_t i = 0; i < own.sequences.size(); ++i) {
      const AttentionSequence& s = own.sequences[i];
      if (i == 0 && s.past == 0) caches_.clear();  // the sequences before have ended
      if (s.past == 0) caches_.emplace(s.index, SequenceCache(reference_.config(), CachePlan{}));
      own.caches[i] = &caches_.at(s.index);
    }
    reference_.Forward(own);
  }

  Model& model_;
  Model& reference_;
  ReferenceStates* states_;                  // null: of the last batch alone
  std::map<int64_t, SequenceCache> caches_;  // by the sequence's index
};

void Add(Json& json, const char* name, const MeanAndError& figure) {
  json[name] = figure.mean;
  json[Formatted("{}_stderr", name)] = figure.error ? Json(*figure.error) : Json();
}

MeanAndError RatioOf(const MeanAndError& log_ratio) {
  const double ratio = std::exp(log_ratio.mean);
  return {ratio, log_ratio.error.transform([&](double error) { return ratio * error; })};
}

RunTask ReadDivergence(const std::filesystem::path& file, const Model& of, const TaskOptions& options) {
  const bool labelled = of.config().pools;
  CutText text =
      labelled ? LabelledImages(file, of.config(), options.windows) : CutFileByConvention(file, of, options.windows);
  const std::shared_ptr<Model> reference = ReferenceOf(of, options);
  std::shared_ptr<ReferenceStates> states;  // null: they would take too much memory
  const TaskSize size = SizeOf(text.sequences);
  const ModelConfig& config = reference->config();
  const auto scored = static_cast<int64_t>(ScoredTokens(text.sequences).size());
  if (scored * config.vocabulary <= kMostKept) {
    states = std::make_shared<ReferenceStates>(ReferenceStates::Of::kLogits);
  } else if (scored * config.hidden <= kMostKept) {
    states = std::make_shared<ReferenceStates>(ReferenceStates::Of::kFinalNorm);
  }
  auto body = [text = std::move(text), reference, states, from_itself = options.reference.empty()](
                  Model& model, PlanRun& run, const Progress& progress) {
    const bool same = from_itself && run.plan().empty() && !run.cache();
    model.Show(text.images);
    reference->Show(text.images);
    const std::vector<TokenDivergence> tokens =
        MeasureDivergence(model, run.Begin(model, progress), same ? model : *reference, text.sequences, run.cache(),
                          progress, states.get());
    TaskResult result = DivergenceResult(tokens, text.images ? ClassFigures : PerplexityFigures);
    if (!result.of_text.is_null() && !text.images) result.of_text.update(CutFigures(text.cut));
    result.figures["reference_sha256"] = reference->files().ContentHash();
    AddTaken(text.cut, result.figures);
    return result;
  };
  return {std::move(body), size};
}

std::string HowDivergence(const Json& result) {
  const auto number = [&](const char* key, const char* format) {
    return NumberText(result.at(key).get<double>(), format);
  };
  std::string text = Counted(result.at("windows"), "window") + TakenText(result);
  if (result.at("kld_largest") == 0.0) return text + "\n  no prediction changed";  // the reference itself
  text += "\n  nats: " + Listed(kKldQuantiles, ", ",
                                [&](const KldQuantile& q) { return Formatted("{} {}", q.what, number(q.key, ".1e")); });
  const Json& error = result.at("delta_p_stderr");
  return text + Formatted("\n  p of the true token: mean {}{}, RMS {}", number("delta_p", "+.4f"),
                          error.is_null() ? "" : " +/- " + NumberText(error.get<double>(), ".4f"),
                          number("delta_p_rms", ".4f"));
}

constexpr FigureKeys kDivergenceFigures[] = {
    {.name = "kld",
     .error = "kld_stderr",
     .windows = WindowKeys{"window_klds"},
     .format = ".2e",
     .in_tables = ".2e",
     .what = "KL divergence from the unquantized model's predictions, nats per token",
     .of_same = 0},
    {.name = "same_top",
     .error = "same_top_stderr",
     .windows = WindowKeys{"window_same_tops"},
     .what = "share of tokens whose likeliest prediction is the unquantized model's",
     .of_same = 1},
    {.name = "perplexity_ratio",
     .error = "perplexity_ratio_stderr",
     .windows = WindowKeys{"window_log_ratios"},
     .of_mean = OfMean::kExponential,
     .what = "perplexity over that of the unquantized model"}};

}  // namespace

double Quantile(std::span<const double> sorted, double share) {
  TARE_CHECK(!sorted.empty() && share >= 0 && share <= 1);
  const double place = share * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<size_t>(place);
  const size_t above = std::min(below + 1, sorted.size() - 1);
  const double part = place - static_cast<double>(below);
  return (1 - part) * sorted[below] + part * sorted[above];
}

std::vector<TokenDivergence> MeasureDivergence(Model& model, SiteVisitors visitors, Model& reference,
                                               const std::vector<ScoredSequence>& sequences,
                                               const std::optional<CachePlan>& cache, const Progress& progress,
                                               ReferenceStates* states) {
  TARE_CHECK(!cache || &reference != &model);  // its pass through the cache is none in f32
  if (cache) states = nullptr;                 // plans cut texts into other batches
  const auto V = static_cast<size_t>(model.config().vocabulary);
  const ScoredTokens scored(sequences);
  std::vector<TokenDivergence> tokens(scored.size());
  std::vector<float> held;
  ReferencePass pass(model, reference, scored.size(), states);
  const auto score = [&](const TokenBatch& batch) {
    const PredictedTokens predicted = scored.In(batch);
    pass.Follow(batch, predicted);
    const std::span<const int64_t> rows = predicted.rows;
    for (size_t part = 0; part < rows.size(); part += kHeldRows) {
      const size_t count = std::min(kHeldRows, rows.size() - part);
      const std::span<const int64_t> some = rows.subspan(part, count);
      held.resize(some.size() * V);
      pass.Logits(some, std::span(predicted.places).subspan(part, count), held.data());
      model.VocabularyLogits(some, [&](size_t i, const float* logits, int) {
        const size_t at = part + i;
        tokens[predicted.places[at]] = CompareTokens({logits, V}, {held.data() + i * V, V}, predicted, at);
      });
    }
  };
  ForwardAll(model, visitors, sequences, progress, score, cache);
  if (states != nullptr) states->complete = true;
  return tokens;
}

std::shared_ptr<Model> ReferenceOf(const Model& of, const TaskOptions& options) {
  auto reference = std::make_shared<Model>(options.reference.empty() ? of.folder() : options.reference, of.math());
  if (reference->config().vocabulary != of.config().vocabulary)
    FailUsage("--reference: got {} with a vocabulary of {}, expected {} as of {}", reference->Name(),
              reference->config().vocabulary, of.config().vocabulary, of.Name());
  const ModelConfig &a = reference->config(), &b = of.config();
  if (std::tie(a.pools, a.image_size, a.patch_size, a.registers) !=
      std::tie(b.pools, b.image_size, b.patch_size, b.registers))
    FailUsage("--reference: got {}, which reads another input than {}", reference->Name(), of.Name());
  if (!options.reference.empty() && !a.pools) RequireSamePieces(of.folder(), options.reference);
  return reference;
}

TaskResult DivergenceResult(const std::vector<TokenDivergence>& tokens,
                            std::optional<Json> (*of)(const std::vector<TokenLoss>&)) {
  if (tokens.empty()) Fail("divergence: the input leaves no token to predict; expected at least two tokens");
  const MeanAndError kld = MeanOf(tokens, Kld), log_ratio = MeanOf(tokens, LogRatio);
  if (!std::isfinite(kld.mean) || !std::isfinite(log_ratio.mean))
    Fail("divergence: the mean is {} nats, expected a finite number; try `tare stats` to see where", kld.mean);
  auto sorted = tokens | std::views::transform(&TokenDivergence::kld) | std::ranges::to<std::vector>();
  std::ranges::sort(sorted);
  Json json;
  Add(json, "kld", kld);
  for (const KldQuantile& q : kKldQuantiles) json[q.key] = Quantile(sorted, q.share);
  Add(json, "same_top", MeanOf(tokens, SameTop));
  Add(json, "delta_p", MeanOf(tokens, DeltaP));
  json["delta_p_rms"] = std::sqrt(MeanOf(tokens, [](const TokenDivergence& t) { return DeltaP(t) * DeltaP(t); }).mean);
  Add(json, "perplexity_ratio", RatioOf(log_ratio));
  json["tokens"] = tokens.size();
  const PairedRuns klds = ByWindow(tokens, Kld);
  json.update({{"windows", klds.Count()},
               {"window_klds", klds.sums[0]},
               {"window_log_ratios", ByWindow(tokens, LogRatio).sums[0]},
               {"window_same_tops", ByWindow(tokens, SameTop).sums[0]},
               {"window_tokens", std::vector<int64_t>(klds.counts.begin(), klds.counts.end())}});
  for (const auto& [first, some] : ByContext(tokens)) {
    Json& range =
        json["by_context"].emplace_back(Json{{"first", first}, {"last", LastOfRange(first)}, {"tokens", some.size()}});
    Add(range, "kld", MeanOf(some, Kld));
    Add(range, "perplexity_ratio", RatioOf(MeanOf(some, LogRatio)));
  }
  std::vector<TokenLoss> own;
  for (const TokenDivergence& t : tokens) own.push_back({t.loss, t.context, t.window, t.rank});
  return {.figures = std::move(json), .records = {}, .of_text = of(own).value_or(Json())};
}

constexpr TaskKind kDivergenceTask{.name = "divergence",
                                   .file = "TEXT",
                                   .what = "KL divergence from the unquantized model, or --reference",
                                   .read = ReadDivergence,
                                   .figures = kDivergenceFigures,
                                   .convention = PerplexityConvention,
                                   .how = HowDivergence,
                                   .by_position = "by_context",
                                   .reference = true,
                                   .compares = true,
                                   .of_images = true};

}  // namespace tare
