// SPDX-License-Identifier: Apache-2.0
// See decode_attention.h: units of keys, their sums, units of values, and the sum of these.
#include "kernels/decode/decode_attention.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <numbers>
#include <utility>

#include "kernels/attention/exponentials.h"
#include "kernels/decode/decode_work.h"
#include "kernels/elementwise/rows.h"
#include "quant/base/integers.h"
#include "quant/base/message.h"
#include "quant/base/parallel.h"
#include "quant/format/hadamard.h"

namespace tare {
namespace {

using Group = DecodeHeads::Group;
using Difference = DecodeHeads::Difference;
using Part = KvCache::Part;

// A unit: pages for some groups, which are neighbours.
struct Unit {
  const DecodeHeads& table;
  const DecodeWork& work;
  const DecodeScratch& x;
  std::span<const Group> groups;
  KeyRange pages;
  int64_t first_page, chunk;  // of the work; of the unit
  int64_t maps;

  int64_t Queries() const { return work.s.q.tokens; }
  int64_t FirstRow(const Group& group) const { return group.first_row * Queries(); }
  int64_t RowsOf(const Group& group) const { return std::ssize(group.rows) * Queries(); }
  // The exponentials of a group's row i in a page.
  float* P(int64_t page, const Group& group, int64_t i) const {
    return work.p + ((page - first_page) * table.rows() * Queries() + FirstRow(group) + i) * kPageTokens;
  }
  // The first map of a page's first part, in the work's maxima and sums.
  int64_t FirstMap(int64_t page) const { return (page - first_page) * KvCache::kMostParts * maps; }
};

// Queries stay in memory from page to page; each group has its own memory.
GroupQueries QueriesOf(const Unit& u, const Group& group) {
  const int64_t row = u.FirstRow(group);
  GroupQueries::Memory memory = u.x.queries;
  memory.keys += row;
  memory.q += row * u.x.inputs;
  memory.q_factors += row * u.x.inputs;
  return {u.table, u.work.s, group, memory};
}

// at: the part's first map.
void KeysOfGroup(const Unit& u, const Group& group, int64_t page, const Part& part, int64_t at) {
  const GroupQueries queries = QueriesOf(u, group);
  queries.Multiply(part, page);
  at += u.FirstRow(group);
  float* p = u.P(page, group, 0);
  for (int64_t i = 0; i < queries.Rows(); ++i) {
    const SoftmaxSum of_part = ExponentialsOfPart(queries.Logits(part, page, i), p + i * kPageTokens);
    u.work.max[at + i] = of_part.max;
    u.work.sum[at + i] = of_part.sum;
  }
}

// Sets the maxima and sums of a part without keys.
void NoKeys(const Unit& u, int64_t at) {
  const int64_t begin = u.FirstRow(u.groups.front()), end = u.FirstRow(u.groups.back()) + u.RowsOf(u.groups.back());
  std::fill(u.work.max + at + begin, u.work.max + at + end, -std::numeric_limits<float>::infinity());
  std::fill(u.work.sum + at + begin, u.work.sum + at + end, 0.0f);
}

void PassOverKeys(const Unit& u) {
  for (const Group& group : u.groups) QueriesOf(u, group).Load();
  for (int64_t page = u.pages.begin; page < u.pages.end; ++page) {
    int64_t at = u.FirstMap(page);
    for (const Part& part : u.work.s.cache->Parts(page)) {
      if (part.keys.begin == part.keys.end) {
        NoKeys(u, at);
      } else {
        for (const Group& group : u.groups) KeysOfGroup(u, group, page, part, at);
      }
      at += u.maps;
    }
  }
}

// A group's differences, of the part's keys, into scratch. share: of the part in each map. Returns whether any weighs
// more than skip, or is NaN.
bool LoadDifferences(const Unit& u, const Group& group, int64_t page, const Part& part, const float* share) {
  const int64_t queries = u.Queries();
  bool weighs = false;
  float* d = u.x.d;
  for (const Difference& difference : group.differences) {
    for (int64_t t = 0; t < queries; ++t, d += kPageTokens) {
      PageMap maps[2];
      for (int map = 0; map < 2 && difference.row[map] != kNoMap; ++map) {
        const int64_t i = difference.row[map] * queries + t;
        const float weight = map == 0 ? 1.0f : u.work.s.lambda.At(t, difference.head);
        maps[map] = {u.P(page, group, i), weight * share[u.FirstRow(group) + i]};
      }
      weighs = !(DifferenceOfPart(maps[0], maps[1], part.keys, d) <= u.table.skip()) || weighs;
    }
  }
  return weighs;
}

// Differences as they are multiplied with a run of a head's values.
void LoadFactors(const Unit& u, const Part& part, int head, int run, std::span<PanelFactor> factors) {
  const PageSide& side = part.layout->v();
  const CacheRule& rule = side.rule();
  if (!HasCodes(rule.format)) return;
  const int64_t inputs = RoundUp(part.keys.end, 16);
  alignas(64) float memory[2 * kPageTokens];
  const bool by_channel = rule.ByChannel();
  const auto [scales, minima] = by_channel ? PageScales::Numbers() : side.InputScales(part.v, head, run, memory);
  for (PanelFactor& factor : factors) {
    const int64_t at = (&factor - u.x.values) * u.x.of_product;
    ToFactor(rule.format, factor.x, scales, inputs, u.x.d_factors + at, factor);
    if (by_channel) factor.lane_scales = reinterpret_cast<const float*>(part.v + side.Scales(head));
    if (by_channel && rule.HasMinima()) factor.lane_minima = reinterpret_cast<const float*>(part.v + side.Minima(head));
    if (minima != nullptr) factor.beside = CentreSum(rule.format, factor.x, scales, minima, inputs);
  }
}

// Likewise with all of a head's values, in blocks: a factor for each 16 lanes, zeros beyond the last block.
void LoadQuarters(const Unit& u, const Part& part, int head, std::span<PanelFactor> factors) {
  constexpr int kQuarter = kPanelLanes / 4;
  const PageSide& side = part.layout->v();
  const CacheRule& rule = side.rule();
  const auto at = [&](PanelFactor& factor, int lane) {
    return u.x.d_factors + (&factor - u.x.values) * u.x.of_product + lane / kQuarter * kPageTokens;
  };
  const int n = rule.granularity.n, end = side.Groups() * n, all = side.Panels() * kPanelLanes;
  for (int first = 0; first < end; first += n) {
    alignas(64) float memory[2 * kPageTokens];
    const float* const scales = side.InputScales(part.v, head, first / n, memory).scales;
    for (PanelFactor& factor : factors) {
      for (int lane = first; lane < first + n; lane += kQuarter)
        ToFactor(rule.format, factor.x, scales, RoundUp(part.keys.end, 16), at(factor, lane), factor);
    }
  }
  for (PanelFactor& factor : factors) {
    std::fill(at(factor, end), at(factor, all), 0.0f);
    factor.weighted = at(factor, 0);
  }
}

// The group's differences times the part's values, a run of lanes after another, or all blocks at once.
void MultiplyValues(const Unit& u, const Group& group, const Part& part) {
  const PageSide& side = part.layout->v();
  const int64_t queries = u.Queries(), width = side.Panels() * kPanelLanes;
  float* o = u.work.o + (u.chunk * u.table.products() + group.first_product) * queries * width;
  for (size_t i = 0, end = 0; i < group.products.size(); i = end) {
    const int head = group.products[i].v;
    while (end < group.products.size() && group.products[end].v == head) ++end;
    const std::span<PanelFactor> factors(u.x.values + i * queries, (end - i) * queries);
    for (int run = 0; run < side.Runs(); ++run) {
      const Panels panels = PanelsOf(side, part.v, head, run, RoundUp(part.keys.end, 16));
      const int64_t first_lane = side.Run(run).panel * kPanelLanes;
      for (int64_t j = 0; j < std::ssize(factors); ++j) {
        const int64_t at = static_cast<int64_t>(i) * queries + j;
        const int64_t difference = group.products[at / queries].difference * queries + at % queries;
        factors[j] = {.x = u.x.d + difference * kPageTokens, .y = o + at * width + first_lane};
      }
      side.InBlocks() ? LoadQuarters(u, part, head, factors) : LoadFactors(u, part, head, run, factors);
      PanelProduct(panels, factors, BestReadHint());
    }
  }
}

ValuePages PassOverValues(const Unit& u) {
  ValuePages values;
  const int64_t width = RoundUp(u.table.shape().v_width, kPanelLanes);
  for (const Group& group : u.groups) {
    const int64_t products = std::ssize(group.products) * u.Queries();
    std::fill_n(u.work.o + (u.chunk * u.table.products() + group.first_product) * u.Queries() * width, products * width,
                0.0f);
  }
  for (int64_t page = u.pages.begin; page < u.pages.end; ++page) {
    const float* share = u.work.sum + u.FirstMap(page);
    for (const Part& part : u.work.s.cache->Parts(page)) {
      const float* const of_part = std::exchange(share, share + u.maps);
      if (part.keys.begin == part.keys.end) continue;
      for (const Group& group : u.groups) {
        ++values.all;
        if (LoadDifferences(u, group, page, part, of_part)) {
          MultiplyValues(u, group, part);
        } else {
          ++values.skipped;
        }
      }
    }
  }
  return values;
}

// Adds the chunks' outputs in order.
void AddChunks(const DecodeHeads& table, const DecodeWork& work, const Group& group) {
  const DecodeSequence& s = work.s;
  const int width = table.shape().v_width;
  const int64_t padded = RoundUp(width, kPanelLanes), chunks = Cuts(table, s).chunks;
  for (size_t i = 0; i < group.products.size(); ++i) {
    const DecodeHeads::Product& product = group.products[i];
    for (int64_t t = 0; t < s.q.tokens; ++t) {
      float* out = s.out.Row(t, group.differences[product.difference].head) + product.slice * width;
      std::fill_n(out, width, 0.0f);
      for (int64_t chunk = 0; chunk < chunks; ++chunk) {
        const int64_t at = (chunk * table.products() + group.first_product + static_cast<int64_t>(i)) * s.q.tokens + t;
        for (int j = 0; j < width; ++j) out[j] += work.o[at * padded + j];
      }
      if (const Hadamard* rotation = s.cache->ValueRotation(); rotation != nullptr) rotation->RotateBack(out, out);
    }
  }
}

// Writes that of a group's maps, from their largest logits in octaves and the inverses of their sums.
void WriteLse(const DecodeWork& work, const Group& group) {
  const HeadsView<float>& lse = work.s.lse;
  if (lse.data == nullptr) return;
  for (const Difference& difference : group.differences) {
    for (int64_t t = 0; t < lse.tokens; ++t) {
      for (int map = 0; map < 2 && difference.row[map] != kNoMap; ++map) {
        const int64_t at = (group.first_row + difference.row[map]) * lse.tokens + t;
        const double sum = 1 / double{work.inverse[at]}, max = double{work.total_max[at]};
        lse.Row(t, difference.head)[map] = static_cast<float>(
            std::isinf(sum) ? -std::numeric_limits<double>::infinity() : max * std::numbers::ln2 + std::log(sum));
      }
    }
  }
}

void CheckView(const char* name, size_t number, const HeadsView<const float>& x, int64_t tokens, int heads, int width) {
  if (const std::string wrong = WrongIn(x); !wrong.empty()) Fail("decode, sequence {}, {}: {}", number, name, wrong);
  if (x.tokens != tokens || x.heads != heads || x.width != width) {
    Fail("decode, sequence {}, {}: got {} tokens of {} heads of width {}, expected {} of {} of width {}", number, name,
         x.tokens, x.heads, x.width, tokens, heads, width);
  }
}

// Sums of products of queries and keys, or of their codes before a scale, stay finite in f32, whatever their order.
void CheckProducts(const DecodeHeads& table, size_t number, const DecodeSequence& s, float largest_q) {
  const double scale = std::max(1.0, double{table.scale()} * double{kLog2E});
  const Format& format = s.cache->rules().k.format;
  const float k = std::max(s.cache->LargestKey(), HasCodes(format) ? Info(format).LargestCode() : 0.0f);
  if (double{largest_q} * double{k} * table.shape().k_width * scale >= 0x1p124)
    Fail(
        "decode, sequence {}: got queries up to {} and keys, or their codes, up to {}, expected products that float32 "
        "holds; try a smaller scale of either",
        number, largest_q, k);
}

void CheckLambdas(const DecodeHeads& table, size_t number, const DecodeSequence& s) {
  if (s.lambda.data == nullptr) Fail("decode, sequence {}: two maps, but no lambda", number);
  for (const Group& group : table.groups()) {
    for (const Difference& difference : group.differences) {
      for (int64_t t = 0; t < s.q.tokens && difference.row[1] != kNoMap; ++t) {
        if (const float lambda = s.lambda.At(t, difference.head); !std::isfinite(lambda))
          Fail("decode, sequence {}, lambda: got {} at token {}, output head {}, expected a finite number", number,
               lambda, t, difference.head);
      }
    }
  }
}

void CheckShapes(const DecodeHeads& table, size_t number, const DecodeSequence& s) {
  if (s.cache == nullptr) Fail("decode, sequence {}: got no cache", number);
  if (s.cache->shape() != table.shape())
    Fail("decode, sequence {}: got a cache of {} heads of k and {} of v, {} and {} wide, expected {} and {}, {} and {}",
         number, s.cache->shape().k_heads, s.cache->shape().v_heads, s.cache->shape().k_width, s.cache->shape().v_width,
         table.shape().k_heads, table.shape().v_heads, table.shape().k_width, table.shape().v_width);
  if (s.newer < 0 || s.newer > s.cache->tokens())
    Fail("decode, sequence {}: got {} newer tokens, expected 0 to the cache's {}", number, s.newer, s.cache->tokens());
  CheckView("q", number, s.q, s.q.tokens, table.q_heads(), table.shape().k_width);
  if (!s.sinks.empty()) CheckSinks(s.sinks, table.q_heads(), Formatted("decode, sequence {}", number).c_str());
}

// Calls body for every unit of a round, on all threads.
template <typename Body>
void ForUnits(const DecodeHeads& table, const DecodeLayout& layout, const Workspace<DecodeLayout>& memory,
              std::span<const DecodeWork> round, const Body& body) {
  const auto groups = std::ssize(table.groups());
  ParallelFor(round.size() * layout.units(), [&](size_t unit, int thread) {
    const DecodeWork& work = round[unit / layout.units()];
    const auto place = static_cast<int64_t>(unit) % layout.units();
    const Cuts cuts(table, work.s);
    if (place >= cuts.chunks * cuts.runs) return;
    const int64_t chunk = place / cuts.runs, run = place % cuts.runs;
    const int64_t begin = run * groups / cuts.runs, end = (run + 1) * groups / cuts.runs;
    const int64_t page = cuts.first + chunk * cuts.pages;
    body(Unit{.table = table,
              .work = work,
              .x = memory.Scratch(thread),
              .groups = std::span(table.groups()).subspan(begin, end - begin),
              .pages = {page, std::min(page + cuts.pages, cuts.end)},
              .first_page = cuts.first,
              .chunk = chunk,
              .maps = layout.Maps(work.s.q.tokens)});
  });
}

// Sinks are one more part of each map, of one key.
void LoadSinks(const DecodeHeads& table, const DecodeWork& work, int64_t part, int64_t maps) {
  const int64_t queries = work.s.q.tokens;
  float *max = work.max + part * maps, *sum = work.sum + part * maps;
  for (const Group& group : table.groups()) {
    for (size_t row = 0; row < group.rows.size(); ++row) {
      const int64_t at = (group.first_row + static_cast<int64_t>(row)) * queries;
      std::fill_n(max + at, queries, work.s.sinks[static_cast<size_t>(group.rows[row].q)] * kLog2E);
      std::fill_n(sum + at, queries, 1.0f);
    }
  }
}

void SumMaps(const DecodeHeads& table, const DecodeLayout& layout, std::span<const DecodeWork> round) {
  for (const DecodeWork& work : round) {
    const Cuts cuts(table, work.s);
    if (!work.s.sinks.empty()) LoadSinks(table, work, cuts.Parts(), layout.Maps(work.s.q.tokens));
  }
  ParallelFor(round.size() * layout.blocks(), [&](size_t block, int) {
    const DecodeWork& work = round[block / layout.blocks()];
    const int64_t first = static_cast<int64_t>(block) % layout.blocks() * kMapsAtOnce;
    const int64_t maps = layout.Maps(work.s.q.tokens);
    if (first >= maps) return;
    const Cuts cuts(table, work.s);
    const int64_t parts = cuts.Parts() + (work.s.sinks.empty() ? 0 : 1);
    TotalsOfMaps(work.max + first, work.sum + first, parts, maps, work.total_max + first, work.inverse + first);
  });
}

}  // namespace

void CheckSequence(const DecodeHeads& table, size_t number, const DecodeSequence& s) {
  CheckShapes(table, number, s);
  if (table.differential()) CheckLambdas(table, number, s);
  float largest = 0;
  for (int64_t t = 0; t < s.q.tokens; ++t) {
    for (int h = 0; h < s.q.heads; ++h) {
      largest = std::max(largest, AbsMax(s.q.Row(t, h), static_cast<size_t>(s.q.width)));
      if (!std::isfinite(largest))
        Fail("decode, sequence {}, q: token {}, head {}: got NaN or infinity, expected finite values", number, t, h);
    }
  }
  CheckProducts(table, number, s, largest);
}

size_t DecodeWorkspaceBytes(const DecodeHeads& table, std::span<const DecodeSequence> sequences) {
  for (size_t i = 0; i < sequences.size(); ++i) CheckShapes(table, i, sequences[i]);
  return BytesOf(DecodeLayout(table, sequences));
}

ValuePages DecodeAttention(const DecodeHeads& table, std::span<const DecodeSequence> sequences,
                           std::span<std::byte> workspace) {
  for (size_t i = 0; i < sequences.size(); ++i) {
    const DecodeSequence& s = sequences[i];
    CheckSequence(table, i, s);
    CheckView("out", i, ReadOnly(s.out), s.q.tokens, table.heads(), table.out_width());
    if (s.lse.data != nullptr)
      CheckView("lse", i, ReadOnly(s.lse), s.q.tokens, table.heads(), table.differential() ? 2 : 1);
  }
  const DecodeLayout layout(table, sequences);
  const Workspace<DecodeLayout> memory(layout, workspace);
  const std::span<DecodeWork> works = memory.Packed();
  const auto groups = std::ssize(table.groups());
  std::atomic<int64_t> all = 0, skipped = 0;
  for (int64_t round = 0; round < layout.rounds(); ++round) {
    for (size_t i = 0; i < works.size(); ++i) works[i].s = layout.OfRound(sequences[i], round);
    ForUnits(table, layout, memory, works, PassOverKeys);
    SumMaps(table, layout, works);
    ForUnits(table, layout, memory, works, [&](const Unit& unit) {
      const ValuePages values = PassOverValues(unit);
      all += values.all;
      skipped += values.skipped;
    });
    ParallelFor(works.size() * groups, [&](size_t i, int) {
      AddChunks(table, works[i / groups], table.groups()[i % groups]);
      WriteLse(works[i / groups], table.groups()[i % groups]);
    });
  }
  return {all, skipped};
}

}  // namespace tare
