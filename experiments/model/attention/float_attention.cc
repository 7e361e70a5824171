// SPDX-License-Identifier: Apache-2.0
#include "experiments/model/attention/float_attention.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>

#include "kernels/elementwise/rows.h"
#include "kernels/product/tile_product.h"
#include "quant/base/aligned.h"
#include "quant/base/error.h"
#include "quant/base/interrupt.h"
#include "quant/base/parallel.h"

namespace tare {
namespace {

constexpr int64_t kRows = 64;  // query rows per block
constexpr int64_t kKeys = 64;  // keys a packed block of K, and the depth of one P x V product

constexpr int64_t RoundUp(int64_t n, int64_t step) { return (n + step - 1) / step * step; }

// Length of a row of logits: few distinct lengths, because each needs its own kernel, and no power of two, so that the
// 64 rows of a block do not fall on the same cache sets.
int64_t LogitsStride(int64_t keys) { return RoundUp(keys, 512) + 16; }

// The products of one call, for row blocks of 16, 32, 48 and 64 rows.
struct Products {
  Products(int d, int width, int64_t stride) {
    for (int i = 0; i < 4; ++i) {
      const int m = 16 * (i + 1);
      qk.push_back(TileProduct({ProductTypes::kF32, m, kKeys, d, d, kKeys, stride, ProductStore::kOverwrite}));
      for (const ProductStore store : {ProductStore::kOverwrite, ProductStore::kAdd}) {
        pv.push_back(TileProduct({ProductTypes::kF32, m, width, kKeys, stride, width, width, store}));
      }
    }
  }
  const TileProduct& Qk(int64_t rows) const { return qk[(rows + 15) / 16 - 1]; }
  const TileProduct& Pv(int64_t rows, bool add) const { return pv[2 * ((rows + 15) / 16 - 1) + (add ? 1 : 0)]; }

  std::vector<TileProduct> qk, pv;
};

// One thread's buffers.
struct Scratch {
  std::array<AlignedBuffer<float>, 2> k;  // a map: [key blocks][d][64]
  AlignedBuffer<float> v;                 // [keys up to a block][width]
  AlignedBuffer<float> q;                 // [64][d], scaled
  std::array<AlignedBuffer<float>, 2> p;  // [64][stride]: logits, then probabilities; the second for a difference only
  std::array<AlignedBuffer<float>, 2> o;  // a map: [64][width]
};

int64_t LongestSequence(const FloatAttentionCall& call) {
  int64_t longest = 0;
  for (const AttentionSequence& s : call.sequences) {
    const int64_t branch = s.branches.empty() ? 0 : *std::max_element(s.branches.begin(), s.branches.end());
    longest = std::max(longest, s.prefix + branch);
  }
  return longest;
}

enum class Pass { kSurvey, kCompute };

// One output head of one sequence.
class HeadTask {
 public:
  HeadTask(const FloatAttentionCall& call, const Products& products, Scratch& scratch, int64_t stride, int slot,
           int head, int thread)
      : call_(call),
        problem_(call.problem),
        products_(products),
        scratch_(scratch),
        stride_(stride),
        sequence_(call.sequences[slot]),
        slot_(slot),
        head_(head),
        row_(call.problem.heads[head]),
        maps_(row_.Maps()),
        thread_(thread),
        width_(row_.VSlices() * call.problem.v.width),
        shows_logits_(AnyWants(call.visitors, Site::kAttnLogits, call.layer)),
        shows_probs_(AnyWants(call.visitors, Site::kProbs, call.layer)),
        shows_difference_(row_.Differential() && AnyWants(call.visitors, Site::kDifference, call.layer)),
        early_(shows_difference_ && AnyChanges(call.visitors, Site::kDifference, call.layer)) {
    for (int m = 0; m < maps_; ++m) {
      shared_[m] = std::ranges::any_of(problem_.heads.first(head), [&](const OutputHead& earlier) {
        const auto is = [&](int map) { return earlier.Q(map) == row_.Q(m) && earlier.K(map) == row_.K(m); };
        return is(0) || (earlier.Differential() && is(1));
      });
    }
  }

  void Run(Pass pass) {
    const int64_t prefix = sequence_.prefix;
    Pack(sequence_.first_row, 0, prefix);
    Rows(sequence_.first_row, 0, prefix, pass);
    int64_t row = sequence_.first_row + prefix;
    for (const int64_t tokens : sequence_.branches) {
      Pack(row, prefix, tokens);
      Rows(row, prefix, tokens, pass);
      row += tokens;
    }
  }

