// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/readers.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <set>
#include <stdexcept>
#include <string>

#include "experiments/arrays/array_file.h"
#include "experiments/arrays/image_folder.h"
#include "experiments/model/config/config.h"
#include "experiments/model/linear/weight_matrix.h"
#include "experiments/observe/captured/captured_statistics.h"
#include "experiments/observe/statistics_job.h"
#include "experiments/tasks/items/lines.h"
#include "experiments/tasks/perplexity.h"
#include "experiments/text/chat/chat_template.h"
#include "experiments/text/tokenizer/characters.h"
#include "experiments/text/tokenizer/sentencepiece_tokenizer.h"
#include "experiments/text/tokenizer/tokenizer_json.h"
#include "experiments/text/utf8.h"
#include "quant/base/message.h"
#include "quant/checkpoint/checkpoint.h"
#include "quant/file/checkpoint_files.h"
#include "quant/file/hdf5.h"
#include "quant/file/json.h"
#include "quant/file/quantized_checkpoint.h"
#include "quant/file/safetensors.h"
#include "quant/format/grid.h"
#include "quant/interchange/folders/quantization_config.h"
#include "quant/interchange/gguf/architecture.h"
#include "quant/interchange/gguf/imatrix.h"
#include "quant/plan/plan.h"
#include "quant/statistics/statistics_file.h"
#include "tests/quant/file/temporary_folder.h"

