// SPDX-License-Identifier: Apache-2.0
// Hdf5Writer of hdf5.h.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <ranges>

#include "quant/base/message.h"
#include "quant/file/hdf5.h"
#include "quant/file/hdf5_handle.h"
#include "quant/file/output_folder.h"
#include "quant/file/sha256.h"

namespace tare {
namespace {

constexpr hsize_t kAlignment = 64;  // a cache line, and the widest vector

// Up to this many links and attributes stay in the object's own header, which a checksum guards. HDF5 1.14 crashes (in
// H5G__link_release_table) on a damaged heap, which holds larger numbers.
constexpr unsigned kMostCompact = 1000;

// Properties for creating an object of this class, without times.
Hdf5Handle TimelessProperties(hid_t property_class, const std::string& where) {
  Hdf5Handle properties = CheckedHandle(H5Pcreate(property_class), H5Pclose, where, "properties");
  CheckHdf5(H5Pset_obj_track_times(properties, false), where, "object times");
  CheckHdf5(H5Pset_attr_phase_change(properties, kMostCompact, 0), where, "place of attributes");
  return properties;
}

// TimelessProperties for a group, also for the root.
Hdf5Handle GroupProperties(hid_t property_class, const std::string& where) {
  Hdf5Handle properties = TimelessProperties(property_class, where);
  CheckHdf5(H5Pset_link_phase_change(properties, kMostCompact, 0), where, "place of links");
  return properties;
}

Hdf5Handle Space(const std::vector<int64_t>& shape, const std::string& where) {
  const std::vector<hsize_t> dims(shape.begin(), shape.end());
  const hid_t space =
      dims.empty() ? H5Screate(H5S_SCALAR) : H5Screate_simple(static_cast<int>(dims.size()), dims.data(), nullptr);
  return CheckedHandle(space, H5Sclose, where, "dataspace");
}

// The number HDF5 stores for a value, and its type.
Hdf5Handle AttributeType(const Hdf5Writer::Value& value, const std::string& where) {
  if (std::holds_alternative<int64_t>(value)) return CheckedHandle(H5Tcopy(H5T_STD_I64LE), H5Tclose, where, "type");
  // The length is fixed: HDF5 keeps strings of variable length apart, where no checksum guards them. None has length 0.
  Hdf5Handle type = CheckedHandle(H5Tcopy(H5T_C_S1), H5Tclose, where, "type");
  CheckHdf5(H5Tset_size(type, std::max<size_t>(1, std::get<std::string>(value).size())), where, "string length");
  CheckHdf5(H5Tset_strpad(type, H5T_STR_NULLPAD), where, "string padding");
  CheckHdf5(H5Tset_cset(type, H5T_CSET_UTF8), where, "character set");
  return type;
}

void PutAttribute(hid_t file, const std::string& object, const std::string& key, const Hdf5Writer::Value& value,
                  const std::string& where) {
  const Hdf5Handle target =
      CheckedHandle(H5Oopen(file, ObjectPath(object), H5P_DEFAULT), H5Oclose, where, "no such object");
  const Hdf5Handle type = AttributeType(value, where);
  const Hdf5Handle space = Space({}, where);
  if (H5Aexists(target, key.c_str()) > 0) CheckHdf5(H5Adelete(target, key.c_str()), where, "replacing the attribute");
  const Hdf5Handle attribute = CheckedHandle(H5Acreate2(target, key.c_str(), type, space, H5P_DEFAULT, H5P_DEFAULT),
                                             H5Aclose, where, "creating the attribute");
  const auto* const number = std::get_if<int64_t>(&value);
  const void* const bytes = number != nullptr ? number : static_cast<const void*>(std::get<std::string>(value).c_str());
  CheckHdf5(H5Awrite(attribute, type, bytes), where, "writing the attribute");
}

// "a", "a/b": no empty parts, no "." or "..".
void CheckName(const std::string& name, const std::string& where) {
  const auto is_bad = [](const auto& range) {
    const std::string_view part(range);
    return part.empty() || part == "." || part == ".." || part.contains('\0');
  };
  if (name.empty() || std::ranges::any_of(std::views::split(name, '/'), is_bad))
    Fail("{}: got the dataset name '{}', expected one like 'codes' or 'layer.0/codes'", where, name);
}

// Discards all later writes to the file. HDF5 cannot drop its buffers: closing an unwanted file still writes it out,
// and if that fails (the disk is full), the library leaks it and complains on stderr when the process ends.
void Divert(hid_t file) {
  void* handle = nullptr;
  if (H5Fget_vfd_handle(file, H5P_DEFAULT, &handle) < 0 || handle == nullptr) return;
  const Descriptor nowhere(open("/dev/null", O_WRONLY | O_CLOEXEC));
  if (nowhere.get() >= 0) dup2(nowhere.get(), *static_cast<int*>(handle));
}

void CheckWritten(int64_t result, const std::string& where) {
  if (result < 0)
    Fail("{}: writing failed: {}; try freeing space there, or write to another folder", where, Hdf5Reason());
}

}  // namespace

Hdf5Writer::Hdf5Writer(const std::filesystem::path& path) : file_(path) {
  const QuietHdf5 quiet;
  const std::string where = path.string();
  const Hdf5Handle create = GroupProperties(H5P_FILE_CREATE, where);
  // Format 1.10 and no newer, whatever the library, for checksummed metadata and equal bytes. No lock, because the
  // temporary belongs to this process and some network file systems refuse locks.
  const Hdf5Handle access = CheckedHandle(H5Pcreate(H5P_FILE_ACCESS), H5Pclose, where, "file access properties");
  CheckHdf5(H5Pset_libver_bounds(access, H5F_LIBVER_V110, H5F_LIBVER_V110), where, "format version");
  CheckHdf5(H5Pset_alignment(access, 1, kAlignment), where, "alignment");
  CheckHdf5(H5Pset_file_locking(access, false, true), where, "locking");
  // On a disk that is full already the library would fail, and leak, while it creates; so this is tried first.
  file_.Write(std::string(4096, '\0'));
  id_ = H5Fcreate(file_.path().c_str(), H5F_ACC_TRUNC, create, access);
  CheckWritten(id_, where);
}

Hdf5Writer::~Hdf5Writer() {
  const QuietHdf5 quiet;
  if (id_ < 0) return;
  Divert(id_);
  H5Fclose(id_);
}

Hdf5Writer::Dataset& Hdf5Writer::Find(const std::string& name) {
  TARE_CHECK(id_ >= 0);
  const auto found = datasets_.find(name);
  if (found == datasets_.end()) Fail("{}: dataset '{}': not created yet", file_.final_path().string(), name);
  return found->second;
}

void Hdf5Writer::CreateGroupsOf(const std::string& name) {
  const std::string where = file_.final_path().string() + ": dataset '" + name + "'";
  for (size_t slash = name.find('/'); slash != name.npos; slash = name.find('/', slash + 1)) {
    const std::string group = name.substr(0, slash);
    if (H5Lexists(id_, group.c_str(), H5P_DEFAULT) > 0) continue;
    const Hdf5Handle properties = GroupProperties(H5P_GROUP_CREATE, where);
    CheckedHandle(H5Gcreate2(id_, group.c_str(), H5P_DEFAULT, properties, H5P_DEFAULT), H5Gclose, where,
                  "creating its group");
  }
}

void Hdf5Writer::CreateDataset(const std::string& name, DType dtype, const std::vector<int64_t>& shape) {
  const QuietHdf5 quiet;
  TARE_CHECK(id_ >= 0);
  const std::string where = file_.final_path().string() + ": dataset '" + name + "'";
  CheckName(name, file_.final_path().string());
  if (datasets_.contains(name)) Fail("{}: created twice", where);
  const std::optional<hid_t> type = FileType(dtype);
  if (!type) Fail("{}: got dtype {}, expected an integer, F32 or F64", where, Name(dtype));
  if (!ByteCount(dtype, shape)) Fail("{}: got shape {}, too large or negative", where, ShapeText(shape));
  CreateGroupsOf(name);
  const Hdf5Handle space = Space(shape, where);
  const Hdf5Handle create = TimelessProperties(H5P_DATASET_CREATE, where);
  CheckHdf5(H5Pset_layout(create, H5D_CONTIGUOUS), where, "layout");
  CheckHdf5(H5Pset_alloc_time(create, H5D_ALLOC_TIME_EARLY), where, "allocation time");
  CheckHdf5(H5Pset_fill_time(create, H5D_FILL_TIME_NEVER), where, "fill time");  // every row will be written
  const Hdf5Handle id = CheckedHandle(H5Dcreate2(id_, name.c_str(), *type, space, H5P_DEFAULT, create, H5P_DEFAULT),
                                      H5Dclose, where, "creating failed");
  const int64_t offset = *ElementCount(shape) == 0 ? 0 : static_cast<int64_t>(H5Dget_offset(id));
  datasets_.emplace(name, Dataset{dtype, shape, offset});
}

// Bypasses the library: the dataset's bytes are contiguous at a known offset, and the library never buffers any.
void Hdf5Writer::WriteAt(const std::string& name, int64_t first, int64_t count, const void* values) {
  Dataset& dataset = Find(name);
  const int64_t size = *ElementCount(dataset.shape);
  if (first < 0 || count < 0 || first > size || count > size - first)
    Fail("{}: dataset '{}': got {} values at {}, expected inside its {}", file_.final_path().string(), name, count,
         first, size);
  std::atomic_ref(dataset.values_written).fetch_add(count, std::memory_order_relaxed);
  const int64_t width = Bits(dataset.dtype) / 8;
  file_.WriteAt(dataset.offset + first * width, {static_cast<const char*>(values), static_cast<size_t>(count * width)});
}

void Hdf5Writer::WriteDataset(const std::string& name, DType dtype, const std::vector<int64_t>& shape,
                              const void* values) {
  CreateDataset(name, dtype, shape);
  WriteAt(name, 0, *ElementCount(shape), values);
}

void Hdf5Writer::SetAttribute(const std::string& object, const std::string& key, const Value& value) {
  const QuietHdf5 quiet;
  TARE_CHECK(id_ >= 0);
  const std::string where = Formatted("{}: '{}': attribute '{}'", file_.final_path().string(), ObjectPath(object), key);
  const auto* text = std::get_if<std::string>(&value);
  if (text != nullptr && text->find('\0') != text->npos) Fail("{}: got text with a NUL, expected none", where);
  if (key.empty() || key == "sha256" || key == "datasets" || key == "complete")
    Fail("{}: the name is taken; try another", where);
  PutAttribute(id_, object, key, value, where);
}

// Hashes are of the file's contents, not of the data passed in.
void Hdf5Writer::Seal() {
  const std::string where = file_.final_path().string();
  CheckWritten(H5Fflush(id_, H5F_SCOPE_GLOBAL), where);
  const MappedFile written(file_.path());
  std::vector<std::string> names;
  for (const auto& [name, dataset] : datasets_) {
    names.push_back(name);
    const std::string here = where + ": dataset '" + name + "'";
    const int64_t values = *ElementCount(dataset.shape);
    if (dataset.values_written != values) Fail("{}: got {} of its {} values", here, dataset.values_written, values);
    const auto offset = static_cast<size_t>(dataset.offset),
               size = static_cast<size_t>(values * Bits(dataset.dtype) / 8);
    TARE_CHECK(offset <= written.bytes().size() && size <= written.bytes().size() - offset);
    const std::span<const std::byte> bytes = written.bytes().subspan(offset, size);
    PutAttribute(id_, name, "sha256", Sha256Hex(bytes), here);
    written.Release(bytes);
  }
  PutAttribute(id_, "", "datasets", HashOfNames(names), where);
  CheckWritten(H5Fflush(id_, H5F_SCOPE_GLOBAL), where);
  PutAttribute(id_, "", "complete", int64_t{1}, where);
  CheckWritten(H5Fflush(id_, H5F_SCOPE_GLOBAL), where);
}

void Hdf5Writer::Commit() {
  const QuietHdf5 quiet;
  TARE_CHECK(id_ >= 0);
  Seal();
  CheckWritten(H5Fclose(std::exchange(id_, -1)), file_.final_path().string());
  file_.Commit();
}

}  // namespace tare