 private:
  // K and V of `count` rows of the batch to positions [position, position + count), zeros to the end of the last block.
  void Pack(int64_t row, int64_t position, int64_t count) {
    const int d = problem_.q.width;
    const int64_t end = position + count;
    for (int64_t p = position; p < RoundUp(end, kKeys); ++p) {
      const int64_t source = row + p - position;
      for (int m = 0; m < maps_; ++m) {
        float* column = scratch_.k[m].data() + p / kKeys * d * kKeys + p % kKeys;
        const float* key = p < end ? problem_.k.Row(source, row_.K(m)) : nullptr;
        for (int i = 0; i < d; ++i) column[i * kKeys] = key == nullptr ? 0.0f : key[i];
      }
      float* v = scratch_.v.data() + p * width_;
      for (int slice = 0; slice < row_.VSlices(); ++slice, v += problem_.v.width) {
        if (p < end) {
          std::memcpy(v, problem_.v.Row(source, row_.v[slice]), problem_.v.width * sizeof(float));
        } else {
          std::fill_n(v, problem_.v.width, 0.0f);
        }
      }
    }
  }

  // Attention of rows [row, row + count) of the batch, which stand at [position, position + count) of the sequence.
  void Rows(int64_t row, int64_t position, int64_t count, Pass pass) {
    for (int64_t done = 0; done < count; done += kRows) {
      ThrowIfStopped();  // a head of 32,000 tokens takes seconds
      const int64_t rows = std::min(kRows, count - done);
      std::array<SiteBlock, 2> p;
      for (int m = 0; m < maps_; ++m) {
        p[m] = Logits(m, row + done, position + done, rows, position + count);
        if (pass == Pass::kSurvey) {
          if (!shared_[m]) Survey(call_.visitors, p[m], thread_);
          continue;
        }
        if (shows_logits_) ShowMap(m, p[m]);
        Probabilities(m, p[m]);
        if (!early_) TimesV(p[m], scratch_.o[m].data());
      }
      if (pass == Pass::kSurvey) continue;
      if (shows_difference_) Difference(row + done, p[0], p[1]);
      if (early_) TimesV(p[0], scratch_.o[0].data());
      Combine(row + done, rows);
    }
  }

  // Scaled scores of one map for a block of rows, against every key block that any of them sees; keys: of their piece.
  SiteBlock Logits(int m, int64_t row, int64_t position, int64_t rows, int64_t keys) {
    const int d = problem_.q.width, head = row_.Q(m);
    for (int64_t r = 0; r < rows; ++r)
      ScaleInto(problem_.q.Row(row + r, head), problem_.scale, d, scratch_.q.data() + r * d);
    std::fill(scratch_.q.data() + rows * d, scratch_.q.data() + RoundUp(rows, 16) * d, 0.0f);
    const Mask& mask = problem_.mask;
    const bool causal = mask.kind != Mask::Kind::kFull;
    const SiteBlock block{.site = Site::kAttnLogits,
                          .layer = call_.layer,
                          .sequence = sequence_.index,
                          .slot = slot_,
                          .head = head,
                          .map = m + 1,
                          .first_row = position,
                          .rows = rows,
                          .first_columns = causal ? position + 1 : keys,
                          .column_step = causal ? 1 : 0,
                          .window = mask.kind == Mask::Kind::kWindow ? mask.window : 0,
                          .values = scratch_.p[shows_difference_ ? m : 0].data(),
                          .stride = stride_};
    for (int64_t key = FirstKey(block); key < EndKey(block); key += kKeys)
      products_.Qk(rows).Run(scratch_.q.data(), scratch_.k[m].data() + key * d, block.values + key);
    return block;
  }

  // Logits become probabilities in place, zeros to the end of the last key block and of the last 16 rows.
  void Probabilities(int m, SiteBlock& block) {
    const float sink = problem_.Sink(row_.Q(m));
    for (int64_t r = 0; r < RoundUp(block.rows, 16); ++r) {
      float* const begin = block.values + r * stride_ + FirstKey(block);
      float* const end = block.values + r * stride_ + EndKey(block);
      const std::span<float> seen = r < block.rows ? block.Row(r) : std::span(end, 0);
      if (!seen.empty()) shares_[static_cast<size_t>(r)] = SoftmaxWithSink(seen.data(), sink, seen.size());
      std::fill(begin, seen.data(), 0.0f);
      std::fill(seen.data() + seen.size(), end, 0.0f);
    }
    block.site = Site::kProbs;
    block.sink_shares = problem_.sinks.empty() ? nullptr : shares_.data();
    if (shows_probs_) ShowMap(m, block);
    block.sink_shares = nullptr;
  }

