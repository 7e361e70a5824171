// SPDX-License-Identifier: Apache-2.0
#include "kernels/cache/kv_cache.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numbers>
#include <utility>

#include "kernels/elementwise/rows.h"
#include "quant/base/memory.h"
#include "quant/base/message.h"
#include "quant/base/parallel.h"
#include "quant/format/hadamard.h"

namespace tare {
namespace {

constexpr const char* kKeep = "cache, keep";
constexpr size_t kLargePage = size_t{2} << 20;  // of the processor's

// Memory for a piece, which begins on a large page, if it is as long as one. Otherwise up to 2 MiB at either end would
// be left to small pages: 5 % of the time of decoding 142 MB (docs/develop/notebook.md).
std::shared_ptr<std::byte> NewPiece(size_t bytes) {
  const bool large = bytes >= kLargePage;
  const auto memory = std::make_shared<AlignedBuffer<std::byte>>(large ? bytes + kLargePage : bytes);
  AdviseLargePages(memory->span());
  const auto begin = reinterpret_cast<uintptr_t>(memory->data());
  return {memory, memory->data() + (large ? RoundUp(begin, kLargePage) - begin : 0)};
}

bool HasRounding(const CacheRules& rules) { return rules.k.format != Format::kF32 || rules.v.format != Format::kF32; }

CacheRules Checked(CacheRules rules) {
  CheckRules(rules.k, rules.v);
  if (rules.first < 0 || rules.last < 0)
    Fail("cache: got first {} and last {}, expected at least 0", rules.first, rules.last);
  if (!HasRounding(rules)) rules.first = rules.last = 0;  // they are f32 as it is
  constexpr int64_t kAll = int64_t{1} << 60;              // two of them add up
  rules.first = std::min(rules.first, kAll), rules.last = std::min(rules.last, kAll);
  return rules;
}

const Hadamard* RotationOf(const CacheRule& rule, int width) {
  return rule.hadamard ? &PlanRotation(width, *rule.hadamard) : nullptr;
}

// How far the largest magnitude may grow until values are rounded, and up to what. With minima in a range of both
// signs: twice, and a third more in a cut page, whose values, as read back, lie up to half a step outside the range.
// Runs have scales rounded up: this also holds the lowest code of a full range, at most 4/3 of the largest magnitude,
// and a list's values, off by at most half their distance. Two levels of scales reach as far as the largest.
struct Growth {
  float factor, limit;
  const char* reach = nullptr;  // what sets a limit below f32's, and what to try
};
Growth GrowthOf(const CacheRule& rule, int width, float turn) {
  const float rotated = (rule.hadamard ? std::sqrt(static_cast<float>(width)) : 1.0f) * turn;
  if (IsTwoLevel(rule.format.scale)) return {rotated, LargestOfUnit(rule.format), "for E4M3 scales; try mxfp8e4m3"};
  if (rule.InRuns() && !rule.InBlocks())
    return {rotated * 4, kLargestF16, "in blocks and groups, whose scales are f16; try channel or token"};
  const bool grows = rule.format.range != CodeRange::kOwn || (HasCodes(rule.format) && !IsInteger(rule.format));
  return {rotated * (grows ? 4.0f : 1.0f), std::numeric_limits<float>::max()};
}

void CheckView(const char* name, const HeadsView<const float>& x, int64_t tokens, int heads, int width) {
  if (const std::string wrong = WrongIn(x); !wrong.empty()) Fail("cache, {}: {}", name, wrong);
  if (x.tokens != tokens || x.heads != heads || x.width != width)
    Fail("cache, {}: got {} tokens of {} heads of width {}, expected {} of {} of width {}", name, x.tokens, x.heads,
         x.width, tokens, heads, width);
}

// Returns the largest magnitude.
float CheckRows(const char* name, const HeadsView<const float>& x, int64_t tokens, int heads, int width,
                Growth growth) {
  CheckView(name, x, tokens, heads, width);
  float largest = 0;
  for (int64_t t = 0; t < tokens; ++t) {
    ThrowIfStopped();
    for (int h = 0; h < heads; ++h) {
      const float absmax = AbsMax(x.Row(t, h), static_cast<size_t>(width));
      largest = std::max(largest, absmax);
      if (absmax * growth.factor <= growth.limit) continue;
      if (std::isfinite(absmax) && growth.reach != nullptr)
        Fail("cache, {}: token {}, head {}: got values up to {}, expected at most {:g} {}", name, t, h, absmax,
             growth.limit / growth.factor, growth.reach);
      Fail("cache, {}: token {}, head {}: got {}, expected values, and with minima a range, that stay finite", name, t,
           h, std::isfinite(absmax) ? Formatted("values up to {}", absmax) : "NaN or infinity");
    }
  }
  return largest;
}

}  // namespace

KvCache::KvCache(const CacheShape& shape, const CacheRules& rules, std::shared_ptr<const KeyRotary> rotary,
                 PageSource source)
    : rules_(Checked(rules)),
      source_(std::move(source)),
      coded_(shape, rules.k, rules.v),
      plain_(shape, {}, {}),
      k_rotation_(RotationOf(rules.k, shape.k_width)),
      v_rotation_(RotationOf(rules.v, shape.v_width)),
      rotary_(rules.keys == KeptKeys::kBeforeRotary ? std::move(rotary) : nullptr) {
  if (rules.keys == KeptKeys::kAfterRotary) return;
  if (rotary_ == nullptr) Fail("cache, keys before rotary: got no rotary embedding; try them after it");
  if (rotary_->width() != shape.k_width)
    Fail("cache, keys before rotary: got a rotary embedding of width {}, expected {}", rotary_->width(), shape.k_width);
}

// The first token that keeps its f32 as one of the last ones.
int64_t KvCache::LastFrom() const {
  const int64_t last = tokens_ - rules_.last;
  return coded_.ByPages() ? std::min(last, rounded_ * kPageTokens) : last;
}

// Whether the page has one of the first or the last tokens, which stay in f32.
bool KvCache::StaysPlain(int64_t page) const {
  return page * kPageTokens < rules_.first || (page + 1) * kPageTokens > LastFrom();
}

// A page of zeros, in its own piece of memory.
std::shared_ptr<const KvCache::Memory> KvCache::NewPage(const PageLayout& layout) const {
  const auto bytes = static_cast<size_t>(layout.Bytes());
  const std::shared_ptr<std::byte> owner = source_ ? source_(bytes) : NewPiece(bytes);
  if (owner == nullptr || reinterpret_cast<uintptr_t>(owner.get()) % 64 != 0)
    Fail("cache, page: got {} of the source, expected {} bytes at a multiple of 64",
         owner == nullptr ? "nothing" : "a misaligned place", bytes);
  std::memset(owner.get(), 0, bytes);
  return std::make_shared<const Memory>(Memory{owner, owner.get(), owner.get() + layout.k().Bytes()});
}

// Pages of zeros. A new piece doubles the cache, up to two of the processor's large pages. So a cache may take this
// much more memory than it needs, and the rest of a piece's last large page.
std::vector<std::shared_ptr<const KvCache::Memory>> KvCache::NewCodedPages(int64_t count) {
  constexpr int64_t kLargestAhead = int64_t{4} << 20;
  std::vector<std::shared_ptr<const Memory>> pages;
  for (; source_ && count > 0; --count) pages.push_back(NewPage(coded_));
  for (; count > 0; --count) {
    if (rest_.owner == nullptr || rest_.used == rest_.pages) {
      rest_.pages = std::max(count, std::min(std::ssize(pages_), kLargestAhead / coded_.Bytes()));
      rest_.owner = NewPiece(static_cast<size_t>(rest_.pages * coded_.Bytes()));
      rest_.used = 0;
    }
    std::byte* const k = rest_.owner.get() + rest_.used * coded_.k().Bytes();
    std::byte* const v = rest_.owner.get() + rest_.pages * coded_.k().Bytes() + rest_.used * coded_.v().Bytes();
    std::memset(k, 0, static_cast<size_t>(coded_.k().Bytes()));
    std::memset(v, 0, static_cast<size_t>(coded_.v().Bytes()));
    ++rest_.used;
    pages.push_back(std::make_shared<const Memory>(Memory{rest_.owner, k, v}));
  }
  return pages;
}

// Another cache has the pages of one that was moved from.
void KvCache::CheckMoved() const {
  if (std::ssize(pages_) < Pages()) Fail("cache: got one that was moved from, expected one with its tokens");
}

void KvCache::CheckKept(const std::vector<int64_t>& places, int64_t tokens) const {
  CheckEqual(kKeep, "tokens of a head", std::ssize(places), tokens);
  CheckRange(kKeep, "tokens", tokens, std::min(tokens_, rules_.first + rules_.last), tokens_);
  for (int64_t i = 0; i < tokens; ++i) {
    const bool first = i < rules_.first, last = i >= tokens - rules_.last;
    const int64_t least = last ? i + tokens_ - tokens : i == 0 ? 0 : places[i - 1] + 1;
    CheckRange(kKeep, "place", places[i], first ? i : least, first ? i : last ? least : tokens_ - 1);
  }
}

// The page, no longer shared, and with f32 where the rules ask for it.
KvCache::Page& KvCache::WritablePage(int64_t number) {
  Page& page = pages_[number];
  if (HasPlain() && page.plain == nullptr) page.plain = NewPage(plain_);
  for (const auto& [memory, layout] : {std::pair{&page.coded, &coded_}, {&page.plain, &plain_}}) {
    if (memory->use_count() < 2) continue;
    const std::shared_ptr<const Memory> own = NewPage(*layout);
    std::memcpy(own->k, (*memory)->k, static_cast<size_t>(layout->k().Bytes()));
    std::memcpy(own->v, (*memory)->v, static_cast<size_t>(layout->v().Bytes()));
    *memory = own;
  }
  return page;
}

// By pages: restores the last page's f32, where it was rounded and then cut.
void KvCache::ReadBackCutPage() {
  const int64_t number = tokens_ / kPageTokens;
  if (!coded_.ByPages() || number >= rounded_) return;
  const std::shared_ptr<const Memory> plain = NewPage(plain_);
  for (const Part& part : Parts(number)) {
    plain_.k().WriteRows(plain->k, part.layout->k(), part.k, part.keys);
    plain_.v().WriteRows(plain->v, part.layout->v(), part.v, part.keys);
  }
  pages_[number] = {.coded = nullptr, .plain = plain};
  rounded_ = number;
  plain_from_ = number * kPageTokens;
}

void KvCache::WriteToken(const Page& page, int token, const HeadsView<const float>& k, const HeadsView<const float>& v,
                         int64_t row) {
  float rotated[kLargestWidth], turned[kLargestWidth];
  const auto kept = [&](const float* x, const Hadamard* rotation) {
    if (rotation == nullptr) return x;
    rotation->Rotate(x, rotated);
    return static_cast<const float*>(rotated);
  };
  const auto for_layouts = [&](const auto& write) {
    if (!coded_.ByPages()) write(coded_, *page.coded);
    if (page.plain != nullptr) write(plain_, *page.plain);
  };
  for (int h = 0; h < k.heads; ++h) {
    const float* key = k.Row(row, h);
    if (rotary_) {
      std::copy_n(key, k.width, turned);
      rotary_->TurnBack(turned, tokens_ + token - tokens_ % kPageTokens);
      key = turned;
    }
    key = kept(key, k_rotation_);
    for_layouts([&](const PageLayout& layout, const Memory& to) { layout.k().Write(to.k, token, h, key); });
  }
  for (int h = 0; h < v.heads; ++h) {
    const float* value = kept(v.Row(row, h), v_rotation_);
    for_layouts([&](const PageLayout& layout, const Memory& to) { layout.v().Write(to.v, token, h, value); });
  }
}

// By pages: rounds the full pages after which another token came.
void KvCache::RoundFullPages() {
  for (; coded_.ByPages() && (rounded_ + 1) * kPageTokens < tokens_; ++rounded_) {
    const Page& page = pages_[rounded_];
    coded_.k().WriteAll(page.coded->k, plain_.k(), page.plain->k);
    coded_.v().WriteAll(page.coded->v, plain_.v(), page.plain->v);
  }
}

void KvCache::Append(const HeadsView<const float>& k, const HeadsView<const float>& v) {
  const float turn = rotary_ ? std::numbers::sqrt2_v<float> : 1.0f;  // of pairs: one may take all of the other
  const float largest_key =
      CheckRows("k", k, k.tokens, shape().k_heads, shape().k_width, GrowthOf(rules_.k, shape().k_width, turn));
  CheckRows("v", v, k.tokens, shape().v_heads, shape().v_width, GrowthOf(rules_.v, shape().v_width, 1));
  if (k.tokens == 0) return;
  CheckMoved();
  largest_key_ = std::max(largest_key_, largest_key);
  ReadBackCutPage();
  const int64_t new_pages = CeilDiv(tokens_ + k.tokens, kPageTokens) - std::ssize(pages_);
  pages_.resize(pages_.size() + static_cast<size_t>(new_pages));
  const int64_t coded_from = coded_.ByPages() ? rounded_ : std::ssize(pages_) - new_pages;
  const int64_t coded_to = coded_.ByPages() ? (tokens_ + k.tokens - 1) / kPageTokens : std::ssize(pages_);
  if (coded_to > coded_from) {
    int64_t number = coded_from;
    for (auto& memory : NewCodedPages(coded_to - coded_from)) pages_[number++].coded = std::move(memory);
  }
  int64_t settled = std::max<int64_t>(0, LastFrom()) / kPageTokens;  // pages before have their f32 or none
  for (int64_t t = 0; t < k.tokens;) {
    ThrowIfStopped();
    const int64_t number = tokens_ / kPageTokens;
    const auto begin = static_cast<int>(tokens_ % kPageTokens);
    const auto end = static_cast<int>(std::min<int64_t>(kPageTokens, begin + k.tokens - t));
    const Page& page = WritablePage(number);
    for (int token = begin; token < end; ++token, ++t) WriteToken(page, token, k, v, t);
    tokens_ += end - begin;
    RoundFullPages();
    for (; settled < std::ssize(pages_) && (settled + 1) * kPageTokens <= LastFrom(); ++settled)
      if (!StaysPlain(settled)) pages_[settled].plain.reset();
  }
}

void KvCache::Truncate(int64_t tokens) {
  CheckRange("cache", "tokens", tokens, 0, tokens_);
  plain_from_ = std::max(plain_from_, LastFrom());
  tokens_ = tokens;
  if (tokens == 0) largest_key_ = 0;
  plain_from_ = std::min(plain_from_, tokens_);
  pages_.resize(static_cast<size_t>(Pages()));
  rounded_ = std::min(rounded_, Pages());
}

// A page of the tokens that are kept; rules_ and tokens_ as before.
KvCache::Page KvCache::KeptPage(int64_t number, int64_t tokens, std::span<const std::vector<int64_t>> of_k_heads,
                                std::span<const std::vector<int64_t>> of_v_heads) const {
  const int64_t begin = number * kPageTokens, end = std::min(begin + kPageTokens, tokens);
  Page page{.coded = NewPage(coded_), .plain = nullptr};
  if (HasPlain() && (begin < rules_.first || end > tokens - rules_.last)) page.plain = NewPage(plain_);
  const auto copy = [&](const auto& of_heads, const PageSide& (PageLayout::*side)() const, std::byte* Memory::* at) {
    for (size_t h = 0; h < of_heads.size(); ++h) {
      for (int64_t t = begin; t < end; ++t) {
        const int64_t from = of_heads[h][static_cast<size_t>(t)];
        const Page& source = pages_[static_cast<size_t>(from / kPageTokens)];
        const auto copy_row = [&](const PageLayout& layout, const Memory& to, const Memory& of) {
          (layout.*side)().Copy(to.*at, static_cast<int>(t - begin), of.*at, static_cast<int>(from % kPageTokens),
                                static_cast<int>(h));
        };
        copy_row(coded_, *page.coded, *source.coded);
        if (page.plain && source.plain) copy_row(plain_, *page.plain, *source.plain);
      }
    }
  };
  copy(of_k_heads, &PageLayout::k, &Memory::k);
  copy(of_v_heads, &PageLayout::v, &Memory::v);
  return page;
}

void KvCache::Keep(std::span<const std::vector<int64_t>> of_k_heads, std::span<const std::vector<int64_t>> of_v_heads) {
  if (coded_.ByPages()) Fail("cache, keep: got scales per channel, expected one per token");
  if (rotary_) Fail("cache, keep: got keys before rotary, expected them after it");
  CheckMoved();
  CheckEqual(kKeep, "heads of k", std::ssize(of_k_heads), shape().k_heads);
  CheckEqual(kKeep, "heads of v", std::ssize(of_v_heads), shape().v_heads);
  const int64_t tokens = std::ssize(of_k_heads[0]), dropped = tokens_ - tokens;
  for (const auto& heads : {of_k_heads, of_v_heads})
    for (const std::vector<int64_t>& places : heads) CheckKept(places, tokens);
  std::vector<Page> pages;
  for (int64_t number = 0; number * kPageTokens < tokens; ++number)
    pages.push_back(KeptPage(number, tokens, of_k_heads, of_v_heads));
  pages_ = std::move(pages);
  tokens_ = tokens;
  plain_from_ = std::max<int64_t>(0, plain_from_ - dropped);
}

int64_t KvCache::RoundedTokens() const {
  return HasRounding(rules_) ? std::max<int64_t>(0, std::max(LastFrom(), plain_from_) - rules_.first) : 0;
}

size_t KvCache::Bytes() const {
  int64_t bytes = 0;
  for (const Page& page : pages_) bytes += (page.coded ? coded_.Bytes() : 0) + (page.plain ? plain_.Bytes() : 0);
  return static_cast<size_t>(bytes);
}

std::array<KvCache::Part, KvCache::kMostParts> KvCache::Parts(int64_t number) const {
  CheckRange("cache", "page", number, 0, std::ssize(pages_) - 1);
  const Page& page = pages_[number];
  const int64_t begin = number * kPageTokens, end = std::min(begin + kPageTokens, tokens_);
  const int64_t first = std::clamp(rules_.first, begin, end);
  const int64_t last = std::clamp(std::max(LastFrom(), plain_from_), first, end);
  const auto part = [](const std::shared_ptr<const Memory>& memory, const PageLayout& layout, KeyRange keys) {
    return memory == nullptr ? Part{nullptr, nullptr, &layout, keys} : Part{memory->k, memory->v, &layout, keys};
  };
  return {part(page.plain, plain_, {0, first - begin}), part(page.coded, coded_, {first - begin, last - begin}),
          part(page.plain, plain_, {last - begin, end - begin})};
}

KvCache::Part KvCache::PartOf(int64_t token) const {
  CheckRange("cache", "token", token, 0, tokens_ - 1);
  const std::array<Part, kMostParts> parts = Parts(token / kPageTokens);
  return *std::ranges::find_if(parts, [&](const Part& p) { return token % kPageTokens < p.keys.end; });
}

void KvCache::ReadKey(int64_t token, int head, float* key) const {
  CheckRange("cache, key", "head", head, 0, shape().k_heads - 1);
  CheckPointer("cache, key", key, shape().k_width);
  const Part part = PartOf(token);
  part.layout->k().Read(part.k, static_cast<int>(token % kPageTokens), head, key);
  if (k_rotation_) k_rotation_->RotateBack(key, key);
  if (rotary_) rotary_->Turn(key, token);
}

void KvCache::ReadValue(int64_t token, int head, float* value) const {
  CheckRange("cache, value", "head", head, 0, shape().v_heads - 1);
  CheckPointer("cache, value", value, shape().v_width);
  const Part part = PartOf(token);
  part.layout->v().Read(part.v, static_cast<int>(token % kPageTokens), head, value);
  if (v_rotation_) v_rotation_->RotateBack(value, value);
}

void KvCache::Read(int64_t first, const HeadsView<float>& k, const HeadsView<float>& v) const {
  CheckView("k", ReadOnly(k), k.tokens, shape().k_heads, shape().k_width);
  CheckView("v", ReadOnly(v), k.tokens, shape().v_heads, shape().v_width);
  CheckRange("cache", "first", first, 0, tokens_ - k.tokens);
  ParallelFor(static_cast<size_t>(k.tokens), [&](size_t i, int) {
    const auto token = static_cast<int64_t>(i);
    for (int h = 0; h < k.heads; ++h) ReadKey(first + token, h, k.Row(token, h));
    for (int h = 0; h < v.heads; ++h) ReadValue(first + token, h, v.Row(token, h));
  });
}

double CacheBytes(const CacheShape& shape, const CacheRules& rules, int64_t tokens) {
  const auto bytes_of = [&](const CacheRule& k, const CacheRule& v, int64_t count) {
    return static_cast<double>(PageLayout(shape, k, v).Bytes()) * std::ceil(static_cast<double>(count) / kPageTokens);
  };
  if (!HasRounding(rules)) return bytes_of({}, {}, tokens);
  const bool by_pages = PageLayout(shape, rules.k, rules.v).ByPages();
  const int64_t unrounded = by_pages ? std::min<int64_t>(tokens, kPageTokens) : 0;
  const int64_t plain = std::min(rules.first + std::max(rules.last, unrounded), tokens);
  return bytes_of(rules.k, rules.v, tokens - unrounded) + bytes_of({}, {}, plain);
}

}  // namespace tare
