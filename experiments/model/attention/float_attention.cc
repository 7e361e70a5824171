// SPDX-License-Identifier: Apache-2.0
#include "experiments/model/attention/float_attention.h"

#include <memory>

#include "kernels/attention/float/fused_block.h"
#include "quant/base/aligned.h"
#include "quant/base/message.h"
#include "quant/base/parallel.h"

namespace tare {
namespace {

// Consecutive output heads of one sequence that read the same K and V.
struct HeadTask {
  int slot = 0;
  int first = 0, last = 0;
};

bool SameKeysAndValues(const OutputHead& a, const OutputHead& b) { return a.k1 == b.k1 && a.k2 == b.k2 && a.v == b.v; }

// Heads that share K and V share a task, unless threads would then wait for each other.
std::vector<HeadTask> TasksOf(const FloatAttentionCall& call) {
  const std::span<const OutputHead> heads = call.problem.heads;
  std::vector<HeadTask> shared, alone;
  for (int slot = 0; slot < std::ssize(call.sequences); ++slot) {
    for (int head = 0; head < std::ssize(heads); ++head) {
      alone.push_back({slot, head, head});
      if (head > 0 && SameKeysAndValues(heads[head], heads[head - 1]))
        shared.back().last = head;
      else
        shared.push_back({slot, head, head});
    }
  }
  return Threads() > 1 && std::ssize(shared) < 4 * Threads() ? alone : shared;
}

// One thread's memory: K and V of its task, packed, and what the kernel works with.
class ThreadMemory {
 public:
  ThreadMemory(const AttentionProblem& problem, const FusedKernel& kernel) {
    Arena counted(0);
    Take(problem, kernel, counted);
    memory_.Reset(counted.used());
    Arena arena(reinterpret_cast<uintptr_t>(memory_.data()));
    Take(problem, kernel, arena);
  }

  PackedHead packed;
  FusedScratch scratch{};

 private:
  void Take(const AttentionProblem& problem, const FusedKernel& kernel, Arena& arena) {
    for (int map = 0; map < kernel.maps; ++map)
      packed.k[map] = arena.Take<std::byte>(kernel.tiles * kernel.operands.KeyBytes(problem.k.width));
    for (int slice = 0; slice < problem.out.width / problem.v.width; ++slice)
      packed.v[slice] = arena.Take<std::byte>(kernel.tiles * kernel.operands.ValueBytes(problem.v.width));
    scratch = kernel.TakeScratch(arena);
  }

  AlignedBuffer<std::byte> memory_;
};

bool Shows(const FloatAttentionCall& call, Site site) { return AnyWants(call.visitors, site, call.layer); }

// kSum: of an integral map, for visitors that change values.
enum class Pass { kSurvey, kSum, kCompute };

class TaskRun {
 public:
  TaskRun(const FloatAttentionCall& call, const FusedKernel& kernel, ThreadMemory& memory, const HeadTask& task,
          Pass pass, int thread)
      : call_(call),
        kernel_(kernel),
        memory_(memory),
        sequence_(call.sequences[static_cast<size_t>(task.slot)]),
        task_(task),
        pass_(pass),
        thread_(thread) {
    const auto show = [this](Site site) { return [this, site](const ShownRows& rows) { ShowMap(site, rows); }; };
    if (pass == Pass::kSurvey) {
      looks_.logits = [this](const ShownRows& rows) { SurveyMap(rows); };
      return;
    }
    if (Shows(call, Site::kAttnLogits)) looks_.logits = show(Site::kAttnLogits);
    if (Shows(call, Site::kProbs)) looks_.probs = show(Site::kProbs);
    if (Shows(call, Site::kDifference)) {
      looks_.difference = [this](const ShownRows& rows) {
        Visit(call_.visitors, BlockOf(Site::kDifference, rows), thread_);
      };
    }
  }
  TaskRun(const TaskRun&) = delete;

