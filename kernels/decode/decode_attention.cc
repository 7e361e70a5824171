// SPDX-License-Identifier: Apache-2.0
// See decode_attention.h. A unit of work is a chunk of one sequence's pages for a run of groups of heads; it gives the
// groups' rows and products over these keys. Then the chunks of each group are merged.
#include "kernels/decode/decode_attention.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>

#include "kernels/attention/row_exp2.h"
#include "kernels/attention/workspace.h"
#include "kernels/decode/group_queries.h"
#include "kernels/decode/page_softmax.h"
#include "kernels/elementwise/rows.h"
#include "quant/algorithms/hadamard.h"
#include "quant/base/error.h"
#include "quant/base/parallel.h"

namespace tare {
namespace {

using Group = DecodeHeads::Group;
using Part = KvCache::Part;

constexpr float kNone = -std::numeric_limits<float>::infinity();

// Of one chunk: [rows][T] and [products][T][padded width of v], of all groups.
struct Partial {
  RunningSoftmax* softmax;
  float* o;
};

struct Scratch;

// Where the work on a sequence is cut: runs of pages, and of groups where the pages are few. A run of groups shares a
// pass over the pages, because memory is read fastest straight on.
struct Cuts {
  Cuts(const DecodeHeads& table, const DecodeSequence& s) {
    const int64_t oldest = s.cache->tokens() - s.q.tokens + 1 - table.window();  // that the first query sees
    first = table.window() == 0 ? 0 : std::max<int64_t>(0, oldest) / kPageTokens;
    const int64_t all = std::max<int64_t>(0, s.cache->Pages() - first), groups = std::ssize(table.groups());
    pages = std::max(kFewestPages, (all + kMostChunks - 1) / kMostChunks);
    chunks = (all + pages - 1) / pages;
    runs = std::clamp<int64_t>(kFewestUnits / std::max<int64_t>(1, chunks), 1, groups);
  }
  int64_t first, pages, chunks;  // page where the first begins, pages of each
  int64_t runs;                  // of groups
};

// Sizes of a call, and its workspace.
struct Layout {
  Layout(const DecodeHeads& table, std::span<const DecodeSequence> sequences) : page(table.shape(), {}, {}) {
    int64_t queries = 0;
    for (const DecodeSequence& s : sequences) {
      const Cuts cuts(table, s);
      queries = std::max(queries, s.q.tokens);
      before_rotary = before_rotary || s.cache->KeysBeforeRotary();
      chunks = std::max(chunks, cuts.chunks);
      units = std::max(units, cuts.chunks * cuts.runs);
    }
    rows = table.rows() * queries;
    products = table.products() * queries;
    partials = std::ssize(sequences) * chunks;
  }

  int ValueWidth() const { return page.ValuePanels() * kPanelLanes; }
  std::span<Partial> TakePacked(Arena& arena) const {
    auto* list = arena.Take<Partial>(partials);
    auto* softmax = arena.Take<RunningSoftmax>(partials * rows);
    auto* o = arena.Take<float>(partials * products * ValueWidth());
    if (arena.end() != arena.used()) {  // not counting alone
      for (int64_t i = 0; i < partials; ++i) list[i] = {softmax + i * rows, o + i * products * ValueWidth()};
    }
    return {list, static_cast<size_t>(partials)};
  }
  Scratch TakeScratch(Arena& arena) const;

  int64_t chunks = 0, units = 0;  // of a sequence at most
  int64_t rows = 0, products = 0, partials = 0;
  bool before_rotary = false;  // any cache's keys
  PageLayout page;
};

// Of one thread. Rows and products are those of all groups, times T.
struct Scratch {
  Arena arena;
  const Layout& l;
  int64_t inputs = l.page.KeyInputs();
  GroupQueries::Memory queries{.keys = arena.Take<PanelFactor>(l.rows),
                               .q = arena.Take<float>(l.rows * inputs),
                               .q_high = arena.Take<int8_t>(l.rows * inputs),
                               .q_low = arena.Take<int8_t>(l.rows * inputs),
                               .logits = arena.Take<float>(l.rows * kPageTokens),
                               .panel = arena.Take<float>(l.before_rotary ? inputs * kPageTokens : 0)};
  PanelFactor* values = arena.Take<PanelFactor>(l.products);      // [products]
  float* p = arena.Take<float>(l.rows * kPageTokens);             // [rows][64]
  float* rescale = arena.Take<float>(l.rows);                     // [rows]
  int8_t* p_high = arena.Take<int8_t>(l.products * kPageTokens);  // [products][64]
  int8_t* p_low = arena.Take<int8_t>(l.products * kPageTokens);   // [products][64]
};

Scratch Layout::TakeScratch(Arena& taken) const {
  const Scratch scratch{taken, *this};
  taken = scratch.arena;
  return scratch;
}

// A group of a chunk; rows and products are counted times T, query within head.
class GroupPass {
 public:
  GroupPass(const DecodeHeads& table, const DecodeSequence& s, const Group& group, Scratch scratch, Partial partial)
      : table_(table),
        s_(s),
        group_(group),
        x_(scratch),
        queries_of_(table, s, group, OfGroup(scratch.queries)),
        partial_(partial),
        queries_(s.q.tokens),
        width_((table.shape().v_width + kPanelLanes - 1) / kPanelLanes * kPanelLanes) {
    partial_.softmax += group.first_row * queries_;
    partial_.o += group.first_product * queries_ * width_;
  }

