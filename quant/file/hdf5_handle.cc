// SPDX-License-Identifier: Apache-2.0
#include "quant/file/hdf5_handle.h"

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

}  // namespace

std::string Hdf5Reason() {
  std::string text;
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, TakeFirst, &text);
  // HDF5 reports a failed system call among addresses and times:
  // "..., error message = 'No space left on device', buf = ...".
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

}  // namespace tare
