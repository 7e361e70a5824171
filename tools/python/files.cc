// SPDX-License-Identifier: Apache-2.0
// Tare's HDF5 files for Python: any file as arrays, quantized checkpoints by tensor, statistics fed by batches. Opening
// copies a file to memory: an array of a mapped file ends the process when somebody shortens it.
#include <nanobind/stl/map.h>
#include <nanobind/stl/vector.h>

#include <optional>
#include <ranges>

#include "experiments/arrays/array_file.h"
#include "experiments/observe/captured/captured_statistics.h"
#include "quant/base/find_in.h"
#include "quant/base/message.h"
#include "quant/base/parallel.h"
#include "quant/file/hdf5.h"
#include "quant/file/mapped_file.h"
#include "quant/file/quantized_checkpoint.h"
#include "tools/python/module.h"

namespace nb = nanobind;

namespace tare {
namespace {

// A file that is opened, read and closed in turn, because HDF5 has at most one lock.
template <typename T>
struct Opened {
  explicit Opened(const std::string& path) : file(InTurn(0, [&](Turn&) { return new T(path); }), Close) {}
  std::shared_ptr<T> file;

 private:
  static void Close(T* file) {
    if (ForkedAfterTurn()) return;  // the file is the parent's
    InTurn(0, [&](Turn&) { delete file; });
  }
};
using File = Opened<Hdf5Reader>;
using QuantizedFile = Opened<QuantizedCheckpoint>;

nb::dlpack::dtype ArrayType(DType type) {
  const std::string_view name = Name(type);
  const auto code = name.starts_with('F')   ? nb::dlpack::dtype_code::Float
                    : name.starts_with('U') ? nb::dlpack::dtype_code::UInt
                                            : nb::dlpack::dtype_code::Int;
  return {static_cast<uint8_t>(code), static_cast<uint8_t>(Bits(type)), 1};
}

TensorView DatasetOf(const Hdf5Reader& reader, const std::string& name) {
  if (!reader.Has(name)) Fail("{}: got no dataset '{}', expected one of names()", reader.path().string(), name);
  return {name, reader.Type(name), reader.Shape(name), reader.Bytes(name)};
}

// A dataset of the file, its hash checked the first time; the array keeps the file open.
nb::object Array(nb::handle self, const std::string& name) {
  const File& file = nb::cast<const File&>(self);
  const TensorView dataset = InTurn(0, [&](Turn&) { return DatasetOf(*file.file, name); });
  const std::vector<size_t> sizes(dataset.shape.begin(), dataset.shape.end());
  return nb::cast(nb::ndarray<nb::numpy, nb::ro>(dataset.bytes.data(), sizes.size(), sizes.data(), self, nullptr,
                                                 ArrayType(dataset.dtype)));
}

std::string TextAttribute(const File& file, const std::string& object, const std::string& key) {
  return InTurn(0, [&](Turn&) -> std::string {
    return file.file->HasAttribute(object, key) ? file.file->StringAttribute(object, key) : "";
  });
}

int64_t NumberAttribute(const File& file, const std::string& object, const std::string& key) {
  return InTurn(0, [&](Turn&) { return file.file->IntAttribute(object, key); });
}

std::vector<std::string> Names(const File& file) {
  return InTurn(0, [&](Turn&) { return file.file->datasets(); });
}

// Read by HDF5 itself: the file needs no copy for it.
std::string SchemaAt(const std::string& path) {
  struct Mapped {
    Mapped() { OpenFilesAs(FileMemory::kMapped); }
    ~Mapped() { OpenFilesAs(FileMemory::kCopied); }
  };
  return InTurn(0, [&](Turn&) -> std::string {
    const Mapped mapped;
    const Hdf5Reader file(path);
    return file.HasAttribute("", "schema") ? file.StringAttribute("", "schema") : "";
  });
}

Quantized MatrixNamed(const QuantizedFile& checkpoint, const std::string& name) {
  const QuantizedMatrix* const matrix = FindIn(checkpoint.file->matrices(), name);
  if (matrix == nullptr) Fail("got no codes of '{}', expected one of matrices()", name);
  return {*matrix, {matrix->out, matrix->in}, checkpoint.file};
}

nb::object TensorNamed(const QuantizedFile& checkpoint, const std::string& name) {
  const TensorView* const tensor = FindIn(checkpoint.file->tensors(), name);
  if (tensor == nullptr) Fail("got no tensor '{}', expected one of tensors()", name);
  const NewArray made(tensor->shape);
  ArrayValues(tensor->dtype, tensor->bytes).Read(0, 1, *ElementCount(tensor->shape), made.values);
  return made.object;
}

std::map<std::string, std::string> ProvenanceOf(const QuantizedFile& checkpoint) {
  std::map<std::string, std::string> texts;
  for (const auto& [name, text] : kProvenance) texts[name] = checkpoint.file->provenance().*text;
  return texts;
}

// The statistics file of arrays that are fed batch by batch, as tare stats --tensors writes it.
class SiteStream {
 public:
  SiteStream(const std::string& name, const std::string& axes, const std::string& sites, const std::string& formats,
             const std::string& calibrate, int64_t skip_first, int threads) {
    InTurn(threads, [&](Turn&) {
      threads_ = Threads();
      if (!axes.empty()) layout_ = CapturedLayout::Load(axes);
      stream_.emplace(
          name, layout_,
          StatisticsOptions{.sites = sites, .formats = formats, .calibrate = calibrate, .skip_first = skip_first},
          TARE_VERSION);
    });
  }

