// SPDX-License-Identifier: Apache-2.0
#include "experiments/tasks/hellaswag_text.h"

#include <locale.h>
#include <wctype.h>

#include <algorithm>
#include <memory>
#include <type_traits>

#include "experiments/text/utf8.h"
#include "quant/base/error.h"

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

// Unicode's own mappings, whatever the process's locale is.
locale_t UnicodeLocale() {
  struct Free {
    void operator()(locale_t locale) const { freelocale(locale); }
  };
  static const std::unique_ptr<std::remove_pointer_t<locale_t>, Free> locale(
      newlocale(LC_CTYPE_MASK, "C.UTF-8", nullptr));
  if (!locale)
    Fail("letter case: this system has no locale C.UTF-8, expected the C library's; try installing its locales");
  return locale.get();
}

}  // namespace

std::string Capitalize(std::string_view text) {
  std::string capitalized;
  for (bool first = true; !text.empty(); first = false) {
    const char32_t letter = FirstCharacter(text);
    const wint_t changed = first ? towupper_l(letter, UnicodeLocale()) : towlower_l(letter, UnicodeLocale());
    const size_t before = capitalized.size();
    AppendCharacter(letter, &capitalized);
    text.remove_prefix(capitalized.size() - before);
    capitalized.resize(before);
    AppendCharacter(changed, &capitalized);
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
