// SPDX-License-Identifier: Apache-2.0
// Motif-3: grouped differential attention through latents (GDLA), experts with PolyNorm, and residual streams that
// layers mix (manifold hyper-connections, mHC). Map: attention, streams, feed-forward, configuration.
//
//   c = norm(W_qa x);   q = W_qb c;   g = sigmoid(W_gate c);   [l | r] = W_kva x;   [n_j | v_j] = W_kvb norm(l)
//   k_j = [n_j | rope(r)] with one r for all key heads; q turns in its last channels likewise
//   o = P_s v - lambda P_n v, lambda = sigmoid(W_lambda x) of each token and signal head s; n is the last query head of
//   its group, which has one key head;   delta = W_o (g o)
//
// Layers 0, period, 2 period .. see all keys, the others sliding_window and the query's own. YaRN turns the first kind:
// cosines unscaled, logits by (0.1 mscale ln rope_factor + 1)^2 in models of more positions than original_seq_len.
//
//   PolyNorm(a, b) = s (w_0 N(a^3) + w_1 N(a^2) + w_2 N(a) + bias) b,   w = sigmoid(weight), s = polynorm_output_scale
//   in experts a and b are clipped to hidden_clamp; of those that a router chooses, PolyNorm / s too, and the bias to
//   polynorm_bias_clamp
//
// With n streams X [n, E], which begin as copies of the embedding, for attention and then for the feed-forward f:
//
//   z = norm(X), over all n E values;   pre, post [n] = sigmoid(clip(alpha W z + b, 10))
//   res [n, n] = Sinkhorn(exp(clip(alpha W z + b, 20))): rows, then columns, divided by their sums
//   X = res X + post^T f(norm(pre X));   the final norm reads the mean of the streams
//
// Source: the vendor's module for vLLM; other readers agree with it where the first public code does not.
#include <cmath>
#include <numeric>
#include <utility>

#include "experiments/model/families/experts.h"
#include "quant/base/message.h"

