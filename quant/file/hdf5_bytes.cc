// SPDX-License-Identifier: Apache-2.0
// HDF5's file driver for bytes in memory (OpenHdf5 in hdf5_handle.h): HDF5 reads what is checked here, whatever becomes
// of the file's name meanwhile, and takes no lock. It opens no second file, which a link might name. Filters of groups
// and attributes would run on unchecked bytes, and could be hidden in a heap or a stored cache: reading these fails.
#include <cstring>
#include <memory>
#include <string_view>

#include "quant/file/hdf5_handle.h"

namespace tare {
namespace {

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
// or divides. MDCI: a cache of metadata that the file brings along, which could hide others.
bool IsAsMade(std::string_view read, size_t file_size) {
  const auto at = [&](size_t place, size_t size) {
    uint64_t number = 0;
    std::memcpy(&number, read.data() + place, place + size <= read.size() ? size : 0);
    return number;
  };
  const uint64_t type = at(5, 1), node = at(6, 4), record = at(10, 2);
  if (read.starts_with("FRHP"))  // of 7 bytes for a link, or 8 for an attribute, and without filters
    return (type == 7 || type == 8) && at(6, 3) == 0 && at(10, 4) == 4096 && at(110, 2) == 4 && at(120, 8) == 65536 &&
           at(112, 8) == (type == 7 ? 512 : 1024) && at(128, 2) == (type == 7 ? 32 : 40);
  if (read.starts_with("EAHD")) return at(44, 8) <= file_size;  // all chunks are looked at
  if (read.starts_with("FAHD")) return at(8, 8) <= file_size;
  constexpr std::string_view kRecords("\0\x18\0\x10\0\x0b\x0f\0\x11\x0d",
                                      10);  // bytes of one; none: not of Tare's files
  if (read.starts_with("BTHD"))
    return type < kRecords.size() ? node == 512 && record != 0 && record == static_cast<uint8_t>(kRecords[type])
                                  : node == 2048 && record >= 16 && record < 300;  // of chunks
  return !read.starts_with("MDCI");
}

herr_t Read(H5FD_t* file, H5FD_mem_t type, hid_t, haddr_t at, size_t size, void* to) {
  const Bytes bytes = static_cast<const OpenBytes*>(file)->bytes;
  if (at > bytes.size() || size > bytes.size() - at) return -1;
  std::memcpy(to, bytes.data() + at, size);
  if (type == H5FD_MEM_DRAW || IsAsMade({static_cast<const char*>(to), size}, bytes.size())) return 0;
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
