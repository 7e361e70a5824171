// SPDX-License-Identifier: Apache-2.0
// Hdf5Reader of hdf5.h.
#include <algorithm>
#include <array>
#include <cmath>

#include "quant/base/message.h"
#include "quant/file/hdf5.h"
#include "quant/file/hdf5_handle.h"
#include "quant/file/sha256.h"

namespace tare {
namespace {

// deflate's largest compression: a chunked dataset cannot hold more than this many times the file's bytes.
constexpr size_t kMaxCompression = 1032;

// A larger attribute is a damaged one; configurations and plans take kilobytes.
constexpr size_t kMaxAttributeBytes = size_t{64} << 20;

// Endlessly nested groups would take HDF5 minutes; files in use have only a few levels.
constexpr ptrdiff_t kMaxGroups = 32;
constexpr herr_t kTooDeep = 1;  // more than 0 ends the visit

herr_t CollectDataset(hid_t, const char* name, const H5O_info2_t* info, void* names) noexcept {
  try {
    if (std::ranges::count(std::string_view(name), '/') > kMaxGroups) return kTooDeep;
    if (info->type == H5O_TYPE_DATASET) static_cast<std::vector<std::string>*>(names)->emplace_back(name);
  } catch (...) {
    return -1;
  }
  return 0;
}

// Bytes of a chunk, and whether a filter makes them fewer.
using ChunkSize = std::pair<hsize_t, bool>;

int CheckChunk(const hsize_t*, unsigned skipped_filters, haddr_t, hsize_t bytes, void* expected) noexcept {
  const auto& [size, deflates] = *static_cast<const ChunkSize*>(expected);
  return bytes == size || (deflates && skipped_filters == 0) ? 0 : -1;
}

// One dataset that is open; HDF5 is quiet meanwhile.
class OpenDataset {
 public:
  OpenDataset(hid_t file, const std::filesystem::path& path, const std::string& name)
      : quiet_(path.c_str()),
        where_(path.string() + ": dataset '" + name + "'"),
        id_(CheckedHandle(H5Dopen2(file, ObjectPath(name), H5P_DEFAULT), H5Dclose, where_, "not there, or damaged")),
        type_(CheckedHandle(H5Dget_type(id_), H5Tclose, where_, "damaged")),
        create_(CheckedHandle(H5Dget_create_plist(id_), H5Pclose, where_, "damaged")) {}

  const std::string& where() const { return where_; }
  hid_t id() const { return id_; }
  hid_t type() const { return type_; }

  DType dtype() const {
    const std::optional<DType> dtype = DTypeOfFile(type_);
    if (!dtype) Fail("{}: got another type, expected a little-endian integer, f32 or f64; try converting it", where_);
    return *dtype;
  }

  std::vector<int64_t> Shape() const {
    const Hdf5Handle space = CheckedHandle(H5Dget_space(id_), H5Sclose, where_, "damaged");
    const H5S_class_t kind = H5Sget_simple_extent_type(space);
    if (kind != H5S_SIMPLE && kind != H5S_SCALAR) Fail("{}: holds no values", where_);
    std::vector<hsize_t> dims(kind == H5S_SIMPLE ? static_cast<size_t>(std::max(0, H5Sget_simple_extent_ndims(space)))
                                                 : 0);
    CheckHdf5(H5Sget_simple_extent_dims(space, dims.data(), nullptr), where_, "damaged");
    std::vector<int64_t> shape;
    for (const hsize_t n : dims) shape.push_back(n > INT64_MAX ? -1 : static_cast<int64_t>(n));
    if (!ByteCount(dtype(), shape)) Fail("{}: got shape {}, too large for any file", where_, ShapeText(shape));
    return shape;
  }

  size_t ByteSize() const { return static_cast<size_t>(*ByteCount(dtype(), Shape())); }

