// SPDX-License-Identifier: Apache-2.0
// The kinds of MODEL and how each opens, look-ups of tensors, the split of fused tensors and experts, small files.
#include "quant/checkpoint/checkpoint.h"

#include <algorithm>

#include "quant/base/find_in.h"
#include "quant/base/message.h"
#include "quant/checkpoint/matrix_parts.h"
#include "quant/file/mapped_file.h"
#include "quant/file/sha256.h"
#include "quant/interchange/folders/quantization_config.h"
#include "quant/interchange/gguf/architecture.h"

namespace tare {
namespace {

namespace fs = std::filesystem;

bool IsFile(const fs::path& path) {
  std::error_code error;
  return fs::is_regular_file(path, error);
}

// "ORG/NAME", as hubs name checkpoints, or a name alone.
bool IsHubName(const std::string& text) {
  constexpr std::string_view kOfFiles[] = {".h5", ".txt", ".json", ".jsonl", ".npz", ".csv", ".html"};
  if (std::ranges::contains(kOfFiles, fs::path(text).extension().string())) return false;
  const size_t slash = text.find('/');
  return slash != 0 && slash + 1 < text.size() && slash == text.rfind('/') && text[0] != '.' && text[0] != '~';
}

bool BeginsWith(const fs::path& path, std::string_view expected) {
  return Beginning(path, expected.size()) == expected;
}

// What may help where nothing has the name.
std::string HintFor(const fs::path& path) {
  const std::string text = path.string();
  if (!text.empty() && text.find_first_not_of("0123456789") == text.npos)
    return "; if it is a value of an option, lists have commas: 16,4";
  if (!IsHubName(text)) return "";
  return Formatted("; to download one: hf download {}{} --local-dir {}", path.has_parent_path() ? "" : "ORG/", text,
                   path.filename().string());
}

// Whether the first bytes are text: printable, beyond ASCII, or white space.
bool IsText(const fs::path& path) {
  const std::string first = Beginning(path, 256);
  const auto in_text = [](unsigned char c) { return c >= 0x20 ? c != 0x7f : c == '\t' || c == '\n' || c == '\r'; };
  return !first.empty() && std::ranges::all_of(first, in_text);
}

// Refuses a path that is neither a folder nor a file that could be quantized.
[[noreturn]] void RefuseModel(const fs::path& path) {
  const std::string extension = path.extension();
  if (extension == ".gguf") Fail("{}: no such file; expected a GGUF file", path.string());
  if (extension == ".h5" && !IsFile(path)) Fail("{}: no such file; expected a file of tare quantize", path.string());
  if (IsFile(path) && (extension == ".safetensors" || IsFile(path.parent_path() / "config.json")))
    Fail("{}: got one file of a checkpoint, expected its folder; try {}", path.string(),
         path.has_parent_path() ? path.parent_path().string() : ".");
  if (IsFile(path) && !HasPickleName(path))
    Fail("{}: got a text, expected a MODEL: a checkpoint folder, a file of tare quantize, or a GGUF file",
         path.string());
  if (IsFile(path)) Fail("{}: got a pickle, which Tare never reads; try saving it as safetensors", path.string());
  Fail(
      "{}: no such folder; expected a checkpoint folder in Hugging Face layout (config.json, *.safetensors), or a "
      "file of tare quantize{}",
      path.string(), HintFor(path));
}

bool IsGgufFile(const fs::path& path) {
  return IsFile(path) && (path.extension() == ".gguf" || BeginsWith(path, "GGUF"));
}

// Whether the path is a file that may be quantized. Throws Error where it can be no checkpoint at all.
bool IsQuantizedFile(const fs::path& path) {
  std::error_code error;
  if (fs::is_directory(path, error)) return false;
  // HDF5's own reader reports damage.
  if (!IsFile(path) || (!BeginsWith(path, "\x89HDF\r\n\x1a\n") &&
                        (path.extension() == ".safetensors" || HasPickleName(path) || IsText(path))))
    RefuseModel(path);
  return true;
}

void RequireShape(const fs::path& path, const TensorView& tensor, const std::vector<int64_t>& shape) {
  if (tensor.shape != shape)
    Fail("{}: tensor '{}': got shape {}, expected {} from config.json, of {} experts", path.string(), tensor.name,
         ShapeText(tensor.shape), ShapeText(shape), shape.front());
}

class QuantizedSource : public CheckpointSource {
 public:
  explicit QuantizedSource(const fs::path& path) : path_(path), file_(path) {}

