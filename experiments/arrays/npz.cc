// SPDX-License-Identifier: Apache-2.0
// The parser of .npy headers, numpy types, header lengths, Npz, an archive whose members load on demand, and openers.
#include <zip.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <map>
#include <optional>

#include "experiments/arrays/array_file.h"
#include "quant/base/message.h"
#include "quant/file/json.h"
#include "quant/file/mapped_file.h"

namespace tare {
namespace {

constexpr uint64_t kMaxHeader = 1 << 16;  // numpy itself takes 10,000
// deflate's largest compression: an archive cannot hold more than this many times its own bytes.
constexpr uint64_t kMaxCompression = 1032;

struct Npy {
  size_t header = 0;  // bytes before the values
  ArrayInfo array;
  bool columns_first = false;  // Fortran order
};

// Little-endian numbers. numpy has no name for bf16, and ml_dtypes writes it as two opaque bytes.
DType TypeOf(const std::string& numpy, const std::string& where) {
  using enum DType;
  static const std::map<std::string_view, DType> types{
      {"|b1", kBool}, {"|u1", kU8},  {"|i1", kI8},  {"<i2", kI16}, {"<u2", kU16}, {"<f2", kF16},  {"<i4", kI32},
      {"<u4", kU32},  {"<f4", kF32}, {"<i8", kI64}, {"<u8", kU64}, {"<f8", kF64}, {"<V2", kBF16}, {"|V2", kBF16}};
  const auto found = types.find(numpy);
  if (found == types.end()) Fail("{}: got type '{}', expected little-endian numbers; try astype('<f4')", where, numpy);
  return found->second;
}

// "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 37), }", what numpy writes, read as JSON.
Npy ParseHeader(std::string_view text, const std::string& where) {
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
    std::vector<int64_t> shape;
    for (const nlohmann::json& size : header.at("shape")) shape.push_back(IntegerOf<int64_t>(size, where));
    return {.array = {.dtype = TypeOf(header.at("descr"), where), .shape = shape},
            .columns_first = shape.size() > 1 && header.at("fortran_order").get<bool>()};
  } catch (const nlohmann::json::exception&) {
    Fail("{}: damaged header of an .npy: got {}, expected descr, fortran_order and shape", where, header.dump());
  }
}

// Bytes before the values, from the first 12 bytes of every .npy; nullopt if it is not one.
std::optional<size_t> HeaderBytes(const unsigned char* begin) {
  if (std::memcmp(begin, "\x93NUMPY", 6) != 0 || begin[6] < 1 || begin[6] > 3) return std::nullopt;
  const size_t two = begin[8] + size_t{256} * begin[9];
  return begin[6] == 1 ? 10 + two : 12 + two + (size_t{begin[10]} << 16) + (size_t{begin[11]} << 24);
}

// The first so many bytes of an .npy.
using Begin = std::function<std::vector<std::byte>(size_t count)>;

Npy ReadNpy(const std::string& name, const std::string& where, uint64_t size, const Begin& begin) {
  constexpr size_t kShortest = 12;
  if (size < kShortest) Fail("{}: got {} bytes, expected an .npy", where, size);
  const std::vector<std::byte> magic = begin(kShortest);
  const std::optional<size_t> header = HeaderBytes(reinterpret_cast<const unsigned char*>(magic.data()));
  if (!header || *header > std::min(size, kMaxHeader)) Fail("{}: not an .npy of version 1 to 3", where);
  const std::vector<std::byte> text = begin(*header);
  const size_t first = static_cast<unsigned char>(magic[6]) == 1 ? 10 : 12;
  Npy npy = ParseHeader({reinterpret_cast<const char*>(text.data()) + first, *header - first}, where);
  const std::optional<int64_t> bytes = ByteCount(npy.array.dtype, npy.array.shape);
  if (!bytes || static_cast<uint64_t>(*bytes) != size - *header)
    Fail("{}: got {} bytes of values, expected those of {} {}", where, size - *header, Name(npy.array.dtype),
         ShapeText(npy.array.shape));
  npy.header = *header, npy.array.name = name;
  return npy;
}

void RequireRowsFirst(const Npy& npy, const std::string& path) {
  if (npy.columns_first)
    Fail("{}: {}: got Fortran order, expected C order; try numpy.ascontiguousarray", path, npy.array.name);
}

class Npz {
 public:
  explicit Npz(const std::filesystem::path& path) : path_(path.string()) {
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
      Member member{.index = stat.index, .bytes = stat.size, .npy = {.array = {.name = name}}};
      if (stat.size / kMaxCompression > size) Fail("{}: got {} bytes, more than its file can hold", where, stat.size);
      member.npy = ReadNpy(name, where, stat.size, [&](size_t count) { return Bytes(member, 0, count); });
      if (!members_.emplace(name, std::move(member)).second) Fail("{}: comes twice", where);
    }
  }