  void Begin() {
    std::fill_n(partial_.softmax, Rows(), RunningSoftmax{kNone, 0.0f});
    std::fill_n(partial_.o, Products() * width_, 0.0f);
    queries_of_.Load();
  }

  // next: what is read after this. Returns whether the values were read.
  bool AddPage(const Part& part, int64_t page, const std::byte* next) {
    queries_of_.Multiply(part, page);
    if (!Softmaxes(part, page)) return false;
    MultiplyValues(part, next);
    return true;
  }

 private:
  int64_t Rows() const { return std::ssize(group_.rows) * queries_; }
  int64_t Products() const { return std::ssize(group_.products) * queries_; }

  // Queries stay there from page to page: each group's its own.
  GroupQueries::Memory OfGroup(GroupQueries::Memory memory) const {
    const int64_t row = group_.first_row * s_.q.tokens, inputs = (table_.shape().k_width + 15) / 16 * 16;
    memory.keys += row;
    memory.q += row * inputs;
    memory.q_high += row * inputs;
    memory.q_low += row * inputs;
    return memory;
  }

  // Whether the page weighs anything in any row's map.
  bool Softmaxes(const Part& part, int64_t page) {
    bool matters = false;
    for (int64_t i = 0; i < Rows(); ++i) {
      RunningSoftmax& state = partial_.softmax[i];
      const float before = state.sum;
      x_.rescale[i] = SoftmaxOfPage(queries_of_.Logits(part, page, i), state, x_.p + i * kPageTokens);
      matters = matters || x_.rescale[i] != 1.0f || state.sum - before > table_.skip() * state.sum;
    }
    return matters;
  }

  void LoadProbabilities(const PageLayout& layout, const std::byte* scales, int64_t i, int64_t inputs) {
    const int64_t row = group_.products[i / queries_].row * queries_ + i % queries_;
    float* o = partial_.o + i * width_;
    const float* p = x_.p + row * kPageTokens;
    if (x_.rescale[row] != 1.0f) Rescale(o, x_.rescale[row], width_);
    x_.values[i] = {.x = p, .y = o};
    if (!HasCodes(layout.v().format)) return;
    const auto* v_scales = reinterpret_cast<const float*>(scales);
    const bool by_channel = layout.v().ByChannel();
    ToPlanes(p, by_channel ? nullptr : v_scales, inputs, x_.p_high + i * kPageTokens, x_.p_low + i * kPageTokens,
             x_.values[i]);
    if (by_channel) x_.values[i].lane_scales = v_scales;
  }

  void MultiplyValues(const Part& part, const std::byte* next_group) {
    const PageLayout& layout = *part.layout;
    const int64_t inputs = (part.keys.end + 15) / 16 * 16, panel_bytes = PanelBytes(layout.v().format, kPageTokens);
    for (size_t i = 0, end = 0; i < group_.products.size(); i = end) {
      const int head = group_.products[i].v;
      while (end < group_.products.size() && group_.products[end].v == head) ++end;
      const std::span<PanelFactor> factors(x_.values + i * queries_, (end - i) * queries_);
      for (int64_t f = 0; f < std::ssize(factors); ++f)
        LoadProbabilities(layout, part.page + layout.ValueScales(head), i * queries_ + f, inputs);
      const std::byte* next =
          end < group_.products.size() ? part.page + layout.Value(group_.products[end].v) : next_group;
      const std::byte* panel = part.page + layout.Value(head);
      const ReadAhead ahead = Ahead(panel + layout.ValueBytes(), next);
      for (int n = 0; n < layout.ValuePanels(); ++n, panel += panel_bytes) {
        PanelProducts(layout.v().format, panel, inputs, factors, ahead);
        for (PanelFactor& factor : factors) {
          factor.y += kPanelLanes;
          if (factor.lane_scales != nullptr) factor.lane_scales += kPanelLanes;
        }
      }
    }
  }

