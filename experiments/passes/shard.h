// SPDX-License-Identifier: Apache-2.0
// One of several equal parts of a job or a text, as options name it: "2/5" is the third of five.
#pragma once

#include <cstddef>
#include <string_view>

namespace tare {

struct Shard {
  size_t index = 0, count = 1;
};

// Throws Error, naming the option, unless the text is "i/n" with i from 0 to n - 1.
Shard ParseShard(std::string_view option, std::string_view text);

}  // namespace tare
