// SPDX-License-Identifier: Apache-2.0
// tare inspect describes a checkpoint; verify checks whether a file is intact; tokenize shows ids and pieces of texts.
#include <utility>

#include "experiments/model/model.h"
#include "experiments/observe/description.h"
#include "experiments/tasks/items/lines.h"
#include "experiments/text/tokenizer/tokenizer.h"
#include "experiments/text/utf8.h"
#include "quant/file/mapped_file.h"
#include "quant/file/quantized_checkpoint.h"
#include "tools/command.h"

namespace tare {
namespace {

// ---- inspect, verify

struct InspectArguments {
  std::string model, json;
  bool check = false;
  Together matrices = Together::kLayers;
  MachineOptions machine;
};

struct VerifyArguments {
  std::string file, json;
};

// A list of values is spelled out where the file's formats are counted, and shortened here.
std::string Short(const std::string& format) {
  if (!format.starts_with(kGridMark)) return format;
  return Formatted("grid of {}", std::ranges::count(format, ' ') + 1);
}

void PrintQuantized(const Json& j, Together what) {
  PrintLine("  quantized from {}, method {}", j["source"].get<std::string>(), j["method"].get<std::string>());
  PrintLine("  plan {}", j["plan"].get<std::string>());
  PrintLine("  {:<39} {:>4} {:<9} {:>6} {:>10} {:>5}", "matrix", "n", "format", "group", "bytes", "bits");
  for (const Json& m : MatricesOf(j["quantized"], what)) {
    PrintLine("  {:<39} {:>4} {:<9} {:>6} {:>10} {:>5.2f}", m["tensor"].get<std::string>(), m["count"].get<int64_t>(),
              Short(m["format"].get<std::string>()), m["group"].get<int64_t>(), m["bytes"].get<uint64_t>(),
              m["bits_per_weight"].get<double>());
  }
}

// Lines of at most 80 columns, broken at blanks.
void PrintNote(std::string_view note) {
  constexpr size_t kNoteWidth = 76;
  for (const char* indent = "  "; !note.empty(); indent = "    ") {
    const size_t blank = note.size() <= kNoteWidth ? note.npos : note.rfind(' ', kNoteWidth);
    PrintLine("{}{}", indent, note.substr(0, blank));
    note.remove_prefix(blank == note.npos ? note.size() : blank + 1);
  }
}

// "; executed as int4+full/group32", with numbers where a scheme's matrices differ.
std::string ExecutedText(const Json& foreign, const std::string& scheme) {
  std::map<std::string, int64_t> count;
  for (const Json& m : foreign) {
    if (m["scheme"] == scheme) ++count[m["executed_as"].is_null() ? "" : m["executed_as"].get<std::string>()];
  }
  std::string text;
  for (const auto& [form, matrices] : count) {
    const std::string how = form.empty() ? "dequantized to be executed" : "executed as " + form;
    text += count.size() == 1 ? "; " + how : Formatted("; {} {}", matrices, how);
  }
  return text;
}

void PrintForeign(const Json& j, Together what) {
  for (const auto& [scheme, totals] : j["schemes"].items())
    PrintNote(Formatted("quantized as {}: {}, {:.2f} bits per weight{}", scheme,
                        Counted(totals["matrices"].get<int64_t>(), "tensor"), totals["bits_per_weight"].get<double>(),
                        ExecutedText(j["foreign"], scheme)));
  for (const Json& note : j["notes"]) PrintNote(note.get<std::string>());
  PrintLine("  quantized weights together: {:.2f} bits per weight", j["bits_per_weight"].get<double>());
  PrintLine("  {:<38} {:>4} {:<17} {:>10} {:>5}", "matrix", "n", "scheme", "bytes", "bits");
  for (const Json& m : MatricesOf(j["foreign"], what)) {
    const std::string scheme = m["scheme"].get<std::string>();  // "TOOL FORMAT"
    PrintLine("  {:<38} {:>4} {:<17} {:>10} {:>5.2f}", m["tensor"].get<std::string>(), m["count"].get<int64_t>(),
              scheme.substr(scheme.find(' ') + 1), m["bytes"].get<int64_t>(), m["bits_per_weight"].get<double>());
  }
}

void PrintAttention(const ModelConfig& c, const Json& j) {
  if (const auto all = std::ranges::count(c.windows, 0), windowed = std::ssize(c.windows) - all; windowed > 0)
    PrintLine("  a query sees at most {} keys in {} of {} layers", std::ranges::max(c.windows), windowed, c.layers);
  if (!c.kinds.empty()) {
    std::map<std::string, std::vector<size_t>> kinds;
    for (int layer = 0; layer < c.layers; ++layer) kinds[KindText(c, layer)].push_back(static_cast<size_t>(layer));
    for (const auto& [kind, layers] : kinds) PrintLine("  {} layers: {}", kind, RangesText(layers));
    const std::string parts = c.scan_heads > 0 ? Formatted("heads {}, groups {}", c.scan_heads, c.scan_groups)
                                               : Formatted("rank {}", c.scan_rank);
    PrintLine("  scans of {} channels with {} states, {}, {} taps", c.scan_channels, c.scan_states, parts, c.scan_taps);
  }
  if (c.rotates && c.rotary.type != RotaryConfig::Type::kDefault)
    PrintLine("  rotary positions scaled by {}", Name(c.rotary.type));
  if (c.rotates && c.rotary.share != 1)
    PrintLine("  rotary positions of {} of the {} channels of a head", c.rotary.Channels(c.head_dim), c.head_dim);
  if (c.kv_rank > 0)
    PrintLine("  queries from latents of {}, keys and values from latents of {}; values of {} channels", c.q_rank,
              c.kv_rank, c.ValueDim());
  if (c.streams > 1) PrintLine("  {} residual streams, mixed in each layer", c.streams);
  if (const auto layers = j.value("unrotated", std::vector<size_t>()); !layers.empty())
    PrintLine("  no rotary positions in layers {}", RangesText(layers));
  if (c.row_weights == RowWeights::kSoftpick) PrintLine("  softpick in place of the softmax");
  if (c.sinks) PrintLine("  a learned sink for each query head");
  if (c.experts > 0)
    PrintLine("  {} of {} experts for each token{}", c.chosen_experts, c.experts,
              c.shared_ffn > 0 ? ", and one that all pass" : "");
  if (!c.dense.empty())
    PrintLine("  no experts in layers {}", RangesText(j["experts"]["without"].get<std::vector<size_t>>()));
  if (c.qk_norm) PrintLine("  norms on queries and keys");
  if (c.gate != OutputGate::kNone)
    PrintLine("  a sigmoid gate on attention's output, one per {}", c.gate == OutputGate::kPerHead ? "head" : "value");
}

void PrintInput(const ModelConfig& c, const std::vector<std::string>& names) {
  if (c.SeesImages()) {
    PrintLine("  input is images of 3 x {0} x {0} in patches of {1} x {1}{2}", c.image_size, c.patch_size,
              c.registers > 0 ? ", after " + Counted(c.registers, "register") : "");
    return;
  }
  if (names.empty()) PrintLine("  no tokenizer: input must be ids");
  if (names.size() == 1) PrintLine("  texts are read by {}", names[0]);
  if (names.size() > 1) PrintLine("  texts are read by {}, as transformers does; not by {}", names[0], names[1]);
}

void Print(const Model& model, const Json& j, Together matrices) {
  const ModelConfig& c = model.config();
  PrintLine("{}: {}, {} parameters, {}", j["model"].get<std::string>(), j["family"].get<std::string>(),
            j["parameters"].get<uint64_t>(), SizeText(j["bytes"].get<int64_t>()));
  for (const auto& [type, count] : j["stored"].items())
    PrintLine("  stored as {:<6} {} values", type, count.get<uint64_t>());
  PrintLine("  layers {}, hidden {}, FFN {}{}{}{}", c.layers, c.hidden, c.ffn,
            c.vocabulary == 0 ? "" : Formatted(", {} {}", c.pools ? "classes" : "vocabulary", c.vocabulary),
            c.tied_embeddings ? " (tied)" : "", c.projection > 0 ? Formatted(", projection {}", c.projection) : "");
  if (c.scan_heads == 0)
    PrintLine("  softmax maps per layer {}, key/value heads {}, head width {}, positions {}", j["heads"].get<int>(),
              j["kv_heads"].get<int>(), j["head_dim"].get<int>(), j["max_positions"].get<int>());
  PrintAttention(c, j);
  PrintInput(c, j.value("tokenizers", std::vector<std::string>()));
  if (j.contains("quantized")) PrintQuantized(j, matrices);
  if (j.contains("foreign")) PrintForeign(j, matrices);
  if (Maps(model.config()) == 2)
    PrintLine("  {} differential heads per layer (two maps each)", HeadTable(model.config()).size());
  bool titled = false;
  for (size_t layer = 0; layer < model.layers().size(); ++layer) {
    const LayerWeights& w = model.layers()[layer];
    if (w.lambda.empty()) continue;
    if (!std::exchange(titled, true)) PrintLine("\n  layer   lambda{}", w.lambda_init ? "  lambda_init" : "");
    PrintText("  {:>5}", layer);
    for (const float lambda : w.lambda) PrintText("  {:>7.4f}", lambda);
    PrintLine("{}", w.lambda_init ? Formatted("  {:>11.4f}", *w.lambda_init) : "");
  }
}

void RunInspect(const InspectArguments& options) {
  const std::vector<AtomicFile> claims = ClaimFiles({options.model}, {{options.json, JsonWith("tare.inspect/")}});
  const Model model(options.model, options.check ? WeightReading::kWhole : WeightReading::kShapes,
                    options.machine.Apply());
  Json json = Describe(model);
  json["checked"] = options.check;
  if (PrintsTables(options.json)) {
    Print(model, json, options.matrices);
    if (options.check) PrintLine("\n  checked: every weight is finite");
  }
  WriteJson(options.json, json);
}

void RunVerify(const VerifyArguments& options) {
  const auto& [path, json] = options;
  const std::vector<AtomicFile> claims = ClaimFiles({path}, {{json, JsonWith("tare.verify/")}});
  const Hdf5Reader file(path);
  const std::string schema = file.HasAttribute("", "schema") ? file.StringAttribute("", "schema") : "none";
  {
    ProgressLine line("verify");
    const Progress progress = line.Callback();
    const auto bytes = [&](int64_t done, int64_t total) { progress(done, total, "bytes"); };
    IsQuantizedSchema(schema) ? QuantizedCheckpoint(path).Verify(progress) : file.Verify(bytes);
  }
  const int64_t datasets = std::ssize(file.datasets());
  if (PrintsTables(json)) PrintLine("{}: whole; {}, schema {}", path, Counted(datasets, "dataset"), schema);
  WriteJson(json, {{"schema", "tare.verify/1"}, {"file", path}, {"whole", true}, {"datasets", datasets}});
}

// ---- tokenize

struct TokenizeArguments {
  std::string model, input, out = "-";
  bool no_special = false;
};

// Where the lines go: a text is long, and its pieces take several times its memory.
struct TokenLines {
  static constexpr size_t kAtOnce = 1 << 16;
  AtomicFile* file;  // the claimed one; null: standard output
  std::string waiting = {};

