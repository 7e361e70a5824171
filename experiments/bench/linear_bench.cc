// SPDX-License-Identifier: Apache-2.0
#include "experiments/bench/linear_bench.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <random>

#include <omp.h>

#include "experiments/model/linear/linear_weights.h"
#include "experiments/plan/resolved_plan.h"
#include "kernels/elementwise/rows.h"
#include "kernels/product/tile_product.h"
#include "quant/base/message.h"
#include "quant/base/parallel.h"

namespace tare {
namespace {

constexpr double kLeastLinearSeconds = 0.05;  // of a repetition

// Runs oneDNN's matmul, on the next of as many copies of its weights as the case uses.
std::function<void()> BaselineOf(Math math, const LinearCase& c, bool cycled) {
  const size_t bytes = static_cast<size_t>(c.out * c.in) * (math == Math::kF32 ? 4 : 2);
  std::vector<std::function<double()>> copies;
  while (copies.size() < (cycled ? kCycledBytes / bytes + 1 : 1)) copies.push_back(MatmulOf(math, c.rows, c.out, c.in));
  return [copies = std::move(copies), next = size_t{0}]() mutable { copies[next++ % copies.size()](); };
}

LinearResult Measure(const LinearCase& c) {
  SetThreads(c.threads);
  omp_set_num_threads(c.threads);
  PreparedLinear ours(c);
  ours.Verify();
  std::function<void()> f32 = BaselineOf(Math::kF32, c, ours.OneTokenSteps()), bf16;
  if (UkernelServes(ProductTypes::kBf16)) bf16 = BaselineOf(Math::kBf16, c, ours.OneTokenSteps());
  std::vector<double> seconds, f32_seconds, bf16_seconds;
  for (int i = 0; i < c.repetitions; ++i) {
    f32_seconds.push_back(SecondsOfCall(f32, kLeastLinearSeconds));
    seconds.push_back(SecondsOfCall([&] { ours.RunOnce(); }, kLeastLinearSeconds));
    if (bf16) bf16_seconds.push_back(SecondsOfCall(bf16, kLeastLinearSeconds));
  }
  const Timing timing = TimingOf(seconds), f32_timing = TimingOf(f32_seconds);
  LinearResult r{.measured = c,
                 .seconds = timing.median,
                 .spread = timing.spread,
                 .f32_seconds = f32_timing.median,
                 .f32_spread = f32_timing.spread};
  if (bf16) r.bf16_seconds = TimingOf(bf16_seconds).median;
  const double values = static_cast<double>(c.out) * static_cast<double>(c.in);
  r.gops = 2 * values * static_cast<double>(c.rows) / r.seconds / 1e9;
  r.weights_gbps = static_cast<double>(ours.weight_bytes()) / r.seconds / 1e9;
  r.f32_weights_gbps = 4 * values / r.f32_seconds / 1e9;
  r.bits_per_weight = 8 * static_cast<double>(ours.weight_bytes()) / values;
  r.rel_l2 = ours.rel_l2();
  return r;
}

std::vector<float> RandomNormal(size_t count, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(count);
  for (float& x : values) x = normal(random);
  return values;
}

}  // namespace

LinearBench BenchLinear(const std::vector<LinearCase>& cases, const Progress& progress) {
  LinearBench bench;
  for (const LinearCase& c : cases) RequireRuns("bench linear", c.threads, c.repetitions);
  for (const LinearCase& c : cases) {
    const Roofline before = MeasureRoofline(c.threads);
    LinearResult result = Measure(c);
    const Roofline after = MeasureRoofline(c.threads);
    const bool one_token = c.rows == 1;
    double Roofline::* const of = one_token ? &Roofline::read_gbps : &Roofline::u8s8_gops;
    const RoofAround roof{before.*of, after.*of};
    result.roofline_fraction = roof.Share(one_token ? result.weights_gbps : result.gops);
    result.roof_moved = roof.Moved();
    if (c.threads == cases.front().threads) bench.roofline = Better(bench.roofline, Better(before, after));
    bench.results.push_back(result);
    Report(progress, std::ssize(bench.results), std::ssize(cases), "cases");
  }
  return bench;
}

Table LinearBenchTable(const LinearBench& bench) {
  using R = LinearResult;
  const Columns<R> columns{
      {{.name = "case", .side = Side::kAbove, .files = Files::kNone},
       [](const R& r) {
         const LinearCase& c = r.measured;
         return Formatted("{}: {} x {} x {}, {:.2f} bits per weight", c.plan, c.rows, c.in, c.out, r.bits_per_weight);
       }},
      {{"plan"}, [](const R& r) { return r.measured.plan; }},
      {{"rows"}, [](const R& r) { return r.measured.rows; }},
      {{"out"}, [](const R& r) { return r.measured.out; }},
      {{"in"}, [](const R& r) { return r.measured.in; }},
      {{"threads"}, [](const R& r) { return r.measured.threads; }},
      {Number("seconds", "ms", "{:.3f}", 9, 1e3), &R::seconds},
      {Number("spread", "spread", "{:.0f} %", 6, 100), &R::spread},
      {Number("f32_seconds", "f32 ms", "{:.3f}", 9, 1e3), &R::f32_seconds},
      {{"f32_spread"}, &R::f32_spread},
      {{"bf16_seconds"}, &R::bf16_seconds},
      {Number("times_f32", "x f32", "{:.2f}", 6), [](const R& r) { return r.f32_seconds / r.seconds; }},
      {{.name = "times_bf16", .title = "x bf16", .format = "{:.2f}", .files = Files::kNone},
       [](const R& r) { return r.bf16_seconds > 0 ? r.bf16_seconds / r.seconds : NAN; }},
      {Number("gops", "Gop/s", "{:.1f}", 7), &R::gops},
      {Number("weights_gbps", "GB/s", "{:.1f}", 6), &R::weights_gbps},
      {{"f32_weights_gbps"}, &R::f32_weights_gbps},
      {{.name = "roofline_fraction", .title = "roofline", .format = "{:.2f}", .width = 8, .none = "moved"},
       &R::roofline_fraction},
      {{"roof_moved"}, &R::roof_moved},
      {{"bits_per_weight"}, &R::bits_per_weight},
      {Number("rel_l2", "error", "{:.2e}", 8), &R::rel_l2}};
  return TableOf(columns, bench.results);
}

Json LinearBenchJson(const LinearBench& bench, const std::string& cpu) {
  return {{"schema", "tare.bench/1"},
          {"bench", "linear"},
          {"machine", {{"cpu", cpu}}},
          {"roofline", ToJson(bench.roofline)},
          {"cases", TableJson(LinearBenchTable(bench))}};
}

std::vector<LinearCase> DefaultLinearCases() {
  std::vector<LinearCase> cases;
  for (const char* weights :
       {"int8/channel", "int6/channel", "int4/channel", "int8/group64", "int4/group64", "int4/group32"})
    cases.push_back({.plan = std::string("weights=") + weights + ",linear_in=int8/token"});
  for (const char* weights : {"int8/channel", "int6/group64", "int4/group64", "int4/channel"})
    cases.push_back({.plan = std::string("weights=") + weights, .rows = 1, .out = 4096, .in = 4096});
  return cases;
}

PreparedLinear::PreparedLinear(const LinearCase& c)
    : case_(c),
      x_(RandomNormal(static_cast<size_t>(c.rows * c.in), c.seed)),
      y_(static_cast<size_t>(c.rows * c.out)),
      dense_(RandomNormal(static_cast<size_t>(c.out * c.in), c.seed + 1)) {
  const SiteKey key{Site::kQProjW, 0};
  const ModelSites layer{
      .family = "bench", .layers = 1, .maps = 1, .tied_head = false, .heads = {}, .weights = {{key, {.in = c.in}}}};
  const ResolvedPlan plan(Plan::Parse(c.plan), layer, Carrying::kExecuted);
  const Rule* const weight = plan.RuleAt(key);
  if (weight == nullptr) Fail("bench linear, plan '{}': quantizes no weights; try weights=int8/channel", c.plan);
  const DenseMatrix dense{.data = dense_.data(), .out = c.out, .in = c.in};
  input_ = LinearRules::Of(dense, key, InputKeyOf(key), plan).input;
  if (!input_ && (c.rows != 1 || plan.Simulates(Site::kQProjIn)))
    RefuseRule(*weight, Formatted("{} rows of inputs in f32", c.rows), "one", "linear_in=int8/token beside it");
  quantized_ = QuantizeByRule(dense, *weight, "bench linear");
  if (quantized_.view().rotation != nullptr) rotated_.resize(x_.size());
  weights_.emplace_back(quantized_.view());
  const size_t copies = OneTokenSteps() ? kCycledBytes / weights_.front().Bytes() + 1 : 1;
  while (weights_.size() < copies) weights_.emplace_back(quantized_.view());
}

void PreparedLinear::RunOnce() {
  if (!rotated_.empty()) RotateRows(*quantized_.view().rotation, x_.data(), case_.rows, rotated_.data());
  const PackedMatrix& weight = weights_[next_];
  next_ = (next_ + 1) % weights_.size();
  const QuantizedProjection projection{&weight, nullptr, y_.data()};
  if (OneTokenSteps()) return token_.Project(Inputs(), 1, {&projection, 1});
  linear_.Project(Inputs(), case_.rows, *input_, {&projection, 1});
}

// Twice the sum of |group offset| (packed_matrix.h), which the kernel adds to code * scale, over a row's weights, or 0.
static double OffsetsOf(const QuantizedMatrix& w, int64_t row) {
  if (!HasOffset(w.format)) return 0;
  const double middle = std::exp2(Info(w.format).bits - 1);
  double sum = 0;
  for (int64_t g = 0; g < w.Groups(); ++g) {
    const double offset = (middle - double{w.ZeroOf(row, g)}) * double{w.ScaleOf(row, g)} + double{w.MinimumOf(row, g)};
    sum += 2 * std::abs(offset) * static_cast<double>(w.group);
  }
  return sum;
}

// f32 rounds group sums and offsets a few times; a one-token step moves x by half a 32512th of its block's largest.
void PreparedLinear::CheckRow(int64_t row) {
  const float *stored = x_.data() + row * case_.in, *x = Inputs() + row * case_.in;
  QuantizedMatrix w = quantized_.view();
  w.rotation = nullptr;  // x is rotated
  std::vector<double> expected;
  const float of_tensor = AbsMax(Inputs(), x_.size());
  if (!OneTokenSteps()) expected = ReferenceLinear(x, 1, input_->format, w, nullptr, of_tensor).y;
  std::vector<float> weights(static_cast<size_t>(case_.in));
  const float largest = AbsMax(x, case_.in);
  for (int64_t n = 0; n < case_.out; ++n) {
    DequantizeRow(w, n, weights.data());
    double dense = 0, dequantized = 0, size = 0, sum = 0;
    for (int64_t i = 0; i < case_.in; ++i) {
      dense += double{stored[i]} * dense_[n * case_.in + i];
      dequantized += double{x[i]} * weights[i];
      size += std::abs(double{x[i]} * weights[i]);
      sum += std::abs(double{weights[i]});
    }
    const double y = y_[row * case_.out + n], right = OneTokenSteps() ? dequantized : expected[n];
    // Codes' magnitudes are within one of x's: sum covers that.
    const double terms = size + (sum + OffsetsOf(w, n)) * largest;
    const int64_t roundings = (HasOffset(w.format) ? 2 : 1) * (w.Groups() + case_.in / 16) + 8;
    const double bound = static_cast<double>(roundings) * 0x1p-24 * terms +
                         (OneTokenSteps() ? sum * largest / OneToken::kLargestCode : 0);
    if (!(std::abs(y - right) <= bound))
      Fail("bench linear, plan '{}': row {}, output {}: got {}, expected the reference's {}; nothing was timed",
           case_.plan, row, n, y, right);
    error_ += (y - dense) * (y - dense);
    size_ += dense * dense;
  }
}

void PreparedLinear::Verify() {
  RunOnce();
  constexpr int64_t kRowsLooked = 4;
  for (int64_t i = 0; i < std::min(kRowsLooked, case_.rows); ++i) CheckRow(i * case_.rows / kRowsLooked);
  rel_l2_ = std::sqrt(error_ / size_);
}

}  // namespace tare
