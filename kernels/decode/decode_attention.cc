// SPDX-License-Identifier: Apache-2.0
// See decode_attention.h. A unit of work is a chunk of one sequence's pages for one group of heads; what it leaves are
// the group's rows and products over these keys. Then each group's chunks are merged.
#include "kernels/decode/decode_attention.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/attention/row_exp2.h"
#include "kernels/attention/workspace.h"
#include "kernels/decode/page_softmax.h"
#include "kernels/decode/panel_product.h"
#include "kernels/elementwise/rows.h"
#include "quant/base/error.h"
#include "quant/base/parallel.h"

namespace tare {
namespace {

using Group = DecodePlan::Group;
using Part = KvCache::Part;

constexpr float kNone = -std::numeric_limits<float>::infinity();

// Of one unit: [rows][T] and [products][T][padded width of v].
struct Partial {
  RunningSoftmax* softmax;
  float* o;
};

// Of one thread. Rows and products here are those of the largest group, times T.
struct Scratch {
  PanelFactor *keys, *values;  // [rows], [products]
  float* q;                    // [rows][inputs], then as planes
  int8_t *q_high, *q_low;      // [rows][inputs]
  float *logits, *p;           // [rows][64]
  float* rescale;              // [rows]
  int8_t *p_high, *p_low;      // [products][64]
};

// Sizes of a call, and its workspace.
struct Layout {
  Layout(const DecodePlan& plan, std::span<const DecodeSequence> sequences)
      : groups(std::ssize(plan.groups())), shape(plan.shape(), CacheFormat::kF32, CacheFormat::kF32) {
    int64_t queries = 0;
    for (const DecodeSequence& s : sequences) {
      queries = std::max(queries, s.q.tokens);
      chunks = std::max(chunks, ChunksOf(plan, s).count);
    }
    rows = static_cast<int64_t>(plan.MostRows()) * queries;
    products = static_cast<int64_t>(plan.MostProducts()) * queries;
    units = std::ssize(sequences) * groups * chunks;
  }

  struct Chunks {
    int64_t first, pages, count;  // page where the first begins, pages of each
  };
  static Chunks ChunksOf(const DecodePlan& plan, const DecodeSequence& s) {
    const int64_t oldest = s.cache->tokens() - s.q.tokens + 1 - plan.window();  // that the first query sees
    const int64_t first = plan.window() == 0 ? 0 : std::max<int64_t>(0, oldest) / kPageTokens;
    const int64_t pages = std::max<int64_t>(0, s.cache->Pages() - first);
    const int64_t each = std::max(kFewestPages, (pages + kMostChunks - 1) / kMostChunks);
    return {first, each, (pages + each - 1) / each};
  }

  int ValueWidth() const { return shape.ValuePanels() * kPanelLanes; }
  std::span<Partial> TakePacked(Arena& arena) const {
    auto* partials = arena.Take<Partial>(units);
    auto* softmax = arena.Take<RunningSoftmax>(units * rows);
    auto* o = arena.Take<float>(units * products * ValueWidth());
    if (arena.end() != arena.used()) {  // not counting alone
      for (int64_t i = 0; i < units; ++i) partials[i] = {softmax + i * rows, o + i * products * ValueWidth()};
    }
    return {partials, static_cast<size_t>(units)};
  }
  Scratch TakeScratch(Arena& arena) const {
    const int64_t inputs = shape.KeyInputs();
    return {.keys = arena.Take<PanelFactor>(rows),
            .values = arena.Take<PanelFactor>(products),
            .q = arena.Take<float>(rows * inputs),
            .q_high = arena.Take<int8_t>(rows * inputs),
            .q_low = arena.Take<int8_t>(rows * inputs),
            .logits = arena.Take<float>(rows * kPageTokens),
            .p = arena.Take<float>(rows * kPageTokens),
            .rescale = arena.Take<float>(rows),
            .p_high = arena.Take<int8_t>(products * kPageTokens),
            .p_low = arena.Take<int8_t>(products * kPageTokens)};
  }