  // Other filters would run on unchecked bytes (HDF5 1.14's fletcher32 reads before an empty chunk).
  void CheckFilters() const {
    ChunkSize size(H5Tget_size(type_), false);
    for (int i = 0; i < H5Pget_nfilters(create_); ++i) {
      unsigned flags = 0;
      size_t values = 0;
      const H5Z_filter_t filter =
          H5Pget_filter2(create_, static_cast<unsigned>(i), &flags, &values, nullptr, 0, nullptr, nullptr);
      if (filter != H5Z_FILTER_DEFLATE && filter != H5Z_FILTER_SHUFFLE)
        Fail("{}: got HDF5 filter {}, expected deflate, shuffle or none; try saving it without", where_, filter);
      size.second |= filter == H5Z_FILTER_DEFLATE;
    }
    // The library would read on behind what it got from the file.
    std::array<hsize_t, H5S_MAX_RANK> chunk{};
    const int axes = H5Pget_chunk(create_, H5S_MAX_RANK, chunk.data());
    for (int i = 0; i < axes; ++i) size.first *= chunk[static_cast<size_t>(i)];
    if (axes > 0 && H5Dchunk_iter(id_, H5P_DEFAULT, CheckChunk, &size) < 0)
      Fail("{}: damaged: a chunk has another size than its shape", where_);
  }

  std::vector<std::byte> ReadRows(const RowRange& rows) const {
    const std::vector<int64_t> shape = Shape();
    std::vector<hsize_t> begin(shape.size()), size(shape.size(), 1);
    int64_t index = rows.first;
    for (size_t axis = shape.size() - 1; axis-- > 0; index /= shape[axis])
      begin[axis] = static_cast<hsize_t>(index % shape[axis]);
    *(size.end() - 2) = static_cast<hsize_t>(rows.count), size.back() = static_cast<hsize_t>(shape.back());
    const Hdf5Handle from = CheckedHandle(H5Dget_space(id_), H5Sclose, where_, "damaged");
    const auto axes = static_cast<int>(size.size());
    const Hdf5Handle to = CheckedHandle(H5Screate_simple(axes, size.data(), nullptr), H5Sclose, where_, "damaged");
    CheckHdf5(H5Sselect_hyperslab(from, H5S_SELECT_SET, begin.data(), nullptr, size.data(), nullptr), where_,
              "damaged");
    std::vector<std::byte> raw(static_cast<size_t>(rows.count * shape.back()) * H5Tget_size(type_));
    CheckHdf5(H5Dread(id_, type_, to, from, H5P_DEFAULT, raw.data()), where_, "damaged");
    return raw;
  }

  // The SHA-256 of all values, of which a few rows are in memory at a time.
  std::string HashOfRows() const {
    const std::vector<int64_t> shape = Shape();
    const int64_t of_index = *(shape.end() - 2), rows = *ElementCount(shape) / std::max<int64_t>(1, shape.back());
    Sha256 sha;
    for (int64_t first = 0, count = 0; first < rows; first += count)
      sha.Add(ReadRows({first, count = std::min<int64_t>(64, of_index - first % of_index)}));
    return sha.Hex();
  }

  bool IsContiguous() const { return H5Pget_layout(create_) == H5D_CONTIGUOUS && !IsOutside(); }
  bool IsOutside() const { return H5Pget_external_count(create_) != 0 || H5Pget_layout(create_) == H5D_VIRTUAL; }

