// SPDX-License-Identifier: Apache-2.0
// tare.attention and tare.Cache: kernels/attention and kernels/decode on arrays of any library, without copies.
#include <algorithm>
#include <cmath>

#include <nanobind/stl/optional.h>
#include "experiments/model/layer_attention.h"
#include "experiments/plan/cache_plan.h"
#include "experiments/plan/resolved_plan.h"
#include "kernels/attention/float/fused_attention.h"
#include "kernels/decode/decode_attention.h"
#include "quant/base/message.h"
#include "tools/python/module.h"

namespace nb = nanobind;

namespace tare {
namespace {

// Values, writable unless T is const. Broadcast arrays take no memory: dimensions are any numbers, in views ints.
template <typename T>
FloatHeads<T> ViewOf(const AnyArray& array, const char* name) {
  if (array.shape(1) > kMostHeads || array.shape(2) > kLargestWidth)
    Fail("{}: got {} heads of width {}, expected at most {} of {}", name, array.shape(1), array.shape(2), kMostHeads,
         kLargestWidth);
  FloatHeads<T> view;
  view.tokens = static_cast<int64_t>(array.shape(0));
  view.heads = static_cast<int>(array.shape(1)), view.width = static_cast<int>(array.shape(2));
  view.token_stride = array.stride(0), view.head_stride = array.stride(1);
  view.type = TypeName(array.dtype()) == "bfloat16" ? HalfType::kBf16 : HalfType::kF16;
  void* const data = const_cast<void*>(array.data());
  if (array.dtype() == nb::dtype<float>())
    view.data = static_cast<T*>(data);
  else
    view.halves = static_cast<FloatHeads<T>::Half*>(data);
  return view;
}

FloatHeads<const float> InputOf(const AnyArray& array, const char* name) {
  const FloatHeads<const float> view = ViewOf<const float>(array, name);
  if (const std::string wrong = WrongIn(view); !wrong.empty()) Fail("{}: {}", name, wrong);
  return view;
}

int IndexAt(nb::handle row, size_t i, size_t number) {
  int index = 0;
  const nb::object entry = row[i];  // may raise, which a cast must not
  if (!nb::try_cast(entry, index, false)) Fail("heads, row {}: got no index at {}, expected a whole number", number, i);
  return index;
}

// (q1, k1, v) or (q1, k1, v, q2, k2).
OutputHead RowOf(nb::handle row, size_t number) {
  const size_t size = nb::isinstance<nb::sequence>(row) ? nb::len(row) : 0;
  if (size != 3 && size != 5)
    Fail("heads, row {}: got {} entries, expected (q1, k1, v) or (q1, k1, v, q2, k2)", number, size);
  OutputHead head{.q1 = IndexAt(row, 0, number), .k1 = IndexAt(row, 1, number)};
  if (const nb::object v = row[2]; nb::isinstance<nb::sequence>(v)) {
    if (nb::len(v) != 2) Fail("heads, row {}: got {} slices of v, expected an index or two", number, nb::len(v));
    head.v = {IndexAt(v, 0, number), IndexAt(v, 1, number)};
  } else {
    head.v = {IndexAt(row, 2, number), kNoMap};
  }
  if (size == 5) head.q2 = IndexAt(row, 3, number), head.k2 = IndexAt(row, 4, number);
  return head;
}

// A family's rows, or those of a table, and that lambda is given where they have two maps.
std::vector<OutputHead> HeadsOf(nb::handle heads, nb::handle lambda, int q_heads, int k_heads, int v_heads) {
  std::vector<OutputHead> table;
  if (std::string family; nb::try_cast(heads, family, false))
    table = HeadsNamed(family, q_heads, k_heads, v_heads);
  else if (!nb::isinstance<nb::sequence>(heads))
    Fail("heads: got {}, expected a name or a table of heads; try heads='standard'",
         nb::cast<std::string>(heads.type().attr("__name__")));
  else
    for (size_t i = 0; i < nb::len(heads); ++i) table.push_back(RowOf(heads[i], i));
  if (table.empty()) Fail("heads: got an empty table, expected a row per output head");
  const bool differential = std::ranges::any_of(table, &OutputHead::Differential);
  if (!lambda.is_none() && !differential)
    Fail("lambda_: got one, but these heads have no second map; try heads='v1', or leaving it out");
  if (lambda.is_none() && differential)
    Fail("lambda_: got none, expected the weight of the second map, which these heads have; try lambda_=0.8");
  return table;
}

// A number, or an array that is held while the kernel runs.
struct Lambda {
  float number = 0;
  AnyArray array;
  LambdaView view;

