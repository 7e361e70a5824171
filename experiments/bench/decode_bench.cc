// SPDX-License-Identifier: Apache-2.0
#include "experiments/bench/decode_bench.h"

#include <omp.h>

#include <algorithm>
#include <functional>

#include "experiments/bench/onednn_attention.h"
#include "experiments/text/utf8.h"
#include "kernels/decode/decode_attention.h"
#include "kernels/product/read_ahead.h"
#include "quant/base/aligned.h"
#include "quant/base/memory.h"
#include "quant/base/message.h"
#include "quant/base/parallel.h"

namespace tare {
namespace {

constexpr double kLeastDecodeSeconds = 0.1;  // of a repetition
constexpr double kMostReading = 1024.0 * 1024 * 1024;

bool IsOurs(const DecodeCase& c) { return c.kernel == "tare"; }

double BytesOf(const DecodeCase& c, const CacheShape& shape) {
  return c.shape.batch * CacheBytes(shape, IsOurs(c) ? c.plan.OfLayer(0) : CacheRules{}, c.shape.n);
}

class PreparedDecode {
 public:
  explicit PreparedDecode(const DecodeCase& c) : case_(c), inputs_(c.shape, c.seed) {
    SetThreads(c.threads);
    out_.resize(static_cast<size_t>(c.shape.batch * inputs_.table().heads() * inputs_.table().out_width()));
    IsOurs(c) ? PrepareOurs() : PrepareOneDnn();
  }
  PreparedDecode(const PreparedDecode&) = delete;
  PreparedDecode& operator=(const PreparedDecode&) = delete;

  void Run() { run_(); }

  double bytes() const { return BytesOf(case_, inputs_.table().shape()); }

  // Errors of the first head of the first sequence and the last head of the last.
  void Verify(DecodeResult& result) {
    Run();
    OutputSums all, floor;
    CheckHead(0, 0, all, floor);
    CheckHead(case_.shape.batch - 1, case_.shape.heads - 1, all, floor);
    result.rel_l2 = all.Relative();
    result.floor_rel_l2 = floor.Relative();
  }

 private:
  void PrepareOurs() {
    const int heads = inputs_.table().heads(), width = inputs_.table().out_width();
    for (int i = 0; i < case_.shape.batch; ++i) caches_.push_back(inputs_.Cache(case_.plan.OfLayer(0), i));
    for (int i = 0; i < case_.shape.batch; ++i)
      sequences_.push_back({&caches_[i],
                            inputs_.Query(i),
                            {inputs_.lambda(), 0, 0},
                            DenseHeads(out_.data() + i * heads * width, 1, heads, width)});
    workspace_.Reset(DecodeWorkspaceBytes(inputs_.table(), sequences_));
    run_ = [this] { DecodeAttention(inputs_.table(), sequences_, workspace_.span()); };
  }

  void PrepareOneDnn() {
    dense_ = inputs_.AllTokens(0);
    const CacheShape& shape = inputs_.table().shape();
    const int64_t n = case_.shape.n;
    problem_ = {.q = inputs_.Query(0),
                .k = DenseHeads<const float>(dense_.k.data(), n, shape.k_heads, shape.k_width),
                .v = DenseHeads<const float>(dense_.v.data(), n, shape.v_heads, shape.v_width),
                .heads = inputs_.heads(),
                .lambda = {inputs_.lambda(), 0, 0},
                .mask = {.kind = Mask::Kind::kFull},
                .scale = inputs_.table().scale(),
                .out = DenseHeads(out_.data(), 1, inputs_.table().heads(), inputs_.table().out_width())};
    run_ = [threads = case_.threads, composed = ComposedAttention(problem_)] {
      omp_set_num_threads(threads);
      composed();
    };
  }

  void CheckHead(int sequence, int head, OutputSums& all, OutputSums& floor) {
    const size_t width = inputs_.table().out_width();
    const float* got = out_.data() + (sequence * case_.shape.heads + head) * width;
    const std::vector<double> exact = inputs_.Exact(sequence, head);
    DecodeTruth truth{exact, {0}, {0}};
    if (IsOurs(case_))
      truth = ReferenceDecode(inputs_.heads()[head], head, inputs_.table().scale(), 0, sequences_[sequence]);
    double error = 0, bound = truth.bounds[0];
    for (size_t i = 0; i < width; ++i) {
      error += std::pow(got[i] - truth.out[i], 2);
      all.Add(got[i], exact[i]);
      floor.Add(truth.out[i], exact[i]);
      if (!IsOurs(case_)) bound += kDecodeBound * std::abs(exact[i]);
    }
    if (!(std::sqrt(error) < bound))
      Fail("bench decode, {} {} {}: head {}: got an error of {}, expected less than {}; nothing was timed",
           case_.kernel, case_.shape.family, Name(case_.plan), head, std::sqrt(error), bound);
  }

