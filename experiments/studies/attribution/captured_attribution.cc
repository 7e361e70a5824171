// SPDX-License-Identifier: Apache-2.0
// The rows of an array, a layer's attention in one file, what an output lost, AttributeCaptured and ExecutedLosses.
#include "experiments/studies/attribution/captured_attribution.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <functional>
#include <map>

#include "experiments/model/attention/sequence_cache.h"
#include "experiments/model/layer_attention.h"
#include "experiments/plan/resolved_plan.h"
#include "quant/base/find_in.h"
#include "quant/base/message.h"

namespace tare {
namespace {

constexpr FigureKeys kNmse{.name = "nmse",
                           .windows = WindowKeys{"errors", "squares", Units::kIndependent},
                           .in_tables = ".2e",
                           .of_same = 0.0};

// [R][heads][width], of all sequences without padding.
std::vector<float> RowsOf(const CapturedFile& file, const CapturedArray& a) {
  const ArrayValues values = file.file->Values(a.array);
  std::vector<float> rows, row(static_cast<size_t>(a.columns));
  for (int64_t b = 0; b < a.sequences; ++b) {
    const TokenRange tokens = file.tokens[static_cast<size_t>(b)];
    for (int64_t i = tokens.begin * a.heads; i < tokens.end * a.heads; ++i) {
      const int64_t t = i / a.heads, h = i % a.heads;
      values.Read(b * a.sequence_stride + h * a.head_stride + t * a.row_stride, a.column_stride, a.columns, row.data());
      if (!std::ranges::all_of(row, [](float x) { return std::isfinite(x); }))
        Fail("{}: {}: got NaN or infinity in sequence {}, head {}, token {}, expected finite values",
             file.file->path().string(), a.array.name, b, h, t);
      rows.insert(rows.end(), row.begin(), row.end());
    }
  }
  return rows;
}

// A layer's attention in one file.
class CapturedLayer {
 public:
  CapturedLayer(const CapturedFile& file, const CapturedAttention& how, int layer, size_t first_sequence)
      : file_(file), layer_(layer), where_(Formatted("{}: layer {}", file.file->path().string(), layer)) {
    problem_ = {.q = Take(Site::kQ), .k = Take(Site::kK), .v = Take(Site::kV), .mask = how.mask};
    try {
      problem_.heads = table_ = HeadsNamed(how.heads, problem_.q.heads, problem_.k.heads, problem_.v.heads);
    } catch (const Error& error) {
      Fail("{}: {}; try --axes with {{\"attention\": {{\"heads\": \"v1\"}}}}, diffllama or v2", where_, error.what());
    }
    problem_.scale = how.scale.value_or(1.0f / std::sqrt(static_cast<float>(problem_.q.width)));
    table_.front().Differential() ? SetLambda(how) : RefuseLambda(how);
    const int width = table_.front().VSlices() * problem_.v.width;
    out_.resize(static_cast<size_t>(problem_.q.tokens * width) * table_.size());
    problem_.out = DenseHeads(out_.data(), problem_.q.tokens, static_cast<int>(table_.size()), width);
    CheckProblem(problem_);
    for (int64_t row = 0; const TokenRange& tokens : file.tokens) {
      const auto index = static_cast<int64_t>(first_sequence++);
      if (tokens.Size() > 0) sequences_.push_back({index, row, tokens.Size(), {}});
      row += tokens.Size();
    }
  }
  CapturedLayer(const CapturedLayer&) = delete;

  const AttentionProblem& problem() const { return problem_; }

  const std::vector<float>& Under(SimulatedAttention& run) {
    run.Run(problem_, sequences_, layer_);
    return out_;
  }
  const std::vector<float>& Executed(const ExecutedPlan& plan) {
    ExecutedMemory memory;
    AlignedBuffer<std::byte> workspace;
    for (const AttentionSequence& s : sequences_) {
      const ExecutedSequence prepared(plan, SequenceRows(s, problem_), memory);
      workspace.Reserve(prepared.WorkspaceBytes());
      prepared.Run(workspace.span());
    }
    return out_;
  }
  // Appends each sequence's sums of squares: of the differences between two outputs, and of the exact one.
  void AddLosses(const std::vector<float>& exact, const std::vector<float>& other, WindowLosses& losses) const {
    const int64_t width = problem_.out.token_stride;
    for (const AttentionSequence& s : sequences_) {
      double &errors = losses.sums.emplace_back(), &squares = losses.counts.emplace_back();
      for (auto i = static_cast<size_t>(s.first_row * width); i < static_cast<size_t>((s.first_row + s.prefix) * width);
           ++i) {
        errors += (double{other[i]} - exact[i]) * (double{other[i]} - exact[i]);
        squares += double{exact[i]} * exact[i];
      }
    }
  }
  // Throws Error unless a captured head_out is that of q, k and v: in 16 bits it is within a percent, with other heads,
  // scales or masks it is not.
  void CheckOutput(const std::vector<float>& exact);

