// SPDX-License-Identifier: Apache-2.0
// The keys and values of one layer and one sequence, as f32, bf16 or codes, in pages of 64 tokens (page_layout.h).
// Every token is rounded once, so codes do not depend on batch, threads or a prompt's chunks: with a scale per token on
// arrival; with one per channel when a token follows the full page. Until then both stay in f32 (KIVI's residual).
//
// First and last tokens may stay in f32 beside their codes, which decoding prefers. Those that Truncate makes the last
// have codes alone. A page with scales per channel that is cut and written again is first read back from its codes.
//
// Rotated keys (values): x R, R orthogonal, one for all tokens and heads; decoding rotates queries, and outputs back.
//
// Keys may be kept as they were before rotary position embedding (KVQuant, arXiv 2401.18079: channels are alike then):
// they are rotated back when they arrive and again whenever they are read, which is slow; for studies of accuracy.
//
// Each head may drop other tokens. A key's place then says nothing of its position, which rotary keys encode.
//
// A copy is a fork: it shares all pages, and whichever side writes to a shared page copies it first. Forks are to be
// made and written by one thread at a time; any number may read.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "kernels/attention/heads.h"
#include "kernels/cache/key_rotary.h"
#include "kernels/cache/page_layout.h"
#include "quant/base/aligned.h"
#include "quant/base/integers.h"

namespace tare {

class Hadamard;  // quant/format/hadamard.h

enum class KeptKeys { kAfterRotary, kBeforeRotary };

struct CacheRules {
  CacheRule k = {}, v = {};
  KeptKeys keys = KeptKeys::kAfterRotary;
  int64_t first = 0, last = 0;  // tokens that stay in f32
};

// Memory of the caller's, a page at a time (its size: PageLayout::Bytes): so many bytes at a multiple of 64, the page's
// until the pointer's deleter runs, on whichever thread drops the last cache that shares it.
using PageSource = std::function<std::shared_ptr<std::byte>(size_t bytes)>;

class KvCache {
 public:
  // rotary: for keys kept before it, which arrive after it. source: null: own memory. Throws Error for what CheckShape
  // refuses, first or last below 0, widths without Hadamard rotation, and keys before rotary without one that wide.
  KvCache(const CacheShape& shape, const CacheRules& rules, std::shared_ptr<const KeyRotary> rotary = nullptr,
          PageSource source = {});

  // k [n][k heads][k width], v [n][v heads][v width]: the next n tokens. Throws Error, naming token and head, for other
  // shapes and values that are not finite or may not stay so: once turned back or rotated, or, with minima, in the
  // range from least to largest; then nothing is appended. Interrupted or out of memory, some whole pages may be.
  void Append(const HeadsView<const float>& k, const HeadsView<const float>& v);
  // Keeps the first `tokens`. Throws Error for more than there are.
  void Truncate(int64_t tokens);
  // Keeps of each head's tokens those at these places, which rise and are as many for every head, codes as they are.
  // The first and the last tokens, which are in f32, must be among them. Throws Error for other places, for scales per
  // channel, which others of a page share, and for keys before rotary, whose places are their positions.
  void Keep(std::span<const std::vector<int64_t>> of_k_heads, std::span<const std::vector<int64_t>> of_v_heads);

  int64_t tokens() const { return tokens_; }
  // At least the largest magnitude of its keys as they came.
  float LargestKey() const { return largest_key_; }
  // Tokens that are read from codes: all but the first, the last ones and a page whose scales are not yet fixed.
  int64_t RoundedTokens() const;
  const CacheShape& shape() const { return coded_.shape(); }
  const CacheRules& rules() const { return rules_; }
  // The size of all pages; shared ones count in full. Truncate's pages become free with the last page of their piece.
  size_t Bytes() const;

  // The token's row as attention sees it: dequantized, rotated back. Throws Error for a token or head not there.
  void ReadKey(int64_t token, int head, float* key) const;
  void ReadValue(int64_t token, int head, float* value) const;
  // All heads' rows of tokens [first, first + n), in parallel: k [n][k heads][k width], v [n][v heads][v width]. For
  // many queries prefill over them takes less time than decoding.
  void Read(int64_t first, const HeadsView<float>& k, const HeadsView<float>& v) const;

  // What keys and values are multiplied by before they are kept; null: nothing. Keys before rotary are ReadKey's alone.
  const Hadamard* KeyRotation() const { return k_rotation_; }
  bool KeysBeforeRotary() const { return rotary_ != nullptr; }
  const Hadamard* ValueRotation() const { return v_rotation_; }

  // Some of a page's tokens in one layout. keys counts from the page's first token.
  struct Part {
    const std::byte *k = nullptr, *v = nullptr;  // where the page's keys and values begin
    const PageLayout* layout = nullptr;
    KeyRange keys;
  };
  static constexpr int kMostParts = 3;  // first ones in f32, codes, last ones in f32

  int64_t Pages() const { return CeilDiv(tokens_, kPageTokens); }
  // The tokens of a page, each in one part; parts may be empty.
  std::array<Part, kMostParts> Parts(int64_t page) const;

 private:
  // A page's bytes, in a piece of memory with others, the keys of all and then their values; the piece goes when the
  // last of them does. Memory is read fastest straight on, and in large pages of the processor's, of 2 MiB.
  struct Memory {
    std::shared_ptr<std::byte> owner;
    std::byte *k, *v;
  };
  // The unused rest of the last piece. A fork takes none of it: only one cache hands out its pages.
  struct Rest {
    Rest() = default;
    Rest(const Rest&) {}
    Rest& operator=(const Rest&) { return *this = Rest(); }
    Rest(Rest&&) = default;
    Rest& operator=(Rest&&) = default;

    std::shared_ptr<std::byte> owner;
    int64_t pages = 0, used = 0;
  };
  struct Page {
    std::shared_ptr<const Memory> coded, plain;  // plain: f32, only of pages that have tokens in f32
  };
  std::shared_ptr<const Memory> NewPage(const PageLayout& layout) const;
  std::vector<std::shared_ptr<const Memory>> NewCodedPages(int64_t count);

  bool HasPlain() const { return rules_.first > 0 || rules_.last > 0 || coded_.ByPages(); }
  int64_t LastFrom() const;
  bool StaysPlain(int64_t page) const;
  Page& WritablePage(int64_t page);
  void ReadBackCutPage();
  void WriteToken(const Page& page, int token, const HeadsView<const float>& k, const HeadsView<const float>& v,
                  int64_t row);
  void RoundFullPages();
  Part PartOf(int64_t token) const;
  void CheckMoved() const;
  void CheckKept(const std::vector<int64_t>& places, int64_t tokens) const;
  Page KeptPage(int64_t number, int64_t tokens, std::span<const std::vector<int64_t>> of_k_heads,
                std::span<const std::vector<int64_t>> of_v_heads) const;

  CacheRules rules_;
  PageSource source_;
  PageLayout coded_, plain_;
  std::vector<Page> pages_;
  Rest rest_;                                 // of coded pages
  const Hadamard *k_rotation_, *v_rotation_;  // null: none
  std::shared_ptr<const KeyRotary> rotary_;   // null: keys are kept unchanged
  int64_t tokens_ = 0;
  float largest_key_ = 0;
  int64_t rounded_ = 0;     // by pages: how many have codes
  int64_t plain_from_ = 0;  // tokens from here on have their f32, if they are among the last ones
};

double CacheBytes(const CacheShape& shape, const CacheRules& rules, int64_t tokens);

}  // namespace tare
