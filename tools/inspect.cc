// SPDX-License-Identifier: Apache-2.0
// tare inspect: describes a checkpoint.
#include <algorithm>
#include <map>
#include <memory>
#include <utility>

#include "experiments/model/model.h"
#include "experiments/model/stored_size.h"
#include "experiments/text/grammar.h"
#include "experiments/text/tokenizer/tokenizer.h"
#include "quant/base/formatted.h"
#include "quant/file/json_value.h"
#include "quant/format/hadamard.h"
#include "tools/command.h"
#include "tools/files.h"
#include "tools/help.h"

namespace tare {
namespace {

struct InspectArguments {
  std::string model, json;
  bool check = false;
  MachineOptions machine;
};

// "int4+full/group32", as integer kernels read another tool's codes; null where they are dequantized.
Json ExecutedAs(const ForeignMatrix& m) {
  if (!WeightMatrix(&m).HasIntegers()) return nullptr;
  const IntegerForm form = *m.integers();
  const std::string of_scale = form.group == m.in() ? "channel" : Formatted("group{}", form.group);
  return Formatted("{}/{}", Info(form.format).name, of_scale);
}

// The tensors by type, and those in codes one by one.
struct Stored {
  std::map<std::string, uint64_t> by_type;
  Json quantized = Json::array(), foreign = Json::array();
};
Stored StoredIn(const Model& model) {
  Stored all;
  for (const std::string& name : model.files().names()) {
    if (const QuantizedMatrix* m = model.files().FindQuantized(name)) {
      const auto values = static_cast<uint64_t>(m->out * m->in);
      const uint64_t stored = m->Bytes();
      all.by_type[std::string(Info(m->format).name)] += values;
      all.quantized.push_back({{"tensor", name},
                               {"format", Info(m->format).name},
                               {"group", m->group},
                               {"hadamard", m->rotation == nullptr ? Json() : Json(m->rotation->run())},
                               {"bytes", stored},
                               {"bits_per_weight", 8.0 * static_cast<double>(stored) / static_cast<double>(values)}});
      continue;
    }
    if (const ForeignMatrix* m = model.files().FindForeign(name)) {
      const int64_t values = m->out() * m->in();
      all.by_type[m->scheme()] += static_cast<uint64_t>(values);
      if (!m->HasCodes()) continue;
      all.foreign.push_back({{"tensor", name},
                             {"scheme", m->scheme()},
                             {"bytes", m->bytes()},
                             {"bits_per_weight", 8.0 * static_cast<double>(m->bytes()) / static_cast<double>(values)},
                             {"executed_as", ExecutedAs(*m)}});
      continue;
    }
    const TensorView& tensor = *model.files().Find(name);
    all.by_type[std::string(Name(tensor.dtype))] += tensor.elements();
  }
  return all;
}

std::vector<size_t> UnrotatedLayers(const ModelConfig& c) {
  std::vector<size_t> layers;
  for (size_t layer = 0; layer < c.unrotated.size(); ++layer)
    if (c.unrotated[layer]) layers.push_back(layer);
  return layers;
}

Json Describe(const Model& model) {
  const ModelConfig& c = model.config();
  const Stored stored = StoredIn(model);
  const StoredSize size = StoredSizeOf(model.files());
  Json json{{"schema", "tare.inspect/1"},
            {"model", model.Name()},
            {"family", c.family},
            {"parameters", size.values},
            {"bytes", size.bytes},
            {"stored", stored.by_type},
            {"vocabulary", c.vocabulary},
            {"hidden", c.hidden},
            {"ffn", c.ffn},
            {"layers", c.layers},
            {"heads", c.heads},
            {"kv_heads", c.kv_heads},
            {"head_dim", c.head_dim},
            {"max_positions", c.max_positions},
            {"tied_embeddings", c.tied_embeddings}};
  if (c.projection > 0) json["projection"] = c.projection;
  if (c.SeesImages()) json.update({{"image_size", c.image_size}, {"patch_size", c.patch_size}});
  if (!c.windows.empty()) json["windows"] = c.windows;
  for (int layer = 0; !c.kinds.empty() && layer < c.layers; ++layer) json["kinds"].push_back(KindText(c, layer));
  if (c.scan_channels > 0)
    json["scan"] = {
        {"channels", c.scan_channels}, {"states", c.scan_states}, {"rank", c.scan_rank}, {"taps", c.scan_taps}};
  if (const RotaryConfig& r = c.rotary; c.rotates && (r.type != RotaryConfig::Type::kDefault || r.share != 1))
    json["rotary"] = {{"type", Name(r.type)}, {"share", r.share}};
  for (const size_t layer : UnrotatedLayers(c)) json["unrotated"].push_back(layer);
  if (c.sinks) json["sinks"] = true;
  if (c.experts > 0) json["experts"] = {{"count", c.experts}, {"chosen", c.chosen_experts}};
  if (c.qk_norm) json["qk_norm"] = true;
  if (c.gate != OutputGate::kNone) json["gate"] = c.gate == OutputGate::kPerHead ? "head" : "value";
  if (const QuantizedCheckpoint* file = model.files().quantized()) {
    const Provenance& p = file->provenance();
    json["plan"] = p.plan;
    json["method"] = p.method;
    json["source"] = p.source;
    json["source_sha256"] = p.source_sha256;
    json["quantized"] = stored.quantized;
  }
  if (!stored.foreign.empty()) {
    SchemeTotals all;
    for (const auto& [scheme, totals] : model.files().schemes()) {
      json["schemes"][scheme] = {{"matrices", totals.matrices},
                                 {"values", totals.values},
                                 {"bytes", totals.bytes},
                                 {"bits_per_weight", totals.BitsPerWeight()}};
      all.values += totals.values;
      all.bytes += totals.bytes;
    }
    json["bits_per_weight"] = all.BitsPerWeight();
    json["foreign"] = stored.foreign;
    json["notes"] = model.files().notes();
  }
  if (const std::vector<std::string> names = TokenizersOf(model.folder()); !names.empty()) json["tokenizers"] = names;
  for (int index = 0; index < c.layers; ++index) {
    const LayerWeights& layer = model.layers()[static_cast<size_t>(index)];
    if (layer.lambda.empty()) continue;
    Json lambda{{"lambda", layer.lambda.front()}};
    if (!c.kinds.empty()) lambda["layer"] = index;                 // elsewhere all layers have one
    if (layer.lambda.size() > 1) lambda["lambda"] = layer.lambda;  // an output head each
    if (layer.lambda_init) lambda["lambda_init"] = *layer.lambda_init;
    json["lambda"].push_back(lambda);
  }
  return json;
}

// A list of values is spelled out where the file's formats are counted, and shortened here.
std::string Short(const std::string& format) {
  if (!format.starts_with(kGridMark)) return format;
  return Formatted("grid of {}", std::ranges::count(format, ' ') + 1);
}

// Matrices in the order of their first, those of a layer's experts together where all else is equal: their names with *
// for the number, their bytes added.
Json ExpertsTogether(const Json& matrices) {
  Json rows = Json::array();
  std::map<std::pair<std::string, Json>, size_t> at;
  for (const Json& m : matrices) {
    Json row = m, rest = m;
    std::string name = m["tensor"].get<std::string>();
    constexpr std::string_view kExperts = ".experts.";
    if (const size_t begin = name.find(kExperts); begin != name.npos) {
      const size_t number = begin + kExperts.size(), end = name.find('.', number);
      name.replace(number, end == name.npos ? end : end - number, "*");
    }
    row["tensor"] = name;
    rest.erase("tensor");
    const auto [found, added] = at.try_emplace({name, rest}, rows.size());
    if (added) {
      rows.push_back(row);
    } else {
      rows[found->second]["bytes"] = rows[found->second]["bytes"].get<uint64_t>() + m["bytes"].get<uint64_t>();
    }
  }
  return rows;
}

void PrintQuantized(const Json& j) {
  PrintLine("  quantized from {}, method {}", j["source"].get<std::string>(), j["method"].get<std::string>());
  PrintLine("  plan {}", j["plan"].get<std::string>());
  PrintLine("  {:<44} {:<9} {:>6} {:>10} {:>5}", "matrix", "format", "group", "bytes", "bits");
  for (const Json& m : ExpertsTogether(j["quantized"])) {
    PrintLine("  {:<44} {:<9} {:>6} {:>10} {:>5.2f}", m["tensor"].get<std::string>(),
              Short(m["format"].get<std::string>()), m["group"].get<int64_t>(), m["bytes"].get<uint64_t>(),
              m["bits_per_weight"].get<double>());
  }
}

// Lines of at most 80 columns, broken at blanks.
void PrintNote(std::string_view note) {
  constexpr size_t kWidth = 76;
  for (const char* indent = "  "; !note.empty(); indent = "    ") {
    const size_t blank = note.size() <= kWidth ? note.npos : note.rfind(' ', kWidth);
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

void PrintForeign(const Json& j) {
  for (const auto& [scheme, totals] : j["schemes"].items())
    PrintNote(Formatted("quantized as {}: {}, {:.2f} bits per weight{}", scheme,
                        Counted(totals["matrices"].get<int64_t>(), "tensor"), totals["bits_per_weight"].get<double>(),
                        ExecutedText(j["foreign"], scheme)));
  for (const Json& note : j["notes"]) PrintNote(note.get<std::string>());
  PrintLine("  quantized weights together: {:.2f} bits per weight", j["bits_per_weight"].get<double>());
  PrintLine("  {:<42} {:<18} {:>10} {:>5}", "matrix", "scheme", "bytes", "bits");
  for (const Json& m : ExpertsTogether(j["foreign"])) {
    const std::string scheme = m["scheme"].get<std::string>();  // "TOOL FORMAT"
    PrintLine("  {:<42} {:<18} {:>10} {:>5.2f}", m["tensor"].get<std::string>(), scheme.substr(scheme.find(' ') + 1),
              m["bytes"].get<int64_t>(), m["bits_per_weight"].get<double>());
  }
}

void PrintAttention(const ModelConfig& c) {
  if (const auto all = std::ranges::count(c.windows, 0), windowed = std::ssize(c.windows) - all; windowed > 0)
    PrintLine("  a query sees at most {} keys in {} of {} layers", std::ranges::max(c.windows), windowed, c.layers);
  if (!c.kinds.empty()) {
    std::map<std::string, std::vector<size_t>> kinds;
    for (int layer = 0; layer < c.layers; ++layer) kinds[KindText(c, layer)].push_back(static_cast<size_t>(layer));
    for (const auto& [kind, layers] : kinds) PrintLine("  {} layers: {}", kind, RangesText(layers));
    PrintLine("  scans of {} channels with {} states, rank {}, {} taps", c.scan_channels, c.scan_states, c.scan_rank,
              c.scan_taps);
  }
  if (c.rotates && c.rotary.type != RotaryConfig::Type::kDefault)
    PrintLine("  rotary positions scaled by {}", Name(c.rotary.type));
  if (c.rotates && c.rotary.share != 1)
    PrintLine("  rotary positions of {} of the {} channels of a head", c.rotary.Channels(c.head_dim), c.head_dim);
  if (const std::vector<size_t> layers = UnrotatedLayers(c); !layers.empty())
    PrintLine("  no rotary positions in layers {}", RangesText(layers));
  if (c.sinks) PrintLine("  a learned sink for each query head");
  if (c.experts > 0) PrintLine("  {} of {} experts for each token", c.chosen_experts, c.experts);
  if (c.qk_norm) PrintLine("  norms on queries and keys");
  if (c.gate != OutputGate::kNone)
    PrintLine("  a sigmoid gate on attention's output, one per {}", c.gate == OutputGate::kPerHead ? "head" : "value");
}

void PrintInput(const ModelConfig& c, const std::vector<std::string>& names) {
  if (c.SeesImages()) {
    PrintLine("  input is images of 3 x {0} x {0} in patches of {1} x {1}", c.image_size, c.patch_size);
    return;
  }
  if (names.empty()) PrintLine("  no tokenizer: input must be ids");
  if (names.size() == 1) PrintLine("  texts are read by {}", names[0]);
  if (names.size() > 1) PrintLine("  texts are read by {}, as transformers does; not by {}", names[0], names[1]);
}

void Print(const Model& model, const Json& j) {
  const ModelConfig& c = model.config();
  PrintLine("{}: {}, {} parameters, {}", j["model"].get<std::string>(), j["family"].get<std::string>(),
            j["parameters"].get<uint64_t>(), SizeText(j["bytes"].get<int64_t>()));
  for (const auto& [type, count] : j["stored"].items())
    PrintLine("  stored as {:<6} {} values", type, count.get<uint64_t>());
  PrintLine("  layers {}, hidden {}, FFN {}{}{}{}", c.layers, c.hidden, c.ffn,
            c.SeesImages() ? "" : Formatted(", vocabulary {}", c.vocabulary), c.tied_embeddings ? " (tied)" : "",
            c.projection > 0 ? Formatted(", projection {}", c.projection) : "");
  PrintLine("  softmax maps per layer {}, key/value heads {}, head width {}, positions {}", j["heads"].get<int>(),
            j["kv_heads"].get<int>(), j["head_dim"].get<int>(), j["max_positions"].get<int>());
  PrintAttention(c);
  PrintInput(c, j.value("tokenizers", std::vector<std::string>()));
  if (j.contains("quantized")) PrintQuantized(j);
  if (j.contains("foreign")) PrintForeign(j);
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

}  // namespace

void AddInspect(CLI::App& app) {
  auto options = std::make_shared<InspectArguments>();
  CLI::App* command =
      app.add_subcommand("inspect", "show a checkpoint: family, shapes, parameters, bytes; lambda of every layer");
  command
      ->add_option("MODEL", options->model,
                   "checkpoint folder (also of other tools), quantized checkpoint or GGUF file")
      ->required();
  command->add_option("--json", options->json, "write JSON to a file, or - for standard output");
  command->add_flag("--check", options->check,
                    "read every weight and refuse what is not finite; without it, only names, types and shapes are "
                    "checked and weights are not read");
  options->machine.AddThreadsTo(*command);
  command->footer(Examples({"tare inspect experiments/pair/novels-differential", "tare inspect Q.h5 --json -",
                            "tare inspect experiments/pair/novels-differential --check"}));
  command->callback([options] {
    const std::vector<AtomicFile> claims = ClaimFiles({options->model}, {options->json});
    const Model model(options->model, options->check ? WeightReading::kWhole : WeightReading::kShapes,
                      options->machine.Apply());
    Json json = Describe(model);
    json["checked"] = options->check;
    if (PrintsTables(options->json)) {
      Print(model, json);
      if (options->check) PrintLine("\n  checked: every weight is finite");
    }
    WriteJson(options->json, json);
  });
}

}  // namespace tare
