// SPDX-License-Identifier: Apache-2.0
#include "experiments/tasks/hellaswag_text.h"

#include <unicode/uchar.h>

#include <algorithm>

#include "experiments/text/utf8.h"

namespace tare {
namespace {

// str.replace: from left to right, without looking at what was put in.
std::string Replace(std::string_view text, std::string_view from, std::string_view to) {
  std::string replaced;
  for (size_t at = text.find(from); at != std::string_view::npos; at = text.find(from)) {
    replaced.append(text.substr(0, at)).append(to);
    text.remove_prefix(at + from.size());
  }
  return replaced.append(text);
}

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
  return Replace(RemoveBracketed(Replace(Strip(text), " [title]", ". ")), "  ", " ");
}

std::string HellaswagContext(std::string_view activity, std::string_view ctx_a, std::string_view ctx_b) {
  return PrepareHellaswag(std::string(activity).append(": ").append(ctx_a).append(" ").append(Capitalize(ctx_b)));
}

}  // namespace tare