  void Write(std::string_view text) {
    waiting += text;
    if (waiting.size() >= kAtOnce) Pass();
  }
  void Pass() {
    ThrowIfStopped();
    file != nullptr ? file->Write(waiting) : PutText(waiting);
    waiting.clear();
  }
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

void WriteLines(const Tokenizer& tokenizer, const TokenizeArguments& options, TokenLines& out) {
  const auto write = [&](std::string_view text) { WriteLine(tokenizer, text, !options.no_special, out); };
  if (options.input.ends_with(".jsonl"))
    return ForEachLine(options.input, 0, TakeFrom::kStart, [&](const JsonLine& line) {
      write(StringField(ParseObject(line.text, line.where, "a string \"text\""), "text", line.where));
    });
  const MappedFile file(options.input);
  RequireUtf8(file.text(), options.input);
  write(file.text());
}

void RunTokenize(const TokenizeArguments& options) {
  std::vector<AtomicFile> claims = ClaimFiles({options.model, options.input}, {{options.out, "\"ids\":["}});
  TokenLines out{claims.empty() ? nullptr : &claims.front()};
  WriteLines(Tokenizer::LoadFile(options.model), options, out);
  out.Pass();
  if (out.file != nullptr) out.file->Commit();
}

}  // namespace

void AddInspect(CLI::App& app) {
  const auto [command, options] = NewCommand<InspectArguments>(
      app, "inspect", "show a checkpoint: family, shapes, bits per weight, lambda", RunInspect);
  AddModel(command, options.model);
  command.add_flag("--check", options.check, "read every weight, and fail where one is not finite");
  command.add_flag_callback(
      "--all", [&options] { options.matrices = Together::kExperts; },
      "a line for each quantized matrix, not for each kind");
  AddJson(command, options.json);
  options.machine.AddThreadsTo(command);
}

void AddVerify(CLI::App& app) {
  const auto [command, options] =
      NewCommand<VerifyArguments>(app, "verify", "check that an HDF5 file written by Tare is intact", RunVerify);
  Add(command, "FILE", options.file, "dump, statistics or quantized checkpoint")->required();
  AddJson(command, options.json);
  AddQuiet(command);
}

void AddTokenize(CLI::App& app) {
  const auto [command, options] = NewCommand<TokenizeArguments>(
      app, "tokenize", "show the IDs and tokens that a tokenizer makes of a text", RunTokenize);
  AddModel(command, options.model);
  Add(command, "--input FILE", options.input, "a text, or .jsonl with {\"text\": ...} per line")->required();
  command.add_flag("--no-special", options.no_special, "without the special tokens around a text");
  Add(command, "--out FILE", options.out, "JSON lines with \"ids\" and \"pieces\"; -: to standard output");
}

}  // namespace tare