 private:
  const CapturedArray* Find(Site site) const {
    return FindWhere(file_.arrays, [&](const CapturedArray& a) { return a.site == site && a.layer == layer_; });
  }
  HeadsView<const float> Take(Site site) {
    const CapturedArray* const a = Find(site);
    if (a == nullptr) Fail("{}: got no {}, expected q, k and v for a plan", where_, Name(site));
    if (a->columns > kLargestWidth)
      Fail("{}: {}: got heads of {} channels, expected at most {}", where_, Name(site), a->columns, kLargestWidth);
    const std::vector<float>& rows = rows_[site] = RowsOf(file_, *a);
    return DenseHeads(rows.data(), std::ssize(rows) / (a->heads * a->columns), static_cast<int>(a->heads),
                      static_cast<int>(a->columns));
  }
  void RefuseLambda(const CapturedAttention& how) const {
    if (how.lambda || Find(Site::kLambda) != nullptr)
      Fail(
          "{}: got a lambda, but heads {} have no second map; try --axes with {{\"attention\": {{\"heads\": "
          "\"diffllama\"}}}}, v1 or v2",
          where_, how.heads);
  }
  void SetLambda(const CapturedAttention& how) {
    if (how.lambda) {
      problem_.lambda = {.data = &*how.lambda};
      return;
    }
    const CapturedArray* const a = Find(Site::kLambda);
    if (a == nullptr || a->heads != std::ssize(table_) || a->columns != 1)
      Fail(
          "{}: got {} for the second map of heads {}, expected \"lambda\" in \"attention\" in the file of --axes, or "
          "an array lambda.{} [B,{},T,1] or [{}]",
          where_, a == nullptr ? "no lambda" : "a lambda " + ShapeText(a->array.shape), how.heads, layer_,
          table_.size(), table_.size());
    const HeadsView<const float> lambda = Take(Site::kLambda);
    problem_.lambda = {lambda.data, lambda.token_stride, lambda.head_stride};
  }

