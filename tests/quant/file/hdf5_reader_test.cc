// SPDX-License-Identifier: Apache-2.0
// HDF5 files as other programs write them, made here with the library itself.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <hdf5.h>
#include <sys/file.h>
#include <unistd.h>

#include <limits>

#include "quant/base/message.h"
#include "quant/file/hdf5.h"
#include "quant/file/sha256.h"
#include "tests/quant/file/temporary_folder.h"
#include "tests/support/call.h"

namespace tare::hdf5_reader_test {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

constexpr hsize_t kRows = 300, kColumns = 4;

// A file of someone else's: h5py's defaults (no checksums, object times), closed by Close or the destructor.
class ForeignFile {
 public:
  explicit ForeignFile(const std::filesystem::path& path)
      : id_(H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT)) {}
  ForeignFile(const ForeignFile&) = delete;
  ~ForeignFile() { H5Fclose(id_); }
  hid_t id() const { return id_; }

  void Put(const char* name, hid_t type, hid_t memory_type, const std::vector<hsize_t>& dims, const void* values,
           hid_t create = H5P_DEFAULT) {
    const hid_t space = H5Screate_simple(static_cast<int>(dims.size()), dims.data(), nullptr);
    const hid_t dataset = H5Dcreate2(id_, name, type, space, H5P_DEFAULT, create, H5P_DEFAULT);
    if (values != nullptr) H5Dwrite(dataset, memory_type, H5S_ALL, H5S_ALL, H5P_DEFAULT, values);
    H5Dclose(dataset);
    H5Sclose(space);
  }

