// SPDX-License-Identifier: Apache-2.0
// Helpers, products that visitors see, and a layer's steps: norms, projections, attention, feed-forward, residual.
#include "experiments/model/decoder.h"

#include <algorithm>
#include <cmath>

#include "experiments/model/activation.h"
#include "experiments/model/batch.h"
#include "quant/base/message.h"
#include "quant/base/parallel.h"

namespace tare {
namespace {

// Attention on the integer kernels, one sequence at a time.
void AttendExecuted(const LayerCall& call, const ExecutedPlan& executed, const AttentionProblem& batch) {
  for (const AttentionSequence& s : call.batch.sequences) {
    TARE_CHECK(s.branches.empty());  // PlanRun::SpansRows keeps tasks from sharing contexts
    const AttentionProblem problem = SequenceRows(s, batch);
    const ExecutedSequence prepared(executed, problem, call.a.executed);
    call.a.workspace.Reserve(prepared.WorkspaceBytes());
    prepared.Run(call.a.workspace.span());
  }
}

// Splits q_and_gate into q and attn_gate, before its sigmoid: a group's queries precede its gates.
void SplitGate(const LayerCall& call) {
  const int64_t d = call.config.head_dim, gates = GateWidth(call.config), heads = call.config.heads,
                group = heads / call.config.kv_heads;
  ForRows(call, [&](int64_t row) {
    for (int64_t index = row * heads; index < (row + 1) * heads; ++index) {
      const int64_t in_group = index % group;
      const float* from = call.a.q_and_gate.data() + (index - in_group) * (d + gates);
      std::copy_n(from + in_group * d, d, call.a.q.data() + index * d);
      std::copy_n(from + group * d + in_group * gates, gates, call.a.attn_gate.data() + index * gates);
    }
  });
}

void ShowKeysAndValues(const LayerCall& call) {
  ShowHeads(call, Site::kK, call.a.k.data(), call.config.kv_heads, call.config.head_dim);
  ShowHeads(call, Site::kV, call.a.v.data(), call.config.kv_heads, call.config.ValueDim());
}

// Keys and values of each head, of a cache of latents: of all its tokens again, which visitors see as the first time.
KvCache Expanded(const LayerCall& call, const KvCache& kept) {
  const int64_t rows = kept.tokens(), rotated = kept.shape().k_width, rank = kept.shape().v_width;
  LatentActivations& l = call.a.held;
  GrowRows(l.turned, rows, rotated), GrowRows(l.normed, rows, rank);
  kept.Read(0, DenseHeads(l.turned.data(), rows, 1, static_cast<int>(rotated)),
            DenseHeads(l.normed.data(), rows, 1, static_cast<int>(rank)));
  TokenBatch all;
  all.Add(0, std::vector<int32_t>(static_cast<size_t>(rows)));
  const LayerCall of_all{call.config,   call.weights,   all,        call.rotary, call.products,
                         call.visitors, call.attention, call.layer, call.a};
  ExpandLatents(of_all, l);
  ShowKeysAndValues(of_all);
  const AttentionProblem problem = AttentionOf(of_all, nullptr, call.a.k.data(), call.a.v.data(), {}, nullptr);
  KvCache heads(CacheShapeOf(call.config), {});
  heads.Append(problem.k, problem.v);
  return heads;
}

}  // namespace

void ShowRows(const LayerCall& call, Site site, float* rows, int64_t columns) {
  if (call.Runs()) ShowRows(call.visitors, site, call.layer, call.batch, rows, columns);
}

void ShowHeads(const LayerCall& call, Site site, float* values, int64_t heads, int64_t width) {
  if (call.Runs())
    ShowHeads(call.visitors, site, call.layer, call.batch, call.weights.heads,
              DenseHeads(values, call.batch.Rows(), static_cast<int>(heads), static_cast<int>(width)));
}

void ProjectSeen(const LayerCall& call, float* x, std::initializer_list<SeenProjection> all) {
  const int64_t rows = call.batch.Rows(), columns = all.begin()->linear.stored().in;
  const auto sites = all | std::views::transform(&SeenProjection::site) | std::ranges::to<std::vector>();
  std::vector<int64_t> sequences;
  for (const AttentionSequence& s : call.batch.sequences) sequences.push_back(s.EndRow() - s.first_row);
  if (call.part != nullptr) call.part->Begin(sites, x, static_cast<size_t>(rows * columns));
  if (!call.Runs()) return;
  const bool ends = call.part != nullptr && call.part->EndsBefore(sites);
  std::vector<LinearProduct> unseen;
  for (const SeenProjection& p : all) {
    if (!AnyWants(call.visitors, p.site, call.layer)) {
      unseen.push_back({p.linear, p.y});
      continue;
    }
    GrowRows(call.a.seen, rows, columns);
    std::copy_n(x, rows * columns, call.a.seen.data());
    ShowRows(call, p.site, call.a.seen.data(), columns);
    const LinearProduct product{p.linear, p.y};
    if (ends) continue;
    call.products.Project(call.a.seen.data(), rows, {&product, 1}, sequences);
    if (!p.linear.HasBranch()) continue;
    // A low-rank branch reads x itself: it lacks what visitors took from x.
    float* const taken = call.a.seen.data();
    ParallelFor(static_cast<size_t>(rows), [&](int64_t row, int) {
      for (int64_t i = row * columns; i < (row + 1) * columns; ++i) taken[i] = x[i] - taken[i];
    });
    AddBranch(*p.linear.stored().quantized, taken, rows, p.y);
  }
  if (ends) return call.part->End(x, static_cast<size_t>(rows * columns));
  call.products.Project(x, rows, unseen, sequences);
}

void ForRows(const LayerCall& call, const std::function<void(int64_t row)>& body) {
  if (!call.Runs()) return;
  constexpr int64_t kRows = 16;
  ParallelForBlocks(call.batch.Rows(), kRows, [&](int64_t first, int64_t count) {
    for (int64_t row = first; row < first + count; ++row) body(row);
  });
}

void NormRows(const LayerCall& call, const std::vector<float>& weight) {
  const int64_t E = call.config.hidden;
  ForRows(call, [&](int64_t row) {
    RmsNorm(call.a.x.data() + row * E, weight.data(), call.config.norm_eps, E, call.a.normed.data() + row * E);
  });
}

void LayerNormRows(const LayerCall& call, const std::vector<float>& weight, const std::vector<float>& bias) {
  const int64_t E = call.config.hidden;
  ForRows(call, [&](int64_t row) {
    LayerNorm(call.a.x.data() + row * E, weight.data(), bias.data(), call.config.norm_eps, E,
              call.a.normed.data() + row * E);
  });
}

void LayerNormRows(const LayerCall& call, std::string_view weight, std::string_view bias) {
  LayerNormRows(call, call.weights.vectors.at(weight), call.weights.vectors.at(bias));
}

void TakeRows(const LayerCall& call) {
  const int64_t E = call.config.hidden;
  ForRows(call, [&](int64_t row) { std::copy_n(call.a.x.data() + row * E, E, call.a.normed.data() + row * E); });
}

void ProjectQkv(const LayerCall& call) {
  const LayerWeights& w = call.weights;
  const bool gated = GateWidth(call.config) > 0;
  const SeenProjection q{Site::kQProjIn, w.q, gated ? call.a.q_and_gate.data() : call.a.q.data()};
  if (call.config.Kind(call.layer) == LayerKind::kSharedAttention) {
    ProjectSeen(call, call.a.normed.data(), {q});
  } else {
    ProjectSeen(call, call.a.normed.data(),
                {q, {Site::kKProjIn, w.k, call.a.k.data()}, {Site::kVProjIn, w.v, call.a.v.data()}});
  }
  if (gated) SplitGate(call);
}

void NormQk(const LayerCall& call, const std::vector<float>& q_weight, const std::vector<float>& k_weight) {
  const ModelConfig& c = call.config;
  const auto norm = [&](float* values, int64_t width, const std::vector<float>& weight) {
    for (int64_t i = 0; i < width; i += std::ssize(weight))
      RmsNorm(values + i, weight.data(), HeadNormEps(c), weight.size(), values + i);
  };
  const int64_t q_width = int64_t{c.heads} * c.head_dim, k_width = int64_t{c.kv_heads} * c.head_dim;
  ForRows(call, [&](int64_t row) {
    norm(call.a.q.data() + row * q_width, q_width, q_weight);
    norm(call.a.k.data() + row * k_width, k_width, k_weight);
  });
  ShowHeads(call, Site::kQNorm, call.a.q.data(), c.heads, c.head_dim);
  ShowHeads(call, Site::kKNorm, call.a.k.data(), c.kv_heads, c.head_dim);
}

LambdaView ProjectLambda(const LayerCall& call) {
  const auto heads = std::ssize(call.weights.heads);
  GrowRows(call.a.lambda, call.batch.Rows(), heads);
  float* const lambda = call.a.lambda.data();
  ProjectSeen(call, call.a.normed.data(), {{Site::kLambdaProjIn, call.weights.lambda_projection, lambda}});
  ForRows(call, [&](int64_t row) { Sigmoid(lambda + row * heads, static_cast<size_t>(heads)); });
  ShowHeads(call, Site::kLambda, lambda, heads, 1);
  return {.data = lambda, .token_stride = heads, .head_stride = 1};
}

void RotateQk(const LayerCall& call) {
  if (!call.config.Rotates(call.layer)) return;
  const int d = call.config.head_dim, channels = call.rotary.channels();
  const bool halves = call.config.rotary.layout == RotaryConfig::Layout::kHalfSplit;
  const auto rotate = [&](AlignedBuffer<float>& buffer, int64_t row, int heads) {
    const int64_t position = call.a.positions[row], tokens = call.a.lengths[row];
    const float *const cosine = call.rotary.Cosine(position, tokens), *const sine = call.rotary.Sine(position, tokens);
    for (int h = 0; h < heads; ++h)
      (halves ? RotateHalf : RotateInterleaved)(buffer.data() + (row * heads + h) * d, cosine, sine, channels);
  };
  ForRows(call, [&](int64_t row) {
    rotate(call.a.q, row, call.config.heads);
    rotate(call.a.k, row, call.config.kv_heads);
  });
}

void ExpandLatents(const LayerCall& call, LatentActivations& l) {
  const ModelConfig& c = call.config;
  const int64_t d = c.head_dim, r = call.rotary.channels(), plain = d - r, values = c.ValueDim(), both = plain + values;
  GrowRows(l.keys_and_values, call.batch.Rows(), c.kv_heads * both);
  GrowRows(call.a.k, call.batch.Rows(), c.kv_heads * d), GrowRows(call.a.v, call.batch.Rows(), c.kv_heads * values);
  ProjectSeen(call, l.normed.data(), {{Site::kKvBProjIn, call.weights.kv, l.keys_and_values.data()}});
  ForRows(call, [&](int64_t row) {
    for (int64_t head = row * c.kv_heads; head < (row + 1) * c.kv_heads; ++head) {
      const float* const from = l.keys_and_values.data() + head * both;
      float* const key = call.a.k.data() + head * d;
      std::copy_n(l.turned.data() + row * r, r, std::copy_n(from, plain, key));
      std::copy_n(from + plain, values, call.a.v.data() + head * values);
    }
  });
}

AttentionProblem AttentionOf(const LayerCall& call, const float* q, const float* k, const float* v, LambdaView lambda,
                             float* out) {
  const ModelConfig& c = call.config;
  const std::span<const OutputHead> table = call.weights.heads;
  const int64_t rows = call.batch.Rows();
  return {.q = DenseHeads(q, rows, c.heads, c.head_dim),
          .k = DenseHeads(k, rows, c.kv_heads, c.head_dim),
          .v = DenseHeads(v, rows, c.kv_heads, c.ValueDim()),
          .heads = table,
          .lambda = lambda,
          .mask = call.weights.mask,
          .scale = c.AttentionScale(call.layer),
          .sinks = call.weights.sinks,
          .weights = c.row_weights,
          .out = DenseHeads(out, rows, static_cast<int>(table.size()), table.front().VSlices() * c.ValueDim())};
}

void Attend(const LayerCall& call, LambdaView lambda) {
  if (!call.Runs()) return;
  const ModelConfig& c = call.config;
  ShowHeads(call, Site::kQ, call.a.q.data(), c.heads, c.head_dim);
  if (c.KeysLayer(call.layer) == call.layer && !call.CachesLatents()) ShowKeysAndValues(call);
  AttentionProblem problem =
      AttentionOf(call, call.a.q.data(), call.a.k.data(), call.a.v.data(), lambda, call.a.attended.data());
  if (!call.batch.caches.empty()) {
    std::function<KvCache(const KvCache&)> expand;
    if (call.CachesLatents()) {
      problem.k = DenseHeads<const float>(call.a.latent.turned.data(), problem.k.tokens, 1, call.rotary.channels());
      problem.v = DenseHeads<const float>(call.a.latent.normed.data(), problem.v.tokens, 1, c.kv_rank);
      expand = [&call](const KvCache& kept) { return Expanded(call, kept); };
    }
    CachedAttention(problem, call.batch.sequences, call.batch.caches, call.layer, call.attention, expand,
                    call.a.decode);
  } else if (call.attention != nullptr) {
    AttendExecuted(call, *call.attention, problem);
  } else {
    FloatAttention({problem, call.batch.sequences, call.visitors, call.layer});
  }
  ShowHeads(call, Site::kHeadOut, problem.out.data, problem.out.heads, problem.out.width);
}

void GateHeads(const LayerCall& call) {
  const ModelConfig& c = call.config;
  const int64_t d = c.ValueDim(), gates = GateWidth(c), heads = std::ssize(call.weights.heads);
  ForRows(call, [&](int64_t row) { Sigmoid(call.a.attn_gate.data() + row * heads * gates, heads * gates); });
  ShowHeads(call, Site::kAttnGate, call.a.attn_gate.data(), heads, gates);
  ForRows(call, [&](int64_t row) {
    float* const out = call.a.attended.data() + row * heads * d;
    const float* const gate = call.a.attn_gate.data() + row * heads * gates;
    if (c.gate == OutputGate::kPerValue) return MultiplyBy(out, gate, heads * d);
    for (int64_t head = 0; head < heads; ++head) ScaleInto(out + head * d, gate[head], d, out + head * d);
  });
}

void ProjectOutput(const LayerCall& call) {
  ProjectSeen(call, call.a.attended.data(), {{Site::kOProjIn, call.weights.o, call.a.delta.data()}});
  ShowRows(call, Site::kAttnOut, call.a.delta.data(), call.config.hidden);
}

void FeedForward(const LayerCall& call, const GatedUnit& unit, const FeedForwardInputs& inputs) {
  const LayerWeights& w = call.weights;
  const int64_t I = w.gate.stored().out;
  ProjectSeen(call, call.a.normed.data(),
              {{inputs.gate, w.gate, call.a.gate.data()}, {inputs.up, w.up, call.a.up.data()}});
  ForRows(call,
          [&](int64_t row) { unit(call.a.gate.data() + row * I, call.a.up.data() + row * I, static_cast<size_t>(I)); });
  ProjectSeen(call, call.a.gate.data(), {{inputs.down, w.down, call.a.delta.data()}});
}

void FeedForward(const LayerCall& call) {
  const Activation* const f = call.config.activation;
  if (f == nullptr) return FeedForward(call, SwiGlu);
  FeedForward(call, [f](float* gate, const float* up, size_t n) { f->Gate(gate, up, n); });
}

void FeedForwardUngated(const LayerCall& call) {
  const LayerWeights& w = call.weights;
  const int64_t I = call.config.ffn;
  ProjectSeen(call, call.a.normed.data(), {{Site::kUpProjIn, w.up, call.a.up.data()}});
  const Activation& f = *call.config.activation;
  ForRows(call, [&](int64_t row) { f.apply(call.a.up.data() + row * I, static_cast<size_t>(I)); });
  ProjectSeen(call, call.a.up.data(), {{Site::kDownProjIn, w.down, call.a.delta.data()}});
}

void AddDelta(const LayerCall& call) {
  const int64_t E = call.config.hidden;
  const float scale = call.config.residual_scale;
  ForRows(call, [&](int64_t row) {
    float* const delta = call.a.delta.data() + row * E;
    if (scale != 1) ScaleInto(delta, scale, E, delta);
    AddTo(call.a.x.data() + row * E, delta, E);
  });
}

void AddNormedDelta(const LayerCall& call, const std::vector<float>& weight) {
  const int64_t E = call.config.hidden;
  ForRows(call, [&](int64_t row) {
    float* const delta = call.a.delta.data() + row * E;
    RmsNorm(delta, weight.data(), call.config.norm_eps, E, delta);
  });
  AddDelta(call);
}

}  // namespace tare