  std::vector<std::string> names() const override {
    std::vector<std::string> names;
    for (const auto& [name, tensor] : file_.tensors()) names.push_back(name);
    for (const auto& [name, matrix] : file_.matrices()) names.push_back(name);
    std::ranges::sort(names);
    return names;
  }
  const TensorView* Find(std::string_view name) const override { return FindIn(file_.tensors(), std::string(name)); }
  const QuantizedMatrix* FindQuantized(std::string_view name) const override {
    return FindIn(file_.matrices(), std::string(name));
  }
  void Release(const std::string& name) const override { file_.Release(name); }
  std::string ContentHash() const override { return HashOfFile(MappedFile(path_)); }
  const QuantizedCheckpoint* quantized() const override { return &file_; }

 private:
  fs::path path_;
  QuantizedCheckpoint file_;
};

using Source = std::unique_ptr<const CheckpointSource>;

// A kind of MODEL: whether a path is one, its tensors, and its small files.
struct Kind {
  bool (*is)(const fs::path& path);
  Source (*open)(const fs::path& path);
  std::optional<std::string> (*text)(const fs::path& path, const std::string& name);
};

constexpr Kind kKinds[]{
    {IsGgufFile, OpenGguf, GgufText},
    {IsQuantizedFile, [](const fs::path& path) -> Source { return std::make_unique<QuantizedSource>(path); },
     QuantizedCheckpoint::FileOf},
    {[](const fs::path&) { return true; }, OpenFolderCheckpoint, FolderText}};

const Kind& KindOf(const fs::path& path) {
  return *std::ranges::find_if(kKinds, [&](const Kind& kind) { return kind.is(path); });
}

}  // namespace

Checkpoint::Checkpoint(const fs::path& path, Shards shards) : path_(path), source_(KindOf(path).open(path)) {
  if (const std::set<std::string> lacks = missing(); shards == Shards::kAll && !lacks.empty())
    Fail("{}: no such file, but the index names it; try downloading the checkpoint again",
         (path / *lacks.begin()).string());
}

const TensorView* Checkpoint::Find(std::string_view name) const {
  if (const Part* part = FindIn(parts_, std::string(name))) return &part->view;
  return split_.contains(std::string(name)) ? nullptr : source_->Find(name);
}

const ForeignMatrix* Checkpoint::FindForeign(std::string_view name) const {
  const auto found = matrices_.find(std::string(name));
  if (found != matrices_.end()) return found->second.get();
  return split_.contains(std::string(name)) ? nullptr : source_->FindForeign(name);
}

std::vector<std::string> Checkpoint::names() const {
  std::vector<std::string> names = source_->names();
  std::erase_if(names, [&](const std::string& name) { return split_.contains(name); });
  for (const auto& [name, part] : parts_) names.push_back(name);
  for (const auto& [name, matrix] : matrices_) names.push_back(name);
  std::ranges::sort(names);
  return names;
}

bool Checkpoint::Has(std::string_view name) const {
  return Find(name) != nullptr || FindQuantized(name) != nullptr || FindForeign(name) != nullptr;
}

int64_t Checkpoint::total_bytes() const {
  int64_t bytes = 0;
  for (const std::string& name : names()) {
    if (const TensorView* tensor = Find(name)) bytes += static_cast<int64_t>(tensor->bytes.size());
    if (const QuantizedMatrix* matrix = FindQuantized(name)) bytes += static_cast<int64_t>(matrix->Bytes());
    if (const ForeignMatrix* matrix = FindForeign(name)) bytes += matrix->bytes();
  }
  return bytes;
}

SchemesInUse Checkpoint::schemes() const {
  SchemesInUse schemes;
  for (const std::string& name : names()) {
    const ForeignMatrix* matrix = FindForeign(name);
    if (matrix == nullptr || !matrix->HasCodes()) continue;
    SchemeTotals& totals = schemes[matrix->scheme()];
    ++totals.matrices;
    totals.values += matrix->out() * matrix->in();
    totals.bytes += matrix->bytes();
  }
  return schemes;
}

void Checkpoint::Split(const std::string& name, const std::vector<Rows>& parts) {
  const TensorView* const whole = Find(name);
  const ForeignMatrix* const codes = whole == nullptr ? FindForeign(name) : nullptr;
  if (whole == nullptr && codes == nullptr) return;
  std::vector<int64_t> shape = whole != nullptr ? whole->shape : std::vector{codes->out(), codes->in()};
  if (shape.size() == 3 && whole->elements() > 0) shape = {shape[0] * shape[1], shape[2]};  // experts' matrices
  int64_t rows = 0;
  for (const Rows& part : parts) {
    RefuseBoth(name, part.name);
    rows += part.count;
  }
  if (shape.empty() || shape[0] != rows || rows == 0)
    Fail("{}: tensor '{}': got shape {}, expected {} rows from config.json", path_.string(), name, ShapeText(shape),
         rows);
  TensorView flat = whole != nullptr ? *whole : TensorView{};
  flat.shape = shape;
  int64_t begin = 0;
  for (const Rows& part : parts) {
    if (whole != nullptr) parts_.emplace(part.name, PartOf(flat, begin, part));
    if (codes != nullptr) matrices_.emplace(part.name, std::make_unique<ForeignRows>(*codes, begin, part.count));
    begin += part.count;
  }
  split_.insert(name);
}

Checkpoint::Part Checkpoint::PartOf(const TensorView& whole, int64_t first, const Rows& rows) {
  const size_t row_bytes = whole.bytes.size() / static_cast<size_t>(whole.shape[0]);
  TensorView view = whole;
  view.name = rows.name;
  view.shape[0] = rows.count;
  view.bytes = whole.bytes.subspan(static_cast<size_t>(first) * row_bytes, static_cast<size_t>(rows.count) * row_bytes);
  return {std::move(view), whole.name};
}

void Checkpoint::SplitColumns(const std::string& name, int64_t rows, const std::vector<Rows>& parts) {
  const TensorView* const whole = Find(name);
  if (whole == nullptr) return;
  int64_t columns = 0;
  for (const Rows& part : parts) columns += part.count;
  if (whole->shape != std::vector{rows, columns})
    Fail("{}: tensor '{}': got shape {}, expected {} from config.json", path_.string(), name, ShapeText(whole->shape),
         ShapeText(std::vector{rows, columns}));
  const size_t row_bytes = whole->bytes.size() / static_cast<size_t>(rows);
  size_t begin = 0;
  for (const Rows& part : parts) {
    RefuseBoth(name, part.name);
    const size_t size = row_bytes / static_cast<size_t>(columns) * static_cast<size_t>(part.count);
    Part& made = parts_[part.name] = {.view = *whole, .whole = name};
    for (int64_t row = 0; row < rows; ++row) {
      const auto from = whole->bytes.subspan(static_cast<size_t>(row) * row_bytes + begin, size);
      made.copy.insert(made.copy.end(), from.begin(), from.end());
    }
    made.view.name = part.name, made.view.shape[1] = part.count, made.view.bytes = made.copy;
    begin += size;
  }
  source_->Release(name);
  split_.insert(name);
}

void Checkpoint::RefuseBoth(const std::string& stored, const std::string& name) const {
  if (Has(name)) Fail("{}: got tensors '{}' and '{}', expected one of them", path_.string(), stored, name);
}

void Checkpoint::SplitMatrices(const std::string& stored, const Experts& experts) {
  const auto count = static_cast<int64_t>(experts.names.size());
  const ForeignMatrix* const codes = FindForeign(stored);
  const TensorView* const whole = Find(stored);
  if (codes == nullptr && whole == nullptr) return;
  if (whole != nullptr) {
    RequireShape(path_, *whole, {count, experts.in, experts.out});
  } else if (codes->out() != count * experts.out || codes->in() != experts.in) {
    Fail("{}: tensor '{}': got {} rows of {} values of all experts, expected {} of {} from config.json, of {} experts",
         path_.string(), stored, codes->out(), codes->in(), count * experts.out, experts.in, count);
  }
  for (int64_t i = 0; i < count; ++i) {
    const std::string& name = experts.names[static_cast<size_t>(i)];
    RefuseBoth(stored, name);
    if (whole == nullptr) {
      matrices_.emplace(name, std::make_unique<ForeignRows>(*codes, i * experts.out, experts.out));
    } else {
      const auto release = [source = source_.get(), stored] { source->Release(stored); };
      matrices_.emplace(name, std::make_unique<TransposedMatrix>(*whole, i, release));
    }
  }
  split_.insert(stored);
}

void Checkpoint::SplitVectors(const std::string& stored, const Experts& experts) {
  const TensorView* const whole = Find(stored);
  if (whole == nullptr) return;
  const size_t count = experts.names.size(), bytes = whole->bytes.size() / count;
  RequireShape(path_, *whole, {static_cast<int64_t>(count), experts.out});
  for (size_t i = 0; i < count; ++i) {
    RefuseBoth(stored, experts.names[i]);
    TensorView view{experts.names[i], whole->dtype, std::vector<int64_t>(1, experts.out),
                    whole->bytes.subspan(i * bytes, bytes)};
    parts_.emplace(experts.names[i], Part{std::move(view), stored});
  }
  split_.insert(stored);
}

void Checkpoint::Release(const std::string& name) const {
  if (const auto found = matrices_.find(name); found != matrices_.end()) return found->second->Release();
  const Part* const part = FindIn(parts_, name);
  source_->Release(part != nullptr ? part->whole : name);
}

fs::path HubSnapshot(const fs::path& path) {
  std::error_code error;
  if (IsFile(path / "config.json") || !fs::is_directory(path / "snapshots", error)) return path;
  const std::string name = Beginning(path / "refs" / "main", 64);
  const fs::path named = path / "snapshots" / name.substr(0, name.find('\n'));
  if (!name.empty() && IsFile(named / "config.json")) return named;
  const std::vector<fs::directory_entry> all{fs::directory_iterator(path / "snapshots", error), {}};
  return all.size() == 1 ? all.front().path() : path;
}

std::string Checkpoint::ConfigHash() const { return Sha256OfText(CheckpointText(path_, "config.json").value_or("")); }

std::map<std::string, std::string> ModelFileHashes(const fs::path& path) {
  std::map<std::string, std::string> hashes;
  for (const char* name : kModelFiles) {
    if (fs::exists(path / name)) hashes[name] = Sha256OfFile(path / name);
  }
  return hashes;
}

std::optional<std::string> CheckpointText(const fs::path& path, const std::string& name) {
  return KindOf(path).text(path, name);
}

std::optional<std::string> ModelConfigText(const fs::path& path) {
  std::optional<std::string> text = CheckpointText(path, "config.json");
  std::error_code error;
  if (text && fs::is_directory(path, error)) text = WithoutQuantizationConfig(*text, (path / "config.json").string());
  return text;
}

}  // namespace tare
