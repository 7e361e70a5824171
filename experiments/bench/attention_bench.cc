// SPDX-License-Identifier: Apache-2.0
#include "experiments/bench/attention_bench.h"

#include <omp.h>

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <utility>

#include "experiments/bench/onednn_attention.h"
#include "experiments/plan/resolved_plan.h"
#include "kernels/attention/float/fused_attention.h"
#include "kernels/product/tile_product.h"
#include "quant/base/aligned.h"
#include "quant/base/memory.h"
#include "quant/base/message.h"
#include "quant/base/parallel.h"
#include "quant/plan/presets.h"

namespace tare {
namespace {

constexpr double kLeastAttentionSeconds = 0.2;  // of a repetition
constexpr int64_t kStaticRows = 32;             // that are compared of oneDNN's int8 kernels

// oneDNN's kernels write whole n x n matrices of logits: beyond this, seconds and gigabytes per call.
constexpr int64_t kMostOfOneDnn = 8192;

// A kernel with wrong results is not timed. Most error against the double reference: f32: far below 1e-4. bf16: three
// roundings of 2^-9, one of logits. Codes: noise as large as the signal. oneDNN's codes: CheckStaticAttention.
struct Kernel {
  std::string_view kernel, name, order;
  double Roofline::* roof;
  double most;
  ProductTypes needs;
};
constexpr Kernel kKernels[] = {
    {"tare", "", "", &Roofline::u8s8_gops, 1.0, ProductTypes::kF32},
    {"tare-bf16", "bf16", "bf16", &Roofline::bf16_gflops, 0.05, ProductTypes::kBf16},
    {"tare-f32", "f32", "f32", &Roofline::f32_gflops, 1e-4, ProductTypes::kF32},
    {"onednn-f32", "oneDNN f32", "f32", &Roofline::f32_gflops, 1e-4, ProductTypes::kF32},
    {"onednn-graph", "oneDNN Graph f32", "f32", &Roofline::f32_gflops, 1e-4, ProductTypes::kF32},
    // Without VNNI oneDNN 3.7.2 adds pairs of u8 x s8 in 16 bits, which saturate: its results are wrong.
    {"onednn-int8", "oneDNN int8", "late", &Roofline::u8s8_gops, INFINITY, ProductTypes::kU8S8},
    {"onednn-graph-int8", "oneDNN Graph int8", "late", &Roofline::u8s8_gops, INFINITY, ProductTypes::kU8S8}};

const Kernel& KernelOf(const AttentionCase& c) {
  const auto found = std::ranges::find(kKernels, c.kernel, &Kernel::kernel);
  if (found != std::end(kKernels)) return *found;
  Fail("bench attention, kernel: got '{}', expected tare, tare-f32, tare-bf16 or one of oneDNN", c.kernel);
}

// Captured logits, and their rounding, which is a share of a map's entry, may be 100 times those of normal q and k.
constexpr double kOfCaptured = 100;

bool IsOneDnn(const AttentionCase& c) { return c.kernel.starts_with("onednn"); }
bool IsGraph(const AttentionCase& c) { return c.kernel.starts_with("onednn-graph"); }
bool IsStatic(const AttentionCase& c) { return c.kernel.ends_with("int8"); }

// oneDNN subtracts one lambda for all heads and tokens; its graph takes heads each with its own keys and values.
bool OneDnnTakes(const AttentionCase& c) {
  if (std::max(c.n, c.keys) > kMostOfOneDnn) return false;
  if (IsGraph(c) && c.kv_heads != 0 && c.kv_heads != c.heads) return false;
  if (c.captured == nullptr) return true;
  const AttentionProblem& p = *c.captured;
  return c.HasOneLambda() && (!IsGraph(c) || (p.heads.front().VSlices() == 1 && p.v.width % p.q.width == 0));
}

// What cases have in common whose kernels compute the same: the rest of a case.
AttentionCase ShapeOf(AttentionCase c) {
  c.kernel = c.plan = "";
  return c;
}

// "int8 early": the formats of q, k, the probabilities and v, if they differ by more than a sign.
std::string CodesOf(const AttentionPlan& a, const std::string& family) {
  std::string codes, before;
  for (const Format& format : {a.q, a.k, a.probs, a.v}) {
    const std::string name = Name(format), bits = name.starts_with("u") ? "int" + name.substr(1) : name;
    if (bits != before) codes += (codes.empty() ? "" : "/") + bits;
    before = bits;
  }
  if (a.logits != Format::kF32) codes += ", logits " + Name(a.logits);
  return codes + (family == "standard" ? "" : a.order == AttentionPlan::Order::kEarly ? " early" : " late");
}

struct PreparedAttention {
  std::shared_ptr<AttentionInputs> inputs;
  AlignedBuffer<std::byte> workspace;
  ExecutedMemory memory;
  std::function<void()> run;
  std::string name, order;
};

void PrepareExecuted(const AttentionCase& c, PreparedAttention& x) {
  const ExecutedPlan plan = ExecutedPlanOfText("bench attention", c.plan, c.heads);
  x.order = plan.attention.order == AttentionPlan::Order::kEarly ? "early" : "late";
  const PlanPreset* const recipe = RecipeOf(Plan::Parse(c.plan).canonical());
  x.name = recipe == nullptr ? CodesOf(plan.attention, c.family) : std::string(recipe->name);
  x.workspace.Reset(ExecutedSequence(plan, x.inputs->problem(), x.memory).WorkspaceBytes());
  x.run = [&x, plan] {  // means and rotations are part of what is timed
    ExecutedSequence(plan, x.inputs->problem(), x.memory).Run(x.workspace.span());
  };
}

// inputs: of an earlier case of the same shape, or null.
std::unique_ptr<PreparedAttention> Prepare(const AttentionCase& c, std::shared_ptr<AttentionInputs> inputs = nullptr) {
  const Kernel& kernel = KernelOf(c);
  SetThreads(c.threads);
  auto x = std::make_unique<PreparedAttention>();
  x->inputs = inputs != nullptr ? std::move(inputs) : std::make_shared<AttentionInputs>(c);
  x->name = kernel.name;
  x->order = kernel.order;
  if (c.kernel == "tare") {
    PrepareExecuted(c, *x);
  } else if (IsOneDnn(c)) {
    const OneDnnNumbers numbers = IsStatic(c) ? OneDnnNumbers::kInt8 : OneDnnNumbers::kF32;
    const AttentionProblem& p = x->inputs->problem();
    x->run = [threads = c.threads, run = IsGraph(c) ? GraphAttention(p, numbers) : ComposedAttention(p, numbers)] {
      omp_set_num_threads(threads);
      run();
    };
  } else {
    const ProductTypes types = kernel.needs;
    x->workspace.Reset(FusedWorkspaceBytes(x->inputs->problem(), types));
    x->run = [&p = *x, types] { FusedAttention(p.inputs->problem(), p.workspace.span(), types); };
  }
  return x;
}

void CheckErrors(const AttentionCase& c, const AttentionInputs& inputs, const AttentionInputs::Errors& errors) {
  const std::string what = Formatted("bench attention, {} {} n {} d {} {}", c.kernel, c.family, c.n, c.d, c.plan);
  const double most = KernelOf(c).most * (c.captured == nullptr ? 1 : kOfCaptured);
  if (!(errors.rel_l2 < most))
    Fail("{}: got an error of {} against the double reference, expected less than {}", what, errors.rel_l2, most);
  const AttentionProblem& problem = inputs.problem();
  if (IsStatic(c))
    CheckStaticAttention(problem, what.c_str(), IsGraph(c) ? StaticTensor(problem.v).scale : 0.0f, kStaticRows);
}

AttentionResult Measure(const AttentionCase& c, std::shared_ptr<AttentionInputs>& inputs) {
  const std::unique_ptr<PreparedAttention> x = Prepare(c, inputs);
  inputs = x->inputs;
  x->run();
  const AttentionInputs::Errors errors = x->inputs->ErrorsOfOut();
  CheckErrors(c, *x->inputs, errors);
  const double floor = c.kernel == "tare" ? FloorErrors(*x->inputs, c.plan).rel_l2 : 0;
  std::vector<double> seconds;
  while (std::ssize(seconds) < c.repetitions) seconds.push_back(SecondsOfCall(x->run, kLeastAttentionSeconds));
  const auto [median, spread] = TimingOf(seconds);
  AttentionResult result{.measured = c, .name = x->name, .order = x->order, .seconds = median, .spread = spread};
  result.ns_per_pair = median / static_cast<double>(CountPairs(x->inputs->problem())) * 1e9;
  result.executed_gops = x->inputs->LeastOperations() / median / 1e9;
  result.rel_l2 = errors.rel_l2;
  result.max_row_rel_l2 = errors.max_row_rel_l2;
  result.cosine = errors.cosine;
  result.floor_rel_l2 = floor;
  return result;
}

// Refuses a case that does not fit into memory before hours of other cases.
void CheckMemory(const AttentionCase& c) {
  const double n = static_cast<double>(c.n), keys = c.keys == 0 ? n : static_cast<double>(c.keys);
  const double tensors = 6.0 * 4 * std::max(n, keys) * c.heads * c.d;
  const double bytes = tensors + (IsOneDnn(c) ? 2 * 4 * n * keys : 0.0), memory = MachineMemory();
  if (bytes > 0.7 * memory)
    Fail(
        "bench attention, {} at n {}, d {}, {} heads: needs {:.0f} GB of memory, expected at most {:.0f}; try a "
        "smaller case",
        c.kernel, c.n, c.d, c.heads, bytes / 1e9, memory / 1e9);
}

std::string Isa() {
  return UkernelServes(ProductTypes::kS8S8)   ? "ukernel, AMX"
         : UkernelServes(ProductTypes::kU8S8) ? "ukernel, VNNI"
         : Has(ArmUnit::kI8mm)                ? "i8mm"
         : Has(ArmUnit::kSdot)                ? "sdot"
                                              : "exact Highway path";
}

// Compares each result with oneDNN's of the same shape, and numbers plans with the same codes: "int8", "int8 2".
void Relate(std::vector<AttentionResult>& results) {
  std::map<std::string, std::vector<std::string>> plans;
  for (AttentionResult& r : results) {
    for (const AttentionResult& other : results) {
      if (IsOneDnn(other.measured) && ShapeOf(other.measured) == ShapeOf(r.measured))
        r.x_onednn = std::fmin(r.x_onednn, other.seconds / r.seconds);
    }
    std::vector<std::string>& same = plans[r.name];
    const auto found = std::ranges::find(same, r.measured.plan);
    if (found != same.begin()) r.name += Formatted(" {}", found - same.begin() + 1);
    if (found == same.end()) same.push_back(r.measured.plan);
  }
}

std::string ShapeText(const AttentionCase& c) {
  return Formatted("{}, {}, {}, {}", c.family, Counted(c.n, "query"), Counted(c.threads, "thread"), c.data);
}

// Whether maps in four bits are faster than in eight, by more than calls spread.
std::string FourBitsText(const AttentionResult& four, const AttentionResult& eight) {
  const double times = eight.seconds / four.seconds;
  const bool faster = times > 1 + std::max(four.spread, eight.spread);
  return Formatted("{}: INT4 maps take {:.2f} ns per pair and INT8 maps {:.2f}: {}.", ShapeText(four.measured),
                   four.ns_per_pair, eight.ns_per_pair,
                   faster ? Formatted("{:.2f} times as fast", times)
                          : "no faster beyond the spread, as their codes take a byte each and so the same "
                            "instructions; decoding, where reading counts, is timed by `tare bench decode`");
}

}  // namespace

void AddBaselines(const AttentionCase& shape, std::vector<AttentionCase>& cases) {
  AttentionCase c = ShapeOf(shape);
  for (const Kernel& kernel : kKernels) {
    c.kernel = kernel.kernel;
    if (c.kernel == "tare" || (kernel.needs != ProductTypes::kF32 && !UkernelServes(kernel.needs))) continue;
    if (IsOneDnn(c) && !OneDnnTakes(c)) continue;
    cases.push_back(c);
  }
}

std::vector<std::string> AttentionFindings(const AttentionBench& bench) {
  std::vector<std::string> findings;
  for (const AttentionResult& r : bench.results) {
    const AttentionCase& c = r.measured;
    if (c.kernel != "tare" || std::isnan(r.x_onednn)) continue;
    const bool beaten = std::ranges::any_of(bench.results, [&](const AttentionResult& other) {
      return other.measured.kernel == "tare" && ShapeOf(other.measured) == ShapeOf(c) && other.seconds < r.seconds;
    });
    if (!beaten)
      findings.push_back(
          Formatted("{}: the fastest integer kernel, {}, takes {:.2f} ns per pair, {:.2f} times as fast as the fastest "
                    "of oneDNN, with an error of {:.1f} %.",
                    ShapeText(c), r.name, r.ns_per_pair, r.x_onednn, 100 * r.rel_l2));
  }
  for (const AttentionResult& four : bench.results) {
    for (const AttentionResult& eight : bench.results) {
      if (four.name.starts_with("int4 ") && eight.name == "int8" + four.name.substr(4) &&
          ShapeOf(four.measured) == ShapeOf(eight.measured))
        findings.push_back(FourBitsText(four, eight));
    }
  }
  return findings;
}

AttentionBench BenchAttention(const std::vector<AttentionCase>& cases, const Progress& progress) {
  AttentionBench bench{.isa = Isa(), .roofline = {}, .results = {}};
  for (const AttentionCase& c : cases) {
    CheckMemory(c);
    RequireRuns("bench attention", c.threads, c.repetitions);
    AttentionCase small = c;
    small.n = std::min<int64_t>(c.n, 64), small.keys = std::min<int64_t>(c.keys, 64);
    Prepare(small);
  }
  std::shared_ptr<AttentionInputs> inputs;
  if (!cases.empty()) bench.roofline = MeasureRoofline(cases.front().threads);
  Roofline before;  // of as many threads as the case
  for (size_t i = 0; i < cases.size(); ++i) {
    const AttentionCase& c = cases[i];
    if (i == 0 || cases[i - 1].threads != c.threads) before = MeasureProducts(c.threads);
    if (i > 0 && ShapeOf(cases[i - 1]) != ShapeOf(c)) inputs = nullptr;
    AttentionResult result = Measure(c, inputs);
    const Roofline after = MeasureProducts(c.threads);
    const RoofAround roof{before.*KernelOf(c).roof, after.*KernelOf(c).roof};
    result.roofline = Better(before, after);
    result.roofline_fraction = roof.Share(result.executed_gops);
    result.roof_moved = roof.Moved();
    if (c.threads == cases.front().threads) bench.roofline = Better(bench.roofline, result.roofline);
    before = after;
    bench.results.push_back(std::move(result));
    Report(progress, std::ssize(bench.results), std::ssize(cases), "cases");
  }
  Relate(bench.results);
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
      {Left("name", "kernel", 17), &R::name},
      {{"kernel"}, of_case(&AttentionCase::kernel)},
      {{"family"}, of_case(&AttentionCase::family)},
      {{"plan"}, of_case(&AttentionCase::plan)},
      {{"order"}, &R::order},
      {{"n"}, of_case(&AttentionCase::n)},
      {{"keys"}, keys},
      {{"d"}, of_case(&AttentionCase::d)},
      {{"heads"}, of_case(&AttentionCase::heads)},
      {{"kv_heads"}, kv_heads},
      {{"threads"}, of_case(&AttentionCase::threads)},
      {{"mask"}, of_case(&AttentionCase::mask)},
      {{"seconds"}, &R::seconds},
      {Number("ns_per_pair", "ns/pair", "{:.3f}", 7), &R::ns_per_pair},
      {Number("spread", "spread", "{:.1f}%", 6, 100), &R::spread},
      {Number("x_onednn", "x oneDNN", "{:.2f}", 8), &R::x_onednn},
      {{.name = "roofline_fraction", .title = "roofline", .format = "{:.3f}", .width = 8, .none = "moved"},
       &R::roofline_fraction},
      {{"roof_moved"}, &R::roof_moved},
      {{"executed_gops"}, &R::executed_gops},
      {Number("rel_l2", "rel L2", "{:.3f}%", 7, 100), &R::rel_l2},
      {Number("max_row_rel_l2", "worst row", "{:.2f}%", 9, 100), &R::max_row_rel_l2},
      {{"u8s8_gops"}, [](const R& r) { return r.roofline.u8s8_gops; }},
      {{"f32_gflops"}, [](const R& r) { return r.roofline.f32_gflops; }},
      {{"bf16_gflops"}, [](const R& r) { return r.roofline.bf16_gflops; }},
      {{"cosine"}, &R::cosine},
      {Number("floor_rel_l2", "floor", "{:.3f}%", 7, 100), &R::floor_rel_l2},
      {{"data"}, of_case(&AttentionCase::data)},
      {{"lambda"}, [](const R& r) { return r.measured.HasOneLambda() ? Json(r.measured.lambda) : Json(); }}};
  return TableOf(columns, bench.results);
}

Json AttentionBenchJson(const AttentionBench& bench, const std::string& cpu) {
  return {{"schema", "tare.bench/1"},
          {"machine", {{"cpu", cpu}, {"isa", bench.isa}}},
          {"roofline", ToJson(bench.roofline)},
          {"findings", AttentionFindings(bench)},
          {"cases", TableJson(AttentionBenchTable(bench))}};
}

}  // namespace tare