  DecodeCase case_;
  DecodeInputs inputs_;
  std::vector<KvCache> caches_;
  std::vector<DecodeSequence> sequences_;
  std::vector<float> out_;
  AlignedBuffer<std::byte> workspace_;
  DecodeInputs::Dense dense_;
  AttentionProblem problem_;
  std::function<void()> run_;
};

DecodeResult Measure(const DecodeCase& c) {
  PreparedDecode x(c);
  DecodeResult r{.measured = c, .bytes = x.bytes()};
  x.Verify(r);
  std::vector<double> seconds;
  for (int i = 0; i < c.repetitions; ++i) {
    r.read_gbps = std::max(r.read_gbps, ReadRate(c.threads, static_cast<size_t>(std::min(r.bytes, kMostReading))));
    seconds.push_back(SecondsOfCall([&] { x.Run(); }, kLeastDecodeSeconds));
  }
  const Timing timing = TimingOf(seconds);
  r.seconds = timing.median;
  r.spread = timing.spread;
  r.gbps = r.bytes / r.seconds / 1e9;
  const double pairs = static_cast<double>(c.shape.n) * c.shape.heads * c.shape.batch;
  r.ns_per_key_head = r.seconds / pairs * 1e9;
  return r;
}

// Refuses cases that cannot run or do not fit into memory before hours of other cases.
void CheckCase(const DecodeCase& c) {
  if (c.kernel != "tare" && c.kernel != "onednn-f32")
    Fail("bench decode, kernel: got '{}', expected tare or onednn-f32", c.kernel);
  RequireRuns("bench decode", c.threads, c.repetitions);
  if (!IsOurs(c) && c.shape.batch != 1) Fail("bench decode, onednn-f32: got a batch of {}, expected 1", c.shape.batch);
  if (c.plan.policy.keep.Drops() || c.plan.policy.skip > 0)
    Fail(
        "bench decode, {}: got keep= or skip=, expected neither: all keys have the same weight here; try tare generate",
        Name(c.plan));
  for (const Rule& rule : c.plan.rules.rules()) {
    if (rule.selector != Selector{})
      Fail("bench decode, {}: got a rule for some layers, expected one for all: one layer is timed", rule.text);
  }
  DecodeShape small = c.shape;
  small.n = std::min<int64_t>(small.n, 1);
  const DecodeInputs inputs(small, c.seed);
  const KvCache plan_is_valid(inputs.table().shape(), c.plan.OfLayer(0));
  // A head before any code, and what reading is measured on.
  const double bytes =
      BytesOf(c, inputs.table().shape()) + 32.0 * static_cast<double>(c.shape.n) * c.shape.d + kMostReading;
  const double memory = MachineMemory();
  if (bytes > 0.8 * memory)
    Fail("bench decode, {} n {}, {} heads: needs {:.1f} GB of memory, expected at most {:.1f}; try a smaller case",
         Name(c.plan), c.shape.n, c.shape.heads, bytes / 1e9, memory / 1e9);
}

}  // namespace

std::vector<DecodeResult> BenchDecode(const std::vector<DecodeCase>& cases, const Progress& progress) {
  for (const DecodeCase& c : cases) CheckCase(c);
  std::vector<DecodeResult> results;
  for (const DecodeCase& c : cases) {
    results.push_back(Measure(c));
    Report(progress, std::ssize(results), std::ssize(cases), "cases");
  }
  // The best of the run over as much memory: others use the machine too, at times.
  const auto read = [](const DecodeResult& r) { return std::min(r.bytes, kMostReading); };
  const double last_cache = LastCacheBytes();
  for (DecodeResult& r : results) {
    for (const DecodeResult& other : results) {
      if (other.measured.threads != r.measured.threads) continue;
      if (read(other) >= read(r)) r.read_gbps = std::max(r.read_gbps, other.read_gbps);
      if (!IsOurs(other.measured) && other.measured.shape == r.measured.shape) r.x_onednn = other.seconds / r.seconds;
    }
    r.bandwidth_fraction = r.gbps / r.read_gbps;
    r.in_last_cache = r.bytes <= last_cache;
  }
  return results;
}

Table DecodeBenchTable(const std::vector<DecodeResult>& results) {
  using R = DecodeResult;
  const auto of_shape = [](auto member) { return [member](const R& r) { return r.measured.shape.*member; }; };
  const auto kv_heads = [](const R& r) {
    const DecodeShape& shape = r.measured.shape;
    return shape.kv_heads == 0 ? shape.heads : shape.kv_heads;
  };
  const Columns<R> columns{
      {{.name = "shape", .side = Side::kAbove, .files = Files::kNone},
       [=](const R& r) {
         const DecodeShape& s = r.measured.shape;
         return Formatted("{}, n {}, d {}, H {}, kv {}, B {}, th {}", s.family, s.n, s.d, s.heads, kv_heads(r), s.batch,
                          r.measured.threads);
       }},
      {Left("kernel", "kernel", 10), [](const R& r) { return r.measured.kernel; }},
      {{"family"}, of_shape(&DecodeShape::family)},
      {{.name = "plan", .side = Side::kBelow},
       [](const R& r) { return IsOurs(r.measured) ? Name(r.measured.plan) : ""; }},
      {{"n"}, of_shape(&DecodeShape::n)},
      {{"d"}, of_shape(&DecodeShape::d)},
      {{"heads"}, of_shape(&DecodeShape::heads)},
      {{"kv_heads"}, kv_heads},
      {{"batch"}, of_shape(&DecodeShape::batch)},
      {{"threads"}, [](const R& r) { return r.measured.threads; }},
      {Number("seconds", "seconds", "{:.6f}", 8), &R::seconds},
      {Number("spread", "spread", "{:.1f}%", 6, 100), &R::spread},
      {Number("ns_per_key_head", "ns/key", "{:.2f}", 7), &R::ns_per_key_head},
      {Number("x_onednn", "x oneDNN", "{:.2f}", 8), &R::x_onednn},
      {{"bytes"}, &R::bytes},
      {Number("gbps", "GB/s", "{:.1f}", 5), &R::gbps},
      {{"read_gbps"}, &R::read_gbps},
      {Number("bandwidth_fraction", "of read", "{:.3f}", 7), &R::bandwidth_fraction},
      {Left("read_from", "from", 6), [](const R& r) { return r.in_last_cache ? "cache" : "memory"; }},
      {Number("rel_l2", "rel L2", "{:.2f}%", 6, 100), &R::rel_l2},
      {Number("floor_rel_l2", "floor", "{:.2f}%", 6, 100), &R::floor_rel_l2}};
  return TableOf(columns, results);
}

std::vector<std::string> DecodeFindings(const std::vector<DecodeResult>& results) {
  std::vector<std::string> findings;
  if (std::ranges::all_of(results, &DecodeResult::in_last_cache))
    findings.push_back(
        Formatted("Every cache fits the processor's last one ({:.0f} MiB), so no share is of reading memory; a larger "
                  "--n, --heads or --batch leaves it.",
                  LastCacheBytes() / (1 << 20)));
  for (const DecodeResult& four : results) {
    for (const DecodeResult& eight : results) {
      const DecodeCase &a = four.measured, &b = eight.measured;
      const bool pair = IsOurs(a) && IsOurs(b) && a.threads == b.threads && a.shape == b.shape &&
                        Name(a.plan) != Name(b.plan) && Replaced(Name(a.plan), "int4", "int8") == Name(b.plan);
      if (!pair) continue;
      const double times = eight.seconds / four.seconds, bytes = four.bytes / eight.bytes;
      const bool faster = times > 1 + std::max(four.spread, eight.spread);
      findings.push_back(
          Formatted("{}, {}, {}: decoding with {} takes {:.2f} ns per key and head, and in 8 bits {:.2f}: {}.",
                    a.shape.family, Counted(a.shape.n, "key"), Counted(a.threads, "thread"), Name(a.plan),
                    four.ns_per_key_head, eight.ns_per_key_head,
                    faster ? Formatted("{:.2f} times as fast, as it reads {:.2f} of the bytes", times, bytes)
                           : Formatted("no faster beyond the spread, though it reads {:.2f} of the bytes{}", bytes,
                                       eight.in_last_cache ? ", which the processor's last cache holds" : "")));
    }
  }
  return findings;
}

Json DecodeBenchJson(const std::vector<DecodeResult>& results, const std::string& cpu) {
  return {{"schema", "tare.bench/1"},
          {"bench", "decode"},
          {"machine", {{"cpu", cpu}, {"last_cache_bytes", LastCacheBytes()}, {"read_hint", Name(BestReadHint())}}},
          {"findings", DecodeFindings(results)},
          {"cases", TableJson(DecodeBenchTable(results))}};
}

}  // namespace tare