  Lambda(nb::handle given, int64_t tokens, size_t heads) {
    if (given.is_none()) return;
    double value = 0;
    if (nb::try_cast(given, value)) {
      number = static_cast<float>(value);
      view.data = &number;
      return;
    }
    PyErr_Clear();
    array = ArrayOf(given, "lambda_");
    const bool by_token = array.ndim() == 2;
    if (array.dtype() != nb::dtype<float>())
      Fail("lambda_: got {}, expected float32; try lambda_.astype('float32'), or lambda_.float() of a tensor",
           TypeName(array.dtype()));
    if ((array.ndim() != 1 && !by_token) || array.shape(array.ndim() - 1) != heads ||
        (by_token && static_cast<int64_t>(array.shape(0)) != tokens))
      Fail("lambda_: got shape {}, expected a number, [{}] or [{}, {}]", ShapeText(ShapeOf(array)), heads, tokens,
           heads);
    view = {static_cast<const float*>(array.data()), by_token ? array.stride(0) : 0, array.stride(array.ndim() - 1)};
  }
  Lambda(const Lambda&) = delete;
};

Mask MaskOf(const AttentionProblem& problem, bool causal, int64_t window) {
  if (window < 0) Fail("window: got {}, expected 0 (all keys) or more", window);
  if (causal && problem.q.tokens > problem.k.tokens && problem.k.tokens == problem.v.tokens)
    Fail("causal: got {} queries over {} keys, so that the first see none, expected at most as many; try causal=False",
         problem.q.tokens, problem.k.tokens);
  if (window > 0 && !causal) Fail("window: got {} without causal, expected causal=True with a window", window);
  if (!causal) return {Mask::Kind::kFull};
  return window > 0 ? Mask{Mask::Kind::kWindow, window} : Mask{Mask::Kind::kCausal};
}

// The output: the caller's array, or a new one.
struct Output {
  nb::object object;
  FloatHeads<float> view;

  Output(nb::handle given, int64_t tokens, int heads, int width) {
    const std::vector<int64_t> shape{tokens, heads, width};
    if (given.is_none()) {
      const NewArray made(shape);
      object = made.object;
      view = DenseHeads(made.values, tokens, heads, width);
      return;
    }
    const AnyArray array = FloatsOf(given, "out", 3, FloatTypes::kF32OrHalf);
    if (nb::ndarray<> writable; !nb::try_cast(given, writable, false)) {
      PyErr_Clear();
      Fail("out: got a read-only array, expected a writable one");
    }
    if (ShapeOf(array) != shape) Fail("out: got shape {}, expected {}", ShapeText(ShapeOf(array)), ShapeText(shape));
    object = nb::borrow(given);
    view = ViewOf<float>(array, "out");
  }
};

void RunSimulated(const AttentionProblem& problem, const std::string& plan) {
  CheckF32("attention out, simulated", {.out = problem.out});
  CheckFinite(problem);
  const ModelSites sites = AttentionSites(problem, {0});
  SimulatedAttention run(Plan::Parse(plan), sites);
  const AttentionSequence all{.prefix = problem.q.tokens, .branches = {}};
  if (problem.q.tokens > 0) run.Run(problem, {&all, 1}, 0);
}

void RunExecuted(const AttentionProblem& problem, const std::string& plan, Turn& turn) {
  const ExecutedPlan executed = ExecutedPlanOfText("attention", plan, problem.q.heads);
  ExecutedMemory memory;
  const ExecutedSequence prepared(executed, problem, memory);
  prepared.Run(turn.Workspace(prepared.WorkspaceBytes()));
}

void Run(const AttentionProblem& problem, const std::optional<std::string>& plan, const std::string& execution,
         Turn& turn) {
  if (execution != "executed" && execution != "simulated")
    Fail("execution: got '{}', expected executed or simulated", execution);
  if (!plan) return FusedAttention(problem, turn.Workspace(FusedWorkspaceBytes(problem)));
  RequireRules(Plan::Parse(*plan));
  execution == "simulated" ? RunSimulated(problem, *plan) : RunExecuted(problem, *plan, turn);
}

nb::object Attention(nb::handle q, nb::handle k, nb::handle v, nb::handle heads, nb::handle lambda,
                     const std::optional<std::string>& plan, const std::string& execution, bool causal, int64_t window,
                     std::optional<float> scale, nb::handle out, int threads) {
  const AnyArray q_array = FloatsOf(q, "q", 3, FloatTypes::kF32OrHalf),
                 k_array = FloatsOf(k, "k", 3, FloatTypes::kF32OrHalf),
                 v_array = FloatsOf(v, "v", 3, FloatTypes::kF32OrHalf);
  AttentionProblem problem{.q = InputOf(q_array, "q"), .k = InputOf(k_array, "k"), .v = InputOf(v_array, "v")};
  const std::vector<OutputHead> table = HeadsOf(heads, lambda, problem.q.heads, problem.k.heads, problem.v.heads);
  const Lambda lambda_of(lambda, problem.q.tokens, table.size());
  const Output output(out, problem.q.tokens, static_cast<int>(table.size()), table.front().VSlices() * problem.v.width);
  problem.heads = table;
  problem.lambda = lambda_of.view;
  problem.mask = MaskOf(problem, causal, window);
  problem.scale = scale ? *scale : 1.0f / std::sqrt(static_cast<float>(problem.q.width));
  problem.out = output.view;
  CheckProblem(problem);
  InTurn(threads, [&](Turn& turn) { Run(problem, plan, execution, turn); });
  return output.object;
}

class Cache {
 public:
  Cache(int heads, int width, int v_heads, int v_width, const std::string& plan, int threads)
      : threads_(threads),
        plan_(ParseCachePlan(plan)),
        cache_({.k_heads = heads, .k_width = width, .v_heads = v_heads, .v_width = v_width}, plan_.OfLayer(0)) {
    if (plan_.policy.keep.Drops()) Fail("cache, '{}': got keep, expected all keys; try it in a model's run", plan);
  }

