// SPDX-License-Identifier: Apache-2.0
// Texts one after another, as messages and files have them: "a, b or c".
#pragma once

#include <functional>
#include <ranges>
#include <string>
#include <string_view>

namespace tare {

// The text of each of `all`, with `between` between them, and `last` before the last one, if it is given.
template <typename All, typename Text = std::identity>
std::string Listed(All&& all, std::string_view between, Text text = {}, std::string_view last = {}) {
  std::string listed;
  for (auto at = std::ranges::begin(all); at != std::ranges::end(all);) {
    listed += std::string_view(std::invoke(text, *at));
    const bool before_last =
        ++at != std::ranges::end(all) && !last.empty() && std::ranges::next(at) == std::ranges::end(all);
    if (at != std::ranges::end(all)) listed += before_last ? last : between;
  }
  return listed;
}

}  // namespace tare
