// SPDX-License-Identifier: Apache-2.0
// The rows of an array, CapturedLayer, and ForCapturedLayers.
#include "experiments/observe/captured/captured_statistics.h"

#include <algorithm>
#include <cmath>

#include "experiments/model/attention/sequence_cache.h"
#include "quant/base/message.h"

namespace tare {
namespace {

// [R][heads][width], of all sequences without padding.
std::vector<float> RowsOf(const CapturedFile& file, const CapturedArray& a) {
  const ArrayValues values = file.file->Values(a.array);
  std::vector<float> rows, row(static_cast<size_t>(a.columns));
  for (int64_t b = 0; b < a.sequences; ++b) {
    const TokenRange tokens = file.tokens[static_cast<size_t>(b)];
    for (int64_t i = tokens.begin * a.heads; i < tokens.end * a.heads; ++i) {
      const int64_t t = i / a.heads, h = i % a.heads;
      a.ReadRow(values, b, h, t, row.data());
      if (!std::ranges::all_of(row, [](float x) { return std::isfinite(x); }))
        Fail("{}: {}: got NaN or infinity in sequence {}, head {}, token {}, expected finite values",
             file.file->path().string(), a.array.name, b, h, t);
      rows.insert(rows.end(), row.begin(), row.end());
    }
  }
  return rows;
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

}  // namespace

CapturedLayer::CapturedLayer(const CapturedFile& file, const CapturedLayout& layout, int layer, size_t first_sequence)
    : layer_(layer), where_(Formatted("{}: layer {}", file.file->path().string(), layer)) {
  const CapturedAttention& how = layout.attention();
  problem_ = {.q = Take(file, Site::kQ), .k = Take(file, Site::kK), .v = Take(file, Site::kV), .mask = how.mask};
  problem_.weights = how.variant.weights, problem_.integral = how.variant.integral, problem_.beta = how.beta;
  try {
    problem_.heads = table_ = HeadsNamed(how.heads, problem_.q.heads, problem_.k.heads, problem_.v.heads);
  } catch (const Error& error) {
    Fail("{}: {}; try --axes with {{\"attention\": {{\"heads\": \"v1\"}}}}, v2, halves or diffllama", where_,
         error.what());
  }
  CheckMaps(layout);
  const float usual = 1.0f / std::sqrt(static_cast<float>(problem_.q.width));
  problem_.scale = how.scale.value_or(problem_.weights == RowWeights::kThreshold ? 1.0f : usual);
  SetLambda(file, how);
  const int width = table_.front().VSlices() * problem_.v.width;
  out_.resize(static_cast<size_t>(problem_.q.tokens * width) * table_.size());
  problem_.out = DenseHeads(out_.data(), problem_.q.tokens, static_cast<int>(table_.size()), width);
  CheckProblem(problem_);
  for (int64_t row = 0; const TokenRange& tokens : file.tokens) {
    const auto index = static_cast<int64_t>(first_sequence++);
    if (tokens.Size() > 0) sequences_.push_back({index, row, tokens.Size(), {}});
    row += tokens.Size();
  }
  SimulatedAttention unquantized(Plan(), AttentionSites(problem_, {layer}));
  exact_ = Under(unquantized);
  CheckOutput(file);
}

void CapturedLayer::Show(const AttentionSequence& sequence, SimulatedAttention& run, SiteVisitor& observer) {
  const AttentionSequence alone{sequence.index, 0, sequence.prefix, {}};
  SiteVisitor* const observers[] = {&observer};
  run.Run(SequenceRows(sequence, problem_), {&alone, 1}, layer_, observers);
}

const std::vector<float>& CapturedLayer::Under(SimulatedAttention& run) {
  run.Run(problem_, sequences_, layer_);
  return out_;
}

const std::vector<float>& CapturedLayer::Executed(const ExecutedPlan& plan) {
  ExecutedMemory memory;
  AlignedBuffer<std::byte> workspace;
  for (const AttentionSequence& s : sequences_) {
    const ExecutedSequence prepared(plan, SequenceRows(s, problem_), memory);
    workspace.Reserve(prepared.WorkspaceBytes());
    prepared.Run(workspace.span());
  }
  return out_;
}

void CapturedLayer::AddLosses(const std::vector<float>& output, WindowLosses& losses) const {
  const int64_t width = problem_.out.token_stride;
  for (const AttentionSequence& s : sequences_) {
    double &errors = losses.sums.emplace_back(), &squares = losses.counts.emplace_back();
    for (auto i = static_cast<size_t>(s.first_row * width); i < static_cast<size_t>((s.first_row + s.prefix) * width);
         ++i) {
      errors += (double{output[i]} - exact_[i]) * (double{output[i]} - exact_[i]);
      squares += double{exact_[i]} * exact_[i];
    }
  }
}

HeadsView<const float> CapturedLayer::Take(const CapturedFile& file, Site site) {
  const CapturedArray* const a = file.Find(site, layer_);
  if (a == nullptr) Fail("{}: got no {}, expected q, k and v for a plan", where_, Name(site));
  if (a->columns > kLargestWidth)
    Fail("{}: {}: got heads of {} channels, expected at most {}", where_, Name(site), a->columns, kLargestWidth);
  const std::vector<float>& rows = rows_[site] = RowsOf(file, *a);
  return DenseHeads(rows.data(), std::ssize(rows) / (a->heads * a->columns), static_cast<int>(a->heads),
                    static_cast<int>(a->columns));
}

void CapturedLayer::CheckMaps(const CapturedLayout& layout) const {
  for (const auto& [site, heads] : {std::pair(Site::kQ, problem_.q.heads), std::pair(Site::kK, problem_.k.heads)}) {
    for (int head = 0; head < heads; ++head) {
      if (const auto said = layout.Of(site).MapOf(head, heads); said && said != MapOf(table_, site, head))
        Fail(
            "--axes: {}: got \"maps\" with head {} of map {}, expected the maps of heads {} of \"attention\"; try "
            "others",
            Name(site), head, *said, layout.attention().heads);
    }
  }
}

void CapturedLayer::SetLambda(const CapturedFile& file, const CapturedAttention& how) {
  const CapturedArray* const captured = file.Find(Site::kLambda, layer_);
  if (!table_.front().Differential()) {
    if (how.lambda || captured != nullptr)
      Fail(
          "{}: got a lambda, but heads {} have no second map; try --axes with {{\"attention\": {{\"heads\": "
          "\"diffllama\"}}}}, v1 or v2",
          where_, how.heads);
    return;
  }
  if (how.lambda) {
    if (!std::isfinite(*how.lambda)) Fail("{}: got lambda {}, expected a finite number", where_, *how.lambda);
    problem_.lambda = {.data = (rows_[Site::kLambda] = {*how.lambda}).data()};
    return;
  }
  if (captured == nullptr || captured->heads != std::ssize(table_) || captured->columns != 1)
    Fail(
        "{}: got {} for the second map of heads {}, expected \"lambda\" in \"attention\" in the file of --axes, or "
        "an array lambda.{} [B,{},T,1] or [{}]",
        where_, captured == nullptr ? "no lambda" : "a lambda " + ShapeText(captured->array.shape), how.heads, layer_,
        table_.size(), table_.size());
  const HeadsView<const float> lambda = Take(file, Site::kLambda);
  problem_.lambda = {lambda.data, lambda.token_stride, lambda.head_stride};
}

// In 16 bits a captured output is within a percent, with other heads, scales or masks it is not.
void CapturedLayer::CheckOutput(const CapturedFile& file) const {
  constexpr double kMost = 0.05;
  const CapturedArray* const captured = file.Find(Site::kHeadOut, layer_);
  if (captured == nullptr) return;
  const std::vector<float> rows = RowsOf(file, *captured);
  WindowLosses losses;
  if (rows.size() == exact_.size()) AddLosses(rows, losses);
  if (losses.sums.empty() || !(std::sqrt(MeanOf(losses, where_)) <= kMost))
    Fail(
        "{}: got a head_out that is not the attention of q, k and v, expected the same within 5 %; try heads, variant, "
        "lambda, beta, scale or mask of \"attention\" in the file of --axes",
        where_);
}

double MeanOf(const WindowLosses& losses, const std::string& where) {
  const double squares = std::ranges::fold_left(losses.counts, 0.0, std::plus());
  if (squares == 0) Fail("{}: got an output of zeros, expected attention to values", where);
  return std::ranges::fold_left(losses.sums, 0.0, std::plus()) / squares;
}

void ForCapturedLayers(const CapturedInput& input, const Progress& progress,
                       const std::function<void(CapturedLayer& attention, const std::vector<int>& layers)>& use) {
  int64_t done = 0;  // of all files, which have the same layers
  for (size_t unit = 0; unit < input.paths.size(); ++unit) {
    const CapturedFile file = OpenCaptured(ArrayFile::Open(input.paths[unit]), input.layout);
    const std::vector<int> layers = LayersOf(file);
    for (const int layer : layers) {
      CapturedLayer attention(file, input.layout, layer, input.first_sequence[unit]);
      use(attention, layers);
      Report(progress, ++done, std::ssize(input.paths) * std::ssize(layers), "layers");
    }
  }
}

}  // namespace tare
