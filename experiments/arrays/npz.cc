// SPDX-License-Identifier: Apache-2.0
// The parser of .npy headers, numpy types, header lengths, and Npz, an archive whose members load on demand.
#include <zip.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <optional>

#include "experiments/arrays/array_file.h"
#include "quant/base/error.h"
#include "quant/file/json_value.h"
#include "quant/file/mapped_file.h"
#include "quant/file/strict_json.h"

namespace tare {
namespace {

constexpr uint64_t kMaxHeader = 1 << 16;  // numpy itself takes 10,000
// deflate's largest compression: an archive cannot hold more than this many times its own bytes.
constexpr uint64_t kMaxCompression = 1032;

struct NpyHeader {
  std::string type;
  bool columns_first = false;
  std::vector<int64_t> shape;
};

// "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 37), }", what numpy writes, read as JSON.
NpyHeader ParseHeader(std::string_view text, const std::string& where) {
  constexpr std::string_view kPython = "'()TF", kJson = "\"[]tf";  // True and False are the only words
  std::string json;
  for (const char c : text) {
    if (c == ')' || c == '}') json.erase(json.find_last_not_of(", ") + 1);  // a comma after the last member
    const size_t at = kPython.find(c);
    json += at == kPython.npos ? c : kJson[at];
  }
  const nlohmann::json header = ParseJson(json, where);
  try {
    if (header.at("descr").is_array()) Fail("{}: got a record, expected one type and no record of several", where);
    NpyHeader npy{.type = header.at("descr"), .columns_first = header.at("fortran_order")};
    for (const nlohmann::json& size : header.at("shape")) npy.shape.push_back(IntegerOf<int64_t>(size, where));
    return npy;
  } catch (const nlohmann::json::exception&) {
    Fail("{}: damaged header of an .npy: got {}, expected descr, fortran_order and shape", where, header.dump());
  }
}

// Little-endian numbers; nullopt for others. numpy has no name for bf16, and ml_dtypes writes it as two opaque bytes.
std::optional<DType> TypeOf(std::string_view numpy) {
  using enum DType;
  static const std::map<std::string_view, DType> types{
      {"|b1", kBool}, {"|u1", kU8},  {"|i1", kI8},  {"<i2", kI16}, {"<u2", kU16}, {"<f2", kF16},  {"<i4", kI32},
      {"<u4", kU32},  {"<f4", kF32}, {"<i8", kI64}, {"<u8", kU64}, {"<f8", kF64}, {"<V2", kBF16}, {"|V2", kBF16}};
  const auto found = types.find(numpy);
  return found == types.end() ? std::nullopt : std::optional(found->second);
}

// Bytes before the values, from the first 12 bytes of every .npy; nullopt if it is not one.
std::optional<size_t> HeaderBytes(const unsigned char* begin) {
  if (std::memcmp(begin, "\x93NUMPY", 6) != 0 || begin[6] < 1 || begin[6] > 3) return std::nullopt;
  const size_t two = begin[8] + size_t{256} * begin[9];
  return begin[6] == 1 ? 10 + two : 12 + two + (size_t{begin[10]} << 16) + (size_t{begin[11]} << 24);
}

class Npz {
 public:
  explicit Npz(const std::filesystem::path& path);

  std::vector<ArrayInfo> Arrays() const;
  ArrayValues Load(const ArrayInfo& array) const;

 private:
  struct Close {
    void operator()(zip* archive) const { zip_discard(archive); }
  };
  struct Member {
    uint64_t index = 0, bytes = 0;  // in the archive
    size_t header = 0;              // bytes before the values
    ArrayInfo array;
    bool columns_first = false;  // Fortran order
  };

  std::vector<std::byte> Bytes(const Member& member, size_t count) const;

