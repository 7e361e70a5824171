// SPDX-License-Identifier: Apache-2.0
// The check for finite weights, provenance and steps, LayerParts, whole checkpoints, text files, and written tensors.
#include "experiments/quantize/provenance.h"

#include <fcntl.h>
#include <unistd.h>
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <vector>

#include "experiments/model/model.h"
#include "quant/base/message.h"
#include "quant/file/files_of_run.h"
#include "quant/file/hdf5.h"
#include "quant/file/output_folder.h"
#include "quant/file/sha256.h"

namespace tare {
namespace {

// The tensors whose values are floating-point numbers, by their place in memory. Files: a Checkpoint, or its files.
class FloatTensors {
 public:
  template <typename Files>
  FloatTensors(const Files& files, const std::string& where) : where_(where) {
    for (const std::string& name : files.names()) {
      const TensorView* const tensor = files.Find(name);
      if (tensor != nullptr && IsFloat(tensor->dtype) && tensor->elements() > 0) tensors_.push_back(tensor);
    }
  }

  // Checks those whose last byte is in this part of a file. Called from several threads.
  void Check(std::span<const std::byte> part) const {
    for (const TensorView* tensor : tensors_) {
      const std::span<const std::byte> bytes = tensor->bytes;
      const std::byte* const begin = std::max(part.data(), bytes.data(), std::less());
      const std::byte* const end = std::min(part.data() + part.size(), bytes.data() + bytes.size(), std::less());
      if (!std::less()(begin, end)) continue;
      const size_t size = bytes.size() / tensor->elements(), first = static_cast<size_t>(begin - bytes.data()) / size,
                   last = static_cast<size_t>(end - bytes.data()) / size;
      RequireFinite(*tensor, first, last - first, where_);
    }
  }

  void CheckAll() const {
    for (const TensorView* tensor : tensors_) RequireFinite(*tensor, 0, tensor->elements(), where_);
  }

 private:
  static bool IsFloat(DType dtype) { return dtype == DType::kF32 || IsHalf(dtype); }

