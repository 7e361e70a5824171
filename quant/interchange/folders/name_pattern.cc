// SPDX-License-Identifier: Apache-2.0
#include "quant/interchange/folders/name_pattern.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "quant/base/error.h"

namespace tare {
namespace {

constexpr size_t kLongest = 1000;         // of a pattern, in bytes; names of modules have tens
constexpr uint32_t kMostSteps = 100'000;  // of a match; patterns in use take tens
constexpr uint32_t kMostHeap = 16 << 10;  // KiB

const unsigned char* Bytes(std::string_view text) { return reinterpret_cast<const unsigned char*>(text.data()); }

// A match's own memory, and its limits.
struct Match {
  Match() {
    pcre2_set_match_limit(context, kMostSteps);
    pcre2_set_heap_limit(context, kMostHeap);
  }
  ~Match() {
    pcre2_match_context_free(context);
    pcre2_match_data_free(data);
  }
  Match(const Match&) = delete;

  pcre2_match_data* data = pcre2_match_data_create(1, nullptr);
  pcre2_match_context* context = pcre2_match_context_create(nullptr);
};

}  // namespace

NamePattern::NamePattern(std::string_view pattern, std::string where) : where_(std::move(where)) {
  if (pattern.size() > kLongest)
    Fail("{}: got a pattern of {} bytes, expected at most {}", where_, pattern.size(), kLongest);
  int error = 0;
  size_t at = 0;
  code_.reset(pcre2_compile(Bytes(pattern), pattern.size(), PCRE2_DOLLAR_ENDONLY | PCRE2_NEVER_BACKSLASH_C, &error, &at,
                            nullptr),
              [](pcre2_code* code) { pcre2_code_free(code); });
  if (code_ != nullptr) return;
  unsigned char why[256] = "unknown";
  pcre2_get_error_message(error, why, sizeof why);
  Fail("{}: got the pattern '{}', at {}: {}; expected a regular expression of Python's", where_, pattern, at,
       reinterpret_cast<const char*>(why));
}

bool NamePattern::MatchesStart(std::string_view name) const { return Matches(name, PCRE2_ANCHORED); }

bool NamePattern::MatchesSomewhere(std::string_view name) const { return Matches(name, 0); }

bool NamePattern::Matches(std::string_view name, uint32_t options) const {
  const Match match;
  const int got = pcre2_match(code_.get(), Bytes(name), name.size(), 0, options, match.data, match.context);
  if (got < 0 && got != PCRE2_ERROR_NOMATCH)
    Fail("{}: the pattern takes too long on the name '{}'; expected a simpler one", where_, name.substr(0, 100));
  return got >= 0;
}

}  // namespace tare
