// SPDX-License-Identifier: Apache-2.0
#include "experiments/tasks/items/hellaswag.h"

#include <algorithm>

#include <unicode/uchar.h>

#include "experiments/text/utf8.h"

namespace tare {
namespace {

// re.sub(r"\[.*?\]", "", text): from a bracket to the next closing one, where both are on one line.
std::string RemoveBracketed(std::string_view text) {
  std::string kept;
  while (!text.empty()) {
    const size_t open = std::min(text.find('['), text.size());
    kept.append(text.substr(0, open));
    text.remove_prefix(open);
    const size_t close = text.find_first_of("]\n");
    if (close != std::string_view::npos && text[close] == ']') {
      text.remove_prefix(close + 1);
    } else {
      // No bracket of this line closes.
      const size_t rest = std::min(close, text.size());
      kept.append(text.substr(0, rest));
      text.remove_prefix(rest);
    }
  }
  return kept;
}

}  // namespace

std::string Capitalize(std::string_view text) {
  std::string capitalized;
  for (bool first = true; !text.empty(); first = false) {
    const char32_t letter = FirstCharacter(text);
    const auto point = static_cast<UChar32>(letter);
    const size_t before = capitalized.size();
    AppendCharacter(letter, &capitalized);
    text.remove_prefix(capitalized.size() - before);
    capitalized.resize(before);
    AppendCharacter(static_cast<char32_t>(first ? u_toupper(point) : u_tolower(point)), &capitalized);
  }
  return capitalized;
}

std::string PrepareHellaswag(std::string_view text) {
  return Replaced(RemoveBracketed(Replaced(Strip(text), " [title]", ". ")), "  ", " ");
}

std::string HellaswagContext(std::string_view activity, std::string_view ctx_a, std::string_view ctx_b) {
  return PrepareHellaswag(std::string(activity).append(": ").append(ctx_a).append(" ").append(Capitalize(ctx_b)));
}

}  // namespace tare
