// SPDX-License-Identifier: Apache-2.0
// Shared by reader and writer on HDF5's C interface: identifiers that close themselves, errors as exceptions. Only
// quant/file/hdf5_*.cc include this; others include quant/file/hdf5.h, which needs no library headers.
#pragma once

#include <hdf5.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "quant/file/dtype.h"

namespace tare {

// The file that HDF5 reads on this thread, for a handler of signals: it crashes on some forged ones. Null elsewhere.
inline thread_local const char* file_being_read = nullptr;
const char* FileBeingRead();

// While an object lives, HDF5 prints no errors of this thread, and the file is the one that it reads.
class QuietHdf5 {
 public:
  explicit QuietHdf5(const char* file = nullptr) : before_(std::exchange(file_being_read, file)) {
    H5Eget_auto2(H5E_DEFAULT, &function_, &data_);
    H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
  }
  QuietHdf5(const QuietHdf5&) = delete;
  ~QuietHdf5() {
    H5Eset_auto2(H5E_DEFAULT, function_, data_);
    file_being_read = before_;
  }

 private:
  const char* before_;
  H5E_auto2_t function_ = nullptr;
  void* data_ = nullptr;
};

// Owns an identifier.
class Hdf5Handle {
 public:
  using Close = herr_t (*)(hid_t);
  Hdf5Handle(hid_t id, Close close) : id_(id), close_(close) {}
  Hdf5Handle(Hdf5Handle&& other) noexcept : id_(std::exchange(other.id_, H5I_INVALID_HID)), close_(other.close_) {}
  ~Hdf5Handle() {
    if (id_ >= 0) close_(id_);
  }
  operator hid_t() const { return id_; }

 private:
  hid_t id_;
  Close close_;
};

// HDF5's innermost reason for the call that just failed: "No space left on device", "truncated file: ...".
std::string Hdf5Reason();

// Passes the result of a call through: a negative one is a failure, reported as "WHERE: ACTION: REASON".
void CheckHdf5(int64_t result, const std::string& where, const char* action);
Hdf5Handle CheckedHandle(hid_t id, Hdf5Handle::Close close, const std::string& where, const char* action);

// Opens the bytes of an HDF5 file, which outlive it; `where` is its name.
hid_t OpenHdf5(std::span<const std::byte> bytes, const std::string& where);

// Hash of the names of a file's datasets, sorted, one per line.
std::string HashOfNames(const std::vector<std::string>& names);

// The little-endian HDF5 type for a dtype; nullopt if HDF5 files do not use it (F16, BOOL, ...).
std::optional<hid_t> FileType(DType dtype);
std::optional<DType> DTypeOfFile(hid_t type);

// "" and "a/b" as HDF5 spells them: "/", "a/b".
inline const char* ObjectPath(const std::string& name) { return name.empty() ? "/" : name.c_str(); }

}  // namespace tare