  const CapturedFile& file_;
  const int layer_;
  const std::string where_;
  std::map<Site, std::vector<float>> rows_;
  std::vector<OutputHead> table_;
  std::vector<AttentionSequence> sequences_;
  std::vector<float> out_;  // [R][output heads][width]
  AttentionProblem problem_;
};

// Throws Error, starting with `where`, for an output of zeros.
double MeanOf(const WindowLosses& losses, const std::string& where) {
  const double squares = std::ranges::fold_left(losses.counts, 0.0, std::plus());
  if (squares == 0) Fail("{}: got an output of zeros, expected attention to values", where);
  return std::ranges::fold_left(losses.sums, 0.0, std::plus()) / squares;
}

void CapturedLayer::CheckOutput(const std::vector<float>& exact) {
  constexpr double kMost = 0.05;
  const CapturedArray* const captured = Find(Site::kHeadOut);
  if (captured == nullptr) return;
  const std::vector<float> rows = RowsOf(file_, *captured);
  WindowLosses losses;
  if (rows.size() == exact.size()) AddLosses(exact, rows, losses);
  if (losses.sums.empty() || std::sqrt(MeanOf(losses, where_)) > kMost)
    Fail(
        "{}: got a head_out that is not the attention of q, k and v, expected the same within 5 %; try heads, lambda, "
        "scale or mask of \"attention\" in the file of --axes",
        where_);
}

std::vector<int> LayersOf(const CapturedFile& file) {
  std::vector<int> layers;
  for (const CapturedArray& a : file.arrays) {
    if (a.site == Site::kQ) layers.push_back(*a.layer);
  }
  if (layers.empty())
    Fail("{}: got no q, expected q, k and v for a plan; try arrays q.0, k.0, v.0", file.file->path().string());
  return layers;
}

// Each layer of each file.
void ForLayers(const CapturedInput& input, const Progress& progress,
               const std::function<void(CapturedLayer&, int layer, const std::vector<int>& layers)>& use) {
  for (size_t unit = 0; unit < input.paths.size(); ++unit) {
    const CapturedFile file = OpenCaptured(ArrayFile::Open(input.paths[unit]), input.layout);
    const std::vector<int> layers = LayersOf(file);
    for (const int layer : layers) {
      CapturedLayer attention(file, input.layout.attention(), layer, input.first_sequence[unit]);
      if (unit == 0 && layer == layers.front()) (void)ReadAs(input);  // refuses maps before anything is computed
      use(attention, layer, layers);
      Report(progress, static_cast<int64_t>(unit) * std::ssize(layers) + layer - layers.front() + 1,
             std::ssize(input.paths) * std::ssize(layers), "layers");
    }
  }
}

}  // namespace

Json ReadAs(const CapturedInput& input) {
  const auto heads = [&](Site site) { return input.sites.Heads(site); };
  const std::vector<OutputHead> table =
      HeadsNamed(input.layout.attention().heads, heads(Site::kQ), heads(Site::kK), heads(Site::kV));
  for (const Site site : {Site::kQ, Site::kK}) {
    for (int head = 0; head < heads(site); ++head) {
      if (const auto said = input.layout.Of(site).MapOf(head, heads(site)); said && said != MapOf(table, site, head))
        Fail(
            "--axes: {}: got \"maps\" with head {} of map {}, expected the maps of heads {} of \"attention\"; try "
            "others",
            Name(site), head, *said, input.layout.attention().heads);
    }
  }
  return {
      {"sequences", input.lengths.size()}, {"tokens", std::ranges::fold_left(input.lengths, int64_t{0}, std::plus())},
      {"heads", heads(Site::kQ)},          {"key_heads", heads(Site::kK)},
      {"value_heads", heads(Site::kV)},    {"width", input.sites.head_dim},
      {"maps", table.front().Maps()}};
}

std::vector<Attribution> AttributeCaptured(const CapturedInput& input, const Plan& plan, const Progress& progress) {
  RequireRules(plan);
  std::vector<PlanPart> parts;
  std::vector<std::string> plans;
  std::deque<SimulatedAttention> runs;              // of the plans, f32 first
  std::map<int, std::vector<WindowLosses>> losses;  // by layer, of the runs
  ForLayers(input, progress, [&](CapturedLayer& attention, int layer, const std::vector<int>& layers) {
    if (runs.empty()) {
      const ModelSites sites = AttentionSites(attention.problem(), layers);
      const ResolvedPlan whole(plan, sites, Carrying::kSimulated);  // refuses rules that no part has
      parts = PartsOf(plan, {.site = true}, sites, 1);
      plans = AttributionPlans(plan, parts, PartCosts::kAloneAndTakenOut);
      for (const std::string& text : plans) runs.emplace_back(Plan::Parse(text), sites);
    }
    const std::vector<float> exact = attention.Under(runs.front());
    attention.CheckOutput(exact);
    losses[layer].resize(runs.size());
    for (size_t r = 0; r < runs.size(); ++r) attention.AddLosses(exact, attention.Under(runs[r]), losses[layer][r]);
  });
  std::vector<SweepCell> cells;
  for (const auto& [layer, of_runs] : losses) {
    for (size_t r = 0; r < runs.size(); ++r) {
      SweepCell& cell = cells.emplace_back();
      cell.task = Formatted("head_out.{}", layer);
      cell.key = {{"plan", plans[r]}};
      cell.figures = {.list = {{kNmse, MeanOf(of_runs[r], cell.task), {}, "", of_runs[r]}},
                      .count = std::ssize(of_runs[r].sums)};
    }
  }
  return Attribute(cells, plan, parts, PartCosts::kAloneAndTakenOut);
}

std::map<int, double> ExecutedLosses(const CapturedInput& input, const Plan& plan, const Progress& progress) {
  RequireRules(plan);
  std::map<int, WindowLosses> sums;
  ForLayers(input, progress, [&](CapturedLayer& attention, int layer, const std::vector<int>& layers) {
    SimulatedAttention unquantized(Plan(), AttentionSites(attention.problem(), layers));
    const std::vector<float> exact = attention.Under(unquantized);
    attention.CheckOutput(exact);
    const ExecutedPlan executed = ExecutedPlanOfText("--executed", plan.canonical(), attention.problem().q.heads);
    attention.AddLosses(exact, attention.Executed(executed), sums[layer]);
  });
  std::map<int, double> losses;
  for (const auto& [layer, of] : sums) losses[layer] = MeanOf(of, Formatted("head_out.{}", layer));
  return losses;
}

}  // namespace tare
