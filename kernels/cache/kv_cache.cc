// SPDX-License-Identifier: Apache-2.0
// See kv_cache.h.
#include "kernels/cache/kv_cache.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <span>
#include <utility>

#include "kernels/elementwise/rows.h"
#include "quant/base/error.h"
#include "quant/base/memory.h"

namespace tare {
namespace {

CacheShape Checked(const CacheShape& s) {
  if (s.k_heads < 1 || s.k_width < 1 || s.v_heads < 1 || s.v_width < 1)
    Fail("cache: got {} heads of k, {} wide, and {} of v, {} wide, expected at least 1 of each", s.k_heads, s.k_width,
         s.v_heads, s.v_width);
  if (std::max(s.k_width, s.v_width) > kLargestWidth)
    Fail("cache: got heads of width {}, expected at most {}", std::max(s.k_width, s.v_width), kLargestWidth);
  return s;
}

CachePlan Checked(CachePlan plan) {
  if (plan.first < 0 || plan.last < 0)
    Fail("cache plan: got first {} and last {}, expected at least 0", plan.first, plan.last);
  if (plan.k == CacheFormat::kF32 && plan.v == CacheFormat::kF32) plan.first = plan.last = 0;  // they are f32 as it is
  return plan;
}

void CheckRows(const char* name, const HeadsView<const float>& x, int64_t tokens, int heads, int width) {
  if (x.tokens != tokens || x.heads != heads || x.width != width) {
    Fail("cache, {}: got {} tokens of {} heads of width {}, expected {} of {} of width {}", name, x.tokens, x.heads,
         x.width, tokens, heads, width);
  }
  for (int64_t t = 0; t < tokens; ++t) {
    for (int h = 0; h < heads; ++h) {
      if (!std::isfinite(AbsMax(x.Row(t, h), static_cast<size_t>(width))))
        Fail("cache, {}: token {}, head {}: got NaN or infinity, expected finite values", name, t, h);
    }
  }
}

}  // namespace

KvCache::KvCache(const CacheShape& shape, const CachePlan& plan)
    : plan_(Checked(plan)),
      coded_(Checked(shape), plan.k, plan.v),
      plain_(shape, CacheFormat::kF32, CacheFormat::kF32) {}

// Of a cache with so many tokens: whether the page has one of the first or the last.
bool KvCache::StaysPlain(int64_t page, int64_t tokens) const {
  return page * kPageTokens < plan_.first || (page + 1) * kPageTokens > tokens - plan_.last;
}

// Of zeros.
std::vector<std::shared_ptr<const KvCache::Memory>> KvCache::NewPages(int64_t count, int64_t bytes) {
  auto owner = std::make_shared<AlignedBuffer<std::byte>>(static_cast<size_t>(count * bytes));
  AdviseLargePages(owner->span());
  std::memset(owner->data(), 0, owner->size());
  std::vector<std::shared_ptr<const Memory>> pages;
  for (int64_t i = 0; i < count; ++i)
    pages.push_back(std::make_shared<const Memory>(Memory{owner, owner->data() + i * bytes}));
  return pages;
}

// No longer shared, and with f32 where the plan has it.
KvCache::Page& KvCache::WritablePage(int64_t number) {
  Page& page = pages_[number];
  if (HasPlain() && page.plain == nullptr) page.plain = NewPages(1, plain_.Bytes())[0];
  for (const auto& [memory, bytes] : {std::pair{&page.coded, coded_.Bytes()}, {&page.plain, plain_.Bytes()}}) {
    if (memory->use_count() < 2) continue;
    const std::shared_ptr<const Memory> own = NewPages(1, bytes)[0];
    std::memcpy(own->data, (*memory)->data, static_cast<size_t>(bytes));
    *memory = own;
  }
  return page;
}

void KvCache::Append(const HeadsView<const float>& k, const HeadsView<const float>& v) {
  CheckRows("k", k, k.tokens, shape().k_heads, shape().k_width);
  CheckRows("v", v, k.tokens, shape().v_heads, shape().v_width);
  const int64_t new_pages = (tokens_ + k.tokens + kPageTokens - 1) / kPageTokens - std::ssize(pages_);
  if (new_pages > 0) {
    for (auto& memory : NewPages(new_pages, coded_.Bytes())) pages_.push_back({.coded = memory, .plain = nullptr});
  }
  int64_t settled = std::max<int64_t>(0, tokens_ - plan_.last) / kPageTokens;  // pages before have their f32 or none
  for (int64_t t = 0; t < k.tokens;) {
    const int64_t number = tokens_ / kPageTokens;
    const auto begin = static_cast<int>(tokens_ % kPageTokens);
    const auto end = static_cast<int>(std::min<int64_t>(kPageTokens, begin + k.tokens - t));
    const Page& page = WritablePage(number);
    for (int token = begin; token < end; ++token, ++t) {
      for (const auto& [memory, layout] : {std::pair{page.coded.get(), &coded_}, {page.plain.get(), &plain_}}) {
        if (memory == nullptr) continue;
        for (int h = 0; h < k.heads; ++h) layout->WriteKey(memory->data, token, h, k.Row(t, h));
        for (int h = 0; h < v.heads; ++h) layout->WriteValue(memory->data, token, h, v.Row(t, h));
      }
    }
    tokens_ += end - begin;
    for (; settled < std::ssize(pages_) && (settled + 1) * kPageTokens <= tokens_ - plan_.last; ++settled)
      if (!StaysPlain(settled, tokens_)) pages_[settled].plain.reset();
  }
}

void KvCache::Truncate(int64_t tokens) {
  if (tokens < 0 || tokens > tokens_)
    Fail("cache, truncate: got {} tokens, expected at most the {} there are", tokens, tokens_);
  plain_from_ = std::max(plain_from_, tokens_ - plan_.last);
  tokens_ = tokens;
  plain_from_ = std::min(plain_from_, tokens_);
  pages_.resize(static_cast<size_t>(Pages()));
}

size_t KvCache::Bytes() const {
  int64_t bytes = 0;
  for (const Page& page : pages_) bytes += coded_.Bytes() + (page.plain ? plain_.Bytes() : 0);
  return static_cast<size_t>(bytes);
}

std::array<KvCache::Part, KvCache::kMostParts> KvCache::Parts(int64_t number) const {
  const Page& page = pages_[number];
  const int64_t begin = number * kPageTokens, end = std::min(begin + kPageTokens, tokens_);
  const int64_t first = std::clamp(plan_.first, begin, end);
  const int64_t last = std::clamp(std::max(tokens_ - plan_.last, plain_from_), first, end);
  const std::byte* plain = page.plain ? page.plain->data : nullptr;
  return {{{plain, &plain_, {0, first - begin}},
           {page.coded->data, &coded_, {first - begin, last - begin}},
           {plain, &plain_, {last - begin, end - begin}}}};
}

KvCache::Part KvCache::PartOf(int64_t token) const {
  TARE_CHECK(token >= 0 && token < tokens_);
  const std::array<Part, kMostParts> parts = Parts(token / kPageTokens);
  return *std::ranges::find_if(parts, [&](const Part& p) { return token % kPageTokens < p.keys.end; });
}

void KvCache::ReadKey(int64_t token, int head, float* key) const {
  const Part part = PartOf(token);
  part.layout->ReadKey(part.page, static_cast<int>(token % kPageTokens), head, key);
}

void KvCache::ReadValue(int64_t token, int head, float* value) const {
  const Part part = PartOf(token);
  part.layout->ReadValue(part.page, static_cast<int>(token % kPageTokens), head, value);
}

double CacheBytes(const CacheShape& shape, const CachePlan& plan, int64_t tokens) {
  const auto bytes_of = [&](CacheFormat k, CacheFormat v, int64_t count) {
    return static_cast<double>(PageLayout(shape, k, v).Bytes()) * std::ceil(static_cast<double>(count) / kPageTokens);
  };
  const bool plain = plan.k != CacheFormat::kF32 || plan.v != CacheFormat::kF32;
  return bytes_of(plan.k, plan.v, tokens) +
         (plain ? bytes_of(CacheFormat::kF32, CacheFormat::kF32, std::min(plan.first + plan.last, tokens)) : 0.0);
}

}  // namespace tare
