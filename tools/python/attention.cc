// SPDX-License-Identifier: Apache-2.0
// tare.attention: the kernels of kernels/attention on arrays of any library, without copying them.
#include <cmath>

#include <nanobind/stl/optional.h>
#include "experiments/plan/executed_plan.h"
#include "kernels/attention/float/fused_attention.h"
#include "quant/base/error.h"
#include "tools/python/module.h"

namespace nb = nanobind;

namespace tare {
namespace {

constexpr const char* kAttention =
    R"(Attention of standard and differential heads: softmax(scale q1 k1) V - lambda softmax(scale q2 k2) V.

q [T, q heads, d], k [S, k heads, d], v [S, v heads, width]: float32 in CPU memory, of any library that speaks DLPack or
the buffer protocol; any strides but a dense last dimension. Nothing is copied: of a PyTorch tensor [B, H, T, d] give
x[b].transpose(0, 1). T queries, S keys; a causal query t sees keys up to t + S - T.

heads    which heads of q, k and v belong together. A family: "standard" (as many maps as q heads), "v1" (maps 2h and
         2h + 1 of q and of k), "diffllama" (map j with j + half, V of two slices side by side), "v2" (maps 2h and
         2h + 1 of q over the same k and v).
         Or a table with one row per output head: (q1, k1, v) or (q1, k1, v, q2, k2), v an index or a pair.
lambda_  weight of the second map: a number, or float32 [output heads] or [T, output heads].
plan     rules for q, k, v, and probs or difference (and attn_logits): run in integers. None: in float32.
causal   each query sees its own and earlier positions; window: only that many of them (0: all).
scale    of the logits; None: 1 / sqrt(d).
out      float32 [T, output heads, slices * width] to write into, not overlapping the inputs; None: a new array.
threads  0: all. Results are bit-identical on any number.

Returns out, without the head norm and (1 - lambda_init) of V1. The GIL is released; calls of several threads take
turns. Raises ValueError for invalid input, including NaN and infinities that a query sees and largest logits of 2^30
or more, and in a process that was forked after the first call.)";

// A broadcast array takes no memory, so its dimensions may be any numbers, and a view has some as int.
HeadsView<const float> ViewOf(const AnyArray& array, const char* name) {
  if (array.shape(1) > kMostHeads || array.shape(2) > kLargestWidth)
    Fail("{}: got {} heads of width {}, expected at most {} of {}", name, array.shape(1), array.shape(2), kMostHeads,
         kLargestWidth);
  const HeadsView<const float> view{static_cast<const float*>(array.data()),
                                    static_cast<int64_t>(array.shape(0)),
                                    static_cast<int>(array.shape(1)),
                                    static_cast<int>(array.shape(2)),
                                    array.stride(0),
                                    array.stride(1)};
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

std::vector<OutputHead> FamilyHeads(const std::string& family, int q_heads, int k_heads, int v_heads) {
  if (family != "standard" && family != "v1" && family != "v2" && family != "diffllama")
    Fail("heads: got '{}', expected standard, v1, v2, diffllama or a table of heads", family);
  const int of_k = family == "v1" ? 2 : 1;  // k heads of a v head
  if (v_heads * of_k != k_heads)
    Fail("heads '{}': got {} heads of k and {} of v, expected {} of k for each of v", family, k_heads, v_heads, of_k);
  if (family == "standard") return StandardHeads(q_heads, k_heads);
  if (q_heads % 2 != 0) Fail("heads '{}': got {} heads of q, expected pairs of maps", family, q_heads);
  if (family == "diffllama") return DiffLlamaHeads(q_heads, k_heads);
  return family == "v1" ? V1Heads(q_heads / 2, v_heads) : V2Heads(q_heads / 2, k_heads);
}

std::vector<OutputHead> HeadsOf(nb::handle heads, const AttentionProblem& problem) {
  std::vector<OutputHead> table;
  std::string family;
  if (nb::try_cast(heads, family, false)) return FamilyHeads(family, problem.q.heads, problem.k.heads, problem.v.heads);
  if (!nb::isinstance<nb::sequence>(heads)) Fail("heads: got neither a name nor a table; try heads='standard'");
  for (size_t i = 0; i < nb::len(heads); ++i) table.push_back(RowOf(heads[i], i));
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
    if (array.dtype() != nb::dtype<float>()) Fail("lambda_: got {}, expected float32", TypeName(array.dtype()));
    if ((array.ndim() != 1 && !by_token) || array.shape(array.ndim() - 1) != heads ||
        (by_token && static_cast<int64_t>(array.shape(0)) != tokens))
      Fail("lambda_: got shape {}, expected a number, [{}] or [{}, {}]", ShapeText(ShapeOf(array)), heads, tokens,
           heads);
    view = {static_cast<const float*>(array.data()), by_token ? array.stride(0) : 0, array.stride(array.ndim() - 1)};
  }
  Lambda(const Lambda&) = delete;
};

Mask MaskOf(bool causal, int64_t window) {
  if (window < 0) Fail("window: got {}, expected 0 (all keys) or more", window);
  if (window > 0 && !causal) Fail("window: got {} without causal, expected causal=True with a window", window);
  if (!causal) return {Mask::Kind::kFull};
  return window > 0 ? Mask{Mask::Kind::kWindow, window} : Mask{Mask::Kind::kCausal};
}

// The output: the caller's array, or a new one.
struct Output {
  nb::object object;
  HeadsView<float> view;

