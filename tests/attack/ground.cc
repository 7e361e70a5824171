// SPDX-License-Identifier: Apache-2.0
#include "tests/attack/ground.h"

#include <sys/stat.h>

#include <stdexcept>

#include "experiments/model/random_checkpoint.h"
#include "tests/quant/file/temporary_folder.h"
#include "tests/support/ids.h"

namespace tare::attack {
namespace {

namespace fs = std::filesystem;

constexpr char kTasks[] = "perplexity=t.txt,choice=items.jsonl";
constexpr char kText[] =
    "It was the best of times, it was the worst of times, it was the age of wisdom, it was the age of foolishness, it "
    "was the epoch of belief, it was the epoch of incredulity.\n";
constexpr char kItems[] =
    "{\"ctx\": \"The magic number of Doha is 6752. The magic number of\", \"endings\": [\"Doha\", \"Oslo\"], "
    "\"label\": 0}\n"
    "{\"ctx\": \"It was the age of foolishness and\", \"endings\": [\"wisdom\", \"foolishness and\"], \"label\": 1, "
    "\"depth\": 0.5}\n";
constexpr char kTemplates[] =
    "{\"needle\": \"{name} {number}.\", \"question\": \" {name}\", \"names\": [\"a\", \"b\"]}\n";
constexpr char kExamples[] =
    "{\"text\": \"a\", \"label\": \"x\"}\n{\"text\": \"b\", \"label\": 1}\n"
    "{\"text\": \"c\", \"label\": 1}\n{\"text\": \"d\", \"label\": \"x\"}\n";
constexpr char kDocuments[] =
    "{\"text\": \"It was the season of Light, it was the season of Darkness.\"}\n"
    "{\"text\": \"It was the spring of hope, it was the winter of despair.\"}\n";
constexpr char kNames[] =
    "{\"names\": {\"model.layers.{}.self_attn.q_proj.weight\": \"model.layers.{}.self_attn.q_proj.weight\"},"
    " \"config\": {\"model_type\": \"diffllama\", \"rotary_layout\": \"interleaved\"}}\n";
constexpr char kSpans[] =
    "{\"sequence\": 0, \"answer\": [[3, 6]], \"noise\": [[1, 3], [6, 12]], \"queries\": [14, 16]}\n"
    "{\"sequence\": 1, \"answer\": [[2, 4]]}\n";

void WriteModel(const fs::path& folder, const std::string& family, const fs::path& tokenizer) {
  ModelConfig config;
  config.family = family;
  config.vocabulary = 340;
  config.hidden = 32;
  config.ffn = 48;
  config.layers = family == "phi4flash" ? 8 : 2;  // one of each kind
  if (family == "gpt_oss") config.experts = 4, config.chosen_experts = 2, config.attention_bias = true;
  config.heads = 4;
  config.kv_heads = 2;
  config.head_dim = 8;
  config.norm_eps = 1e-5f;
  config.max_positions = 64;
  config.bos = 1;
  WriteRandomCheckpoint(folder, config, WeightType::kBf16, 7);
  fs::copy_file(tokenizer, folder / "tokenizer.model");
}

void Make(const fs::path& folder, const std::string& program, Words words) {
  words.insert(words.begin(), program);
  const End end = Process(folder, words).Wait(std::chrono::seconds(120));
  if (end.Done()) return;
  std::string line;
  for (const std::string& word : words) line += word + " ";
  throw std::runtime_error("attack: " + line + "failed: " + end.err);
}

// What an interrupted command leaves: struck again and again, later each time, until it leaves it.
void Leave(const fs::path& folder, const std::string& program, Words words, const std::string& left) {
  words.insert(words.begin(), program);
  for (int tries = 0; tries < 400; ++tries) {
    const std::chrono::microseconds after{1000 * (1 + tries % 100) *
                                          (tries < 200 ? 1 : 10)};  // a sanitized one is slower
    Process(folder, words).Wait(std::chrono::seconds(20), {SIGTERM, after});
    if (fs::exists(folder / left)) return;
    fs::remove(folder / words.back());
  }
  throw std::runtime_error("attack: nothing left " + left + " in 400 tries");
}

}  // namespace

const std::vector<Subject>& Subjects() {
  static const std::vector<Words> model{
      {"inspect", "m", "--json", "-"},
      {"eval", "m", "--tasks", kTasks, "--json", "-"},
      {"eval", "m", "--executed", "--plan", "int8", "--tasks", kTasks, "--json", "-"},
      {"stats", "m", "--input", "t.txt", "--out", "out/s.h5", "--formats", "int4/row"},
      {"quantize", "m", "--plan", "weights=int4/group16", "--method", "gptq", "--calibrate", "i.h5", "--out",
       "out/q.h5"}};
  static const Words foreign{"eval", "o", "--tasks", "perplexity=o/expected.safetensors", "--json", "-"};
  static const std::vector<Words> flash{
      {"inspect", "f", "--json", "-"},
      {"eval", "f", "--tasks", kTasks, "--json", "-"},
      {"eval", "f", "--cache", "cache_k=int8/token", "--tasks", "perplexity=i.h5", "--json", "-"},
      {"stats", "f", "--input", "t.txt", "--out", "out/s.h5"},
      {"quantize", "f", "--plan", "weights=int4/channel", "--out", "out/q.h5"}};
  static const Words pairs{"eval", "b", "--tasks", "perplexity=b/expected.safetensors", "--json", "-"};
  static const std::vector<Words> experts{
      {"inspect", "e", "--json", "-"},
      {"eval", "e", "--tasks", kTasks, "--json", "-"},
      {"eval", "e", "--cache", "cache_k=int8/token", "--tasks", "perplexity=i.h5", "--json", "-"},
      {"stats", "e", "--input", "t.txt", "--out", "out/s.h5"},
      {"quantize", "e", "--plan", "weights=int4/channel", "--out", "out/q.h5"}};
  static const std::vector<Words> images{{"inspect", "d", "--json", "-"},
                                         {"eval", "d", "--tasks", "classify=d/expected.safetensors", "--json", "-"},
                                         {"stats", "d", "--input", "d/expected.safetensors", "--json", "-"}};
  static const Words blocks{"eval", "y", "--tasks", "perplexity=y/expected.safetensors", "--json", "-"};
  static const Words fused{"eval", "l", "--tasks", "perplexity=l/expected.safetensors", "--json", "-"};
  static const std::vector<Words> input{{"eval", "m", "--tasks", "perplexity=i.h5", "--json", "-"},
                                        {"stats", "m", "--input", "i.h5"}};
  static const std::vector<Subject> subjects{
      {"m/config.json", Form::kJson, model},
      {"m/model.safetensors", Form::kSafetensors, model},
      {"f/config.json", Form::kJson, flash},
      {"f/model.safetensors", Form::kSafetensors, flash},
      {"b/config.json", Form::kJson, {pairs}},
      {"b/model.safetensors", Form::kSafetensors, {pairs}},
      {"d/config.json", Form::kJson, images},
      {"d/model.safetensors", Form::kSafetensors, images},
      {"d/expected.safetensors", Form::kSafetensors, images},
      {"e/config.json", Form::kJson, experts},
      {"e/model.safetensors", Form::kSafetensors, experts},
      {"y/config.json", Form::kJson, {blocks}},
      {"y/model.safetensors", Form::kSafetensors, {blocks}},
      {"l/config.json", Form::kJson, {fused}},
      {"l/model.safetensors", Form::kSafetensors, {fused}},
      {"n/tensor-names.json",
       Form::kJson,
       {{"inspect", "n", "--json", "-"}, {"convert", "n", "--to", "diffllama", "--out", "out/n"}}},
      {"m/tokenizer.model", Form::kBinary, {model[1]}},
      {"c/tokenizer.model", Form::kBinary, {{"eval", "c", "--tasks", kTasks, "--json", "-"}}},
      {"g/model.safetensors.index.json", Form::kJson, {{"inspect", "g", "--json", "-"}}},
      {"g/model-00003-of-00006.safetensors", Form::kSafetensors, {{"inspect", "g", "--json", "-"}}},
      {"f.gguf",
       Form::kBinary,
       {{"inspect", "f.gguf", "--json", "-"},
        {"eval", "f.gguf", "--tasks", "perplexity=t.txt", "--json", "-"},
        {"quantize", "f.gguf", "--plan", "weights=int4/channel", "--out", "out/q.h5"},
        {"convert", "f.gguf", "--to", "llama", "--out", "out/f"}}},
      {"e.gguf",
       Form::kBinary,
       {{"inspect", "e.gguf", "--json", "-"},
        {"eval", "e.gguf", "--tasks", "perplexity=t.txt", "--json", "-"},
        {"convert", "e.gguf", "--to", "gguf", "--type", "Q8_0", "--out", "out/e.gguf"}}},
      {"o/config.json", Form::kJson, {{"inspect", "o", "--json", "-"}, foreign}},
      {"o/model.safetensors", Form::kSafetensors, {foreign}},
      {"w/config.json", Form::kJson, {{"inspect", "w", "--json", "-"}}},
      {"w/model.safetensors",
       Form::kSafetensors,
       {{"quantize", "w", "--plan", "weights=int4/group16", "--out", "out/q.h5", "--json", "-"},
        {"eval", "w", "--executed", "--plan", "linear_in=int8/token", "--tasks", "perplexity=w/expected.safetensors",
         "--json", "-"}}},
      {"t.txt", Form::kText, {model[1], {"stats", "m", "--input", "t.txt", "--csv", "out/s.csv"}}},
      {"i.safetensors",
       Form::kSafetensors,
       {{"eval", "m", "--tasks", "perplexity=i.safetensors", "--json", "-"},
        {"dump", "m", "--input", "i.safetensors", "--out", "out/d.h5"}}},
      {"i.h5", Form::kHdf5, input},
      {"items.jsonl",
       Form::kJson,
       {{"eval", "m", "--tasks", "choice=items.jsonl", "--records", "out/r", "--json", "-"},
        {"probe", "items.jsonl", "--json", "-"},
        {"stats", "m", "--input", "items.jsonl", "--out", "out/s.h5"}}},
      {"templates.json",
       Form::kJson,
       {{"make", "needles", "m", "--text", "prose.txt", "--templates", "templates.json", "--needles", "1", "--lengths",
         "64", "--samples", "1", "--answers", "targets", "--out", "out/n.jsonl"}}},
      {"v/expected.safetensors",
       Form::kSafetensors,
       {{"stats", "v", "--input", "v/expected.safetensors", "--json", "-"},
        {"dump", "v", "--input", "v/expected.safetensors", "--sites", "layer_out", "--out", "out/d.h5"}}},
      {"v/config.json", Form::kJson, {{"stats", "v", "--input", "v/expected.safetensors", "--json", "-"}}},
      {"sw/table.json",
       Form::kJson,
       {{"plot", "sw", "--figure", "bits", "--out", "out/b.pdf"},
        {"plot", "sw", "--figure", "bits", "--out", "out/b.svg"}}},
      {"examples.jsonl",
       Form::kJson,
       {{"make", "shots", "--data", "examples.jsonl", "--shots", "2", "--samples", "1", "--out", "out/n.jsonl"}}},
      {"b.kld", Form::kBinary, {{"judge", "b.kld", "b.kld", "--json", "-"}, {"judge", "l.safetensors", "b.kld"}}},
      {"l.safetensors", Form::kSafetensors, {{"judge", "l.safetensors", "l.safetensors", "--json", "-"}}},
      {"c.npz", Form::kBinary, {{"stats", "--tensors", "c.npz", "--json", "-", "--out", "out/s.h5"}}},
      {.file = "d.h5",
       .form = Form::kHdf5,
       .readers = {{"stats", "--tensors", "d.h5", "--json", "-", "--out", "out/s.h5"}},
       .ours = true},
      {"spans.jsonl", Form::kJson, {{"stats", "m", "--input", "i.h5", "--spans", "spans.jsonl", "--out", "out/s.h5"}}},
      {"documents.jsonl",
       Form::kJson,
       {{"quantize", "m", "--plan", "weights=int2/group16", "--method", "gptq:moved", "--calibrate",
         "documents.jsonl:2,t.txt:1", "--cut", "0/2", "--out", "out/q.h5"}}},
      {.file = "q.h5",
       .form = Form::kHdf5,
       .readers = {{"inspect", "q.h5", "--json", "-"},
                   {"verify", "q.h5", "--json", "-"},
                   {"eval", "q.h5", "--tasks", kTasks, "--json", "-"},
                   {"eval", "q.h5", "--executed", "--plan", "linear_in=int8/token", "--tasks", kTasks, "--json", "-"},
                   {"stats", "q.h5", "--input", "i.h5", "--json", "-"}},
       .ours = true},
      {.file = "r.h5",
       .form = Form::kHdf5,
       .readers = {{"verify", "r.h5", "--json", "-"},
                   {"eval", "r.h5", "--tasks", kTasks, "--json", "-"},
                   {"eval", "r.h5", "--executed", "--plan",
                    "linear_in=int8/token+hadamard16,down_proj.in=int8/token,lm_head.in=int8/token", "--tasks",
                    "perplexity=i.h5", "--json", "-"}},
       .ours = true},
      {.file = "s0.h5",
       .form = Form::kHdf5,
       .readers = {{"stats", "show", "s0.h5", "--json", "-"},
                   {"stats", "show", "s0.h5", "--site", "attn_logits", "--json", "-"},
                   {"stats", "merge", "s0.h5", "s1.h5", "--out", "out/merged.h5"},
                   {"stats", "diff", "s0.h5", "s1.h5", "--draws", "20", "--json", "-"}},
       .ours = true},
      {.file = "s.h5",
       .form = Form::kHdf5,
       .readers = {{"eval", "m", "--plan", "attn_logits=int4/head+static", "--stats", "s.h5", "--tasks",
                    "perplexity=i.h5", "--json", "-"},
                   {"quantize", "m", "--plan", "weights=int8/channel", "--method", "smoothquant:0.5+rtn", "--stats",
                    "s.h5", "--out", "out/q.h5", "--json", "-"}},
       .ours = true},
      {.file = "p.h5.part",
       .form = Form::kHdf5,
       .readers = {{"stats", "m", "--input", "many.safetensors", "--sites", "layer_out", "--checkpoint", "1", "--json",
                    "-", "--out", "out/p.h5"}},
       .place = "out/p.h5.part",
       .ours = true},
      {.file = "sw/cells.jsonl",
       .form = Form::kJson,
       .readers = {{"sweep", "m", "--bits", "16,4", "--tasks", "perplexity=i.h5", "--out", "out/sw", "--json", "-"}},
       .place = "out/sw/cells.jsonl",
       .ours = true},
      {.file = "at/cells.jsonl",
       .form = Form::kJson,
       .readers = {{"attribute", "m", "--plan", "q=int4/token,k=int4/token", "--tasks", "perplexity=i.h5", "--out",
                    "out/at", "--json", "-"}},
       .place = "out/at/cells.jsonl",
       .ours = true},
      {.file = "se/cells.jsonl",
       .form = Form::kJson,
       .readers = {{"search", "m", "--within", "9", "--bits", "4", "--site", "q,k", "--granularity", "token", "--input",
                    "i.h5", "--out", "out/se", "--json", "-"}},
       .place = "out/se/cells.jsonl",
       .ours = true},
      {.file = "cmp/cells.jsonl",
       .form = Form::kJson,
       .readers = {{"compare", "m", "g", "--bits", "4", "--tasks", "perplexity=i.safetensors", "--attribute", "none",
                    "--out", "out/cmp", "--json", "-"}},
       .place = "out/cmp/cells.jsonl",
       .ours = true},
      {.file = "cmp/outliers.jsonl",
       .form = Form::kJson,
       .readers = {{"compare", "m", "g", "--bits", "4", "--tasks", "perplexity=i.safetensors", "--attribute", "none",
                    "--out", "out/cmp", "--json", "-"}},
       .place = "out/cmp/outliers.jsonl",
       .ours = true},
  };
  return subjects;
}

const std::vector<Job>& Jobs() {
  static const std::vector<Job> jobs{
      {{"stats", "m", "--input", "many.safetensors", "--checkpoint", "1", "--formats", "int8/row", "--out",
        "out/s.h5"}},
      {{"quantize", "m", "--plan", "weights=int8/channel", "--out", "out/q.h5", "--json", "out/q.json"}},
      {{"quantize", "m", "--plan", "weights=int4/group16", "--method", "hadamard+gptq+quantease", "--calibrate", "i.h5",
        "--out", "out/g.h5"}},
      {{"quantize", "m", "--plan", "weights=int4/group16", "--method", "cayley:2+gptq", "--calibrate", "i.h5", "--out",
        "out/l.h5"}},
      {{"search", "m", "--bits-per-weight", "6", "--input", "i.h5", "--out", "out/se", "--out-model", "out/se.h5"}},
      {{"quantize", "m", "--plan", "weights=int6/channel", "--format", "safetensors", "--out", "out/folder"},
       "out/folder"},
      {{"quantize", "m", "--plan", "weights=int4/group16+zero", "--format", "compressed-tensors", "--out",
        "out/theirs"},
       "out/theirs"},
      {{"convert", "f.gguf", "--to", "gguf", "--type", "Q8_0", "--out", "out/c.gguf"}},
      {{"sweep", "m", "--bits", "16,8,4", "--tasks", kTasks, "--out", "out/sw"}},
      {{"compare", "m", "g", "--bits", "4", "--tasks", "perplexity=i.safetensors", "--out", "out/cmp"}},
      {{"attribute", "m", "--plan", "q=int4/token,k=int4/token", "--tasks", "divergence=i.safetensors", "--out",
        "out/at"}},
      {{"eval", "m", "--tasks", kTasks, "--json", "out/e.json", "--records", "out/r.jsonl"}},
      {{"dump", "m", "--input", "i.h5", "--sites", "logits,attn_logits", "--out", "out/d.h5"}},
      {{"stats", "merge", "s0.h5", "s1.h5", "--out", "out/merged.h5"}},
      {{"stats", "--tensors", "d.h5", "--formats", "int8/row", "--out", "out/t.h5"}},
      {{"stats", "m", "--input", "t.txt", "--csv", "out/s.csv", "--json", "out/s.json"}},
      {{"convert", "m", "--to", "diff_v1", "--out", "out/v1", "--json", "out/v1.json"}, "out/v1"},
      {{"inspect", "q.h5", "--json", "out/i.json"}},
      {{"make", "needles", "m", "--text", "prose.txt", "--templates", "templates.json", "--needles", "1", "--lengths",
        "64", "--answers", "targets", "--out", "out/n.jsonl", "--json", "out/n.json"}},
  };
  return jobs;
}

void MakeGround(const fs::path& folder, const std::string& program, const fs::path& source) {
  fs::create_directories(folder);
  const fs::path texts = source / "tests/data/text", golden = source / "tests/data/golden/diffllama-gqa";
  WriteModel(folder / "m", "diffllama", texts / "llama.model");
  WriteModel(folder / "c", "llama", texts / "mapped.model");
  WriteModel(folder / "f", "phi4flash", texts / "llama.model");
  WriteModel(folder / "e", "gpt_oss", texts / "llama.model");
  fs::create_directory(folder / "g");
  for (const auto& entry : fs::directory_iterator(golden)) {
    if (entry.path().filename() != "expected.safetensors") fs::copy(entry.path(), folder / "g");
  }
  fs::copy(folder / "m", folder / "n");
  fs::copy(source / "tests/data/golden/clip-vision", folder / "v");
  fs::copy(source / "tests/data/interchange/llama-gptq", folder / "o");
  fs::copy(source / "tests/data/golden/gpt-oss-mxfp4", folder / "y");
  fs::copy(source / "tests/data/golden/phi3", folder / "l");
  fs::copy(source / "tests/data/golden/diffmamba2", folder / "b");
  fs::copy(source / "tests/data/golden/vit-dwee", folder / "d");
  fs::copy(source / "tests/data/interchange/llama-compressed-int4", folder / "w");
  PutFile(folder / "n" / "tensor-names.json", kNames);
  PutFile(folder / "t.txt", kText);
  std::string prose;
  for (int i = 0; i < 8; ++i) prose += kText;
  PutFile(folder / "prose.txt", prose);
  PutFile(folder / "templates.json", kTemplates);
  PutFile(folder / "examples.jsonl", kExamples);
  PutFile(folder / "items.jsonl", kItems);
  PutFile(folder / "grid.txt", "-1 -0.25 0 0.5 1\n");
  fs::copy(folder / "m", folder / "x.folder.tmp");
  PutFile(folder / "spans.jsonl", kSpans);
  PutFile(folder / "documents.jsonl", kDocuments);
  PutManyIds(folder / "i.safetensors", 4, 20);
  PutManyIds(folder / "many.safetensors", 120, 20);  // two batches: a part of a job, and a point between them
  const auto make = [&](const Words& words) { Make(folder, program, words); };
  // A dump holds the ids that it ran on, under their name: an HDF5 file of ids.
  make({"dump", "m", "--input", "i.safetensors", "--out", "i.h5"});
  make({"dump", "m", "--input", "i.safetensors", "--sites", "layer_out,attn_logits", "--out", "d.h5"});
  fs::copy_file(source / "tests/data/captured/deflated.npz", folder / "c.npz");
  fs::copy_file(source / "tests/fuzz/corpus/predictions/base.kld", folder / "b.kld");
  fs::copy_file(source / "tests/fuzz/corpus/predictions/logits.safetensors", folder / "l.safetensors");
  fs::copy_file(source / "tests/fuzz/corpus/gguf/small.gguf", folder / "f.gguf");
  make({"convert", "e", "--to", "gguf", "--type", "MXFP4", "--out", "e.gguf"});
  make({"stats", "m", "--input", "i.h5", "--sites", "attn_logits,linear_in", "--calibrate", "int4", "--out", "s.h5"});
  make({"stats", "m", "--input", "many.safetensors", "--sites", "attn_logits,layer_out", "--shard", "0/2", "--out",
        "s0.h5"});
  make({"stats", "m", "--input", "many.safetensors", "--sites", "attn_logits,layer_out", "--shard", "1/2", "--out",
        "s1.h5"});
  make({"quantize", "m", "--plan", "weights=int4/group16,attn_logits=int4/head+static", "--stats", "s.h5", "--out",
        "q.h5"});
  make({"quantize", "m", "--plan", "weights=int4/group16+hadamard16,down_proj.w=e8p/channel,lm_head.w=int8/channel",
        "--out", "r.h5"});
  make({"sweep", "m", "--bits", "16,4", "--tasks", "perplexity=i.h5", "--out", "sw"});
  make({"attribute", "m", "--plan", "q=int4/token,k=int4/token", "--tasks", "perplexity=i.h5", "--out", "at"});
  make({"search", "m", "--within", "9", "--bits", "4", "--site", "q,k", "--granularity", "token", "--input", "i.h5",
        "--out", "se"});
  make({"compare", "m", "g", "--bits", "4", "--tasks", "perplexity=i.safetensors", "--attribute", "none", "--out",
        "cmp"});
  make({"stats", "m", "--input", "i.h5", "--json", "o.json"});
  make({"eval", "m", "--plan", "int4", "--tasks", "divergence=i.h5,perplexity=i.h5,choice=items.jsonl", "--json",
        "e.json"});
  make({"maps", "m", "--plan", "k=int4/token", "--input", "i.h5", "--json", "ma.json"});
  make({"levels", "m", "--plan", "v=normal2/token+mean", "--calibrate", "i.h5", "--out", "le.txt"});
  make({"bench", "linear", "--rows", "1", "--out", "64", "--in", "64", "--plan", "weights=int8/channel",
        "--repetitions", "1", "--json", "b.json"});
  Leave(folder, program,
        {"stats", "m", "--input", "many.safetensors", "--sites", "layer_out", "--checkpoint", "1", "--out", "p.h5"},
        "p.h5.part");
  fs::create_directory(folder / "out");
}

Contents FilesIn(const fs::path& folder) {
  Contents files;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file()) files[fs::relative(entry.path(), folder)] = GetFile(entry.path());
  }
  return files;
}

std::map<std::string, Mark> MarksOf(const fs::path& folder) {
  std::map<std::string, Mark> marks;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    struct stat s;
    if (!entry.is_regular_file() || stat(entry.path().c_str(), &s) != 0) continue;
    marks[fs::relative(entry.path(), folder)] = {static_cast<uintmax_t>(s.st_size),
                                                 s.st_mtim.tv_sec * 1'000'000'000 + s.st_mtim.tv_nsec, s.st_ino};
  }
  return marks;
}

}  // namespace tare::attack