  void Append(nb::handle k, nb::handle v) {
    const AnyArray k_array = FloatsOf(k, "k", 3), v_array = FloatsOf(v, "v", 3);
    const HeadsView<const float> keys = InputOf(k_array, "k"), values = InputOf(v_array, "v");
    InTurn(threads_, [&](Turn&) { cache_.Append(keys, values); });
  }

  nb::object Decode(nb::handle q, nb::handle heads, nb::handle lambda, int64_t window, float scale) {
    const AnyArray array = FloatsOf(q, "q", 3);
    const HeadsView<const float> queries = InputOf(array, "q");
    const CacheShape& shape = cache_.shape();
    const auto rows = HeadsOf(heads, lambda, queries.heads, shape.k_heads, shape.v_heads);
    const DecodeHeads table(rows, queries.heads, shape, scale, window, plan_.policy.skip);
    const Lambda lambda_of(lambda, queries.tokens, rows.size());
    const NewArray made({queries.tokens, table.heads(), table.out_width()});
    const DecodeSequence sequence{.cache = &cache_,
                                  .q = queries,
                                  .lambda = lambda_of.view,
                                  .out = DenseHeads(made.values, queries.tokens, table.heads(), table.out_width())};
    InTurn(threads_, [&](Turn& turn) {
      if (queries.tokens > cache_.tokens())
        Fail("q: got {} queries over {} tokens, expected those of the last tokens", queries.tokens, cache_.tokens());
      DecodeAttention(table, {&sequence, 1}, turn.Workspace(DecodeWorkspaceBytes(table, {&sequence, 1})));
    });
    return made.object;
  }

  Cache Fork() {
    return InTurn(threads_, [&](Turn&) { return *this; });
  }
  int64_t Tokens() {
    return InTurn(threads_, [&](Turn&) { return cache_.tokens(); });
  }
  size_t Bytes() {
    return InTurn(threads_, [&](Turn&) { return cache_.Bytes(); });
  }

 private:
  int threads_;
  CachePlan plan_;
  KvCache cache_;
};

}  // namespace

void AddAttention(nb::module_& module) {
  using namespace nb::literals;
  module.def(
      "output_heads", [](const std::string& family, int q, int k, int v) { return HeadsNamed(family, q, k, v).size(); },
      "family"_a, "q_heads"_a, "k_heads"_a, "v_heads"_a, "How many output heads a family has of these.");
  module.def("attention", Attention, "q"_a.none(), "k"_a.none(), "v"_a.none(), nb::kw_only(), "heads"_a.none(),
             "lambda_"_a.none(), "plan"_a.none(), "execution"_a, "causal"_a, "window"_a, "scale"_a.none(),
             "out"_a.none(), "threads"_a, "Attention of one sequence, [tokens, heads, width]: see tare.attention.");
  nb::class_<Cache>(module, "Cache", "Keys and values of a layer: see tare.Cache.")
      .def(nb::init<int, int, int, int, const std::string&, int>(), "heads"_a, "width"_a, "v_heads"_a, "v_width"_a,
           "plan"_a, "threads"_a)
      .def("append", &Cache::Append, "k"_a.none(), "v"_a.none())
      .def("decode", &Cache::Decode, "q"_a.none(), "heads"_a.none(), "lambda_"_a.none(), "window"_a, "scale"_a)
      .def("fork", &Cache::Fork)
      .def("tokens", &Cache::Tokens)
      .def("bytes", &Cache::Bytes);
}

}  // namespace tare
