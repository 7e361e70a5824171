// SPDX-License-Identifier: Apache-2.0

#include <cmath>
#include <numbers>
#include <utility>

#include "experiments/passes/sequences.h"
#include "experiments/tasks/items/lines.h"
#include "experiments/tasks/perplexity.h"
#include "experiments/text/chat/chat_template.h"
#include "experiments/text/tokenizer/text_to_words.h"
#include "experiments/text/utf8.h"
#include "quant/base/message.h"
#include "quant/file/json.h"

namespace tare {
namespace {

// re.sub(r"\(\s*([^\)]*?)\s*\)", r"(\1)", text) for any pair of marks: no whitespace inside of them.
std::string TightPairs(std::string_view text, char open, char close) {
  std::string tight;
  while (true) {
    const size_t begin = text.find(open), end = begin == text.npos ? begin : text.find(close, begin + 1);
    if (end == std::string_view::npos) return tight.append(text);
    tight.append(text.substr(0, begin + 1)).append(Strip(text.substr(begin + 1, end - begin - 1))).push_back(close);
    text.remove_prefix(end + 1);
  }
}

using Replacement = std::pair<const char*, const char*>;

constexpr Replacement kPunctuation[] = {{" @-@ ", "-"}, {" @,@ ", ","}, {" @.@ ", "."}, {" : ", ": "}, {" ; ", "; "},
                                        {" . ", ". "},  {" ! ", "! "},  {" ? ", "? "},  {" , ", ", "}};
constexpr Replacement kRest[] = {{"= = = =", "===="}, {"= = =", "==="}, {"= =", "=="},  {" \u00b0 ", "\u00b0"},
                                 {" \n", "\n"},       {"\n ", "\n"},    {" N ", " 1 "}, {" 's", "'s"}};

// Documents cut into windows.
struct CutDocuments {
  std::vector<TextDocument> documents;
  std::vector<ScoredSequence> windows;
  std::vector<size_t> counts;  // windows of each document
  int64_t positions = 0;       // of a window
  bool bos = false;
  int32_t prefix = 0;  // the token that predicts a document's first one
  Convention convention = Convention::kTare;
};

int64_t PositionsOf(const WindowOptions& options, const ModelConfig& config) {
  if (options.convention != Convention::kTare && options.convention != Convention::kLmEval)
    FailUsage("--convention: got {} with documents, expected tare or lm-eval; try perplexity=TEXT",
              InfoOf(options.convention).name);
  const int64_t positions = options.window > 0 ? options.window : config.max_positions;
  CheckWindow(positions, 2, config);
  return positions;
}

CutDocuments Cut(const std::filesystem::path& file, const Model& model, const WindowOptions& options) {
  const Tokenizer tokenizer = Tokenizer::Load(model.folder());
  const std::optional<int32_t> bos = tokenizer.bos();
  const int32_t prefix = PrefixToken(bos, model);
  const bool whole = options.convention == Convention::kLmEval;  // every token of a window is scored, and `<s>` too
  ChatTemplate chats(model.folder());
  CutDocuments cut{
      .documents = LoadLines<ParseDocument>(file, static_cast<size_t>(options.limit), options.Part(), chats),
      .positions = PositionsOf(options, model.config()),
      .bos = bos.has_value(),
      .prefix = prefix,
      .convention = options.convention};
  for (const TextDocument& document : cut.documents) {
    std::vector<int32_t> tokens = TokensOf(document, tokenizer, model.config().vocabulary);
    if (whole && bos) tokens.insert(tokens.begin(), *bos);
    std::vector<ScoredSequence> windows =
        RollingWindows(tokens, prefix, static_cast<size_t>(cut.positions - (whole ? 0 : 1)));
    for (ScoredSequence& window : windows) window.only_predicted = whole ? 1 : 0;
    cut.windows.insert(cut.windows.end(), windows.begin(), windows.end());
    cut.counts.push_back(windows.size());
  }
  return cut;
}

TaskResult Measured(const CutDocuments& cut, const Json& perplexity) {
  const auto of_windows = perplexity.at("window_losses").get<std::vector<double>>();
  TaskResult result;
  std::vector<double> losses, words, bytes;
  size_t window = 0;
  double total = 0, all_words = 0, all_bytes = 0;
  for (size_t d = 0; d < cut.documents.size(); ++d) {
    double loss = 0;
    for (size_t i = 0; i < cut.counts[d]; ++i) loss += of_windows[window++];
    const TextDocument& document = cut.documents[d];
    losses.push_back(loss);
    words.push_back(static_cast<double>(document.words));
    bytes.push_back(static_cast<double>(document.bytes));
    total += loss, all_words += words.back(), all_bytes += bytes.back();
    result.records.push_back(
        {{"line", document.line}, {"log_likelihood", -loss}, {"words", document.words}, {"bytes", document.bytes}});
  }
  std::vector<double> bits;
  for (const double loss : losses) bits.push_back(loss / std::numbers::ln2);
  result.figures = {{"word_perplexity", std::exp(total / all_words)},
                    {"byte_perplexity", std::exp(total / all_bytes)},
                    {"bits_per_byte", total / all_bytes / std::numbers::ln2},
                    {"documents", cut.documents.size()},
                    {"tokens", perplexity.at("tokens")},
                    {"document_losses", losses},
                    {"document_bits", bits},
                    {"document_words", words},
                    {"document_bytes", bytes},
                    {"windows", cut.windows.size()},
                    {"window", cut.positions},
                    {"bos", cut.bos},
                    {"prefix_token", cut.prefix}};
  if (cut.convention != Convention::kTare) result.figures["convention"] = InfoOf(cut.convention).name;
  return result;
}

RunTask ReadDocuments(const std::filesystem::path& file, const Model& of, const TaskOptions& options) {
  CutDocuments cut = Cut(file, of, options.windows);
  const TaskSize size = SizeOf(cut.windows);
  auto body = [cut = std::move(cut)](Model& model, PlanRun& run, const Progress& progress) {
    const TaskResult perplexity =
        MeasurePerplexity(model, run.Begin(model, progress), cut.windows, run.cache(), progress);
    return Measured(cut, perplexity.figures);
  };
  return {std::move(body), size};
}

Json DocumentsConvention(const WindowOptions& windows) {
  if (windows.convention != Convention::kTare) return RulesOf(windows);
  return {{"window", windows.window},
          {"convention", "each document by itself, in the windows of lm-evaluation-harness's loglikelihood_rolling"}};
}

std::string HowDocuments(const Json& result) {
  return Formatted(
      "{}, each by itself after {}, in windows of {}{}: {} scored", Counted(result.at("documents"), "document"),
      result.at("bos").get<bool>() ? "<s>" : "token " + result.at("prefix_token").dump(), result.at("window").dump(),
      result.contains("convention") ? " by the convention of lm-eval" : "", Counted(result.at("tokens"), "token"));
}

constexpr FigureKeys kDocumentsFigures[] = {
    {.name = "word_perplexity",
     .windows = OfSamples("document_losses", "document_words"),
     .of_mean = OfMean::kExponential},
    {.name = "byte_perplexity",
     .windows = OfSamples("document_losses", "document_bytes"),
     .of_mean = OfMean::kExponential},
    {.name = "bits_per_byte", .windows = OfSamples("document_bits", "document_bytes"), .in_tables = nullptr}};

}  // namespace

std::string DetokenizeWikitext(std::string_view page) {
  const auto quoted_digit = pipeline::Pattern::Regex("/' [0-9]/", "wikitext");
  std::string text = quoted_digit.Replaced(Replaced(page, "s '", "s'"), "/'[0-9]/");
  for (const auto& [from, to] : kPunctuation) text = Replaced(text, from, to);
  for (const char* pair : {"()", "[]", "{}", "\"\"", "''"}) text = TightPairs(text, pair[0], pair[1]);
  for (const auto& [from, to] : kRest) text = Replaced(text, from, to);
  return text;
}

TextDocument ParseDocument(std::string_view line, const std::string& where, ChatTemplate& chats) {
  const nlohmann::json json = ParseObject(line, where, "\"page\", \"text\" or \"messages\"");
  const bool logged = IsHarnessLog(json);
  const nlohmann::json& fields = logged ? json["doc"] : json;
  TextDocument document{.text = {}, .where = where};
  std::string contents;
  const std::string* counted = &document.text;
  if (fields.is_object() && fields.contains("page")) counted = &StringField(fields, "page", where);
  if (logged) {
    const std::vector<std::vector<std::string>> requests = LoggedArguments(json, where);
    if (requests.size() != 1 || requests[0].size() != 1)
      Fail("{}: \"arguments\": got {} of {}, expected one text; try {}=FILE", where, requests.size(),
           requests[0].size(), requests.size() == 1 ? "loglikelihood" : "choice");
    document.text = requests[0][0];
  } else if (json.contains("messages")) {
    if (json.contains("text")) Fail("{}: got \"text\" and \"messages\", expected one of them", where);
    document.text = chats.Text(ParseOrderedJson(line, where), ChatEnd::kWhole, where);
    const auto add = [&](const nlohmann::json& words) {
      if (words.is_string()) contents += (contents.empty() ? "" : "\n") + words.get<std::string>();
    };
    for (const nlohmann::json& message : json["messages"]) {
      const nlohmann::json content = message.value("content", nlohmann::json());
      add(content);
      for (const nlohmann::json& part : content.is_array() ? content : nlohmann::json::array())
        add(part.is_object() ? part.value("text", nlohmann::json()) : part);
    }
    counted = &contents;
  } else {
    document.text = counted == &document.text ? StringField(json, "text", where) : DetokenizeWikitext(*counted);
  }
  if (Strip(*counted).empty()) Fail("{}: got an empty document, expected text", where);
  document.words = CountWords(*counted);
  document.bytes = counted->size();
  return document;
}

std::vector<int32_t> TokensOf(const TextDocument& document, const Tokenizer& tokenizer, int vocabulary) {
  std::vector<int32_t> tokens = tokenizer.EncodeAfterBos(document.text);
  if (tokens.empty()) Fail("{}: got a document without a token, expected text", document.where);
  RequireRows(tokens, vocabulary, document.where);
  return tokens;
}

constexpr TaskKind kDocumentsTask{.name = "documents",
                                  .file = "DOCUMENTS.jsonl",
                                  .what = "perplexity of words and bytes of documents",
                                  .read = ReadDocuments,
                                  .figures = kDocumentsFigures,
                                  .convention = DocumentsConvention,
                                  .how = HowDocuments,
                                  .of_documents = true};

}  // namespace tare