namespace tare {
namespace {

using Shape = std::vector<int64_t>;
constexpr float kNoLimit = std::numeric_limits<float>::infinity();

// ---- Attention

constexpr std::string_view kLatentNorm = "self_attn.kv_norm.weight";
constexpr auto kMotif3Attention = std::to_array<LinearPlace>(
    {{Site::kQAProjW, "self_attn.wq_a", &LayerWeights::q_latent, nullptr, kInputNorm},
     {Site::kKvAProjW, "self_attn.wkv_a", &LayerWeights::kv_latent, nullptr, kInputNorm},
     {Site::kLambdaProjW, "self_attn.lambda_proj", &LayerWeights::lambda_projection, nullptr, kInputNorm},
     {Site::kQBProjW, "self_attn.wq_b", &LayerWeights::q, nullptr, kQNorm},
     {Site::kAttnGateProjW, "self_attn.wq_b_gate", &LayerWeights::attn_gate, nullptr, kQNorm},
     {Site::kKvBProjW, "self_attn.wkv_b", &LayerWeights::kv, nullptr, kLatentNorm},
     {Site::kOProjW, "self_attn.wo", &LayerWeights::o, nullptr, {}}});

std::vector<OutputHead> Motif3Heads(const ModelConfig& c) {
  std::vector<OutputHead> table;
  const int of_group = c.heads / c.noise_heads;
  for (int q = 0; q < c.heads; ++q) {
    const int group = q / of_group, noise = (group + 1) * of_group - 1;
    if (q != noise) table.push_back({q, group, noise, group, {group, kNoMap}});
  }
  return table;
}

// q and gates, of latents; k and v likewise, unless caches expand theirs.
void ProjectLatents(const LayerCall& call) {
  const ModelConfig& c = call.config;
  const LayerWeights& w = call.weights;
  Activations& a = call.a;
  LatentActivations& l = a.latent;
  const int64_t rows = call.batch.Rows(), d = c.head_dim, r = call.rotary.channels(), kv = c.kv_rank + r;
  GrowRows(l.q, rows, c.q_rank), GrowRows(l.kv, rows, kv);
  GrowRows(l.normed, rows, c.kv_rank), GrowRows(l.turned, rows, r);
  const auto turn = [&](float* channels, int64_t row) {
    const int64_t position = a.positions[row], tokens = a.lengths[row];
    RotateHalf(channels, call.rotary.Cosine(position, tokens), call.rotary.Sine(position, tokens), r);
  };
  ProjectSeen(call, a.normed.data(),
              {{Site::kQAProjIn, w.q_latent, l.q.data()}, {Site::kKvAProjIn, w.kv_latent, l.kv.data()}});
  ForRows(call, [&](int64_t row) {
    float *const of_q = l.q.data() + row * c.q_rank, *const of_kv = l.kv.data() + row * kv;
    RmsNorm(of_q, w.vectors.at(kQNorm).data(), c.norm_eps, c.q_rank, of_q);
    RmsNorm(of_kv, w.vectors.at(kLatentNorm).data(), c.norm_eps, c.kv_rank, l.normed.data() + row * c.kv_rank);
    turn(std::copy_n(of_kv + c.kv_rank, r, l.turned.data() + row * r) - r, row);
  });
  ProjectSeen(call, l.q.data(),
              {{Site::kQBProjIn, w.q, a.q.data()}, {Site::kAttnGateProjIn, w.attn_gate, a.attn_gate.data()}});
  ForRows(call, [&](int64_t row) {
    for (int64_t head = row * c.heads; head < (row + 1) * c.heads; ++head) turn(a.q.data() + (head + 1) * d - r, row);
  });
  if (!call.CachesLatents()) ExpandLatents(call, l);
}

// ---- Streams

struct MixNames {
  std::string_view weight, bias, alpha;
};
struct MixingNames {
  std::string_view norm;
  MixNames pre, post, res;
};
#define TARE_MIXING(of)                                         \
  {of ".rms_norm.weight",                                       \
   {of ".proj_pre.weight", of ".bias_pre", of ".alpha_pre"},    \
   {of ".proj_post.weight", of ".bias_post", of ".alpha_post"}, \
   {of ".proj_res.weight", of ".bias_res", of ".alpha_res"}}
constexpr MixingNames kOfAttention TARE_MIXING("mhc_attn"), kOfFeedForward TARE_MIXING("mhc_ffn");
#undef TARE_MIXING

constexpr auto kMixes = &ModelConfig::mixes_streams;

template <size_t kPower>  // of n^kPower values
constexpr auto MixVectors(const MixNames& names) {
  const auto weight = [](const ModelConfig& c) {
    return Shape{kPower == 2 ? int64_t{c.streams} * c.streams : c.streams, c.StreamWidth()};
  };
  const auto bias = [](const ModelConfig& c) { return Shape(kPower, c.streams); };
  const auto alpha = [](const ModelConfig&) { return Shape{1}; };
  return std::to_array<VectorPlace>({{names.weight, weight, 0, 0.1f, kMixes},
                                     {names.bias, bias, 0, 0.1f, kMixes},
                                     {names.alpha, alpha, 1, 0, kMixes}});
}
constexpr auto MixingVectors(const MixingNames& names) {
  const auto norm = [](const ModelConfig& c) { return Shape{c.StreamWidth()}; };
  return Joined(std::array{VectorPlace{names.norm, norm, 1, 0, kMixes}}, MixVectors<1>(names.pre),
                MixVectors<1>(names.post), MixVectors<2>(names.res));
}

// How a token's streams mix: sigmoid(clip(alpha W z + b)) [n], or exp(clip(..)) [n, n].
template <size_t kPower>
std::vector<float> MixOf(const LayerCall& call, std::string_view norm, const MixNames& names, const float* streams) {
  constexpr float kEps = 1e-6f;  // whatever rms_norm_eps says
  const auto& vectors = call.weights.vectors;
  std::vector<float> z(static_cast<size_t>(call.config.StreamWidth())), mix(vectors.at(names.bias));
  RmsNorm(streams, vectors.at(norm).data(), kEps, z.size(), z.data());
  for (size_t i = 0; i < mix.size(); ++i) {
    const float* const weight = vectors.at(names.weight).data() + i * z.size();
    const double sum = std::inner_product(z.begin(), z.end(), weight, 0.0);  // of up to 16,384 terms
    const float x = vectors.at(names.alpha)[0] * static_cast<float>(sum) + mix[i];
    mix[i] = kPower == 1 ? 1 / (1 + std::exp(-std::clamp(x, -10.0f, 10.0f))) : std::exp(std::clamp(x, -20.0f, 20.0f));
  }
  return mix;
}

// Rows and columns of [n, n] then sum to 1, nearly.
void Sinkhorn(std::vector<float>& mix, size_t n, int rounds) {
  const auto divide = [&](size_t first, size_t step) {
    float sum = 0;
    for (size_t i = 0; i < n; ++i) sum += mix[first + i * step];
    for (size_t i = 0; i < n; ++i) mix[first + i * step] /= std::max(sum, 1e-8f);
  };
  for (; rounds > 0; --rounds) {
    for (size_t row = 0; row < n; ++row) divide(row * n, 1);
    for (size_t column = 0; column < n; ++column) divide(column, n);
  }
}

// normed = norm(pre X)
void NormMixed(const LayerCall& call, const MixingNames& names, std::string_view norm) {
  const ModelConfig& c = call.config;
  const std::vector<float>& weight = call.weights.vectors.at(norm);
  if (!c.mixes_streams) return NormRows(call, weight);
  const int64_t E = c.hidden;
  ForRows(call, [&](int64_t row) {
    const float* const streams = call.a.x.data() + row * c.StreamWidth();
    const std::vector<float> pre = MixOf<1>(call, names.norm, names.pre, streams);
    float* const normed = call.a.normed.data() + row * E;
    std::fill_n(normed, E, 0.0f);
    for (int64_t i = 0; i < c.streams * E; ++i) normed[i % E] += pre[static_cast<size_t>(i / E)] * streams[i];
    RmsNorm(normed, weight.data(), c.norm_eps, E, normed);
  });
}

// X = res X + post^T delta
void AddMixed(const LayerCall& call, const MixingNames& names) {
  const ModelConfig& c = call.config;
  if (!c.mixes_streams) return AddDelta(call);
  const auto E = static_cast<size_t>(c.hidden), n = static_cast<size_t>(c.streams);
  ForRows(call, [&](int64_t row) {
    float *const streams = call.a.x.data() + row * c.StreamWidth(), *const delta = call.a.delta.data() + row * c.hidden;
    const std::vector<float> post = MixOf<1>(call, names.norm, names.post, streams), before(streams, streams + n * E);
    std::vector<float> res = MixOf<2>(call, names.norm, names.res, streams);
    Sinkhorn(res, n, c.sinkhorn);
    for (size_t i = 0; i < n * E; ++i) {
      streams[i] = post[i / E] * delta[i % E];
      for (size_t from = 0; from < n; ++from) streams[i] += res[i / E * n + from] * before[from * E + i % E];
    }
  });
}

// ---- Feed-forward

struct TermsNames {
  std::string_view weight, bias;
};
constexpr TermsNames kDenseTerms{"mlp.act_fn.weight", "mlp.act_fn.bias"},
    kSharedTerms{"moe.shared_experts.act_fn.weight", "moe.shared_experts.act_fn.bias"},
    kExpertTerms{"moe.experts.act_fn.weight", "moe.experts.act_fn.bias"};
constexpr RouterNames kMotif3Router{.weight = "moe.router.gate.weight", .bias = "moe.expert_bias"};

constexpr auto kMotif3Linear =
    Joined(kMotif3Attention, kLlamaFeedForward,
           std::to_array<LinearPlace>(
               {{Site::kSharedGateW, "moe.shared_experts.gate_proj", &LayerWeights::gate, nullptr, kPostAttentionNorm},
                {Site::kSharedUpW, "moe.shared_experts.up_proj", &LayerWeights::up, nullptr, kPostAttentionNorm},
                {Site::kSharedDownW, "moe.shared_experts.down_proj", &LayerWeights::down, nullptr, {}},
                WideExperts("moe.experts.{}.gate_up_proj", &LayerWeights::experts_gate_up, "moe.experts.gate_up_proj"),
                NarrowExperts("moe.experts.{}.down_proj", "moe.experts.down_proj")}));

// Several matrices, and a router, read the norm before experts.
constexpr Site kMotif3Smoothed[]{Site::kQAProjIn, Site::kQBProjIn, Site::kKvBProjIn, Site::kGateProjIn,
                                 Site::kDownProjIn};

template <SiteOf of, int64_t kCount>
Shape PolyTermsShape(const ModelConfig& c) {
  return of == SiteOf::kExperts ? Shape{c.experts, kCount} : Shape{kCount};
}
template <SiteOf of>
constexpr auto TermsVectors(const TermsNames& names) {
  return std::to_array<VectorPlace>({{names.weight, PolyTermsShape<of, 3>, 0, 1, nullptr, {}, of},
                                     {names.bias, PolyTermsShape<of, 1>, 0, 0.1f, nullptr, {}, of}});
}
constexpr auto kMotif3Vectors =
    Joined(kLlamaVectors,
           std::to_array<VectorPlace>({{kQNorm, [](const ModelConfig& c) { return Shape{c.q_rank}; }, 1, 0},
                                       {kLatentNorm, [](const ModelConfig& c) { return Shape{c.kv_rank}; }, 1, 0},
                                       RouterPlace(kMotif3Router.weight),
                                       {kMotif3Router.bias, RouterBiasShape, 0, 0.1f, nullptr, {}, SiteOf::kExperts}}),
           MixingVectors(kOfAttention), MixingVectors(kOfFeedForward), TermsVectors<SiteOf::kGate>(kDenseTerms),
           TermsVectors<SiteOf::kShared>(kSharedTerms), TermsVectors<SiteOf::kExperts>(kExpertTerms));

// Terms become what multiplies: s sigmoid(weight), and s times the clipped bias.
LayerWeights LoadMotif3Layer(Weights& weights, const ModelConfig& c, int layer) {
  LayerWeights w = LoadLayer(weights, c, layer);
  for (const auto& [names, limit] :
       {std::pair(kDenseTerms, kNoLimit), std::pair(kSharedTerms, kNoLimit), std::pair(kExpertTerms, c.bias_clamp)}) {
    std::vector<float>&terms = w.vectors[names.weight], &biases = w.vectors[names.bias];
    Sigmoid(terms.data(), terms.size());
    for (float& term : terms) term *= c.unit_scale;
    for (float& bias : biases) bias = c.unit_scale * std::clamp(bias, -limit, limit);
  }
  return w;
}

void Clip(std::span<float> row, float limit) {
  for (float& x : row) x = std::clamp(x, -limit, limit);
}

// gate = PolyNorm(gate, up)
void Unit(const LayerCall& call, const TermsNames& names, size_t expert, float* gate, const float* up, size_t n) {
  const auto& vectors = call.weights.vectors;
  const float limit = call.config.Routes(call.layer) ? call.config.hidden_clamp : kNoLimit;
  std::vector<float> clipped(up, up + n);
  Clip({gate, n}, limit);
  Clip(clipped, limit);
  const PolyNormTerms terms{.w = vectors.at(names.weight).data() + 3 * expert, .bias = vectors.at(names.bias)[expert]};
  PolyNormGlu(gate, clipped.data(), terms, n);
}

void Motif3Forward(const LayerCall& call) {
  NormMixed(call, kOfAttention, kInputNorm);
  ProjectLatents(call);
  Attend(call, ProjectLambda(call));
  GateHeads(call);
  ProjectOutput(call);
  AddMixed(call, kOfAttention);
  NormMixed(call, kOfFeedForward, kPostAttentionNorm);
  const bool routes = call.config.Routes(call.layer);
  FeedForward(
      call,
      [&](float* gate, const float* up, size_t n) { Unit(call, routes ? kSharedTerms : kDenseTerms, 0, gate, up, n); },
      routes ? FeedForwardInputs{Site::kSharedGateIn, Site::kSharedUpIn, Site::kSharedDownIn} : FeedForwardInputs{});
  if (routes)
    FeedExperts(call, kMotif3Router, [&](size_t expert, const float* gate_up, float* inner, size_t n) {
      std::copy_n(gate_up, n, inner);
      Unit(call, kExpertTerms, expert, inner, gate_up + n, n);
      Clip({inner, n}, call.config.unit_scale * call.config.hidden_clamp);
    });
  AddMixed(call, kOfFeedForward);
}

// ---- Configuration

// What the formulas above cover.
void RefuseOtherMotif(const ConfigKeys& keys) {
  for (const char* key :
       {"diff_v2", "elementwise_attn_output_gate", "use_sliding_window", "polynorm_sigmoid_weight", "route_norm"}) {
    if (!keys.Flag(key, true)) Fail("{}: {}: false is not supported in a Motif-3 model", keys.where(), key);
  }
  for (const char* key :
       {"attention_bias", "use_bias", "mlp_bias", "layer_types", "rope_parameters", "partial_rotary_factor"})
    keys.Refuse(key);
  keys.Refuse("hidden_act", {"\"poly_norm\""});
  keys.Refuse("score_func", {"\"sigmoid\""});
  keys.Refuse("sliding_window_pattern", {"\"interleave\""});
  keys.Refuse("mhc_h_post_alpha_end", {"0", "0.0"});
  for (const char* key : {"num_shared_experts", "interleave_moe_layer_step"}) keys.Refuse(key, {"1"});
}

int Within(const ConfigKeys& keys, const char* key, int least, int most) {
  const int got = keys.Integer(key, least);
  if (got > most) Fail("{}: {}: got {}, expected {} to {}", keys.where(), key, got, least, most);
  return got;
}

void ReadLatents(const ConfigKeys& keys, ModelConfig& c) {
  constexpr int kMost = 1 << 20;
  c.noise_heads = keys.Integer("num_noise_heads", 1);
  if (c.heads % c.noise_heads != 0 || c.heads == c.noise_heads || c.kv_heads != c.noise_heads)
    Fail("{}: num_noise_heads: got {} of {} heads, {} of keys, expected groups of two or more, each with a key head",
         keys.where(), c.noise_heads, c.heads, c.kv_heads);
  c.q_rank = Within(keys, "q_lora_rank", 1, kMost);
  c.kv_rank = Within(keys, "kv_lora_rank", 1, kMost);
  c.value_dim = Within(keys, "v_head_dim", 1, c.head_dim);
  const int rotated = Within(keys, "qk_rope_head_dim", 2, c.head_dim - 1);
  if (rotated % 2 != 0) Fail("{}: qk_rope_head_dim: got {}, expected an even number", keys.where(), rotated);
  c.rotary.share = std::nextafter(static_cast<double>(rotated) / c.head_dim, 1.0);  // so that Channels gives as many
}

// Layers that see all keys have YaRN, as two places say it; the others' positions are plain.
void ReadBothPositions(const ConfigKeys& keys, ModelConfig& c) {
  c.window_rotary = c.rotary;
  c.window_rotary->theta = keys.Positive("swa_rope_theta", keys.Positive("rope_theta", c.rotary.theta));
  const double factor = keys.Positive("rope_factor", 1);
  const int original = keys.Integer("original_seq_len", 1, c.max_positions);
  c.rotary = ReadRotary(keys, c.max_positions, c.rotary);
  const bool agrees = c.rotary.type == RotaryConfig::Type::kYarn
                          ? c.rotary.factor == factor && c.rotary.original_positions == original
                          : c.rotary.type == RotaryConfig::Type::kDefault && factor == 1;
  if (!agrees)
    Fail("{}: rope_scaling: got {} with factor {}, expected yarn with rope_factor {} and original_seq_len {}",
         keys.where(), Name(c.rotary.type), c.rotary.factor, factor, original);
  for (const char* key : {"apply_yarn_scaling", "partial_rotary_factor"})
    if (keys.Filled("rope_scaling")) keys.Object("rope_scaling").Refuse(key);
  c.rotary.attention_factor = 1;
  if (c.max_positions > original)
    c.full_scale = static_cast<float>(std::pow(YarnAttentionFactor(factor, keys.Positive("mscale", 1)), 2));
  const int window = Within(keys, "sliding_window", 1, 1 << 30), period = keys.Integer("sliding_window_period", 1);
  c.windows = ReadWindows(keys, c.layers, window + 1, [&](int layer) { return layer % period != 0; });
}

void ReadRouted(const ConfigKeys& keys, ModelConfig& c) {
  const int dense = keys.Integer("n_dense_first_layers", 0, 0);
  if (keys.Integer("num_experts", 0, 0) == 0 || dense >= c.layers) return;
  ReadExperts(keys, c, {.experts = 0, .chosen = keys.Integer("experts_top_k", 1)});
  c.dense_ffn = std::exchange(c.ffn, keys.Integer("moe_intermediate_size", 1));
  c.shared_ffn = c.ffn;
  c.gate_with_up = true;
  c.router_scores = RouterScores::kSigmoid;
  c.route_scale = static_cast<float>(keys.Positive("route_scale", 1));
  for (int layer = 0; dense > 0 && layer < c.layers; ++layer) c.dense.push_back(layer < dense);
}

void ReadMotif3(const ConfigKeys& keys, ModelConfig& c) {
  RefuseOtherMotif(keys);
  ReadNormEps(keys, c);
  c.gate = OutputGate::kPerValue;
  ReadLatents(keys, c);
  ReadBothPositions(keys, c);
  ReadRouted(keys, c);
  c.hidden_clamp = static_cast<float>(keys.Positive("hidden_clamp", kNoLimit));
  c.bias_clamp = static_cast<float>(keys.Positive("polynorm_bias_clamp", kNoLimit));
  c.unit_scale = static_cast<float>(keys.Positive("polynorm_output_scale"));
  c.mixes_streams = keys.Flag("mhc_enabled", false);
  if (c.mixes_streams) c.streams = Within(keys, "mhc_expansion_rate", 1, 16);
  if (c.mixes_streams) c.sinkhorn = Within(keys, "mhc_sinkhorn_iters", 1, 1000);
}

}  // namespace

// Mixed streams cannot be rotated, and gates lie between values and o_proj.
constinit const Family kMotif3 = Changed(
    LikeLlama("motif3", "Motif-Technologies/Motif-3, also in NVFP4: model_type Motif", ReadMotif3), [](Family& f) {
      f.activation = "poly_norm";
      f.linear = kMotif3Linear;
      f.vectors = kMotif3Vectors;
      f.heads = Motif3Heads;
      f.load = LoadMotif3Layer;
      f.forward = Motif3Forward;
      f.rotation = Rotation::kNone;
      f.smoothed = kMotif3Smoothed;
      f.rotates_parts = true;
    });

}  // namespace tare