  void PutString(const char* key, size_t size, H5T_str_t padding, const void* text, const char* object = "/") {
    const hid_t type = H5Tcopy(H5T_C_S1), space = H5Screate(H5S_SCALAR);
    H5Tset_size(type, size);
    H5Tset_strpad(type, padding);
    const hid_t attribute = H5Acreate_by_name(id_, object, key, type, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    H5Awrite(attribute, type, text);
    H5Aclose(attribute);
    H5Sclose(space);
    H5Tclose(type);
  }

 private:
  hid_t id_;
};

std::vector<int64_t> Ids() {
  std::vector<int64_t> ids(kRows * kColumns);
  for (size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<int64_t>(i % 100);
  return ids;
}

// "input_ids" in chunks that go through a filter.
void PutChunked(const std::string& path, const std::vector<int64_t>& ids, void (*set_filter)(hid_t create)) {
  ForeignFile file(path);
  const hid_t create = H5Pcreate(H5P_DATASET_CREATE);
  const hsize_t chunk[2] = {100, kColumns};
  H5Pset_chunk(create, 2, chunk);
  set_filter(create);
  file.Put("input_ids", H5T_STD_I32LE, H5T_NATIVE_INT64, {kRows, kColumns}, ids.data(), create);
  H5Pclose(create);
}

TEST(Hdf5Reader, ReadsChunkedAndCompressedButDoesNotMapThem) {
  const TemporaryFolder folder;
  const std::vector<int64_t> ids = Ids();
  PutChunked(folder / "a.h5", ids, [](hid_t create) { H5Pset_deflate(create, 4); });
  const Hdf5Reader reader(folder / "a.h5");
  EXPECT_EQ(reader.Read<int64_t>("input_ids"), ids);
  const std::vector<int32_t> some(ids.begin() + 90 * kColumns, ids.begin() + 110 * kColumns);  // of two chunks
  const std::vector<std::byte> rows = reader.Copy("input_ids", RowRange{90, 20});
  ASSERT_EQ(rows.size(), some.size() * sizeof(int32_t));
  EXPECT_EQ(std::memcmp(rows.data(), some.data(), rows.size()), 0);
  EXPECT_THAT(Call([&] { reader.Bytes("input_ids"); }), ThrowsMessage<Error>(HasSubstr("'input_ids': got a chunked")));
  EXPECT_THAT(Call([&] { reader.Verify(); }), ThrowsMessage<Error>(HasSubstr("not marked complete")));
}

// The library would read on behind what it got from the file.
TEST(Hdf5Reader, ChunksOfAnotherSizeThanTheirShapeAreRefused) {
  const TemporaryFolder folder;
  const std::string path = folder / "a.h5";
  const auto changed = [&](size_t at, char byte) {
    std::string file = GetFile(path);
    file.at(at) = byte;
    PutFile(path, file);
    return Call([&] { (void)Hdf5Reader(path).Read<int64_t>("input_ids"); });
  };
  const auto refuses = ThrowsMessage<Error>(HasSubstr("'input_ids': damaged: a chunk has another size"));
  PutChunked(path, Ids(), [](hid_t) {});
  constexpr size_t kFirstKey = 24;  // of a node of chunks: their size
  EXPECT_THAT(changed(GetFile(path).find(std::string("TREE\1")) + kFirstKey, 8), refuses);
  PutChunked(path, Ids(), [](hid_t create) { H5Pset_shuffle(create); });
  EXPECT_THAT(changed(GetFile(path).find(std::string("TREE\1")) + kFirstKey, 8), refuses);
}

TEST(Hdf5Reader, ConvertsOnlyWhatFits) {
  const TemporaryFolder folder;
  {
    Hdf5Writer writer(folder / "a.h5");
    writer.WriteDataset<int64_t>("big", {2}, std::vector<int64_t>{0, 200});
    writer.WriteDataset<int64_t>("negative", {1}, std::vector<int64_t>{-1});
    writer.WriteDataset<uint64_t>("huge", {1}, std::vector<uint64_t>{UINT64_MAX});
    writer.WriteDataset<double>("far", {1}, std::vector<double>{1e300});
    writer.WriteDataset<double>("near", {3}, std::vector<double>{0.1, -HUGE_VAL, 1});
    writer.WriteDataset<float>("float", {1}, std::vector<float>{0.1f});
    writer.Commit();
  }
  const Hdf5Reader reader(folder / "a.h5");
  EXPECT_THAT(reader.Read<uint8_t>("big"), ElementsAre(0, 200));
  EXPECT_THAT(Call([&] { reader.Read<int8_t>("big"); }),
              ThrowsMessage<Error>(HasSubstr("'big': value 200 at 1 does not fit I8")));
  EXPECT_THAT(Call([&] { reader.Read<uint64_t>("negative"); }),
              ThrowsMessage<Error>(HasSubstr("value -1 at 0 does not fit U64")));
  EXPECT_THAT(Call([&] { reader.Read<int64_t>("huge"); }),
              ThrowsMessage<Error>(HasSubstr("value 18446744073709551615 at 0 does not fit I64")));
  EXPECT_THAT(Call([&] { reader.Read<float>("far"); }), ThrowsMessage<Error>(HasSubstr("does not fit F32")));
  EXPECT_THAT(reader.Read<float>("near"), ElementsAre(0.1f, -HUGE_VALF, 1.0f));
  EXPECT_THAT(reader.Read<double>("float"), ElementsAre(double{0.1f}));
  EXPECT_THAT(Call([&] { reader.Read<float>("big"); }),
              ThrowsMessage<Error>(HasSubstr("'big': got I64, expected F32 or F64")));
  EXPECT_THAT(Call([&] { reader.Read<int64_t>("float"); }),
              ThrowsMessage<Error>(HasSubstr("'float': got F32, expected integers")));
}

TEST(Hdf5Reader, FindsDatasets) {
  const TemporaryFolder folder;
  {
    Hdf5Writer writer(folder / "a.h5");
    writer.WriteDataset<float>("b/x", {1}, std::vector<float>{1});
    writer.WriteDataset<float>("a", {1}, std::vector<float>{2});
    writer.Commit();
  }
  Hdf5Reader opened(folder / "a.h5");
  const Hdf5Reader reader(std::move(opened));
  EXPECT_THAT(reader.datasets(), ElementsAre("a", "b/x"));
  EXPECT_TRUE(reader.Has("a"));
  EXPECT_TRUE(reader.Has("b/x"));
  EXPECT_FALSE(reader.Has("b"));
  EXPECT_FALSE(reader.Has("b/y"));
  EXPECT_FALSE(reader.Has("c/x"));
  EXPECT_FALSE(reader.Has(""));
  EXPECT_THAT(Call([&] { reader.Shape("none"); }), ThrowsMessage<Error>(HasSubstr("a.h5: dataset 'none': not there")));
  reader.Release("a");
  EXPECT_THAT(reader.Read<float>("a"), ElementsAre(2.0f));
}

TEST(Hdf5Reader, ReadsStringsOfFixedLength) {
  const TemporaryFolder folder;
  {
    ForeignFile file(folder / "a.h5");
    const char* variable = "variable";
    file.PutString("variable", H5T_VARIABLE, H5T_STR_NULLTERM, &variable);
    file.PutString("terminated", 8, H5T_STR_NULLTERM, "abc\0xyz");
    file.PutString("padded", 8, H5T_STR_NULLPAD, "abc\0\0\0\0");
    file.PutString("spaces", 8, H5T_STR_SPACEPAD, "abc     ");
  }
  const Hdf5Reader reader(folder / "a.h5");
  EXPECT_THAT(Call([&] { reader.StringAttribute("", "variable"); }),
              ThrowsMessage<Error>(HasSubstr("'variable': expected a string of fixed length")));
  EXPECT_EQ(reader.StringAttribute("", "terminated"), "abc");
  EXPECT_EQ(reader.StringAttribute("", "padded"), "abc");
  EXPECT_EQ(reader.StringAttribute("", "spaces"), "abc");
}

TEST(Hdf5Reader, RefusesTypesThatItCannotRead) {
  const TemporaryFolder folder;
  const std::vector<int64_t> values{1};
  {
    ForeignFile file(folder / "a.h5");
    file.Put("big_endian", H5T_STD_I64BE, H5T_NATIVE_INT64, {1}, values.data());
    file.Put("text", H5T_C_S1, H5T_C_S1, {1}, values.data());
  }
  const Hdf5Reader reader(folder / "a.h5");
  EXPECT_THAT(Call([&] { reader.Read<int64_t>("big_endian"); }),
              ThrowsMessage<Error>(HasSubstr("'big_endian': got another type, expected a little-endian")));
  EXPECT_THAT(Call([&] { reader.Type("text"); }), ThrowsMessage<Error>(HasSubstr("'text': got another type")));
}

// What a file says about other files is not believed.
TEST(Hdf5Reader, StaysInItsFile) {
  const TemporaryFolder folder;
  PutFile(folder / "secret", std::string(8, 'x'));
  const std::vector<int64_t> ids = Ids();
  {
    ForeignFile other(folder / "other.h5");
    other.Put("x", H5T_STD_I64LE, H5T_NATIVE_INT64, {kRows, kColumns}, ids.data());
  }
  {
    ForeignFile file(folder / "a.h5");
    H5Lcreate_external((folder / "other.h5").c_str(), "/x", file.id(), "link", H5P_DEFAULT, H5P_DEFAULT);
    hid_t create = H5Pcreate(H5P_DATASET_CREATE);
    H5Pset_external(create, (folder / "secret").c_str(), 0, 8);
    file.Put("outside", H5T_STD_I64LE, H5T_NATIVE_INT64, {1}, nullptr, create);
    H5Pclose(create);
    create = H5Pcreate(H5P_DATASET_CREATE);
    const hsize_t dims[2] = {kRows, kColumns};
    const hid_t space = H5Screate_simple(2, dims, nullptr);
    H5Pset_virtual(create, space, (folder / "other.h5").c_str(), "/x", space);
    file.Put("virtual", H5T_STD_I64LE, H5T_NATIVE_INT64, {kRows, kColumns}, nullptr, create);
    H5Sclose(space);
    H5Pclose(create);
  }
  const Hdf5Reader reader(folder / "a.h5");
  EXPECT_FALSE(reader.Has("link"));
  EXPECT_THROW(reader.Read<int64_t>("link"), Error);
  for (const std::string name : {"outside", "virtual"}) {
    EXPECT_THAT(Call([&] { reader.Read<int64_t>(name); }), ThrowsMessage<Error>(HasSubstr("kept in another file")))
        << name;
    EXPECT_THROW(reader.Bytes(name), Error) << name;
  }
}

TEST(Hdf5Reader, RefusesSizesThatTheFileCannotHold) {
  const TemporaryFolder folder;
  {
    ForeignFile file(folder / "a.h5");
    const hid_t create = H5Pcreate(H5P_DATASET_CREATE);
    const hsize_t chunk[1] = {1024};
    H5Pset_chunk(create, 1, chunk);
    file.Put("chunked", H5T_STD_I64LE, H5T_NATIVE_INT64, {hsize_t{1} << 45}, nullptr, create);
    file.Put("contiguous", H5T_STD_I64LE, H5T_NATIVE_INT64, {hsize_t{1} << 45}, nullptr);
    H5Pclose(create);
  }
  const Hdf5Reader reader(folder / "a.h5");
  EXPECT_THAT(Call([&] { reader.Read<int64_t>("chunked"); }),
              ThrowsMessage<Error>(HasSubstr("more than its file can hold")));
  EXPECT_THAT(Call([&] { reader.Read<int64_t>("contiguous"); }),
              ThrowsMessage<Error>(HasSubstr("not all in the file")));
}

TEST(Hdf5Reader, SaysWhatIsNotHdf5) {
  const TemporaryFolder folder;
  PutFile(folder / "text", "hello");
  PutFile(folder / "empty", "");
  PutFile(folder / "signature", "\x89HDF\r\n\x1a\n");
  EXPECT_THAT(Call([&] { Hdf5Reader(folder / "text"); }),
              ThrowsMessage<Error>(HasSubstr("/text: got 5 bytes that are not an HDF5 file")));
  EXPECT_THAT(Call([&] { Hdf5Reader(folder / "empty"); }), ThrowsMessage<Error>(HasSubstr("got 0 bytes")));
  EXPECT_THAT(Call([&] { Hdf5Reader(folder / "signature"); }), ThrowsMessage<Error>(HasSubstr("/signature: ")));
  EXPECT_THAT(Call([&] { Hdf5Reader(folder / "none"); }), ThrowsMessage<Error>(HasSubstr("no such file")));
  EXPECT_THAT(Call([&] { Hdf5Reader(folder.path()); }), ThrowsMessage<Error>(HasSubstr("got a folder")));
}

// A file with one dataset, no hash, and this mark.
void PutMarked(const std::filesystem::path& path, int64_t complete) {
  ForeignFile file(path);
  const hid_t space = H5Screate(H5S_SCALAR);
  const hid_t attribute = H5Acreate2(file.id(), "complete", H5T_STD_I64LE, space, H5P_DEFAULT, H5P_DEFAULT);
  H5Awrite(attribute, H5T_NATIVE_INT64, &complete);
  H5Aclose(attribute);
  H5Sclose(space);
  file.Put("x", H5T_STD_I64LE, H5T_NATIVE_INT64, {1}, &complete);
}

TEST(Hdf5Reader, VerifyWantsTheMarkAndAHashOnEveryDataset) {
  const TemporaryFolder folder;
  PutMarked(folder / "marked.h5", 1);
  PutMarked(folder / "not.h5", 0);
  EXPECT_THAT(Call([&] { Hdf5Reader(folder / "marked.h5").Verify(); }),
              ThrowsMessage<Error>(HasSubstr("'x': has no SHA-256")));
  EXPECT_THAT(Call([&] { Hdf5Reader(folder / "not.h5").Verify(); }),
              ThrowsMessage<Error>(HasSubstr("not.h5: not marked complete")));
}

TEST(Hdf5Reader, ADatasetThatIsGoneOrRenamedIsMissed) {
  const TemporaryFolder folder;
  const auto open_objects = [] { return H5Fget_obj_count(static_cast<hid_t>(H5F_OBJ_ALL), H5F_OBJ_ALL); };
  const ssize_t before = open_objects();  // writers that fail on purpose leave some in the same process
  const std::vector<float> values{1.0f, 2.0f};
  for (const char* name : {"", "sumz"}) {
    {
      Hdf5Writer writer(folder / "a.h5");
      writer.WriteDataset<float>("sums", {2}, values);
      writer.WriteDataset<float>("more", {2}, values);
      writer.Commit();
    }
    EXPECT_NO_THROW(Hdf5Reader(folder / "a.h5").Verify());
    const hid_t file = H5Fopen((folder / "a.h5").c_str(), H5F_ACC_RDWR, H5P_DEFAULT);
    const herr_t done = *name == '\0' ? H5Ldelete(file, "sums", H5P_DEFAULT)
                                      : H5Lmove(file, "sums", file, name, H5P_DEFAULT, H5P_DEFAULT);
    H5Fclose(file);
    ASSERT_GE(done, 0);
    EXPECT_THAT(Call([&] { Hdf5Reader(folder / "a.h5").Verify(); }),
                ThrowsMessage<Error>(HasSubstr("a dataset is missing")));
    EXPECT_EQ(open_objects(), before) << "what is refused is closed";
  }
}

// As h5py or h5repack save a file again: what Tare wrote keeps its hash through compression, and without one is taken
// with a notice.
TEST(Hdf5Reader, HoldsToTheHashWhatIsCompressedAndSaysWhatHasNone) {
  const TemporaryFolder folder;
  const std::vector<float> values{1.0f, 2.0f};
  const auto put = [&](const char* hash) {
    ForeignFile file(folder / "a.h5");
    file.PutString("schema", 6, H5T_STR_NULLPAD, "tare.x");
    const hid_t create = H5Pcreate(H5P_DATASET_CREATE);
    const hsize_t chunk[2] = {1, 2};
    H5Pset_chunk(create, 2, chunk);
    H5Pset_deflate(create, 4);
    file.Put("x", H5T_IEEE_F32LE, H5T_NATIVE_FLOAT, {1, 2}, values.data(), create);
    H5Pclose(create);
    if (hash != nullptr) file.PutString("sha256", 64, H5T_STR_NULLPAD, hash, "x");
  };
  static std::vector<std::string> notices;
  OnNotice([](const std::string& text) { notices.push_back(text); });
  put(Sha256Hex(std::as_bytes(std::span(values))).c_str());
  EXPECT_EQ(Hdf5Reader(folder / "a.h5").Read<float>("x"), values);
  EXPECT_EQ(Hdf5Reader(folder / "a.h5").Copy("x", RowRange{0, 1}).size(), 8u);
  EXPECT_THAT(notices, testing::IsEmpty());
  put(std::string(64, '0').c_str());
  const auto damaged = ThrowsMessage<Error>(HasSubstr("'x': damaged: got SHA-256"));
  EXPECT_THAT(Call([&] { (void)Hdf5Reader(folder / "a.h5").Read<float>("x"); }), damaged);
  EXPECT_THAT(Call([&] { (void)Hdf5Reader(folder / "a.h5").Copy("x", RowRange{0, 1}); }), damaged);
  put(nullptr);
  EXPECT_EQ(Hdf5Reader(folder / "a.h5").Read<float>("x"), values);
  EXPECT_THAT(notices, ElementsAre(HasSubstr("a.h5: has no checksums")));
  OnNotice(nullptr);
}

// HDF5 1.14 reads before the chunk where fletcher32 meets one of no bytes.
TEST(Hdf5Reader, RunsNoFilterButDeflateAndShuffle) {
  const TemporaryFolder folder;
  const std::vector<int64_t> ids = Ids();
  PutChunked(folder / "a.h5", ids, [](hid_t create) { H5Pset_fletcher32(create); });
  EXPECT_THAT(Call([&] { (void)Hdf5Reader(folder / "a.h5").Read<int64_t>("input_ids"); }),
              ThrowsMessage<Error>(AllOf(HasSubstr("got HDF5 filter 3"), HasSubstr("try saving it without"))));
}

TEST(Hdf5Reader, GroupsInGroupsWithoutEndAreRefused) {
  const TemporaryFolder folder;
  {
    ForeignFile file(folder / "a.h5");
    hid_t group = H5Gopen2(file.id(), "/", H5P_DEFAULT);
    for (int i = 0; i < 100; ++i) {
      const hid_t inner = H5Gcreate2(group, "g", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
      H5Gclose(group);
      group = inner;
    }
    H5Gclose(group);
  }
  EXPECT_THAT(Call([&] { (void)Hdf5Reader(folder / "a.h5").datasets(); }),
              ThrowsMessage<Error>(HasSubstr("nested deeper than 32")));
}

// Within one process HDF5 would open a file a second time only with the same locking.
TEST(Hdf5Reader, OpensBesideOthersInEitherOrder) {
  const TemporaryFolder folder;
  const std::filesystem::path path = folder / "a.h5";
  const float values[] = {1, 2};
  {
    ForeignFile(path).Put("x", H5T_IEEE_F32LE, H5T_NATIVE_FLOAT, {2}, values);
  }
  const hid_t access_list = H5Pcreate(H5P_FILE_ACCESS);
  H5Pset_file_locking(access_list, false, true);
  for (const hid_t access : {static_cast<hid_t>(H5P_DEFAULT), access_list}) {  // h5py's default, and locking=False
    const hid_t other = H5Fopen(path.c_str(), H5F_ACC_RDONLY, access);
    EXPECT_THAT(Hdf5Reader(path).Read<float>("x"), ElementsAre(1, 2));
    H5Fclose(other);
  }
  H5Pset_file_locking(access_list, true, false);  // h5py's locking=True, which is not its default
  const hid_t strict = H5Fopen(path.c_str(), H5F_ACC_RDONLY, access_list);
  EXPECT_THAT(Hdf5Reader(path).Read<float>("x"), ElementsAre(1, 2));
  H5Fclose(strict);
  H5Pclose(access_list);
  const Hdf5Reader reader(path);
  const hid_t other = H5Fopen(path.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT);
  EXPECT_GE(other, 0);
  H5Fclose(other);
}

TEST(Hdf5Reader, AnothersLockIsNoDamage) {
  const TemporaryFolder folder;
  const std::filesystem::path path = folder / "a.h5";
  const float values[] = {1, 2};
  {
    ForeignFile(path).Put("x", H5T_IEEE_F32LE, H5T_NATIVE_FLOAT, {2}, values);
  }
  const int locked = open(path.c_str(), O_RDWR | O_CLOEXEC);
  ASSERT_EQ(flock(locked, LOCK_EX), 0);
  EXPECT_THAT(Hdf5Reader(path).Read<float>("x"), ElementsAre(1, 2));
  close(locked);
}

}  // namespace
}  // namespace tare::hdf5_reader_test
