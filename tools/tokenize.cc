// SPDX-License-Identifier: Apache-2.0
// tare tokenize: the ids and pieces that a checkpoint's tokenizer makes of one or more texts.
#include "experiments/text/tokenizer/tokenizer.h"
#include "experiments/text/utf8.h"
#include "quant/file/mapped_file.h"
#include "tools/command.h"

namespace tare {
namespace {

struct TokenizeArguments {
  std::string model, input, out = "-";
  bool no_special = false;
};

// Where the lines go: a text is long, and its pieces take several times its memory.
class TokenLines {
 public:
  // The claimed file; none: standard output.
  explicit TokenLines(std::vector<AtomicFile>& claims) : file_(claims.empty() ? nullptr : &claims.front()) {}

  void Write(std::string_view text) {
    waiting_ += text;
    if (waiting_.size() >= kAtOnce) Pass();
  }
  void Commit() {
    Pass();
    if (file_ != nullptr) file_->Commit();
  }

 private:
  static constexpr size_t kAtOnce = 1 << 16;

  void Pass() {
    ThrowIfStopped();
    file_ != nullptr ? file_->Write(waiting_) : PutText(waiting_);
    waiting_.clear();
  }

  AtomicFile* file_;
  std::string waiting_;
};

// The text of JsonText(Json{{"ids", ids}, {"pieces", pieces}}), without the JSON of all of them in memory.
void WriteLine(const Tokenizer& tokenizer, std::string_view text, bool special, TokenLines& out) {
  std::vector<int32_t> ids = tokenizer.Encode(text);
  if (special) {
    const std::vector<int32_t> after = tokenizer.after();
    ids.insert(ids.begin(), tokenizer.before().begin(), tokenizer.before().end());
    ids.insert(ids.end(), after.begin(), after.end());
  }
  const auto list = [&](const auto& entry) {
    for (size_t i = 0; i < ids.size(); ++i) {
      if (i > 0) out.Write(",");
      out.Write(entry(ids[i]));
    }
  };
  out.Write("{\"ids\":[");
  list([](int32_t id) { return std::to_string(id); });
  out.Write("],\"pieces\":[");
  list([&](int32_t id) { return JsonText(Json(tokenizer.Piece(id))); });
  out.Write("]}\n");
}

// {"text": "..."}
std::string TextOf(std::string_view line, const std::string& where) {
  const nlohmann::json json = ParseJson(line, where);
  if (!json.is_object() || !json.contains("text") || !json["text"].is_string())
    Fail("{}: got {}, expected an object with a string \"text\"", where, std::string(line.substr(0, 80)));
  return json["text"].get<std::string>();
}

void WriteLines(const Tokenizer& tokenizer, const TokenizeArguments& options, TokenLines& out) {
  const MappedFile file(options.input);
  const std::string_view text = file.text();
  RequireUtf8(text, options.input);
  if (!options.input.ends_with(".jsonl")) return WriteLine(tokenizer, text, !options.no_special, out);
  size_t number = 0;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    const std::string where = Formatted("{}: line {}", options.input, ++number);
    const std::string_view line = text.substr(at, end - at);
    at = end + 1;
    if (line.find_first_not_of(" \t\r") == line.npos) continue;
    WriteLine(tokenizer, TextOf(line, where), !options.no_special, out);
  }
}

void Run(const TokenizeArguments& options) {
  std::vector<AtomicFile> claims = ClaimFiles({options.model, options.input}, {{options.out, "\"ids\":["}});
  TokenLines out(claims);
  WriteLines(Tokenizer::LoadFile(options.model), options, out);
  out.Commit();
}

}  // namespace

void AddTokenize(CLI::App& app) {
  const auto [command, options] =
      NewCommand<TokenizeArguments>(app, "tokenize", "show the IDs and tokens that a tokenizer makes of a text", Run);
  AddModel(command, options.model);
  Add(command, "--input FILE", options.input, "a text, or .jsonl with {\"text\": ...} per line")->required();
  command.add_flag("--no-special", options.no_special, "without the special tokens around a text");
  Add(command, "--out FILE", options.out, "JSON lines with \"ids\" and \"pieces\"; -: to standard output");
  command.footer(Examples(
      {"tare tokenize experiments/pair/novels-standard --input experiments/pair/heldout.txt --out ids.jsonl",
       "tare tokenize experiments/pair/novels-standard --input experiments/pair/needles-4.jsonl --out items.jsonl"}));
}

}  // namespace tare