 private:
  QuietHdf5 quiet_;
  std::string where_;
  Hdf5Handle id_, type_, create_;
};

// The part of the mapped file that a contiguous dataset is.
std::span<const std::byte> Place(const OpenDataset& dataset, const MappedFile& file) {
  const size_t size = dataset.ByteSize();
  if (size == 0) return {};
  const haddr_t offset = H5Dget_offset(dataset.id());
  if (offset > file.bytes().size() || size > file.bytes().size() - offset)
    Fail("{}: its {} bytes are not all in the file; it was cut short or never written", dataset.where(), size);
  return file.bytes().subspan(offset, size);
}

template <typename To, typename From>
bool Fits(From value) {
  if constexpr (std::is_integral_v<From> && std::is_integral_v<To>) return std::in_range<To>(value);
  if constexpr (std::is_same_v<To, float>) return !std::isfinite(value) || std::isfinite(static_cast<float>(value));
  return true;
}

template <typename To>
std::vector<To> ConvertFrom(DType dtype, std::span<const std::byte> raw, const std::string& where) {
  std::vector<To> values;
  const auto is = [&]<typename From>(From) {
    if (dtype != DTypeOf<From>()) return false;
    values.resize(raw.size() / sizeof(From));
    for (size_t i = 0; i < values.size(); ++i) {
      const auto value = Load<From>(raw.data() + i * sizeof(From));
      if (!Fits<To>(value)) Fail("{}: value {} at {} does not fit {}", where, value, i, Name(DTypeOf<To>()));
      values[i] = static_cast<To>(value);
    }
    return true;
  };
  constexpr bool kReal = std::is_floating_point_v<To>;
  const bool known = kReal ? is(float()) || is(double())
                           : is(int8_t()) || is(uint8_t()) || is(int16_t()) || is(uint16_t()) || is(int32_t()) ||
                                 is(uint32_t()) || is(int64_t()) || is(uint64_t());
  if (!known) Fail("{}: got {}, expected {}", where, Name(dtype), kReal ? "F32 or F64" : "integers");
  return values;
}

// One attribute that is open, a single value; likewise.
class OpenAttribute {
 public:
  OpenAttribute(hid_t file, const std::filesystem::path& path, const std::string& object, const std::string& key)
      : quiet_(path.c_str()),
        where_(Formatted("{}: '{}': attribute '{}'", path.string(), ObjectPath(object), key)),
        object_(CheckedHandle(H5Oopen(file, ObjectPath(object), H5P_DEFAULT), H5Oclose, where_, "no such object")),
        id_(CheckedHandle(H5Aopen(object_, key.c_str(), H5P_DEFAULT), H5Aclose, where_, "not there, or damaged")),
        type_(CheckedHandle(H5Aget_type(id_), H5Tclose, where_, "damaged")) {
    if (H5Tget_size(type_) > kMaxAttributeBytes) Fail("{}: got {} bytes, too large", where_, H5Tget_size(type_));
    const Hdf5Handle space = CheckedHandle(H5Aget_space(id_), H5Sclose, where_, "damaged");
    if (H5Sget_simple_extent_npoints(space) != 1) Fail("{}: got an array, expected one value", where_);
  }

  int64_t Integer() const {
    int64_t value;
    if (H5Tget_class(type_) != H5T_INTEGER || H5Tget_size(type_) > sizeof value)
      Fail("{}: expected an integer", where_);
    CheckHdf5(H5Aread(id_, H5T_NATIVE_INT64, &value), where_, "damaged");
    return value;
  }

  // Variable-length strings are refused: no checksum guards their heap, and a damaged one loops HDF5 1.14.5 forever.
  std::string Text() const {
    if (H5Tget_class(type_) != H5T_STRING || H5Tis_variable_str(type_) != 0)
      Fail("{}: expected a string of fixed length (numpy.bytes_ in h5py)", where_);
    std::string text(H5Tget_size(type_), '\0');
    CheckHdf5(H5Aread(id_, type_, text.data()), where_, "damaged");
    if (H5Tget_strpad(type_) == H5T_STR_NULLTERM) text.erase(std::min(text.find('\0'), text.size()));
    const char padding = H5Tget_strpad(type_) == H5T_STR_SPACEPAD ? ' ' : '\0';
    text.erase(text.find_last_not_of(padding) + 1);
    return text;
  }

