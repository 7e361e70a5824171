// SPDX-License-Identifier: Apache-2.0
// Layers without attention: Mamba-1 (Gu and Dao 2023), Mamba-2 (Dao and Gu 2024), and a gated memory unit (Ren et al.
// 2025, SambaY) that reads a Mamba. As in decoder.h; C scan channels, N states, R_dt rank, W convolution channels.
//
//   Mamba   [u | z] = in_proj normed;   u = silu(conv1d(u));   [r | B | C] = x_proj u;   d = softplus(dt_proj r + b)
//           memory = scan(u, d, B, C) + D u;   delta = out_proj(memory * silu(z))
//   2       [z | u | r] = in_proj normed;   [u | B | C] = silu(conv1d(u));   d = clip(softplus(r + b)), one of a head
//           delta = out_proj(norm(memory * silu(z))), the norm over all channels
//   unit    delta = out_proj(memory * silu(in_proj normed))
//
// A sequence's branches each continue from the state after its prefix. With caches, states are those of the caches.
#include "experiments/model/decoder.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <utility>

#include "experiments/model/batch.h"
#include "quant/base/parallel.h"

namespace tare {
namespace {

constexpr int64_t kChannels = 64;  // of one task: its rows are whole cache lines

struct ScanSites {
  Site in_proj_in, in, delta, b, c, state, out, gate, out_proj_in;
};
constexpr ScanSites kMambaSites{Site::kMambaInProjIn, Site::kScanIn,    Site::kScanDelta,
                                Site::kScanB,         Site::kScanC,     Site::kScanState,
                                Site::kScanOut,       Site::kMambaGate, Site::kMambaOutProjIn};
constexpr ScanSites kPairSites[]{
    {Site::kMixer1InProjIn, Site::kMixer1ScanIn, Site::kMixer1ScanDelta, Site::kMixer1ScanB, Site::kMixer1ScanC,
     Site::kMixer1ScanState, Site::kMixer1ScanOut, Site::kMixer1Gate, Site::kMixer1OutProjIn},
    {Site::kMixer2InProjIn, Site::kMixer2ScanIn, Site::kMixer2ScanDelta, Site::kMixer2ScanB, Site::kMixer2ScanC,
     Site::kMixer2ScanState, Site::kMixer2ScanOut, Site::kMixer2Gate, Site::kMixer2OutProjIn}};

// One Mamba of a layer: of a pair there are two.
struct Mamba {
  size_t number;  // of the layer's scans
  const LinearWeights &in, &out;
  const ScanParameters& scan;
  const ScanSites& sites;
};

// Tokens that follow one another from one state.
struct Piece {
  const AttentionSequence* sequence;
  int slot;
  int64_t row, position, tokens;
  ScanState* state;
};

// The pieces of a batch, in two rounds: prefixes, then branches, whose states begin as copies of their prefixes'.
class Pieces {
 public:
  Pieces(const LayerCall& call, const Mamba& mamba) {
    const std::vector<SequenceCache*>& caches = call.batch.caches;
    ForPieces(call.batch, [&](const AttentionSequence& s, int slot, int64_t row, int64_t position, int64_t tokens) {
      const bool is_prefix = row == s.first_row;
      ScanState& state = !is_prefix       ? own_.emplace_back()
                         : caches.empty() ? own_.emplace_back(mamba.scan)
                                          : caches[static_cast<size_t>(slot)]->Scan(call.layer, mamba.number);
      (is_prefix ? prefixes_ : branches_).push_back({&s, slot, row, position, tokens, &state});
    });
  }

  // run(pieces) of each round; moved: the part of a state that the run moves on.
  template <typename Run>
  void InRounds(std::vector<float> ScanState::* moved, const Run& run) {
    run(prefixes_);
    if (branches_.empty()) return;
    for (const Piece& branch : branches_)
      branch.state->*moved = prefixes_[static_cast<size_t>(branch.slot)].state->*moved;
    run(branches_);
  }