namespace tare::fuzz {
namespace {

void Require(bool holds, const char* what) {
  if (!holds) throw std::logic_error(what);
}

// The bytes as a file; the next takes its place. (A file in memory has no path that HDF5 would follow.)
std::filesystem::path FileOf(std::string_view bytes, const char* name = "file") {
  static const TemporaryFolder folder;
  const std::filesystem::path path = folder / name;
  std::filesystem::remove(path);  // a mapping of the last one stays whole
  PutFile(path, bytes);
  return path;
}

void ReadSafetensors(std::string_view bytes) {
  const SafetensorsContent content = ParseSafetensors(std::as_bytes(std::span(bytes)), "file");
  size_t total = 0;
  for (const TensorView& tensor : content.tensors) {
    const auto* begin = reinterpret_cast<const char*>(tensor.bytes.data());
    const size_t size = tensor.bytes.size();
    Require(size == 0 || (begin >= bytes.data() + 8 && begin + size <= bytes.data() + bytes.size()),
            "a view outside its file");
    Require(tensor.elements() * static_cast<size_t>(Bits(tensor.dtype)) == size * 8,
            "a view of another size than its shape");
    total += size;
  }
  uint64_t length;
  std::memcpy(&length, bytes.data(), sizeof length);
  Require(total + length + 8 == bytes.size(), "tensors that do not fill the file");
}

void ReadJsonText(std::string_view bytes) {
  const nlohmann::json json = ParseJson(bytes, "file");
  Require(ParseJson(json.dump(), "again") == json, "JSON that is another one when it is read again");
  (void)ParseOrderedJson(bytes, "file");
}

void ReadConfig(std::string_view bytes) { (void)ParseConfig(bytes, "config.json"); }
void ReadItem(std::string_view bytes) { (void)ParseChoiceItem(bytes, "items"); }
void ReadContinuation(std::string_view bytes) { (void)ParseContinuation(bytes, "items"); }
void ReadDocument(std::string_view bytes) {
  ChatTemplate chats("model");
  (void)ParseDocument(bytes, "items", chats);
}
void ReadPrompt(std::string_view bytes) { (void)ParsePrompt(bytes, "items"); }

void ReadItems(std::string_view bytes) { (void)LoadLines<ParseChoiceItem>(FileOf(bytes)); }

void ReadSpans(std::string_view bytes) {
  const std::vector<int64_t> lengths{64, 20};
  (void)MarkedSpans::Load(FileOf(bytes), lengths);
}

void ReadPlan(std::string_view bytes) {
  const Plan plan = Plan::Parse(std::string(bytes));
  Require(Plan::Parse(plan.canonical()).canonical() == plan.canonical(), "a canonical plan that is not");
}

void ReadGrid(std::string_view bytes) {
  const std::string name = GridName(ParseGrid(bytes, "file")), values = name.substr(kGridMark.size());
  Require(GridName(ParseGrid(values.substr(0, values.size() - 1), "name")) == name, "a name of another grid");
}

void ReadTokenizer(std::string_view bytes) {
  const SentencePieceTokenizer tokenizer(bytes, "tokenizer.model");
  for (const char* text : {"It was the  best of times.", " \xe2\x96\x81\xef\xac\x81\xcd\x85 \xf0\x9f\x98\x80\n", ""}) {
    for (const int32_t id : tokenizer.Encode(text))
      Require(id >= 0 && id < tokenizer.vocabulary(), "an id outside the vocabulary");
  }
}

void ReadTokenizerJson(std::string_view bytes) {
  const pipeline::TokenizerJson tokenizer(bytes, "tokenizer.json");
  for (const char* text : {"It was the  best of times.", " \xe2\x96\x81\xef\xac\x81\xcd\x85 \xf0\x9f\x98\x80\n", ""}) {
    const std::vector<int32_t> ids = tokenizer.Encode(text);
    for (const int32_t id : ids) Require(id >= 0 && id < tokenizer.vocabulary(), "an id outside the vocabulary");
    RequireUtf8(tokenizer.Decode(ids), "decoded");
  }
}

void ReadUtf8(std::string_view bytes) {
  RequireUtf8(bytes, "text");
  Require(CountCharacters(bytes) <= bytes.size(), "more characters than bytes");
  Require(bytes.contains(Strip(bytes)), "a strip that is no part");
  std::string copy;
  if (size_t at = 0; !bytes.empty()) Append(Next(bytes, &at), &copy);
  Require(bytes.starts_with(copy), "another first character");
}

void ReadHdf5(std::string_view bytes) {
  const Hdf5Reader reader(FileOf(bytes));
  for (const std::string& name : reader.datasets()) {
    const DType type = reader.Type(name);
    if (type == DType::kF32 || type == DType::kF64) (void)reader.Read<double>(name);
    if (type == DType::kI64) (void)reader.Read<int64_t>(name);
  }
  reader.Verify();
}

void ReadGguf(std::string_view bytes) {
  const std::filesystem::path path = FileOf(bytes);
  for (const char* name : {"tokenizer.json", "tokenizer.model", "tokenizer_config.json"}) (void)GgufText(path, name);
  const std::unique_ptr<const CheckpointSource> files = OpenGguf(path);
  for (const std::string& name : files->names()) {
    const ForeignMatrix* const matrix = files->FindForeign(name);
    Require((matrix == nullptr) != (files->Find(name) == nullptr), "a name that is not found once");
    if (matrix == nullptr) continue;
    std::vector<float> row(static_cast<size_t>(matrix->in()));
    for (const int64_t at : {int64_t{0}, matrix->out() - 1}) matrix->Row(at, row.data());
    Require(std::ranges::all_of(row, [](float x) { return std::isfinite(x); }), "values that are not finite");
  }
}

void ReadImatrixFile(std::string_view bytes) {
  for (const auto& [name, entry] : gguf::ReadImatrix(FileOf(bytes)).entries) {
    const size_t experts = entry.counts.size();
    for (const float mean : entry.Means(experts - 1, experts)) Require(mean >= 0, "a mean that is no weight");
  }
}

void ReadQuantized(std::string_view bytes) { QuantizedCheckpoint(FileOf(bytes)).Verify(); }

void ReadStatisticsFile(std::string_view bytes) { (void)ReadStatistics(FileOf(bytes)); }

void ReadNpz(std::string_view bytes) {
  const std::unique_ptr<ArrayFile> file = OpenNpz(FileOf(bytes));
  for (const ArrayInfo& array : file->arrays()) {
    const int64_t values = ElementCount(array.shape).value();
    const ArrayValues read = file->Values(array);
    float last = 0.0f;
    if (values > 0) read.Read(values - 1, 1, 1, &last);
  }
}

void ReadPredictions(std::string_view bytes) {
  const Predictions all = OpenPredictions(FileOf(bytes, bytes.starts_with(kBaseMagic) ? "file" : "file.safetensors"));
  Require(std::ranges::all_of(all.tokens, [&](int32_t id) { return id >= 0 && id < all.vocabulary; }),
          "an id outside the vocabulary");
  for (const int64_t window : {int64_t{0}, all.windows - 1}) {
    const int64_t position = all.positions - 2;
    const Prediction last = all.Read(all.Rows(window, position, 1), 0, window, position);
    Require(std::ssize(last.values) == all.vocabulary && std::isfinite(last.LogP(last.top)), "a row of another size");
  }
}

void ReadImage(std::string_view bytes) {
  Require(MiddleOf(DecodeImage(FileOf(bytes)), 25, 24, "file").size() == size_t{3} * 24 * 24,
          "an image of another size");
}

void ReadLayout(std::string_view bytes) {
  const CapturedLayout layout = CapturedLayout::Load(FileOf(bytes));
  for (const char* name : {"attn_logits.0", "q.0", "h.0.q"}) (void)layout.Find({name, DType::kF32, {2, 4, 3, 3}}, "f");
}

void ReadTensorNames(std::string_view bytes) {
  static const TemporaryFolder folder;
  PutFile(folder / TensorNamesFile::kName, bytes);
  const TensorNamesFile names = *TensorNamesFile::In(folder.path());
  (void)ParseConfig(names.ConfigText("{}", "config.json"), "config.json");
  const std::vector<std::string> stored{"norm.weight", "blocks.0.attn.wq.weight", "blocks.1.attn.wq.weight"};
  std::set<std::string> ours;
  for (const auto& [theirs, name] : names.OursOf(stored)) {
    Require(std::ranges::contains(stored, theirs), "a name of no tensor");
    Require(name.empty() || ours.insert(name).second, "two tensors of one name");
  }
}

// Integers that stand for the codes are the same values, or are refused where their format cannot hold a scale.
void CompareIntegers(const ForeignMatrix& matrix) {
  if (!matrix.integers()) return;
  const QuantizedMatrixBuffer integers = IntegersOf(matrix);
  const std::span<const int32_t> order = matrix.order();
  std::vector<float> row(static_cast<size_t>(matrix.in())), expected(row);
  for (int64_t r = 0; r < matrix.out(); ++r) {
    DequantizeRow(integers.view(), r, row.data());
    matrix.Row(r, expected.data());
    for (size_t c = 0; c < row.size(); ++c)
      Require(row[c] == expected[order.empty() ? c : static_cast<size_t>(order[c])], "integers of other values");
  }
}

// All rows of what another tool's reader takes.
void TakeRows(const std::string& config, const CheckpointFiles& files) {
  ModuleTensors tensors(files, "folder");
  const ForeignModel model = ReadForeignModel(config, "folder", tensors);
  for (const auto& [name, matrix] : model.matrices) {
    Require(matrix->in() <= int64_t{1} << 20, "a matrix wider than its file");
    std::vector<float> row(static_cast<size_t>(matrix->in())), decoded(row);
    for (int64_t r = 0; r < matrix->out(); ++r) {
      matrix->Row(r, row.data());
      Require(std::ranges::all_of(row, [](float x) { return std::isfinite(x); }), "a value that is not finite");
      RowAsFloat(WeightMatrix(matrix.get()), r, decoded.data());
      Require(std::memcmp(decoded.data(), row.data(), row.size() * sizeof(float)) == 0, "a row decoded otherwise");
    }
    CompareIntegers(*matrix);
  }
}

// A config.json with quantization_config; its key "tensors" names the folder of the tensors.
void ReadScheme(std::string_view bytes) {
  static const std::filesystem::path folders = TARE_SOURCE_DIR "/tests/data/interchange";
  static std::map<std::string, CheckpointFiles> known;
  const nlohmann::json json = ParseJson(bytes, "config.json");
  const bool named = json.is_object() && json.contains("tensors") && json["tensors"].is_string();
  for (const char* name : {"gptq", "auto-round", "awq", "compressed-packed-0.18", "compressed-bytes"}) {
    if (!named || json["tensors"].get_ref<const std::string&>() != name) continue;
    TakeRows(std::string(bytes), known.try_emplace(name, folders / name).first->second);
  }
}

// A model.safetensors whose metadata have the config.json as well.
void ReadForeignTensors(std::string_view bytes) {
  static const TemporaryFolder folder;
  std::filesystem::remove(folder / "model.safetensors");
  PutFile(folder / "model.safetensors", bytes);
  const CheckpointFiles files(folder.path());
  const auto& metadata = files.files().at(0).metadata();
  if (const auto config = metadata.find("config"); config != metadata.end()) TakeRows(config->second, files);
}

constexpr Reader kReaders[] = {
    {"safetensors", damage::Form::kSafetensors, ReadSafetensors},
    {"json", damage::Form::kJson, ReadJsonText},
    {"config", damage::Form::kJson, ReadConfig},
    {"item", damage::Form::kJson, ReadItem},
    {"items", damage::Form::kJson, ReadItems},
    {"continuation", damage::Form::kJson, ReadContinuation},
    {"prompt", damage::Form::kJson, ReadPrompt},
    {"document", damage::Form::kJson, ReadDocument},
    {"spans", damage::Form::kJson, ReadSpans},
    {"plan", damage::Form::kText, ReadPlan},
    {"grid", damage::Form::kText, ReadGrid},
    {"tokenizer", damage::Form::kBinary, ReadTokenizer},
    {"tokenizer_json", damage::Form::kJson, ReadTokenizerJson},
    {"utf8", damage::Form::kText, ReadUtf8},
    {"hdf5", damage::Form::kHdf5, ReadHdf5},
    {"quantized", damage::Form::kHdf5, ReadQuantized},
    {"gguf", damage::Form::kBinary, ReadGguf},
    {"imatrix", damage::Form::kBinary, ReadImatrixFile},
    {"npz", damage::Form::kBinary, ReadNpz},
    {"predictions", damage::Form::kBinary, ReadPredictions},
    {"image", damage::Form::kBinary, ReadImage},
    {"layout", damage::Form::kJson, ReadLayout},
    {"statistics", damage::Form::kHdf5, ReadStatisticsFile},
    {"tensor_names", damage::Form::kJson, ReadTensorNames},
    {"scheme", damage::Form::kJson, ReadScheme},
    {"foreign", damage::Form::kSafetensors, ReadForeignTensors},
};

}  // namespace

std::span<const Reader> Readers() { return kReaders; }

bool Takes(const Reader& reader, std::string_view bytes) {
  try {
    reader.read(bytes);
    return true;
  } catch (const Error&) {
    return false;
  }
}

}  // namespace tare::fuzz
