// SPDX-License-Identifier: Apache-2.0
// English grammar of generated sentences: plurals and articles.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tare {

// "1 token", "2 tokens", "0 queries". `noun` is the singular and takes -s or -ies.
std::string Counted(int64_t n, std::string_view noun);

// "a llama", "an olmo2".
std::string WithArticle(std::string_view noun);

}  // namespace tare