  void Run() {
    int64_t row = sequence_.first_row;
    RunPiece(row, 0, sequence_.prefix);
    row += sequence_.prefix;
    for (const int64_t tokens : sequence_.branches) {
      RunPiece(row, sequence_.prefix, tokens);
      row += tokens;
    }
  }

 private:
  // Rows [row, row + count) of the batch, which stand at [position, position + count) of the sequence.
  void RunPiece(int64_t row, int64_t position, int64_t count) {
    SetPiece(row, position, count);
    Pack(row);
    for (int head = task_.first; head <= task_.last; ++head) {
      if (piece_.integral != Integral::kNone) column_sums_.assign(static_cast<size_t>(kernel_.tiles * kTile), 0.0);
      const Pass last = pass_;
      if (piece_.integral == Integral::kAll && last == Pass::kCompute) RunHead(head, Pass::kSum);
      RunHead(head, last);
    }
  }

  // From the first rows on, as a causal integral goes.
  void RunHead(int head, Pass pass) {
    pass_ = pass;
    const int64_t row_blocks = CeilDiv(piece_.q.tokens, kernel_.rows);
    for (int64_t i = row_blocks; i-- > 0;) {
      ThrowIfStopped();  // a head of 32,000 tokens takes seconds
      block_ = BlockOfRows(piece_, kernel_.rows, row_blocks, head * row_blocks + i);
      if (piece_.integral == Integral::kAll) block_.end_tile = CeilDiv(piece_.k.tokens, kTile);
      const FusedRows rows{kernel_, piece_, block_, memory_.packed, memory_.scratch, looks_, column_sums_.data()};
      (pass_ == Pass::kSurvey ? ShowFusedLogits : pass_ == Pass::kSum ? SumFused : RunFused)(rows);
    }
  }

  // The piece's queries, over the keys before them and their own.
  void SetPiece(int64_t row, int64_t position, int64_t count) {
    piece_ = PartOf(call_.problem, {row, row + count}, {});
    position_ = position;
    piece_.k.tokens = piece_.v.tokens = position + count;
  }

  // K and V from the piece's first tile on, which may begin with the end of the prefix; row: in the batch.
  void Pack(int64_t row) {
    const AttentionProblem& batch = call_.problem;
    const OutputHead& head = batch.heads[static_cast<size_t>(task_.first)];
    const auto rows_of = [&](const HeadsView<const float>& view, int index, int64_t tile) {
      TileRows rows{};
      for (int64_t p = tile * kTile; p < std::min((tile + 1) * kTile, piece_.k.tokens); ++p)
        rows[p % kTile] = view.Row(p < position_ ? sequence_.first_row + p : row + p - position_, index);
      return rows;
    };
    const FloatOperands& to = kernel_.operands;
    for (int64_t tile = position_ / kTile; tile * kTile < piece_.k.tokens; ++tile) {
      for (int map = 0; map < head.Maps(); ++map)
        to.Keys(rows_of(batch.k, head.K(map), tile), batch.k.width,
                memory_.packed.k[map] + tile * to.KeyBytes(batch.k.width));
      for (int slice = 0; slice < head.VSlices(); ++slice)
        to.Values(rows_of(batch.v, head.v[slice], tile), batch.v.width,
                  memory_.packed.v[slice] + tile * to.ValueBytes(batch.v.width));
    }
  }

  SiteBlock BlockOf(Site site, const ShownRows& rows) const {
    const Mask& mask = piece_.mask;
    const bool all = site == Site::kDifference && piece_.integral == Integral::kAll;
    const bool causal = mask.kind != Mask::Kind::kFull && !all;
    const int64_t position = position_ + block_.first;
    return {.site = site,
            .layer = call_.layer,
            .sequence = sequence_.index,
            .slot = task_.slot,
            .head = block_.head,
            .first_row = position,
            .rows = block_.count,
            .first_columns = causal ? position + 1 : piece_.k.tokens,
            .column_step = causal ? 1 : 0,
            .window = mask.kind == Mask::Kind::kWindow ? mask.window : 0,
            .values = rows.values,
            .stride = rows.stride,
            .sink_shares = rows.sink_shares};
  }

