// SPDX-License-Identifier: Apache-2.0
#include "experiments/tasks/items/document_items.h"

#include <utility>

#include "experiments/tasks/items/harness_log.h"
#include "experiments/tasks/items/lines.h"
#include "experiments/text/utf8.h"
#include "quant/base/error.h"
#include "quant/file/json.h"

namespace tare {
namespace {

// re.sub(r"\(\s*([^\)]*?)\s*\)", r"(\1)", text) for any pair of marks: no whitespace inside of them.
std::string TightPairs(std::string_view text, char open, char close) {
  std::string tight;
  while (true) {
    const size_t begin = text.find(open);
    const size_t end = begin == std::string_view::npos ? begin : text.find(close, begin + 1);
    if (end == std::string_view::npos) return tight.append(text);
    tight.append(text.substr(0, begin + 1)).append(Strip(text.substr(begin + 1, end - begin - 1))).push_back(close);
    text.remove_prefix(end + 1);
  }
}

// re.sub(r"/' [0-9]/", r"/'[0-9]/", text)
std::string WithoutDigit(std::string_view text) {
  std::string kept;
  for (size_t at = 0; at < text.size();) {
    const std::string_view here = text.substr(at);
    if (here.size() >= 5 && here.starts_with("/' ") && here[3] >= '0' && here[3] <= '9' && here[4] == '/') {
      kept += "/'[0-9]/";
      at += 5;
    } else {
      kept += text[at++];
    }
  }
  return kept;
}

using Replacement = std::pair<const char*, const char*>;

constexpr Replacement kPunctuation[] = {{" @-@ ", "-"}, {" @,@ ", ","}, {" @.@ ", "."}, {" : ", ": "}, {" ; ", "; "},
                                        {" . ", ". "},  {" ! ", "! "},  {" ? ", "? "},  {" , ", ", "}};
constexpr Replacement kRest[] = {{"= = = =", "===="}, {"= = =", "==="}, {"= =", "=="},  {" \u00b0 ", "\u00b0"},
                                 {" \n", "\n"},       {"\n ", "\n"},    {" N ", " 1 "}, {" 's", "'s"}};

}  // namespace

std::string DetokenizeWikitext(std::string_view page) {
  std::string text = WithoutDigit(Replaced(page, "s '", "s'"));
  for (const auto& [from, to] : kPunctuation) text = Replaced(text, from, to);
  for (const char* pair : {"()", "[]", "{}", "\"\"", "''"}) text = TightPairs(text, pair[0], pair[1]);
  for (const auto& [from, to] : kRest) text = Replaced(text, from, to);
  return text;
}

TextDocument ParseDocument(std::string_view line, const std::string& where) {
  const nlohmann::json json = ParseObject(line, where, "\"page\" or \"text\"");
  const bool logged = IsHarnessLog(json);
  const nlohmann::json& fields = logged ? json["doc"] : json;
  TextDocument document{.text = {}, .where = where};
  const std::string* counted = &document.text;
  if (fields.is_object() && fields.contains("page")) counted = &StringField(fields, "page", where);
  if (logged) {
    const std::vector<std::vector<std::string>> requests = LoggedArguments(json, where);
    if (requests.size() != 1 || requests[0].size() != 1)
      Fail("{}: \"arguments\": got {} of {}, expected one text; try {}=FILE", where, requests.size(),
           requests[0].size(), requests.size() == 1 ? "loglikelihood" : "choice");
    document.text = requests[0][0];
  } else {
    document.text = counted == &document.text ? StringField(json, "text", where) : DetokenizeWikitext(*counted);
  }
  if (Strip(document.text).empty()) Fail("{}: got an empty document, expected text", where);
  document.words = CountWords(*counted);
  document.bytes = counted->size();
  return document;
}

std::vector<TextDocument> LoadDocuments(const std::filesystem::path& path, size_t limit, TakeFrom from) {
  return LoadLines(path, limit, from, ParseDocument);
}

}  // namespace tare