 private:
  QuietHdf5 quiet_;
  std::string where_;
  Hdf5Handle object_, id_, type_;
};

}  // namespace

Hdf5Reader::Hdf5Reader(MappedFile file) : file_(std::move(file)) {
  const QuietHdf5 quiet(path().c_str());
  const std::string where = path().string();
  constexpr std::string_view kSignature = "\x89HDF\r\n\x1a\n";  // after 0, 512, 1024, ... bytes of a user's own
  bool is_hdf5 = false;
  for (size_t at = 0; at < file_.bytes().size() && !is_hdf5; at = std::max<size_t>(512, 2 * at))
    is_hdf5 = file_.text().substr(at).starts_with(kSignature);
  if (!is_hdf5) Fail("{}: got {} bytes that are not an HDF5 file; try making it again", where, file_.bytes().size());
  id_ = OpenHdf5(file_.bytes(), where);
}

// The other constructor has ended, so that the destructor closes a file that is refused here.
Hdf5Reader::Hdf5Reader(const std::filesystem::path& path) : Hdf5Reader(MappedFile(path)) {
  // Files that were written before there was one have no such attribute.
  if (HasAttribute("", "datasets") && StringAttribute("", "datasets") != HashOfNames(datasets()))
    Fail("{}: damaged: a dataset is missing or was renamed; try making it again", path.string());
}

Hdf5Reader::Hdf5Reader(Hdf5Reader&& other) noexcept
    : file_(std::move(other.file_)), id_(std::exchange(other.id_, -1)), checked_(std::move(other.checked_)) {}

Hdf5Reader::~Hdf5Reader() {
  const QuietHdf5 quiet(path().c_str());
  if (id_ >= 0) H5Fclose(id_);
}

std::vector<std::string> Hdf5Reader::datasets() const {
  const QuietHdf5 quiet(path().c_str());
  std::vector<std::string> names;
  // In the file's own order: else HDF5 makes a table, and frees what it has not filled where a heap cannot be read.
  const herr_t visited = H5Ovisit3(id_, H5_INDEX_NAME, H5_ITER_NATIVE, CollectDataset, &names, H5O_INFO_BASIC);
  CheckHdf5(visited, path().string(), "damaged");
  if (visited == kTooDeep)
    Fail("{}: got groups nested deeper than {}, expected fewer; is this the right file?", path().string(), kMaxGroups);
  std::ranges::sort(names);
  return names;
}

bool Hdf5Reader::Has(const std::string& name) const {
  const QuietHdf5 quiet(path().c_str());
  const Hdf5Handle object(H5Oopen(id_, ObjectPath(name), H5P_DEFAULT), H5Oclose);
  return object >= 0 && H5Iget_type(object) == H5I_DATASET;
}

std::vector<int64_t> Hdf5Reader::Shape(const std::string& name) const { return OpenDataset(id_, path(), name).Shape(); }

DType Hdf5Reader::Type(const std::string& name) const { return OpenDataset(id_, path(), name).dtype(); }

std::span<const std::byte> Hdf5Reader::Bytes(const std::string& name) const {
  const OpenDataset dataset(id_, path(), name);
  if (!dataset.IsContiguous())
    Fail("{}: got a chunked, compressed or external dataset, expected a contiguous one", dataset.where());
  const std::span<const std::byte> bytes = Place(dataset, file_);
  const bool first = !checked_.contains(name);
  CheckHash(name, [&] { return Sha256Hex(bytes); });
  if (first) file_.Release(bytes);  // a model may be larger than memory
  return bytes;
}

void Hdf5Reader::CheckHash(const std::string& name, const std::function<std::string()>& hash) const {
  if (checked_.contains(name)) return;
  if (HasAttribute(name, "sha256")) {
    const std::string expected = StringAttribute(name, "sha256"), got = hash();
    if (got != expected)
      Fail("{}: dataset '{}': damaged: got SHA-256 {}, expected {}; try making it again", path().string(), name, got,
           expected);
  } else if (HasAttribute("", "schema")) {
    Notice(path().string() + ": has no checksums (another program saved it); it is read unchecked");
  }
  checked_.insert(name);  // only now: who asks for a damaged one again is refused again
}

std::vector<std::byte> Hdf5Reader::Copy(const std::string& name, std::optional<RowRange> rows) const {
  const OpenDataset dataset(id_, path(), name);
  if (dataset.IsOutside()) Fail("{}: its values are kept in another file, expected them in this one", dataset.where());
  if (dataset.IsContiguous()) {
    const std::span<const std::byte> all = Bytes(name),
                                     part = rows ? rows->Of(all, dataset.dtype(), dataset.Shape()) : all;
    std::vector<std::byte> copy(part.begin(), part.end());
    if (rows) file_.Release(part);
    return copy;
  }
  dataset.CheckFilters();
  const size_t size = dataset.ByteSize();
  if (size / kMaxCompression > file_.bytes().size())
    Fail("{}: got {} bytes, more than its file can hold", dataset.where(), size);
  if (rows) {
    CheckHash(name, [&] { return dataset.HashOfRows(); });
    return dataset.ReadRows(*rows);
  }
  std::vector<std::byte> raw(size);
  if (size > 0)
    CheckHdf5(H5Dread(dataset.id(), dataset.type(), H5S_ALL, H5S_ALL, H5P_DEFAULT, raw.data()), dataset.where(),
              "damaged");
  CheckHash(name, [&] { return Sha256Hex(raw); });
  return raw;
}

template <typename T>
std::vector<T> Hdf5Reader::Read(const std::string& name) const {
  return ConvertFrom<T>(Type(name), Copy(name), path().string() + ": dataset '" + name + "'");
}

template std::vector<int8_t> Hdf5Reader::Read<int8_t>(const std::string&) const;
template std::vector<int16_t> Hdf5Reader::Read<int16_t>(const std::string&) const;
template std::vector<uint8_t> Hdf5Reader::Read<uint8_t>(const std::string&) const;
template std::vector<uint16_t> Hdf5Reader::Read<uint16_t>(const std::string&) const;
template std::vector<int32_t> Hdf5Reader::Read<int32_t>(const std::string&) const;
template std::vector<uint32_t> Hdf5Reader::Read<uint32_t>(const std::string&) const;
template std::vector<int64_t> Hdf5Reader::Read<int64_t>(const std::string&) const;
template std::vector<uint64_t> Hdf5Reader::Read<uint64_t>(const std::string&) const;
template std::vector<float> Hdf5Reader::Read<float>(const std::string&) const;
template std::vector<double> Hdf5Reader::Read<double>(const std::string&) const;

bool Hdf5Reader::HasAttribute(const std::string& object, const std::string& key) const {
  const QuietHdf5 quiet(path().c_str());
  const Hdf5Handle target(H5Oopen(id_, ObjectPath(object), H5P_DEFAULT), H5Oclose);
  return target >= 0 && H5Aexists(target, key.c_str()) > 0;
}

std::string Hdf5Reader::StringAttribute(const std::string& object, const std::string& key) const {
  return OpenAttribute(id_, path(), object, key).Text();
}

int64_t Hdf5Reader::IntAttribute(const std::string& object, const std::string& key) const {
  return OpenAttribute(id_, path(), object, key).Integer();
}

void Hdf5Reader::Verify(const std::function<void(int64_t, int64_t)>& progress) const {
  if (!HasAttribute("", "complete") || IntAttribute("", "complete") != 1)
    Fail("{}: not marked complete: Tare did not write it, or did not finish; try making it again", path().string());
  int64_t seen = 0;
  for (const std::string& name : datasets()) {
    if (!HasAttribute(name, "sha256"))
      Fail("{}: dataset '{}': has no SHA-256, expected one; try making it again", path().string(), name);
    seen += std::ssize(Bytes(name));
    if (progress) progress(seen, std::ssize(file_.bytes()));
  }
}

void Hdf5Reader::Release(const std::string& name) const { file_.Release(Bytes(name)); }

std::string SchemaOf(const std::filesystem::path& path) try {
  const Hdf5Reader file(path);
  return file.HasAttribute("", "schema") ? file.StringAttribute("", "schema") : "";
} catch (const Error&) {
  return "";
}

}  // namespace tare