  int64_t groups, chunks = 0, rows = 0, products = 0, units = 0;
  PageLayout shape;
};

// A chunk of a sequence for a group; rows and products are counted times T, query within head.
class Unit {
 public:
  Unit(const DecodePlan& plan, const DecodeSequence& s, const Group& group, const Scratch& scratch,
       const Partial& partial)
      : plan_(plan),
        s_(s),
        group_(group),
        x_(scratch),
        partial_(partial),
        queries_(s.q.tokens),
        width_((plan.shape().v_width + kPanelLanes - 1) / kPanelLanes * kPanelLanes) {}

  void Run(int64_t begin, int64_t end) {
    std::fill_n(partial_.softmax, Rows(), RunningSoftmax{kNone, 0.0f});
    std::fill_n(partial_.o, Products() * width_, 0.0f);
    LoadQueries();
    for (int64_t page = begin; page < end; ++page) {
      for (const Part& part : s_.cache->Parts(page)) {
        if (part.keys.begin == part.keys.end) continue;
        MultiplyKeys(part);
        Softmaxes(part, page);
        MultiplyValues(part, NextAfter(page));
      }
    }
  }

 private:
  int64_t Rows() const { return std::ssize(group_.rows) * queries_; }
  int64_t Products() const { return std::ssize(group_.products) * queries_; }

  void LoadQueries() {
    const int inputs = (plan_.shape().k_width + 15) / 16 * 16;
    for (int64_t i = 0; i < Rows(); ++i) {
      float* q = x_.q + i * inputs;
      std::fill_n(q, inputs, 0.0f);
      std::copy_n(s_.q.Row(i % queries_, group_.rows[i / queries_].q), plan_.shape().k_width, q);
      x_.keys[i] = {.x = q, .y = x_.logits + i * kPageTokens};
      ToPlanes(q, nullptr, inputs, x_.q_high + i * inputs, x_.q_low + i * inputs, x_.keys[i]);
    }
  }

  // Where reading goes on after the page: the group's first keys of the next.
  const std::byte* NextAfter(int64_t page) const {
    if (page + 1 >= s_.cache->Pages()) return nullptr;
    for (const Part& part : s_.cache->Parts(page + 1)) {
      if (part.keys.begin < part.keys.end) return part.page + part.layout->Key(group_.rows[0].k);
    }
    return nullptr;
  }

  static ReadAhead Ahead(const std::byte* end, const std::byte* next) {
    return {end, next == nullptr ? 0 : next - end};
  }

  static void Multiply(CacheFormat format, const std::byte* panel, int64_t inputs, std::span<const PanelFactor> factors,
                       const ReadAhead& ahead) {
    for (; factors.size() > 2; factors = factors.subspan(2))
      PanelProduct(format, panel, inputs, factors.first(2), ahead);
    PanelProduct(format, panel, inputs, factors, ahead);
  }

  void MultiplyKeys(const Part& part) {
    const PageLayout& layout = *part.layout;
    std::fill_n(x_.logits, Rows() * kPageTokens, 0.0f);
    for (size_t i = 0, end = 0; i < group_.rows.size(); i = end) {
      const int head = group_.rows[i].k;
      while (end < group_.rows.size() && group_.rows[end].k == head) ++end;
      const std::byte* next =
          part.page + (end < group_.rows.size() ? layout.Key(group_.rows[end].k) : layout.Value(group_.products[0].v));
      const std::byte* panel = part.page + layout.Key(head);
      Multiply(layout.k(), panel, layout.KeyInputs(), {x_.keys + i * queries_, (end - i) * queries_},
               Ahead(panel + layout.KeyBytes(), next));
    }
  }

  // Keys of the part that query t sees, from the page's first.
  KeyRange Visible(const Part& part, int64_t page, int64_t t) const {
    const int64_t end = s_.cache->tokens() - queries_ + t + 1 - page * kPageTokens;
    const int64_t begin = plan_.window() == 0 ? part.keys.begin : end - plan_.window();
    return {std::clamp(begin, part.keys.begin, part.keys.end), std::clamp(end, part.keys.begin, part.keys.end)};
  }