  // A map that an earlier head has too is looked at there, and changed in each.
  void ShowMap(int m, const SiteBlock& block) {
    for (SiteVisitor* v : call_.visitors) {
      if (v->Wants(block.site, block.layer) && (!shared_[m] || v->Changes())) v->Visit(block, thread_);
    }
  }

  // first = first - lambda second.
  void Difference(int64_t row, SiteBlock& first, const SiteBlock& second) {
    for (int64_t r = 0; r < first.rows; ++r) {
      const std::span<float> seen = first.Row(r);
      SubtractScaled(seen.data(), second.Row(r).data(), problem_.lambda.At(row + r, head_), std::ssize(seen));
    }
    first.site = Site::kDifference;
    first.head = head_;
    first.map.reset();
    Visit(call_.visitors, first, thread_);
  }

  void TimesV(const SiteBlock& p, float* o) {
    for (int64_t key = FirstKey(p); key < EndKey(p); key += kKeys)
      products_.Pv(p.rows, key > FirstKey(p)).Run(p.values + key, scratch_.v.data() + key * width_, o);
  }

  // The key blocks that some row of the block sees.
  static int64_t FirstKey(const SiteBlock& block) { return block.First(0) / kKeys * kKeys; }
  static int64_t EndKey(const SiteBlock& block) { return RoundUp(block.Columns(block.rows - 1), kKeys); }

  void Combine(int64_t row, int64_t rows) {
    for (int64_t r = 0; r < rows; ++r) {
      float* o = scratch_.o[0].data() + r * width_;
      if (maps_ == 2 && !early_)
        SubtractScaled(o, scratch_.o[1].data() + r * width_, problem_.lambda.At(row + r, head_), width_);
      std::memcpy(problem_.out.Row(row + r, head_), o, width_ * sizeof(float));
    }
  }

  const FloatAttentionCall& call_;
  const AttentionProblem& problem_;
  const Products& products_;
  Scratch& scratch_;
  const int64_t stride_;
  const AttentionSequence& sequence_;
  const int slot_, head_;
  const OutputHead& row_;
  const int maps_, thread_;
  const int64_t width_;
  const bool shows_logits_, shows_probs_, shows_difference_, early_;
  std::array<bool, 2> shared_{};       // by map
  std::array<float, kRows> shares_{};  // of a block's rows, what a sink takes
};

void Check(const FloatAttentionCall& call) {
  for (const Site site : {Site::kProbs, Site::kDifference}) {
    if (AnyNeedsSurvey(call.visitors, site, call.layer))
      Fail("attention: got a survey of {}, expected one of attn_logits or none", Name(site));
  }
  CheckProblem(call.problem);
  TARE_CHECK(call.problem.mask.shift == 0);  // of parts of the keys
  for (const AttentionSequence& s : call.sequences) {
    int64_t end = s.first_row + s.prefix;
    for (const int64_t tokens : s.branches) end += tokens;
    if (s.first_row < 0 || s.prefix < 1 || end > call.problem.q.tokens) {
      Fail("attention sequence: got rows {} to {}, expected at least one, within {}", s.first_row, end,
           call.problem.q.tokens);
    }
  }
}

}  // namespace

void FloatAttention(const FloatAttentionCall& call) {
  Check(call);
  const int64_t longest = LongestSequence(call);
  const int64_t stride = LogitsStride(longest);
  const int64_t keys = RoundUp(longest, kKeys);
  const int64_t d = call.problem.q.width, width = call.problem.out.width;
  const Products products(call.problem.q.width, call.problem.out.width, stride);

  std::vector<std::unique_ptr<Scratch>> scratch(Threads());
  const size_t heads = call.problem.heads.size();
  const auto run = [&](Pass pass) {
    ParallelFor(call.sequences.size() * heads, [&](size_t task, int thread) {
      if (!scratch[thread]) {
        scratch[thread] = std::make_unique<Scratch>();
        Scratch& s = *scratch[thread];
        for (auto& k : s.k) k.Reset(keys * d);
        for (auto& o : s.o) o.Reset(kRows * width);
        s.v.Reset(keys * width);
        s.q.Reset(kRows * d);
        s.p[0].Reset(kRows * stride);
        if (AnyWants(call.visitors, Site::kDifference, call.layer)) s.p[1].Reset(kRows * stride);
      }
      HeadTask(call, products, *scratch[thread], stride, static_cast<int>(task / heads), static_cast<int>(task % heads),
               thread)
          .Run(pass);
    });
  };
  if (AnyNeedsSurvey(call.visitors, Site::kAttnLogits, call.layer)) run(Pass::kSurvey);
  run(Pass::kCompute);
}

}  // namespace tare
