// SPDX-License-Identifier: Apache-2.0
// Types, reasons, the file driver, and what hdf5_handle.h declares.
#include "quant/file/hdf5_handle.h"

#include <array>
#include <cstring>
#include <memory>
#include <string_view>

#include "quant/base/message.h"
#include "quant/file/sha256.h"

namespace tare {
namespace {

// The library makes its types when it is first used, so the table cannot be constant.
std::vector<std::pair<DType, hid_t>> Types() {
  return {{DType::kI8, H5T_STD_I8LE},   {DType::kU8, H5T_STD_U8LE},   {DType::kI16, H5T_STD_I16LE},
          {DType::kU16, H5T_STD_U16LE}, {DType::kI32, H5T_STD_I32LE}, {DType::kU32, H5T_STD_U32LE},
          {DType::kI64, H5T_STD_I64LE}, {DType::kU64, H5T_STD_U64LE}, {DType::kF32, H5T_IEEE_F32LE},
          {DType::kF64, H5T_IEEE_F64LE}};
}

// Walking upward starts at the innermost entry; a positive result ends the walk.
herr_t TakeFirst(unsigned, const H5E_error2_t* error, void* text) noexcept {
  try {
    *static_cast<std::string*>(text) = error->desc == nullptr ? "" : error->desc;
  } catch (...) {
    return -1;
  }
  return 1;
}

// ---- HDF5's file driver for bytes in memory (OpenHdf5): HDF5 reads what is checked here, whatever its name leads to,
// and takes no lock. It opens no linked file. Filters of groups and attributes would run on unchecked bytes: they fail.

using Bytes = std::span<const std::byte>;

struct OpenBytes : H5FD_t {
  Bytes bytes;
  haddr_t end_of_allocation = 0;
};

// A file that a link names gets no bytes with its access properties.
H5FD_t* Open(const char*, unsigned flags, hid_t access, haddr_t) {
  const auto* const bytes = static_cast<const Bytes*>(H5Pget_driver_info(access));
  if (bytes == nullptr || (flags & H5F_ACC_RDWR) != 0) return nullptr;
  return std::make_unique<OpenBytes>(OpenBytes{{}, *bytes}).release();
}

herr_t Close(H5FD_t* file) {
  delete static_cast<OpenBytes*>(file);
  return 0;
}

haddr_t EndOfAllocation(const H5FD_t* file, H5FD_mem_t) {
  return static_cast<const OpenBytes*>(file)->end_of_allocation;
}

herr_t SetEndOfAllocation(H5FD_t* file, H5FD_mem_t, haddr_t end) {
  static_cast<OpenBytes*>(file)->end_of_allocation = end;
  return 0;
}

haddr_t EndOfFile(const H5FD_t* file, H5FD_mem_t) { return static_cast<const OpenBytes*>(file)->bytes.size(); }

// The library makes heaps and B-trees with the same numbers each time. It believes others, and computes sizes from them
// or divides. A number of a header, by its place in bytes (HDF5 File Format Specification 3.0, III).
struct Field {
  size_t place, size;
};

class Header {
 public:
  explicit Header(std::string_view read) : read_(read) {}
  bool Is(std::string_view signature) const { return read_.starts_with(signature); }
  uint64_t operator[](Field field) const {
    uint64_t number = 0;
    std::memcpy(&number, read_.data() + field.place, field.place + field.size <= read_.size() ? field.size : 0);
    return number;
  }