 private:
  std::deque<ScanState> own_;
  std::vector<Piece> prefixes_, branches_;
};

// body(piece, channels) for blocks of channels of each piece, within `groups` equal groups, from several threads.
template <typename Body>
void ForChannels(const std::vector<Piece>& pieces, int64_t channels, int64_t groups, const Body& body) {
  const int64_t width = channels / groups, blocks = (width + kChannels - 1) / kChannels;
  ParallelFor(pieces.size() * static_cast<size_t>(groups * blocks), [&](size_t task, int) {
    const int64_t block = static_cast<int64_t>(task) % (groups * blocks), first = block / blocks * width,
                  begin = first + block % blocks * kChannels;
    body(pieces[task / static_cast<size_t>(groups * blocks)],
         ChannelRange{begin, std::min(begin + kChannels, first + width)});
  });
}

// Columns [first, first + count) of rows of `from` values.
void TakeColumns(const LayerCall& call, const float* rows, int64_t from, int64_t first, int64_t count, float* y) {
  ForRows(call, [&](int64_t row) { std::copy_n(rows + row * from + first, count, y + row * count); });
}

// What channels of one group read.
ScanInputs InputsAt(const LayerCall& call, const ScanParameters& p, ChannelRange channels, int64_t row) {
  const ScanActivations& s = call.a.scan;
  const int64_t C = p.channels, columns = call.config.ScanColumns(),
                group = channels.begin / (C / call.config.scan_groups), at = row * columns + group * p.states;
  return {.u = {s.u.data() + row * C, C},
          .delta = {s.delta.data() + row * C, C},
          .b = {s.b.data() + at, columns},
          .c = {s.c.data() + at, columns}};
}

void Convolve(const LayerCall& call, const ScanParameters& p, Pieces& pieces, TokenRows<const float> x, float* y) {
  if (!call.Runs()) return;
  const int64_t W = p.Convolved();
  pieces.InRounds(&ScanState::history, [&](const std::vector<Piece>& round) {
    ForChannels(round, W, 1, [&](const Piece& piece, ChannelRange channels) {
      CausalConvolution(p, channels, piece.tokens, {x.data + piece.row * x.stride, x.stride},
                        piece.state->history.data(), {y + piece.row * W, W});
    });
  });
}

void ScanPieces(const LayerCall& call, const ScanParameters& p, const std::vector<Piece>& pieces) {
  ForChannels(pieces, p.channels, call.config.scan_groups, [&](const Piece& piece, ChannelRange channels) {
    SelectiveScan(p, channels, piece.tokens, InputsAt(call, p, channels, piece.row), piece.state->state.data(),
                  {call.a.scan.memory.data() + piece.row * p.channels, p.channels});
  });
}

// Token by token, for visitors of the states, whose changes the next token's state follows from.
void ScanInView(const LayerCall& call, const Mamba& mamba, Piece piece) {
  const int64_t tokens = std::exchange(piece.tokens, 1), values = mamba.scan.StateValues();
  for (int64_t t = 0; t < tokens; ++t, ++piece.row, ++piece.position) {
    ScanPieces(call, mamba.scan, {piece});
    const SiteBlock block{.site = mamba.sites.state,
                          .layer = call.layer,
                          .sequence = piece.sequence->index,
                          .slot = piece.slot,
                          .first_row = piece.position,
                          .rows = 1,
                          .first_columns = values,
                          .values = piece.state->state.data(),
                          .stride = values};
    Visit(call.visitors, block, 0);
  }
}

void Scan(const LayerCall& call, const Mamba& mamba, Pieces& pieces) {
  if (!call.Runs()) return;
  const bool in_view = AnyWants(call.visitors, mamba.sites.state, call.layer);
  pieces.InRounds(&ScanState::state, [&](const std::vector<Piece>& round) {
    for (const Piece& piece : round) piece.state->tokens += piece.tokens;
    if (!in_view) return ScanPieces(call, mamba.scan, round);
    for (const Piece& piece : round) ScanInView(call, mamba, piece);
  });
}

// out's y = its linear layer of memory * silu(gate), or of the norm of that.
void GateAndProject(const LayerCall& call, Site gate, const SeenProjection& out,
                    const std::vector<float>* norm = nullptr) {
  ScanActivations& s = call.a.scan;
  const int64_t C = out.linear.stored().in;
  ShowRows(call, gate, s.gate.data(), C);
  ForRows(call, [&](int64_t row) {
    float* const gated = s.gated.data() + row * C;
    SiluGate(s.memory.data() + row * C, s.gate.data() + row * C, C, gated);
    if (norm != nullptr) RmsNorm(gated, norm->data(), call.config.norm_eps, C, gated);
  });
  ProjectSeen(call, s.gated.data(), {out});
}

// Each of a row's n values as often as makes `channels` of them.
void Spread(const float* row, int64_t n, int64_t channels, float* y) {
  for (int64_t i = 0; i < n; ++i) std::fill_n(y + i * (channels / n), channels / n, row[i]);
}

// y = what a Mamba-2 makes of normed.
void MixOne(const LayerCall& call, const Mamba& mamba, const std::vector<float>& norm, float* y) {
  const ModelConfig& config = call.config;
  const ScanSites& sites = mamba.sites;
  ScanActivations& s = call.a.scan;
  const int64_t C = mamba.scan.channels, W = mamba.scan.Convolved(), B = config.ScanColumns(), n = config.scan_heads,
                columns = C + W + n;
  ProjectSeen(call, call.a.normed.data(), {{sites.in_proj_in, mamba.in, s.mixed.data()}});
  TakeColumns(call, s.mixed.data(), columns, 0, C, s.gate.data());
  TakeColumns(call, s.mixed.data(), columns, C + W, n, s.rank.data());
  Pieces pieces(call, mamba);
  Convolve(call, mamba.scan, pieces, {s.mixed.data() + C, columns}, s.projected.data());
  TakeColumns(call, s.projected.data(), W, 0, C, s.u.data());
  TakeColumns(call, s.projected.data(), W, C, B, s.b.data());
  TakeColumns(call, s.projected.data(), W, C + B, B, s.c.data());
  ForRows(call, [&](int64_t row) {
    float* const steps = s.rank.data() + row * n;
    SoftplusOfSum(steps, mamba.scan.delta_bias.data(), n);
    for (int64_t i = 0; i < n; ++i) steps[i] = std::clamp(steps[i], config.least_step, config.most_step);
  });
  ShowRows(call, sites.in, s.u.data(), C);
  ShowRows(call, sites.delta, s.rank.data(), n);
  ShowRows(call, sites.b, s.b.data(), B);
  ShowRows(call, sites.c, s.c.data(), B);
  ForRows(call, [&](int64_t row) { Spread(s.rank.data() + row * n, n, C, s.delta.data() + row * C); });
  Scan(call, mamba, pieces);
  ShowRows(call, sites.out, s.memory.data(), C);
  GateAndProject(call, sites.gate, {sites.out_proj_in, mamba.out, y}, &norm);
}

}  // namespace

ScanParameters ScanParametersOf(const LayerWeights& weights, const ScanNames& names, const ModelConfig& c,
                                int64_t channels) {
  ScanParameters p{.channels = channels, .states = c.scan_states, .taps = c.scan_taps};
  const auto turned = [](const std::vector<float>& rows, int64_t columns) {  // [rows, columns] to [columns, rows]
    const int64_t count = std::ssize(rows) / columns;
    std::vector<float> y(rows.size());
    for (int64_t i = 0; i < count; ++i)
      for (int64_t j = 0; j < columns; ++j) y[j * count + i] = rows[i * columns + j];
    return y;
  };
  const auto of_channels = [&](std::vector<float> values) {  // of those of heads
    if (c.scan_heads == 0) return values;
    std::vector<float> y(static_cast<size_t>(channels));
    Spread(values.data(), c.scan_heads, channels, y.data());
    return y;
  };
  p.conv = turned(weights.vectors.at(names.conv), p.taps);
  p.conv_bias.resize(static_cast<size_t>(c.Convolved(channels)));
  if (c.scan_conv_bias) p.conv_bias = weights.vectors.at(names.conv_bias);
  p.delta_bias = weights.vectors.at(names.delta_bias);
  p.a = of_channels(turned(weights.vectors.at(names.a_log), c.scan_heads > 0 ? 1 : p.states));
  for (float& a : p.a) a = -std::exp(a);
  p.d = of_channels(weights.vectors.at(names.d));
  return p;
}

void MixMamba(const LayerCall& call) {
  const LayerWeights& w = call.weights;
  ScanActivations& s = call.a.scan;
  const int64_t C = call.config.scan_channels, N = call.config.scan_states, rank = call.config.scan_rank;
  const Mamba mamba{0, w.mixer_in, w.mixer_out, w.scan, kMambaSites};
  ProjectSeen(call, call.a.normed.data(), {{Site::kMambaInProjIn, w.mixer_in, s.mixed.data()}});
  Pieces pieces(call, mamba);
  Convolve(call, w.scan, pieces, {s.mixed.data(), 2 * C}, s.u.data());
  ShowRows(call, Site::kScanIn, s.u.data(), C);
  ProjectSeen(call, s.u.data(), {{Site::kMambaXProjIn, w.scan_x, s.projected.data()}});
  const int64_t columns = rank + 2 * N;
  TakeColumns(call, s.projected.data(), columns, 0, rank, s.rank.data());
  TakeColumns(call, s.projected.data(), columns, rank, N, s.b.data());
  TakeColumns(call, s.projected.data(), columns, rank + N, N, s.c.data());
  ProjectSeen(call, s.rank.data(), {{Site::kMambaDtProjIn, w.scan_dt, s.delta.data()}});
  ForRows(call, [&](int64_t row) { SoftplusOfSum(s.delta.data() + row * C, w.scan.delta_bias.data(), C); });
  ShowRows(call, Site::kScanDelta, s.delta.data(), C);
  ShowRows(call, Site::kScanB, s.b.data(), N);
  ShowRows(call, Site::kScanC, s.c.data(), N);
  Scan(call, mamba, pieces);
  ShowRows(call, Site::kScanOut, s.memory.data(), C);
  TakeColumns(call, s.mixed.data(), 2 * C, C, C, s.gate.data());
  GateAndProject(call, Site::kMambaGate, {Site::kMambaOutProjIn, w.mixer_out, call.a.delta.data()});
}

void MixMamba2(const LayerCall& call, std::string_view norm) {
  const LayerWeights& w = call.weights;
  MixOne(call, {0, w.mixer_in, w.mixer_out, w.scan, kMambaSites}, w.vectors.at(norm), call.a.delta.data());
}

void MixMambaPair(const LayerCall& call, std::string_view first_norm, std::string_view second_norm) {
  const LayerWeights& w = call.weights;
  const int64_t E = call.config.hidden;
  float *const m1 = call.a.delta.data(), *const m2 = call.a.scan.second.data();
  MixOne(call, {0, w.mixer_in, w.mixer_out, w.scan, kPairSites[0]}, w.vectors.at(first_norm), m1);
  MixOne(call, {1, w.second_in, w.second_out, w.second_scan, kPairSites[1]}, w.vectors.at(second_norm), m2);
  ShowRows(call, Site::kMixer1Out, m1, E);
  ShowRows(call, Site::kMixer2Out, m2, E);
  ForRows(call, [&](int64_t row) {
    for (int64_t i = row * E; i < (row + 1) * E; ++i) m1[i] -= w.lambda[0] * m2[i];
  });
  ShowRows(call, Site::kMixerDifference, m1, E);
  ForRows(call, [&](int64_t row) {
    RmsNorm(m1 + row * E, w.head_norm.data(), HeadNormEps(call.config), E, m1 + row * E);
    ScaleInto(m1 + row * E, 1 - *w.lambda_init, E, m1 + row * E);
  });
}

void MixMemory(const LayerCall& call) {
  ProjectSeen(call, call.a.normed.data(), {{Site::kGmuInProjIn, call.weights.mixer_in, call.a.scan.gate.data()}});
  GateAndProject(call, Site::kGmuGate, {Site::kGmuOutProjIn, call.weights.mixer_out, call.a.delta.data()});
}

}  // namespace tare
