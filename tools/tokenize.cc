// SPDX-License-Identifier: Apache-2.0
// tare tokenize: the ids and pieces that a checkpoint's tokenizer makes of one or more texts.
#include <memory>

#include "experiments/text/tokenizer/tokenizer.h"
#include "experiments/text/utf8.h"
#include "quant/base/error.h"
#include "quant/base/formatted.h"
#include "quant/base/standard_output.h"
#include "quant/file/atomic_file.h"
#include "quant/file/json_value.h"
#include "quant/file/mapped_file.h"
#include "quant/file/strict_json.h"
#include "tools/command.h"
#include "tools/files.h"
#include "tools/help.h"

namespace tare {
namespace {

struct TokenizeArguments {
  std::string model, input, out;
  bool no_special = false;
};

std::string Line(const Tokenizer& tokenizer, std::string_view text, bool special) {
  std::vector<int32_t> ids = tokenizer.Encode(text);
  if (special) {
    const std::vector<int32_t> after = tokenizer.after();
    ids.insert(ids.begin(), tokenizer.before().begin(), tokenizer.before().end());
    ids.insert(ids.end(), after.begin(), after.end());
  }
  std::vector<std::string> pieces;
  for (const int32_t id : ids) pieces.push_back(tokenizer.Piece(id));
  return JsonText(Json{{"ids", ids}, {"pieces", pieces}}) + "\n";
}

// {"text": "..."}
std::string TextOf(std::string_view line, const std::string& where) {
  const nlohmann::json json = ParseJson(line, where);
  if (!json.is_object() || !json.contains("text") || !json["text"].is_string())
    Fail("{}: got {}, expected an object with a string \"text\"", where, std::string(line.substr(0, 80)));
  return json["text"].get<std::string>();
}

std::string Lines(const Tokenizer& tokenizer, const TokenizeArguments& options) {
  const MappedFile file(options.input);
  const std::string_view text = file.text();
  RequireUtf8(text, options.input);
  if (!options.input.ends_with(".jsonl")) return Line(tokenizer, text, !options.no_special);
  std::string lines;
  size_t number = 0;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    const std::string where = Formatted("{}: line {}", options.input, ++number);
    const std::string_view line = text.substr(at, end - at);
    at = end + 1;
    if (line.find_first_not_of(" \t\r") == line.npos) continue;
    lines += Line(tokenizer, TextOf(line, where), !options.no_special);
  }
  return lines;
}

void Run(const TokenizeArguments& options) {
  const std::vector<AtomicFile> claims = ClaimFiles({options.model, options.input}, {options.out});
  const std::string lines = Lines(Tokenizer::LoadFile(options.model), options);
  if (options.out == "-") {
    PutText(lines);
  } else {
    WriteFileAtomically(options.out, lines);
  }
}

}  // namespace

void AddTokenize(CLI::App& app) {
  auto options = std::make_shared<TokenizeArguments>();
  CLI::App* command =
      app.add_subcommand("tokenize", "show the ids and pieces that a checkpoint's tokenizer makes of a text");
  command
      ->add_option("MODEL", options->model,
                   "checkpoint folder, quantized checkpoint, tokenizer.json or tokenizer.model")
      ->required();
  command->add_option("--input", options->input, "a text, or .jsonl with {\"text\": ...} per line")->required();
  command->add_flag("--no-special", options->no_special, "without the special tokens around a text");
  command
      ->add_option("--out", options->out,
                   "JSON lines {\"ids\": [...], \"pieces\": [...]}, one per text; - for standard output")
      ->capture_default_str();
  options->out = "-";
  command->footer(Examples(
      {"tare tokenize experiments/pair/novels-standard --input experiments/pair/heldout.txt --out ids.jsonl",
       "tare tokenize experiments/pair/novels-standard --input experiments/pair/needles-4.jsonl --out items.jsonl"}));
  command->callback([options] { Run(*options); });
}

}  // namespace tare