 private:
  std::string_view read_;
};

// A heap has a group's links or an object's attributes.
bool IsHeapAsMade(const Header& heap) {
  constexpr Field kIdBytes{5, 2}, kFilterBytes{7, 2}, kLargestObject{10, 4};
  constexpr Field kBlocksInRow{110, 2}, kFirstBlock{112, 8}, kLargestBlock{120, 8}, kAddressBits{128, 2};
  constexpr uint64_t kLinkIdBytes = 7, kAttributeIdBytes = 8;
  const bool links = heap[kIdBytes] == kLinkIdBytes;
  return (links || heap[kIdBytes] == kAttributeIdBytes) && heap[kFilterBytes] == 0 && heap[kLargestObject] == 4096 &&
         heap[kBlocksInRow] == 4 && heap[kFirstBlock] == (links ? 512 : 1024) && heap[kLargestBlock] == 65536 &&
         heap[kAddressBits] == (links ? 32 : 40);
}

bool IsTreeAsMade(const Header& tree) {
  constexpr Field kType{5, 1}, kNodeBytes{6, 4}, kRecordBytes{10, 2};
  // By type: 1 and 3 huge objects, by their number and by their place; 5 and 6 links, by name and by order of creation;
  // 8 and 9 attributes, likewise. 0: what Tare's files have none of.
  constexpr auto kBytesOf = std::to_array<uint64_t>({0, 24, 0, 16, 0, 11, 15, 0, 17, 13});
  const uint64_t type = tree[kType], record = tree[kRecordBytes];
  if (type < kBytesOf.size()) return tree[kNodeBytes] == 512 && record != 0 && record == kBytesOf[type];
  return tree[kNodeBytes] == 2048 && record >= 16 && record < 300;  // of chunks
}

bool IsAsMade(const Header& header, size_t file_size) {
  constexpr Field kChunksOfExtensible{44, 8}, kChunksOfFixed{8, 8};  // all of them are looked at
  if (header.Is("FRHP")) return IsHeapAsMade(header);
  if (header.Is("BTHD")) return IsTreeAsMade(header);
  if (header.Is("EAHD")) return header[kChunksOfExtensible] <= file_size;
  if (header.Is("FAHD")) return header[kChunksOfFixed] <= file_size;
  return !header.Is("MDCI");  // a cache of metadata that the file brings along, which could hide others
}

herr_t Read(H5FD_t* file, H5FD_mem_t type, hid_t, haddr_t at, size_t size, void* to) {
  const Bytes bytes = static_cast<const OpenBytes*>(file)->bytes;
  if (at > bytes.size() || size > bytes.size() - at) return -1;
  std::memcpy(to, bytes.data() + at, size);
  if (type == H5FD_MEM_DRAW || IsAsMade(Header({static_cast<const char*>(to), size}), bytes.size())) return 0;
  H5Epush2(H5E_DEFAULT, __FILE__, __func__, __LINE__, H5E_ERR_CLS, H5E_VFL, H5E_READERROR,
           "got a group or attribute with filters, or with numbers that the library does not write, expected none");
  return -1;
}

herr_t Write(H5FD_t*, H5FD_mem_t, hid_t, haddr_t, size_t, const void*) { return -1; }

constexpr H5FD_class_t kDriver = {.version = H5FD_CLASS_VERSION,
                                  .value = static_cast<H5FD_class_value_t>(H5_VFD_RESERVED),
                                  .name = "tare_bytes",
                                  .maxaddr = HADDR_MAX,
                                  .fc_degree = H5F_CLOSE_WEAK,
                                  .fapl_size = sizeof(Bytes),
                                  .open = Open,
                                  .close = Close,
                                  .get_eoa = EndOfAllocation,
                                  .set_eoa = SetEndOfAllocation,
                                  .get_eof = EndOfFile,
                                  .read = Read,
                                  .write = Write,
                                  .fl_map = H5FD_FLMAP_SINGLE};

}  // namespace

std::string Hdf5Reason() {
  std::string text;
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, TakeFirst, &text);
  // A failed system call, among addresses and times: "..., error message = 'No space left on device', buf = ...".
  constexpr std::string_view kSystem = "error message = '";
  if (const size_t begin = text.find(kSystem); begin != std::string::npos) {
    text.erase(0, begin + kSystem.size());
    text.erase(std::min(text.find('\''), text.size()));
  }
  return text.empty() ? "no reason given" : text;
}

void CheckHdf5(int64_t result, const std::string& where, const char* action) {
  if (result < 0) Fail("{}: {}: {}", where, action, Hdf5Reason());
}

Hdf5Handle CheckedHandle(hid_t id, Hdf5Handle::Close close, const std::string& where, const char* action) {
  CheckHdf5(id, where, action);
  return {id, close};
}

std::optional<hid_t> FileType(DType dtype) {
  for (const auto& [known, type] : Types()) {
    if (known == dtype) return type;
  }
  return std::nullopt;
}

std::optional<DType> DTypeOfFile(hid_t type) {
  for (const auto& [dtype, known] : Types()) {
    if (H5Tequal(type, known) > 0) return dtype;
  }
  return std::nullopt;
}

std::string HashOfNames(const std::vector<std::string>& names) {
  std::string lines;
  for (const std::string& name : names) lines += name + '\n';
  return Sha256OfText(lines);
}

const char* FileBeingRead() { return file_being_read; }

hid_t OpenHdf5(std::span<const std::byte> bytes, const std::string& where) {
  static const hid_t driver = H5FDregister(&kDriver);
  const Hdf5Handle access = CheckedHandle(H5Pcreate(H5P_FILE_ACCESS), H5Pclose, where, "file access properties");
  CheckHdf5(H5Pset_driver(access, driver, &bytes), where, "file driver");
  const hid_t id = H5Fopen(where.c_str(), H5F_ACC_RDONLY, access);
  CheckHdf5(id, where, "damaged or cut short; try making or downloading it again");
  return id;
}

}  // namespace tare