  std::string where_;
  std::vector<const TensorView*> tensors_;
};

constexpr const char* kPrepared = "prepared.h5";

// "a.txt, 4096 tokens" of "a.txt, sha256 HEX, 4096 tokens".
std::string WithoutHashes(std::string text) {
  constexpr std::string_view kHash = "sha256 ";
  constexpr size_t kDigits = 64;
  for (size_t at = 0; (at = text.find(kHash)) != text.npos;) {
    const size_t begin = at - (text.substr(0, at).ends_with(", ") ? 2 : at > 0 ? 1 : 0);  // with what is before it
    text.erase(begin, at + kHash.size() + kDigits - begin);
  }
  return text;
}

}  // namespace

void RefuseCodes(const Checkpoint& files, const std::filesystem::path& model) {
  if (files.quantized() == nullptr || files.quantized()->matrices().empty()) return;
  Fail("{}: is already quantized ({}); expected a checkpoint folder, or a file without codes", model.string(),
       files.quantized()->provenance().plan);
}

Provenance ProvenanceOf(const Checkpoint& files, const std::filesystem::path& model, const std::string& sha256) {
  if (files.quantized() != nullptr) return files.quantized()->provenance();
  std::string source = ModelName(model);
  const std::string schemes = Listed(files.schemes() | std::views::keys, ", ");
  if (!schemes.empty()) source += " (dequantized from " + schemes + ")";
  return {.source = source, .source_sha256 = sha256.empty() ? files.ContentHash() : sha256};
}

void AddStep(Provenance& p, const std::string& method, const std::string& calibration) {
  if (!method.empty()) p.method += (p.method.empty() ? "" : "+") + method;
  if (!calibration.empty() && calibration != p.calibration)
    p.calibration += (p.calibration.empty() ? "" : "; ") + calibration;
}

void RequireSameJob(const std::filesystem::path& path, const QuantizedCheckpoint& file, const Provenance& job,
                    const std::string& config) {
  const Provenance& found = file.provenance();
  const auto require = [&](const char* option, const std::string& got, const std::string& expected) {
    if (got == expected) return;
    const std::string was = WithoutHashes(got), is = WithoutHashes(expected);
    Fail("{}: is of another job: {}; {}", path.string(),
         was == is ? Formatted("{} has changed since", option) : Formatted("{} was '{}', is '{}'", option, was, is),
         kStartOver);
  };
  require("--plan", found.plan, job.plan);
  require("--method", found.method, job.method);
  require("MODEL", found.source, job.source);
  require("MODEL", "sha256 " + found.source_sha256, "sha256 " + job.source_sha256);
  const bool weighed = found.calibration.contains("imatrix") || job.calibration.contains("imatrix");
  require(weighed ? "--imatrix or --calibrate" : "--calibrate", found.calibration, job.calibration);
  require("MODEL's config.json", "sha256 " + Sha256OfText(file.File("config.json").value_or("")),
          "sha256 " + Sha256OfText(config));
}

namespace fs = std::filesystem;

// "prepared.h5", "layer-12.h5".
static bool IsPartName(const std::string& name) {
  constexpr std::string_view kLayer = "layer-", kEnd = ".h5";
  if (name == kPrepared) return true;
  if (!name.starts_with(kLayer) || !name.ends_with(kEnd)) return false;
  return ParseNumber<int>(std::string_view(name).substr(kLayer.size(), name.size() - kLayer.size() - kEnd.size()))
      .has_value();
}

LayerParts::LayerParts(const fs::path& folder, EarlierParts earlier)
    : folder_(folder), begun_(earlier == EarlierParts::kTakenUp) {
  const auto there = OpenFolder::Of(folder_);
  if (there == nullptr) return;
  there->ForEachName([&](const std::string& name) {
    if (!IsPartName(name)) return;
    TakeForOwn(folder_ / name);
    if (!IsQuantizedSchema(SchemaOf(folder_ / name)))
      Fail("{}: got a file that is no part of a job, expected none; try another --out, or move it",
           (folder_ / name).string());
  });
}

LayerParts::~LayerParts() {
  if (begun_) RemoveFolder();
}

void LayerParts::Begin() {
  if (!begun_) Remove();
  begun_ = true;
  if (OpenFolder::Make(folder_) == nullptr)
    Fail("{}: cannot be created: {}; try another --out", folder_.string(), std::strerror(errno));
}

fs::path LayerParts::Prepared() {
  Begin();
  return folder_ / kPrepared;
}

void LayerParts::TakeUp(const Provenance& job, const std::string& config, int layers) const {
  if (!begun_) return;
  const fs::path prepared = folder_ / kPrepared;
  const std::string method = fs::exists(prepared) ? QuantizedCheckpoint(prepared).provenance().method + "+" : "";
  if (!job.method.starts_with(method))
    Fail("{}: is of another job: --method was '{}..', is '{}'; {}", prepared.string(), method, job.method, kStartOver);
  NoteParts();
  if (!Has(0)) return;
  RequireSameJob(LayerFile(0), QuantizedCheckpoint(LayerFile(0)), job, config);
  SayContinued(folder_.string(), Formatted("{} of {} layers", Layers(), layers));
}

void LayerParts::NoteParts() const {
  const std::string what = Has(0) ? Counted(Layers(), "layer") : fs::exists(folder_ / kPrepared) ? kPrepared : "";
  if (!what.empty()) NoteKept(Formatted("{} keeps {}", folder_.string(), what));
}

int LayerParts::Layers() const {
  int layers = 0;
  while (Has(layers)) ++layers;
  return layers;
}

fs::path LayerParts::LayerFile(int layer) const { return folder_ / Formatted("layer-{}.h5", layer); }

QuantizedCheckpoint LayerParts::Layer(int layer, const Provenance& job, const std::string& config) const {
  QuantizedCheckpoint part(LayerFile(layer));
  RequireSameJob(LayerFile(layer), part, job, config);
  part.Verify();
  return part;
}

void LayerParts::Keep(int layer, const Provenance& job, const std::string& config,
                      const std::function<void(QuantizedCheckpointWriter&)>& body) {
  Begin();
  QuantizedCheckpointWriter part(LayerFile(layer), job);
  part.AddFile("config.json", config);
  body(part);
  part.Commit();
  NoteParts();
}

// Parts, and what a killed run left unfinished. The folder stays where somebody put something else there.
void LayerParts::Remove() const {
  if (const auto folder = OpenFolder::Of(folder_)) {
    folder->ForEachName([&](const std::string& name) {
      if (IsPartName(name) || IsTemporaryName(name)) RemoveTemporary(*folder, name);
    });
  }
  RemoveFolder();
  NoteKept("");
}

void LayerParts::RemoveFolder() const {
  if (const auto above = OpenFolder::Of(FolderOf(folder_)))
    unlinkat(above->fd(), folder_.filename().c_str(), AT_REMOVEDIR);
}

std::string ReadWhole(const std::filesystem::path& path, const Progress& progress) {
  if (!std::filesystem::is_directory(path)) {
    const Checkpoint files(path);
    FloatTensors(files, path.string()).CheckAll();
    return files.ContentHash();
  }
  const CheckpointFiles files(path);
  const FloatTensors tensors(files, path.string());
  std::mutex mutex;
  int64_t done = 0;
  const int64_t total = files.total_bytes();
  return files.ContentHash([&](std::span<const std::byte> part) {
    tensors.Check(part);
    const std::lock_guard lock(mutex);
    done = std::min(done + static_cast<int64_t>(part.size()), total);  // files have headers, too
    Report(progress, done, total, "bytes");
  });
}

void AddTextFiles(const std::filesystem::path& model, const std::string& config, QuantizedCheckpointWriter& out) {
  out.AddFile("config.json", config);
  for (const char* name : kTokenizerFiles) {
    if (const auto text = CheckpointText(model, name)) out.AddFile(name, *text);
  }
}

TensorView WrittenTensor(const Checkpoint& files, const std::string& name, AlignedBuffer<char>& memory) {
  const ForeignMatrix* const matrix = files.FindForeign(name);
  if (matrix == nullptr) return *files.Find(name);
  const std::string where = "tensor '" + name + "'";
  const DenseMatrix made = InFloat(StoredMatrix(files, name, where), Math::kF32, memory, where);
  const size_t bytes = static_cast<size_t>(made.out * made.in) * sizeof(float);  // the memory may be larger
  return {name, DType::kF32, {made.out, made.in}, std::as_bytes(memory.span().first(bytes))};
}

}  // namespace tare