  Output(nb::handle given, int64_t tokens, int heads, int width) {
    const std::vector<int64_t> shape{tokens, heads, width};
    if (given.is_none()) {
      const NewArray made(shape);
      object = made.object;
      view = DenseHeads(made.values, tokens, heads, width);
      return;
    }
    const AnyArray array = FloatsOf(given, "out", 3);
    if (nb::ndarray<float> writable; !nb::try_cast(given, writable, false)) {
      PyErr_Clear();
      Fail("out: got a read-only array, expected a writable one");
    }
    if (ShapeOf(array) != shape) Fail("out: got shape {}, expected {}", ShapeText(ShapeOf(array)), ShapeText(shape));
    object = nb::borrow(given);
    view = {
        static_cast<float*>(const_cast<void*>(array.data())), tokens, heads, width, array.stride(0), array.stride(1)};
  }
};

void Run(const AttentionProblem& problem, const std::optional<std::string>& plan, Turn& turn) {
  if (!plan || plan->empty()) return FusedAttention(problem, turn.Workspace(FusedWorkspaceBytes(problem)));
  const ExecutedPlan executed = ExecutedPlanOfText("attention", *plan, problem.q.heads);
  ExecutedMemory memory;
  const ExecutedSequence prepared(executed, problem, memory);
  prepared.Run(turn.Workspace(prepared.WorkspaceBytes()));
}

nb::object Attention(nb::handle q, nb::handle k, nb::handle v, nb::handle heads, nb::handle lambda,
                     const std::optional<std::string>& plan, bool causal, int64_t window, std::optional<float> scale,
                     nb::handle out, int threads) {
  const AnyArray q_array = FloatsOf(q, "q", 3), k_array = FloatsOf(k, "k", 3), v_array = FloatsOf(v, "v", 3);
  AttentionProblem problem{.q = ViewOf(q_array, "q"), .k = ViewOf(k_array, "k"), .v = ViewOf(v_array, "v")};
  const std::vector<OutputHead> table = HeadsOf(heads, problem);
  if (table.empty()) Fail("heads: got an empty table, expected a row per output head");
  const Lambda lambda_of(lambda, problem.q.tokens, table.size());
  const Output output(out, problem.q.tokens, static_cast<int>(table.size()), table.front().VSlices() * problem.v.width);
  problem.heads = table;
  problem.lambda = lambda_of.view;
  problem.mask = MaskOf(causal, window);
  problem.scale = scale ? *scale : 1.0f / std::sqrt(static_cast<float>(problem.q.width));
  problem.out = output.view;
  CheckProblem(problem);
  InTurn(threads, [&](Turn& turn) { Run(problem, plan, turn); });
  return output.object;
}

}  // namespace

void AddAttention(nb::module_& module) {
  using namespace nb::literals;
  module.def("attention", Attention, "q"_a, "k"_a, "v"_a, nb::kw_only(), "heads"_a = "standard",
             "lambda_"_a = nb::none(), "plan"_a = nb::none(), "causal"_a = true, "window"_a = 0, "scale"_a = nb::none(),
             "out"_a = nb::none(), "threads"_a = 0, kAttention,
             nb::sig("def attention(q: object, k: object, v: object, *, heads: str | list[tuple] = 'standard', "
                     "lambda_: float | object | None = None, plan: str | None = None, causal: bool = True, "
                     "window: int = 0, scale: float | None = None, out: object | None = None, threads: int = 0) "
                     "-> numpy.ndarray"));
}

}  // namespace tare