  void Softmaxes(const Part& part, int64_t page) {
    const PageLayout& layout = *part.layout;
    const bool codes = HasCodes(layout.k());
    for (int64_t i = 0; i < Rows(); ++i) {
      const KeyRange keys = Visible(part, page, i % queries_);
      const std::byte* scales = part.page + layout.KeyScales(group_.rows[i / queries_].k);
      const PageLogits logits{.products = x_.logits + i * kPageTokens,
                              .key_scales = codes ? reinterpret_cast<const float*>(scales) : nullptr,
                              .factor = plan_.scale() * kLog2E,
                              .begin = static_cast<int>(keys.begin),
                              .end = static_cast<int>(keys.end)};
      x_.rescale[i] = SoftmaxOfPage(logits, partial_.softmax[i], x_.p + i * kPageTokens);
    }
  }

  void LoadProbabilities(const PageLayout& layout, const std::byte* scales, int64_t i, int64_t inputs) {
    const int64_t row = group_.products[i / queries_].row * queries_ + i % queries_;
    float* o = partial_.o + i * width_;
    const float* p = x_.p + row * kPageTokens;
    if (x_.rescale[row] != 1.0f) Rescale(o, x_.rescale[row], width_);
    x_.values[i] = {.x = p, .y = o};
    if (HasCodes(layout.v()))
      ToPlanes(p, reinterpret_cast<const float*>(scales), inputs, x_.p_high + i * kPageTokens,
               x_.p_low + i * kPageTokens, x_.values[i]);
  }

  void MultiplyValues(const Part& part, const std::byte* next_page) {
    const PageLayout& layout = *part.layout;
    const int64_t inputs = (part.keys.end + 15) / 16 * 16, panel_bytes = PanelBytes(layout.v(), kPageTokens);
    for (size_t i = 0, end = 0; i < group_.products.size(); i = end) {
      const int head = group_.products[i].v;
      while (end < group_.products.size() && group_.products[end].v == head) ++end;
      const std::span<PanelFactor> factors(x_.values + i * queries_, (end - i) * queries_);
      for (int64_t f = 0; f < std::ssize(factors); ++f)
        LoadProbabilities(layout, part.page + layout.ValueScales(head), i * queries_ + f, inputs);
      const std::byte* next =
          end < group_.products.size() ? part.page + layout.Value(group_.products[end].v) : next_page;
      const std::byte* panel = part.page + layout.Value(head);
      const ReadAhead ahead = Ahead(panel + layout.ValueBytes(), next);
      for (int n = 0; n < layout.ValuePanels(); ++n, panel += panel_bytes) {
        Multiply(layout.v(), panel, inputs, factors, ahead);
        for (PanelFactor& factor : factors) factor.y += kPanelLanes;
      }
    }
  }

