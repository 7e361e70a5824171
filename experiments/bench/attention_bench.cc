// SPDX-License-Identifier: Apache-2.0
#include "experiments/bench/attention_bench.h"

#include <omp.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <utility>

#include "experiments/bench/onednn_attention.h"
#include "experiments/bench/timing.h"
#include "experiments/plan/executed_plan.h"
#include "kernels/attention/float/fused_attention.h"
#include "kernels/product/tile_product.h"
#include "quant/base/aligned.h"
#include "quant/base/error.h"
#include "quant/base/formatted.h"
#include "quant/base/memory.h"
#include "quant/base/parallel.h"

namespace tare {
namespace {

constexpr double kLeastAttentionSeconds = 0.2;  // of a repetition

// A case prepared for repeated runs.
struct PreparedAttention {
  std::unique_ptr<AttentionInputs> inputs;
  AlignedBuffer<std::byte> workspace;
  ExecutedMemory memory;
  std::function<void()> run;
  std::string order = "f32";
};

void PrepareExecuted(const AttentionCase& c, PreparedAttention& x) {
  const ExecutedPlan plan = ExecutedPlanOfText("bench attention", c.plan, c.heads);
  x.order = plan.attention.order == AttentionPlan::Order::kEarly ? "early" : "late";
  x.workspace.Reset(ExecutedSequence(plan, x.inputs->problem(), x.memory).WorkspaceBytes());
  x.run = [&x, plan] {  // means and rotations are part of what is timed
    ExecutedSequence(plan, x.inputs->problem(), x.memory).Run(x.workspace.span());
  };
}

std::unique_ptr<PreparedAttention> Prepare(const AttentionCase& c) {
  SetThreads(c.threads);
  auto x = std::make_unique<PreparedAttention>();
  x->inputs = std::make_unique<AttentionInputs>(c);
  if (c.kernel == "tare") {
    PrepareExecuted(c, *x);
  } else if (c.kernel == "tare-f32" || c.kernel == "tare-bf16") {
    const ProductTypes types = c.kernel == "tare-f32" ? ProductTypes::kF32 : ProductTypes::kBf16;
    x->workspace.Reset(FusedWorkspaceBytes(x->inputs->problem(), types));
    x->run = [&p = *x, types] { FusedAttention(p.inputs->problem(), p.workspace.span(), types); };
    if (types == ProductTypes::kBf16) x->order = "bf16";
  } else if (c.kernel == "onednn-f32" || c.kernel == "onednn-graph") {
    const AttentionProblem& problem = x->inputs->problem();
    x->run = [threads = c.threads,
              run = c.kernel == "onednn-f32" ? ComposedAttention(problem) : GraphAttention(problem)] {
      omp_set_num_threads(threads);
      run();
    };
  } else {
    Fail("bench attention, kernel: got '{}', expected tare, tare-f32, tare-bf16, onednn-f32 or onednn-graph", c.kernel);
  }
  return x;
}

// A kernel with wrong results is not timed. f32: sums of up to n terms, far below 1e-4. bf16: three roundings of 2^-9,
// with the logits' in between. Codes: no format here is worse than noise as large as the signal.
void CheckErrors(const AttentionCase& c, const AttentionInputs::Errors& errors) {
  const double most = c.kernel == "tare" ? 1.0 : c.kernel == "tare-bf16" ? 0.05 : 1e-4;
  if (!(errors.rel_l2 < most)) {
    Fail("bench attention, {} {} n {} d {} {}: got an error of {} against the double reference, expected less than {}",
         c.kernel, c.family, c.n, c.d, c.plan, errors.rel_l2, most);
  }
}

AttentionResult Measure(const AttentionCase& c) {
  const std::unique_ptr<PreparedAttention> x = Prepare(c);
  x->run();
  const AttentionInputs::Errors errors = x->inputs->ErrorsOfOut();
  const double floor =
      c.kernel == "tare" ? FloorErrors(*x->inputs, ExecutedPlanOfText("bench attention", c.plan, c.heads)).rel_l2 : 0;
  CheckErrors(c, errors);
  std::vector<double> seconds;
  while (std::ssize(seconds) < c.repetitions) seconds.push_back(SecondsOfCall(x->run, kLeastAttentionSeconds));
  const auto [median, spread] = TimingOf(seconds);
  AttentionResult result{.measured = c, .order = x->order, .seconds = median, .spread = spread};
  result.ns_per_pair = median / static_cast<double>(CountPairs(x->inputs->problem())) * 1e9;
  result.executed_gops = x->inputs->LeastOperations() / median / 1e9;
  result.rel_l2 = errors.rel_l2;
  result.max_row_rel_l2 = errors.max_row_rel_l2;
  result.cosine = errors.cosine;
  result.floor_rel_l2 = floor;
  return result;
}

// The machine's rate for the kernel's type of product; 0 if it has none.
double RateFor(const AttentionCase& c, const Roofline& roofline) {
  return c.kernel == "tare" ? roofline.u8s8_gops : c.kernel == "tare-bf16" ? roofline.bf16_gflops : roofline.f32_gflops;
}

// Refuses a case that does not fit into memory before hours of other cases.
void CheckMemory(const AttentionCase& c) {
  const double n = static_cast<double>(c.n), keys = c.keys == 0 ? n : static_cast<double>(c.keys);
  const double tensors = 6.0 * 4 * std::max(n, keys) * c.heads * c.d;
  const double bytes = tensors + (c.kernel.starts_with("onednn") ? 2 * 4 * n * keys : 0.0);
  const double memory = MachineMemory();
  if (bytes > 0.7 * memory) {
    Fail(
        "bench attention, {} at n {}, d {}, {} heads: needs {:.0f} GB of memory, expected at most {:.0f}; try a "
        "smaller case",
        c.kernel, c.n, c.d, c.heads, bytes / 1e9, memory / 1e9);
  }
}

std::string Isa() {
  return UkernelServes(ProductTypes::kS8S8)   ? "ukernel, AMX"
         : UkernelServes(ProductTypes::kU8S8) ? "ukernel, VNNI"
                                              : "exact Highway path";
}

}  // namespace

AttentionBench BenchAttention(const std::vector<AttentionCase>& cases, const CasesDone& progress) {
  AttentionBench bench{.isa = Isa(), .roofline = {}, .results = {}};
  for (const AttentionCase& c : cases) {
    CheckMemory(c);
    if (c.threads < 1 || c.repetitions < 1)
      Fail("bench attention: got {} threads and {} repetitions, expected at least 1", c.threads, c.repetitions);
    AttentionCase small = c;
    small.n = std::min<int64_t>(c.n, 64), small.keys = std::min<int64_t>(c.keys, 64);
    Prepare(small);
  }
  for (const AttentionCase& c : cases) {
    const Roofline before = MeasureRoofline(c.threads);
    AttentionResult result = Measure(c);
    const Roofline roofline = Better(before, MeasureRoofline(c.threads));
    const double rate = RateFor(c, roofline);
    result.roofline_fraction = rate > 0 ? result.executed_gops / rate : 0.0;
    if (c.threads == cases.front().threads) bench.roofline = Better(bench.roofline, roofline);
    result.roofline = roofline;
    bench.results.push_back(std::move(result));
    if (progress) progress(std::ssize(bench.results), std::ssize(cases), "cases");
  }
  return bench;
}

Table AttentionBenchTable(const AttentionBench& bench) {
  using R = AttentionResult;
  const auto of_case = [](auto member) { return [member](const R& r) { return r.measured.*member; }; };
  const auto keys = [](const R& r) { return r.measured.keys == 0 ? r.measured.n : r.measured.keys; };
  const auto kv_heads = [](const R& r) { return r.measured.kv_heads == 0 ? r.measured.heads : r.measured.kv_heads; };
  const Columns<R> columns{
      {{.name = "shape", .side = Side::kAbove, .files = Files::kNone},
       [=](const R& r) {
         const AttentionCase& c = r.measured;
         return Formatted("{}, n {}, S {}, d {}, H {}, kv {}, th {}, {}, {}", c.family, c.n, keys(r), c.d, c.heads,
                          kv_heads(r), c.threads, c.mask, c.data);
       }},
      {{.name = "kernel", .title = "kernel", .side = Side::kLeft, .width = 12}, of_case(&AttentionCase::kernel)},
      {{"family"}, of_case(&AttentionCase::family)},
      {{.name = "plan", .side = Side::kBelow}, of_case(&AttentionCase::plan)},
      {{"order"}, &R::order},
      {{"n"}, of_case(&AttentionCase::n)},
      {{"keys"}, keys},
      {{"d"}, of_case(&AttentionCase::d)},
      {{"heads"}, of_case(&AttentionCase::heads)},
      {{"kv_heads"}, kv_heads},
      {{"threads"}, of_case(&AttentionCase::threads)},
      {{"mask"}, of_case(&AttentionCase::mask)},
      {Number("seconds", "seconds", "{:.5f}", 8), &R::seconds},
      {Number("spread", "spread", "{:.1f}%", 6, 100), &R::spread},
      {Number("ns_per_pair", "ns/pair", "{:.3f}", 7), &R::ns_per_pair},
      {Number("roofline_fraction", "roofline", "{:.3f}", 8), &R::roofline_fraction},
      {{"executed_gops"}, &R::executed_gops},
      {Number("rel_l2", "rel L2", "{:.3f}%", 7, 100), &R::rel_l2},
      {Number("max_row_rel_l2", "worst row", "{:.2f}%", 9, 100), &R::max_row_rel_l2},
      {{"u8s8_gops"}, [](const R& r) { return r.roofline.u8s8_gops; }},
      {{"f32_gflops"}, [](const R& r) { return r.roofline.f32_gflops; }},
      {{"bf16_gflops"}, [](const R& r) { return r.roofline.bf16_gflops; }},
      {{"cosine"}, &R::cosine},
      {Number("floor_rel_l2", "floor", "{:.3f}%", 7, 100), &R::floor_rel_l2},
      {{"data"}, of_case(&AttentionCase::data)},
      {{"lambda"}, of_case(&AttentionCase::lambda)}};
  return TableOf(columns, bench.results);
}

Json AttentionBenchJson(const AttentionBench& bench, const std::string& cpu) {
  return {{"schema", "tare.bench/1"},
          {"machine", {{"cpu", cpu}, {"isa", bench.isa}}},
          {"roofline", ToJson(bench.roofline)},
          {"cases", TableJson(AttentionBenchTable(bench))}};
}

std::vector<AttentionCase> DefaultAttentionCases() {
  std::vector<AttentionCase> cases;
  const auto add = [&](std::string kernel, std::string family, std::string plan, int threads = 1) {
    cases.push_back(
        {.kernel = std::move(kernel), .family = std::move(family), .plan = std::move(plan), .threads = threads});
  };
  const std::string qk = "q=int8/token,k=int8/token,", early = "difference=int8/block256,v=int8/block256.channel",
                    late = "probs=u8/block256,v=int8/block256.channel";
  for (const char* family : {"v1", "v2"}) {
    for (const std::string& p : {early, late}) add("tare", family, qk + p);
  }
  add("tare", "standard", qk + late);
  add("tare", "v1", qk + "difference=int8/block64,v=int8/block64.channel");
  add("tare", "v1", qk + "difference=u8/block64,v=int8/block64.channel");
  add("tare", "v1", qk + early, 2);
  add("tare", "v1", "q=int6/token,k=int6/token," + early);
  add("tare", "v1", "q=int4/token,k=int4/token," + early);
  add("tare", "v1", "q=int4/token+smooth,k=int4/token+smooth," + early);
  add("tare", "v1", qk + early + ",attn_logits=int6/row");
  for (const char* family : {"standard", "v1", "v2"}) {
    add("tare-f32", family, "");
    if (UkernelServes(ProductTypes::kBf16)) add("tare-bf16", family, "");
  }
  add("onednn-f32", "v1", "");
  for (const char* family : {"standard", "v1", "v2"}) add("onednn-graph", family, "");
  return cases;
}

}  // namespace tare
