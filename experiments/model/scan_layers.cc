// SPDX-License-Identifier: Apache-2.0
// Steps of layers without attention: a Mamba-1 (Gu and Dao 2023), and a gated memory unit (Ren et al. 2025, SambaY)
// that reads what a Mamba before it computed. Legend as in decoder.h; C channels of the scan, N states, R_dt rank.
//
//   Mamba   [u | z] = in_proj normed;   u = silu(conv1d(u));   [r | B | C] = x_proj u;   d = softplus(dt_proj r + b)
//           memory = scan(u, d, B, C) + D u;   delta = out_proj(memory * silu(z))
//   unit    delta = out_proj(memory * silu(in_proj normed))
//
// A sequence's branches each continue from the state after its prefix. With caches, states are those of the caches.
#include "experiments/model/decoder.h"

#include <algorithm>
#include <cmath>
#include <deque>

#include "experiments/model/batch.h"
#include "quant/base/parallel.h"

namespace tare {
namespace {

constexpr int64_t kChannels = 64;  // of one task: its rows are whole cache lines

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
  explicit Pieces(const LayerCall& call) {
    const std::vector<SequenceCache*>& caches = call.batch.caches;
    ForPieces(call.batch, [&](const AttentionSequence& s, int slot, int64_t row, int64_t position, int64_t tokens) {
      const bool is_prefix = row == s.first_row;
      ScanState& state = !is_prefix       ? own_.emplace_back()
                         : caches.empty() ? own_.emplace_back(call.weights.scan)
                                          : caches[static_cast<size_t>(slot)]->Scan(call.layer);
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

// body(piece, channels) for blocks of channels of each piece, from several threads.
template <typename Body>
void ForChannels(const std::vector<Piece>& pieces, int64_t channels, const Body& body) {
  const int64_t blocks = (channels + kChannels - 1) / kChannels;
  ParallelFor(pieces.size() * static_cast<size_t>(blocks), [&](size_t task, int) {
    const int64_t begin = static_cast<int64_t>(task) % blocks * kChannels;
    body(pieces[task / static_cast<size_t>(blocks)], ChannelRange{begin, std::min(begin + kChannels, channels)});
  });
}

// Columns [first, first + count) of rows of `from` values.
void TakeColumns(const LayerCall& call, const float* rows, int64_t from, int64_t first, int64_t count, float* y) {
  ForRows(call, [&](int64_t row) { std::copy_n(rows + row * from + first, count, y + row * count); });
}

ScanInputs InputsAt(const LayerCall& call, int64_t row) {
  const ScanActivations& s = call.a.scan;
  const int64_t C = call.weights.scan.channels, N = call.weights.scan.states;
  return {.u = {s.u.data() + row * C, C},
          .delta = {s.delta.data() + row * C, C},
          .b = {s.b.data() + row * N, N},
          .c = {s.c.data() + row * N, N}};
}

void Convolve(const LayerCall& call, Pieces& pieces) {
  if (!call.Runs()) return;
  const ScanParameters& p = call.weights.scan;
  ScanActivations& s = call.a.scan;
  const int64_t C = p.channels;
  pieces.InRounds(&ScanState::history, [&](const std::vector<Piece>& round) {
    ForChannels(round, C, [&](const Piece& piece, ChannelRange channels) {
      CausalConvolution(p, channels, piece.tokens, {s.mixed.data() + piece.row * 2 * C, 2 * C},
                        piece.state->history.data(), {s.u.data() + piece.row * C, C});
    });
  });
}

// Token by token, for visitors of the states, whose changes the next token's state follows from.
void ScanInView(const LayerCall& call, const std::vector<Piece>& round) {
  const ScanParameters& p = call.weights.scan;
  const int64_t C = p.channels;
  for (const Piece& piece : round) {
    for (int64_t t = 0; t < piece.tokens; ++t) {
      ForChannels({piece}, C, [&](const Piece& one, ChannelRange channels) {
        SelectiveScan(p, channels, 1, InputsAt(call, one.row + t), one.state->state.data(),
                      {call.a.scan.memory.data() + (one.row + t) * C, C});
      });
      const SiteBlock block{.site = Site::kScanState,
                            .layer = call.layer,
                            .sequence = piece.sequence->index,
                            .slot = piece.slot,
                            .first_row = piece.position + t,
                            .rows = 1,
                            .first_columns = p.StateValues(),
                            .values = piece.state->state.data(),
                            .stride = p.StateValues()};
      Visit(call.visitors, block, 0);
    }
  }
}

void Scan(const LayerCall& call, Pieces& pieces) {
  if (!call.Runs()) return;
  const ScanParameters& p = call.weights.scan;
  const bool in_view = AnyWants(call.visitors, Site::kScanState, call.layer);
  pieces.InRounds(&ScanState::state, [&](const std::vector<Piece>& round) {
    if (in_view) return ScanInView(call, round);
    ForChannels(round, p.channels, [&](const Piece& piece, ChannelRange channels) {
      SelectiveScan(p, channels, piece.tokens, InputsAt(call, piece.row), piece.state->state.data(),
                    {call.a.scan.memory.data() + piece.row * p.channels, p.channels});
    });
  });
}

// delta = out_proj(memory * silu(gate)).
void GateAndProject(const LayerCall& call, Site gate, Site input) {
  ScanActivations& s = call.a.scan;
  const int64_t C = call.config.scan_channels;
  ShowRows(call, gate, s.gate.data(), C);
  ForRows(call, [&](int64_t row) {
    SiluGate(s.memory.data() + row * C, s.gate.data() + row * C, C, s.gated.data() + row * C);
  });
  ProjectSeen(call, s.gated.data(), {{input, call.weights.mixer_out, call.a.delta.data()}});
}

}  // namespace

ScanParameters ScanParametersOf(const LayerWeights& weights, const ScanNames& names, const ModelConfig& c) {
  ScanParameters p{.channels = c.scan_channels, .states = c.scan_states, .taps = c.scan_taps};
  const auto turned = [&](const std::vector<float>& rows, int64_t columns) {  // [C, columns] to [columns, C]
    std::vector<float> y(rows.size());
    for (int64_t i = 0; i < p.channels; ++i)
      for (int64_t j = 0; j < columns; ++j) y[j * p.channels + i] = rows[i * columns + j];
    return y;
  };
  p.conv = turned(weights.vectors.at(names.conv), p.taps);
  p.conv_bias.resize(static_cast<size_t>(p.channels));
  if (c.scan_conv_bias) p.conv_bias = weights.vectors.at(names.conv_bias);
  p.delta_bias = weights.vectors.at(names.delta_bias);
  p.a = turned(weights.vectors.at(names.a_log), p.states);
  for (float& a : p.a) a = -std::exp(a);
  p.d = weights.vectors.at(names.d);
  return p;
}

void MixMamba(const LayerCall& call) {
  const LayerWeights& w = call.weights;
  ScanActivations& s = call.a.scan;
  const int64_t C = call.config.scan_channels, N = call.config.scan_states, rank = call.config.scan_rank;
  ProjectSeen(call, call.a.normed.data(), {{Site::kMambaInProjIn, w.mixer_in, s.mixed.data()}});
  Pieces pieces(call);
  Convolve(call, pieces);
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
  Scan(call, pieces);
  ShowRows(call, Site::kScanOut, s.memory.data(), C);
  TakeColumns(call, s.mixed.data(), 2 * C, C, C, s.gate.data());
  GateAndProject(call, Site::kMambaGate, Site::kMambaOutProjIn);
}

void MixMemory(const LayerCall& call) {
  ProjectSeen(call, call.a.normed.data(), {{Site::kGmuInProjIn, call.weights.mixer_in, call.a.scan.gate.data()}});
  GateAndProject(call, Site::kGmuGate, Site::kGmuOutProjIn);
}

}  // namespace tare