  const DecodeHeads& table_;
  const DecodeSequence& s_;
  const Group& group_;
  Scratch x_;
  GroupQueries queries_of_;
  Partial partial_;
  int64_t queries_;
  int width_;  // of v, up to a whole panel
};

// Where reading goes on after a page: the first part of the next.
const std::byte* FirstKey(const KvCache& cache, int64_t page, const Group& group) {
  if (page >= cache.Pages()) return nullptr;
  for (const Part& part : cache.Parts(page)) {
    if (part.keys.begin < part.keys.end) return part.page + part.layout->Key(group.rows[0].k);
  }
  return nullptr;
}

ValuePages RunUnit(const DecodeHeads& table, const DecodeSequence& s, std::span<const Group> groups, KeyRange pages,
                   const Scratch& scratch, const Partial& partial) {
  ValuePages values;
  for (const Group& group : groups) GroupPass(table, s, group, scratch, partial).Begin();
  for (int64_t page = pages.begin; page < pages.end; ++page) {
    for (const Part& part : s.cache->Parts(page)) {
      if (part.keys.begin == part.keys.end) continue;
      for (const Group& group : groups) {
        const std::byte* next = &group == &groups.back() ? FirstKey(*s.cache, page + 1, groups.front())
                                                         : part.page + part.layout->Key((&group)[1].rows[0].k);
        values.skipped += GroupPass(table, s, group, scratch, partial).AddPage(part, page, next) ? 0 : 1;
        ++values.all;
      }
    }
  }
  return values;
}

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

void Merge(const DecodeHeads& table, const DecodeSequence& s, const Group& group, std::span<const Partial> chunks) {
  const int64_t queries = s.q.tokens;
  const int width = table.shape().v_width, padded = (width + kPanelLanes - 1) / kPanelLanes * kPanelLanes;
  for (const DecodeHeads::Output& output : group.outputs) {
    for (int64_t t = 0; t < queries; ++t) {
      float* out = s.out.Row(t, output.head) + output.slice * width;
      std::fill_n(out, width, 0.0f);
      for (const int product : output.product) {
        if (product == kNoMap) continue;
        float shares[kMostChunks];
        Shares(chunks, (group.first_row + group.products[product].row) * queries + t, shares);
        const float weight = product == output.product[0] ? 1.0f : -s.lambda.At(t, output.head);
        for (size_t c = 0; c < chunks.size(); ++c) {
          const float* o = chunks[c].o + ((group.first_product + product) * queries + t) * padded;
          const float share = weight * shares[c];
          for (int i = 0; i < width; ++i) out[i] += share * o[i];
        }
      }
      if (const Hadamard* rotation = s.cache->ValueRotation(); rotation != nullptr) rotation->RotateBack(out, out);
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

void CheckSequence(const DecodeHeads& table, size_t number, const DecodeSequence& s) {
  if (s.cache == nullptr) Fail("decode, sequence {}: got no cache", number);
  if (s.cache->shape() != table.shape())
    Fail("decode, sequence {}: got a cache of {} heads of k and {} of v, {} and {} wide, expected {} and {}, {} and {}",
         number, s.cache->shape().k_heads, s.cache->shape().v_heads, s.cache->shape().k_width, s.cache->shape().v_width,
         table.shape().k_heads, table.shape().v_heads, table.shape().k_width, table.shape().v_width);
  CheckShape("q", number, s.q, s.q.tokens, table.q_heads(), table.shape().k_width);
  CheckShape("out", number, s.out, s.q.tokens, table.heads(), table.out_width());
  if (table.differential() && s.lambda.data == nullptr) Fail("decode, sequence {}: two maps, but no lambda", number);
  for (int64_t t = 0; t < s.q.tokens; ++t) {
    for (int h = 0; h < s.q.heads; ++h) {
      if (!std::isfinite(AbsMax(s.q.Row(t, h), static_cast<size_t>(s.q.width))))
        Fail("decode, sequence {}, q: token {}, head {}: got NaN or infinity, expected finite values", number, t, h);
    }
  }
}

}  // namespace

size_t DecodeWorkspaceBytes(const DecodeHeads& table, std::span<const DecodeSequence> sequences) {
  return BytesOf(Layout(table, sequences));
}

ValuePages DecodeAttention(const DecodeHeads& table, std::span<const DecodeSequence> sequences,
                           std::span<std::byte> workspace) {
  for (size_t i = 0; i < sequences.size(); ++i) CheckSequence(table, i, sequences[i]);
  const Layout layout(table, sequences);
  const Workspace<Layout> memory(layout, workspace);
  const std::span<Partial> partials = memory.Packed();
  const auto groups = std::ssize(table.groups());
  std::atomic<int64_t> all = 0, skipped = 0;
  ParallelFor(sequences.size() * layout.units, [&](size_t unit, int thread) {
    const auto number = static_cast<int64_t>(unit) / layout.units, place = static_cast<int64_t>(unit) % layout.units;
    const DecodeSequence& s = sequences[number];
    const Cuts cuts(table, s);
    if (place >= cuts.chunks * cuts.runs) return;
    const int64_t chunk = place / cuts.runs, run = place % cuts.runs;
    const int64_t begin = run * groups / cuts.runs, end = (run + 1) * groups / cuts.runs;
    const int64_t page = cuts.first + chunk * cuts.pages;
    const ValuePages values = RunUnit(table, s, std::span(table.groups()).subspan(begin, end - begin),
                                      {page, std::min(page + cuts.pages, s.cache->Pages())}, memory.Scratch(thread),
                                      partials[number * layout.chunks + chunk]);
    all += values.all;
    skipped += values.skipped;
  });
  ParallelFor(sequences.size() * groups, [&](size_t i, int) {
    const size_t number = i / groups;
    const auto chunks = static_cast<size_t>(Cuts(table, sequences[number]).chunks);
    Merge(table, sequences[number], table.groups()[i % groups], partials.subspan(number * layout.chunks, chunks));
  });
  return {all, skipped};
}

}  // namespace tare