  void Feed(const std::string& name, nb::handle object) {
    const AnyArray array = ArrayOf(object, name);
    const DType type = FileType(array, name.c_str());
    if (!IsContiguous(array))
      Fail("{}: got gaps between its values, expected none; try numpy.ascontiguousarray(x)", name);
    const std::span values(static_cast<const std::byte*>(array.data()), array.nbytes());
    const std::vector<int64_t> shape = ShapeOf(array);
    if (name != "input_ids" && name != "attention_mask" && !layout_.Find({name, type, shape}, "feed"))
      Fail("{}: got an array of no site, expected one that plans have; try feed('q', layer, array)", name);
    InTurn(threads_, [&](Turn&) { stream_->Add({name, type, shape}, values); });
  }

  void Finish(const std::string& out) {
    InTurn(threads_, [&](Turn&) { stream_->Finish(out); });
  }

 private:
  int threads_ = 0;  // the same for every batch
  CapturedLayout layout_;
  std::optional<CapturedStream> stream_;
};

}  // namespace

void AddFiles(nb::module_& module) {
  using namespace nb::literals;
  nb::class_<File>(module, "File", "A Tare HDF5 file: its datasets as arrays, as they were when it was opened.")
      .def(nb::init<const std::string&>(), "path"_a)
      .def("names", Names, "paths of the datasets, sorted")
      .def("array", Array, "name"_a, "the dataset; read-only, no further copy",
           nb::sig("def array(self, name: str) -> numpy.ndarray"))
      .def("text", TextAttribute, "object"_a, "key"_a,
           "an attribute of a dataset or group ('' for the root); '' if missing")
      .def("number", NumberAttribute, "object"_a, "key"_a, "the same for an integer attribute");
  nb::class_<QuantizedFile>(module, "Checkpoint",
                            "A quantized checkpoint; opening it checks the hash of every dataset.")
      .def(nb::init<const std::string&>(), "path"_a)
      .def(
          "matrices",
          [](const QuantizedFile& c) { return std::views::keys(c.file->matrices()) | std::ranges::to<std::vector>(); },
          "names of the quantized matrices")
      .def(
          "tensors",
          [](const QuantizedFile& c) { return std::views::keys(c.file->tensors()) | std::ranges::to<std::vector>(); },
          "names of the other tensors")
      .def("quantized", MatrixNamed, "name"_a, "codes and scales [out, in], as the file has them")
      .def("tensor", TensorNamed, "name"_a, "values as float32",
           nb::sig("def tensor(self, name: str) -> numpy.ndarray"))
      .def("provenance", ProvenanceOf, "plan, plan_hash, method, source, source_sha256, calibration");
  module.def("schema", SchemaAt, "path"_a, "What an HDF5 file says it is; '' where it does not.");
  nb::class_<SiteStream>(module, "Stream", "Collects arrays for a statistics file: see tare.Statistics.")
      .def(nb::init<std::string, std::string, std::string, std::string, std::string, int64_t, int>(), "name"_a,
           "axes"_a, "sites"_a, "formats"_a, "calibrate"_a, "skip_first"_a, "threads"_a)
      .def("feed", &SiteStream::Feed, "name"_a, "array"_a, "Adds values under the name SITE.LAYER; they are copied.")
      .def("finish", &SiteStream::Finish, "out"_a, "Writes the file. Call it once, at the end.");
}

}  // namespace tare