  std::string path_;  // of messages
  std::unique_ptr<zip, Close> archive_;
  std::map<std::string, Member> members_;
};

Npz::Npz(const std::filesystem::path& path) : path_(path.string()) {
  const size_t size = MappedFile(path).bytes().size();  // which refuses pipes, and notes that the run reads it
  int code = 0;
  archive_.reset(zip_open(path.c_str(), ZIP_RDONLY | ZIP_CHECKCONS, &code));
  if (archive_ == nullptr) {
    zip_error_t error;
    zip_error_init_with_code(&error, code);
    const std::string text = zip_error_strerror(&error);
    zip_error_fini(&error);
    Fail("{}: cannot read it as .npz: {}; try making it again", path_, text);
  }
  for (zip_int64_t i = 0; i < zip_get_num_entries(archive_.get(), 0); ++i) {
    zip_stat_t stat;
    if (zip_stat_index(archive_.get(), static_cast<zip_uint64_t>(i), 0, &stat) != 0 ||
        (stat.valid & (ZIP_STAT_NAME | ZIP_STAT_SIZE)) != (ZIP_STAT_NAME | ZIP_STAT_SIZE))
      Fail("{}: damaged archive, at member {}", path_, i);
    std::string name = stat.name;
    if (name.ends_with(".npy")) name.resize(name.size() - 4);
    const std::string where = path_ + ": " + name;
    Member member{.index = stat.index, .bytes = stat.size, .header = 12, .array = {.name = name}};
    if (stat.size / kMaxCompression > size) Fail("{}: got {} bytes, more than its file can hold", where, stat.size);
    if (stat.size < member.header) Fail("{}: got {} bytes, expected an .npy", where, stat.size);
    const std::vector<std::byte> begin = Bytes(member, member.header);
    const std::optional<size_t> header = HeaderBytes(reinterpret_cast<const unsigned char*>(begin.data()));
    if (!header || *header > std::min<uint64_t>(stat.size, kMaxHeader))
      Fail("{}: not an .npy of version 1 to 3", where);
    const std::vector<std::byte> text = Bytes(member, *header);
    const size_t first = static_cast<unsigned char>(begin[6]) == 1 ? 10 : 12;
    const NpyHeader npy = ParseHeader({reinterpret_cast<const char*>(text.data()) + first, *header - first}, where);
    const std::optional<DType> dtype = TypeOf(npy.type);
    if (!dtype) Fail("{}: got type '{}', expected little-endian numbers; try astype('<f4')", where, npy.type);
    const std::optional<int64_t> bytes = ByteCount(*dtype, npy.shape);
    if (!bytes || static_cast<uint64_t>(*bytes) != stat.size - *header)
      Fail("{}: got {} bytes of values, expected those of {} {}", where, stat.size - *header, Name(*dtype),
           ShapeText(npy.shape));
    member.header = *header;
    member.array = {name, *dtype, npy.shape};
    member.columns_first = npy.columns_first && npy.shape.size() > 1;
    if (!members_.emplace(name, std::move(member)).second) Fail("{}: comes twice", where);
  }
}

std::vector<ArrayInfo> Npz::Arrays() const {
  std::vector<ArrayInfo> arrays;
  for (const auto& [name, member] : members_) arrays.push_back(member.array);
  return arrays;
}

// The member's first bytes.
std::vector<std::byte> Npz::Bytes(const Member& member, size_t count) const {
  std::vector<std::byte> bytes(count);
  zip_file_t* const file = zip_fopen_index(archive_.get(), member.index, 0);
  const zip_int64_t got = file == nullptr ? -1 : zip_fread(file, bytes.data(), count);
  // Only after the last byte the archive's own checksum is known.
  std::byte more{};
  const bool whole = count < member.bytes || (file != nullptr && zip_fread(file, &more, 1) == 0);
  if (file != nullptr) zip_fclose(file);
  if (got != static_cast<zip_int64_t>(count) || !whole)
    Fail("{}: {}: damaged, or not compressed with deflate", path_, member.array.name);
  return bytes;
}

ArrayValues Npz::Load(const ArrayInfo& array) const {
  const Member& member = members_.at(array.name);
  if (member.columns_first)
    Fail("{}: {}: got Fortran order, expected C order; try numpy.ascontiguousarray", path_, array.name);
  std::vector<std::byte> bytes = Bytes(member, static_cast<size_t>(member.bytes));
  bytes.erase(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(member.header));
  return {array.dtype, std::move(bytes)};
}

}  // namespace

std::unique_ptr<ArrayFile> OpenNpz(const std::filesystem::path& path) {
  const auto npz = std::make_shared<const Npz>(path);
  return std::make_unique<ArrayFile>(path, npz->Arrays(), [npz](const ArrayInfo& array) { return npz->Load(array); });
}

}  // namespace tare
