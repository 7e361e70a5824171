// SPDX-License-Identifier: Apache-2.0
// The elements of a page of HTML, read as a browser reads them.
#pragma once

#include <cctype>
#include <set>
#include <string>
#include <string_view>

namespace tare {

// Tags with the names of their attributes ("td class"), and whatever a link leads to outside the page.
inline std::set<std::string> ElementsOf(std::string_view html) {
  std::set<std::string> elements;
  const auto is_name = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == ':'; };
  const auto lower = [](std::string text) {
    for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    return text;
  };
  for (size_t at = 0; (at = html.find('<', at)) != html.npos;) {
    if (html.substr(at).starts_with("<!--")) {
      at = html.find("-->", at);
      continue;
    }
    if (++at == html.size() || std::isalpha(static_cast<unsigned char>(html[at])) == 0)
      continue;  // text, or the end of an element
    const auto word = [&] {
      const size_t begin = at;
      while (at < html.size() && is_name(html[at])) ++at;
      return lower(std::string(html.substr(begin, at - begin)));
    };
    const std::string name = word();
    std::string element = name;
    while (at < html.size() && html[at] != '>') {
      if (!is_name(html[at])) {
        ++at;
        continue;
      }
      const std::string attribute = word();
      element += " " + attribute;
      if (at >= html.size() || html[at] != '=') continue;
      const char quote = html[++at];
      const bool quoted = quote == '"' || quote == '\'';
      const size_t end = quoted ? html.find(quote, ++at) : html.find_first_of(" >", at);
      if (attribute == "href" || attribute == "src")
        element += html[at] == '#' ? "=#" : "=" + std::string(html.substr(at, end - at));
      at = end;
    }
    elements.insert(element);
    if (name == "script" || name == "style") at = html.find("</" + name, at);
  }
  return elements;
}

}  // namespace tare