  const DecodePlan& plan_;
  const DecodeSequence& s_;
  const Group& group_;
  const Scratch& x_;
  const Partial& partial_;
  int64_t queries_;
  int width_;  // of v, up to a whole panel
};

// A product's share of each chunk in the output: 2^(its maximum - the largest) / sum; all 0 where no key was seen.
void Shares(std::span<const Partial> chunks, int64_t row, float* shares) {
  float max = kNone, sum = 0;
  for (const Partial& chunk : chunks) max = std::max(max, chunk.softmax[row].max);
  for (size_t c = 0; c < chunks.size(); ++c) {
    shares[c] = max == kNone ? 0.0f : RowExp2(chunks[c].softmax[row].max - max);
    sum += shares[c] * chunks[c].softmax[row].sum;
  }
  for (size_t c = 0; c < chunks.size(); ++c) shares[c] = sum > 0 ? shares[c] / sum : 0.0f;
}

void Merge(const DecodePlan& plan, const DecodeSequence& s, const Group& group, std::span<const Partial> chunks) {
  const int64_t queries = s.q.tokens;
  const int width = plan.shape().v_width, padded = (width + kPanelLanes - 1) / kPanelLanes * kPanelLanes;
  for (const DecodePlan::Output& output : group.outputs) {
    for (int64_t t = 0; t < queries; ++t) {
      float* out = s.out.Row(t, output.head) + output.slice * width;
      std::fill_n(out, width, 0.0f);
      for (const int product : output.product) {
        if (product == kNoMap) continue;
        float shares[kMostChunks];
        Shares(chunks, group.products[product].row * queries + t, shares);
        const float weight = product == output.product[0] ? 1.0f : -s.lambda.At(t, output.head);
        for (size_t c = 0; c < chunks.size(); ++c) {
          const float* o = chunks[c].o + (product * queries + t) * padded;
          const float share = weight * shares[c];
          for (int i = 0; i < width; ++i) out[i] += share * o[i];
        }
      }
    }
  }
}

template <typename T>
void CheckShape(const char* name, size_t number, const HeadsView<T>& x, int64_t tokens, int heads, int width) {
  if (x.tokens != tokens || x.heads != heads || x.width != width) {
    Fail("decode, sequence {}, {}: got {} tokens of {} heads of width {}, expected {} of {} of width {}", number, name,
         x.tokens, x.heads, x.width, tokens, heads, width);
  }
}

void CheckSequence(const DecodePlan& plan, size_t number, const DecodeSequence& s) {
  if (s.cache == nullptr) Fail("decode, sequence {}: got no cache", number);
  if (s.cache->shape() != plan.shape())
    Fail("decode, sequence {}: got a cache of {} heads of k and {} of v, {} and {} wide, expected {} and {}, {} and {}",
         number, s.cache->shape().k_heads, s.cache->shape().v_heads, s.cache->shape().k_width, s.cache->shape().v_width,
         plan.shape().k_heads, plan.shape().v_heads, plan.shape().k_width, plan.shape().v_width);
  CheckShape("q", number, s.q, s.q.tokens, plan.q_heads(), plan.shape().k_width);
  CheckShape("out", number, s.out, s.q.tokens, plan.heads(), plan.out_width());
  if (plan.differential() && s.lambda.data == nullptr) Fail("decode, sequence {}: two maps, but no lambda", number);
  for (int64_t t = 0; t < s.q.tokens; ++t) {
    for (int h = 0; h < s.q.heads; ++h) {
      if (!std::isfinite(AbsMax(s.q.Row(t, h), static_cast<size_t>(s.q.width))))
        Fail("decode, sequence {}, q: token {}, head {}: got NaN or infinity, expected finite values", number, t, h);
    }
  }
}

}  // namespace

size_t DecodeWorkspaceBytes(const DecodePlan& plan, std::span<const DecodeSequence> sequences) {
  return BytesOf(Layout(plan, sequences));
}

void DecodeAttention(const DecodePlan& plan, std::span<const DecodeSequence> sequences,
                     std::span<std::byte> workspace) {
  for (size_t i = 0; i < sequences.size(); ++i) CheckSequence(plan, i, sequences[i]);
  const Layout layout(plan, sequences);
  const Workspace<Layout> memory(layout, workspace);
  const std::span<Partial> partials = memory.Packed();
  ParallelFor(static_cast<size_t>(layout.units), [&](size_t unit, int thread) {
    const auto chunk = static_cast<int64_t>(unit) % layout.chunks, i = static_cast<int64_t>(unit) / layout.chunks;
    const DecodeSequence& s = sequences[i / layout.groups];
    const auto [first, pages, count] = Layout::ChunksOf(plan, s);
    if (chunk >= count) return;
    const int64_t begin = first + chunk * pages;
    const Scratch scratch = memory.Scratch(thread);
    Unit(plan, s, plan.groups()[i % layout.groups], scratch, partials[unit])
        .Run(begin, std::min(begin + pages, s.cache->Pages()));
  });
  ParallelFor(sequences.size() * plan.groups().size(), [&](size_t i, int) {
    const DecodeSequence& s = sequences[i / plan.groups().size()];
    const auto count = static_cast<size_t>(Layout::ChunksOf(plan, s).count);
    Merge(plan, s, plan.groups()[i % plan.groups().size()], partials.subspan(i * layout.chunks, count));
  });
}

}  // namespace tare