  std::vector<ArrayInfo> Arrays() const {
    std::vector<ArrayInfo> arrays;
    for (const auto& [name, member] : members_) arrays.push_back(member.npy.array);
    return arrays;
  }
  ArrayValues Load(const ArrayInfo& array, std::optional<RowRange> rows) {
    Member& member = members_.at(array.name);
    RequireRowsFirst(member.npy, path_);
    uint64_t begin = member.npy.header, size = member.bytes - begin;
    if (rows && !member.checked) Bytes(member, member.bytes, 0);
    member.checked = true;
    if (rows) {
      const auto row = static_cast<uint64_t>(array.shape.back() * Bits(array.dtype) / 8);
      begin += static_cast<uint64_t>(rows->first) * row, size = static_cast<uint64_t>(rows->count) * row;
    }
    return {array.dtype, Bytes(member, begin, size)};
  }

 private:
  struct Close {
    void operator()(zip* archive) const { zip_discard(archive); }
    void operator()(zip_file_t* member) const { zip_fclose(member); }
  };
  struct Member {
    uint64_t index = 0, bytes = 0;  // in the archive
    Npy npy;
    bool checked = false;  // its checksum
  };

  std::vector<std::byte> Bytes(const Member& member, uint64_t first, size_t count) {
    constexpr uint64_t kPart = 1 << 16;
    if (open_ == nullptr || opened_ != member.index || first < at_) {
      open_.reset(zip_fopen_index(archive_.get(), member.index, 0));
      opened_ = member.index, at_ = 0;
    }
    std::vector<std::byte> skipped(std::min(first - at_, kPart)), bytes(count);
    while (at_ < first) Inflate(member, std::span(skipped).first(std::min(first - at_, kPart)));
    if (count > 0) Inflate(member, bytes);
    return bytes;
  }
  void Inflate(const Member& member, std::span<std::byte> out) {
    const zip_int64_t got = open_ == nullptr ? -1 : zip_fread(open_.get(), out.data(), out.size());
    at_ += out.size();
    // Only after the last byte the archive's own checksum is known.
    std::byte more{};
    const bool whole = at_ < member.bytes || (open_ != nullptr && zip_fread(open_.get(), &more, 1) == 0);
    if (got != std::ssize(out) || !whole)
      Fail("{}: {}: damaged, or not compressed with deflate", path_, member.npy.array.name);
  }

  std::string path_;  // of messages
  std::unique_ptr<zip, Close> archive_;
  std::map<std::string, Member> members_;
  // The member that is being inflated, up to which of its bytes.
  std::unique_ptr<zip_file_t, Close> open_;
  uint64_t opened_ = 0, at_ = 0;
};

}  // namespace

std::unique_ptr<ArrayFile> OpenNpz(const std::filesystem::path& path) {
  const auto npz = std::make_shared<Npz>(path);
  return std::make_unique<ArrayFile>(path, npz->Arrays(),
                                     [npz](const ArrayInfo& array, auto rows) { return npz->Load(array, rows); });
}

std::unique_ptr<ArrayFile> OpenNpy(const std::filesystem::path& path) {
  const auto file = std::make_shared<const MappedFile>(path);
  const std::span<const std::byte> bytes = file->bytes();
  const Npy npy = ReadNpy(path.stem().string(), path.string(), bytes.size(), [&](size_t count) {
    return std::vector(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(count));
  });
  return std::make_unique<ArrayFile>(path, std::vector{npy.array}, [file, npy](const ArrayInfo& array, auto rows) {
    RequireRowsFirst(npy, file->path().string());
    return MappedValues(*file, array, file->bytes().subspan(npy.header), rows);
  });
}

}  // namespace tare
