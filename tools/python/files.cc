// SPDX-License-Identifier: Apache-2.0
// Tare's HDF5 files for Python: any file as mapped arrays, and quantized checkpoints by tensor.
#include <nanobind/stl/map.h>
#include <nanobind/stl/vector.h>

#include <memory>

#include "experiments/arrays/array_file.h"
#include "quant/base/error.h"
#include "quant/file/hdf5.h"
#include "quant/file/quantized_checkpoint.h"
#include "tools/python/module.h"

namespace nb = nanobind;

namespace tare {
namespace {

// Opens, reads and closes under a Turn, because HDF5 has at most one lock.
template <typename T>
std::shared_ptr<T> Opened(const std::string& path) {
  const nb::gil_scoped_release released;
  const Turn turn(0);
  return {new T(path), [](T* file) {
            if (ForkedAfterTurn()) return;  // the file is the parent's
            const Turn closing(0);
            delete file;
          }};
}

struct File {
  explicit File(const std::string& path) : reader(Opened<Hdf5Reader>(path)) {}
  std::shared_ptr<Hdf5Reader> reader;
};

nb::dlpack::dtype ArrayType(DType type) {
  const std::string_view name = Name(type);
  const auto code = name.starts_with('F')   ? nb::dlpack::dtype_code::Float
                    : name.starts_with('U') ? nb::dlpack::dtype_code::UInt
                                            : nb::dlpack::dtype_code::Int;
  return {static_cast<uint8_t>(code), static_cast<uint8_t>(Bits(type)), 1};
}

// A dataset in the mapped file, its hash checked the first time; the array keeps the file open.
nb::object Array(nb::handle self, const std::string& name) {
  const File& file = nb::cast<const File&>(self);
  const Turn turn(0);
  if (!file.reader->Has(name))
    Fail("{}: got no dataset '{}', expected one of names()", file.reader->path().string(), name);
  const std::vector<int64_t> shape = file.reader->Shape(name);
  const std::vector<size_t> sizes(shape.begin(), shape.end());
  const std::span<const std::byte> bytes = file.reader->Bytes(name);
  return nb::cast(nb::ndarray<nb::numpy, nb::ro>(bytes.data(), sizes.size(), sizes.data(), self, nullptr,
                                                 ArrayType(file.reader->Type(name))));
}

std::string TextAttribute(const File& file, const std::string& object, const std::string& key) {
  const Turn turn(0);
  return file.reader->HasAttribute(object, key) ? file.reader->StringAttribute(object, key) : "";
}

int64_t NumberAttribute(const File& file, const std::string& object, const std::string& key) {
  const Turn turn(0);
  return file.reader->IntAttribute(object, key);
}

std::vector<std::string> Names(const File& file) {
  const Turn turn(0);
  return file.reader->datasets();
}

struct Checkpoint {
  explicit Checkpoint(const std::string& path) : file(Opened<QuantizedCheckpoint>(path)) {}
  std::shared_ptr<QuantizedCheckpoint> file;
};

Quantized MatrixNamed(const Checkpoint& checkpoint, const std::string& name) {
  const auto& matrices = checkpoint.file->matrices();
  const auto found = matrices.find(name);
  if (found == matrices.end()) Fail("got no codes of '{}', expected one of matrices()", name);
  return {found->second, {found->second.out, found->second.in}, checkpoint.file};
}

nb::object TensorNamed(const Checkpoint& checkpoint, const std::string& name) {
  const auto& tensors = checkpoint.file->tensors();
  const auto found = tensors.find(name);
  if (found == tensors.end()) Fail("got no tensor '{}', expected one of tensors()", name);
  const TensorView& tensor = found->second;
  const NewArray made(tensor.shape);
  ArrayValues(tensor.dtype, tensor.bytes).Read(0, 1, *ElementCount(tensor.shape), made.values);
  return made.object;
}

template <typename Map>
std::vector<std::string> KeysOf(const Map& map) {
  std::vector<std::string> names;
  for (const auto& [name, value] : map) names.push_back(name);
  return names;
}

std::map<std::string, std::string> ProvenanceOf(const Checkpoint& checkpoint) {
  const Provenance& p = checkpoint.file->provenance();
  return {{"plan", p.plan},     {"plan_hash", p.plan_hash},         {"method", p.method},
          {"source", p.source}, {"source_sha256", p.source_sha256}, {"calibration", p.calibration}};
}

}  // namespace

void AddFiles(nb::module_& module) {
  using namespace nb::literals;
  nb::class_<File>(module, "File", "A Tare HDF5 file: its datasets as arrays that map the file.")
      .def(nb::init<const std::string&>(), "path"_a)
      .def("names", Names, "paths of the datasets, sorted")
      .def("array", Array, "name"_a, "the dataset; read-only, no copy",
           nb::sig("def array(self, name: str) -> numpy.ndarray"))
      .def("text", TextAttribute, "object"_a, "key"_a,
           "an attribute of a dataset or group ('' for the root); '' if missing")
      .def("number", NumberAttribute, "object"_a, "key"_a, "the same for an integer attribute");
  nb::class_<Checkpoint>(module, "Checkpoint", "A quantized checkpoint; opening it checks the hash of every dataset.")
      .def(nb::init<const std::string&>(), "path"_a)
      .def(
          "matrices", [](const Checkpoint& c) { return KeysOf(c.file->matrices()); }, "names of the quantized matrices")
      .def(
          "tensors", [](const Checkpoint& c) { return KeysOf(c.file->tensors()); }, "names of the other tensors")
      .def("quantized", MatrixNamed, "name"_a, "codes and scales [out, in], as mapped from the file")
      .def("tensor", TensorNamed, "name"_a, "values as float32",
           nb::sig("def tensor(self, name: str) -> numpy.ndarray"))
      .def("provenance", ProvenanceOf, "plan, plan_hash, method, source, source_sha256, calibration");
}

}  // namespace tare