  SiteBlock MapOf(Site site, const ShownRows& rows) const {
    SiteBlock map = BlockOf(site, rows);
    const OutputHead& head = piece_.heads[static_cast<size_t>(block_.head)];
    map.head = head.Q(rows.map);
    map.map = rows.map + 1;
    map.key_head = head.K(rows.map);
    map.scale = piece_.scale;
    return map;
  }

  // Whether an earlier head has this map too.
  bool IsShared(int map) const {
    const OutputHead& row = piece_.heads[static_cast<size_t>(block_.head)];
    return std::ranges::any_of(piece_.heads.first(static_cast<size_t>(block_.head)), [&](const OutputHead& earlier) {
      const auto is = [&](int m) { return earlier.Q(m) == row.Q(map) && earlier.K(m) == row.K(map); };
      return is(0) || (earlier.Differential() && is(1));
    });
  }

  void SurveyMap(const ShownRows& rows) const {
    if (!IsShared(rows.map)) Survey(call_.visitors, MapOf(Site::kAttnLogits, rows), thread_);
  }

  // A map that an earlier head has too is looked at there, and changed in each, and so is one that is summed first.
  void ShowMap(Site site, const ShownRows& rows) const {
    const bool seen = pass_ == Pass::kSum || IsShared(rows.map);
    for (SiteVisitor* v : call_.visitors) {
      if (v->Wants(site, call_.layer) && (!seen || v->Changes())) v->Visit(MapOf(site, rows), thread_);
    }
  }

  const FloatAttentionCall& call_;
  const FusedKernel& kernel_;
  ThreadMemory& memory_;
  const AttentionSequence& sequence_;
  const HeadTask task_;
  Pass pass_;
  const int thread_;
  Looks looks_;
  AttentionProblem piece_;  // that runs, at this position of the sequence, and its block of rows
  int64_t position_ = 0;
  RowBlock block_;
  std::vector<double> column_sums_;  // of a problem with an integral map (FusedRows)
};

void Check(const FloatAttentionCall& call) {
  for (const Site site : {Site::kProbs, Site::kDifference}) {
    if (AnyNeedsSurvey(call.visitors, site, call.layer))
      Fail("attention: got a survey of {}, expected one of attn_logits or none", Name(site));
  }
  CheckProblem(call.problem);
  TARE_CHECK(call.problem.mask.shift == 0);  // of parts of the keys
  for (const AttentionSequence& s : call.sequences) {
    const int64_t end = s.EndRow();
    TARE_CHECK(call.problem.integral == Integral::kNone || s.branches.empty());
    if (s.first_row < 0 || s.prefix < 1 || end > call.problem.q.tokens)
      Fail("attention sequence: got rows {} to {}, expected at least one, within {}", s.first_row, end,
           call.problem.q.tokens);
  }
}

}  // namespace

void FloatAttention(const FloatAttentionCall& call) {
  Check(call);
  int64_t longest = 0;
  for (const AttentionSequence& s : call.sequences) longest = std::max(longest, s.Longest());
  const bool shown = Shows(call, Site::kAttnLogits) || Shows(call, Site::kProbs) || Shows(call, Site::kDifference);
  const FusedKernel kernel(call.problem, ProductTypes::kF32, longest, longest,
                           shown ? FusedValues::kRows : FusedValues::kTiles);
  const std::vector<HeadTask> tasks = TasksOf(call);
  std::vector<std::unique_ptr<ThreadMemory>> memory(Threads());
  const auto run = [&](Pass pass) {
    ParallelFor(tasks.size(), [&](size_t task, int thread) {
      if (!memory[thread]) memory[thread] = std::make_unique<ThreadMemory>(call.problem, kernel);
      TaskRun(call, kernel, *memory[thread], tasks[task], pass, thread).Run();
    });
  };
  if (AnyNeedsSurvey(call.visitors, Site::kAttnLogits, call.layer)) run(Pass::kSurvey);
  run(Pass::kCompute);
}

}  // namespace tare
